// RUN: tpc-opt %s --tpc-outline-layers --split-input-file | FileCheck %s

// Two equal layers with a key mask, which is computed once and passed as an argument.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @g0 in "w.bin" at 256 : tensor<8xf32>
tpc.weight @w1 in "w.bin" at 288 : tensor<8x8xf32>
tpc.weight @g1 in "w.bin" at 544 : tensor<8xf32>

// CHECK-LABEL: func.func @main
// CHECK: %[[M:.*]] = tpc.cast %arg1
// CHECK: %[[W0:.*]] = tpc.parameter @w0
// CHECK: %[[X1:.*]] = call @layer(%arg0, %[[M]], %{{.*}}, %[[W0]])
// CHECK: %[[W1:.*]] = tpc.parameter @w1
// CHECK: %[[X2:.*]] = call @layer(%[[X1]], %[[M]], %{{.*}}, %[[W1]])
// CHECK: return %[[X2]]
// CHECK: func.func private @layer({{.*}}) -> {{.*}} attributes {tpc.layer}
// CHECK: tpc.rms_norm
// CHECK: tpc.attention
// CHECK: tpc.silu
// CHECK-NOT: func.func
func.func @main(%x: !x, %p: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %g0 = tpc.parameter @g0 : tensor<8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %g1 = tpc.parameter @g1 : tensor<8xf32>
  %m = tpc.cast %p : tensor<?x?xi64, #tpc.dist<[b, s]>> -> !m
  %n0 = tpc.rms_norm %x, %g0 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h0 = tpc.reshape %n0 : !x -> !h
  %t0 = tpc.attention causal %h0, %h0, %h0 key_mask %m scale 1.0 : !h, !h, !h key_mask !m -> !h
  %u0 = tpc.reshape %t0 : !h -> !x
  %o0 = tpc.matmul %u0, %w0 : !x, tensor<8x8xf32> -> !x
  %a0 = tpc.add %x, %o0 : !x, !x -> !x
  %d0 = tpc.matmul %a0, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %a0, %f0 : !x, !x -> !x
  %n1 = tpc.rms_norm %r0, %g1 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h1 = tpc.reshape %n1 : !x -> !h
  %t1 = tpc.attention causal %h1, %h1, %h1 key_mask %m scale 1.0 : !h, !h, !h key_mask !m -> !h
  %u1 = tpc.reshape %t1 : !h -> !x
  %o1 = tpc.matmul %u1, %w1 : !x, tensor<8x8xf32> -> !x
  %a1 = tpc.add %r0, %o1 : !x, !x -> !x
  %d1 = tpc.matmul %a1, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.silu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w1 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %a1, %f1 : !x, !x -> !x
  return %r1 : !x
}

// -----

// Two kinds of layer that alternate are two functions.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @g0 in "w.bin" at 256 : tensor<8xf32>
tpc.weight @w1 in "w.bin" at 288 : tensor<8x8xf32>
tpc.weight @g1 in "w.bin" at 544 : tensor<8xf32>
tpc.weight @w2 in "w.bin" at 576 : tensor<8x8xf32>
tpc.weight @g2 in "w.bin" at 832 : tensor<8xf32>
tpc.weight @w3 in "w.bin" at 864 : tensor<8x8xf32>
tpc.weight @g3 in "w.bin" at 1120 : tensor<8xf32>

// CHECK-LABEL: func.func @main
// CHECK: call @layer(
// CHECK: call @layer_1(
// CHECK: call @layer(
// CHECK: call @layer_1(
func.func @main(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %g0 = tpc.parameter @g0 : tensor<8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %g1 = tpc.parameter @g1 : tensor<8xf32>
  %w2 = tpc.parameter @w2 : tensor<8x8xf32>
  %g2 = tpc.parameter @g2 : tensor<8xf32>
  %w3 = tpc.parameter @w3 : tensor<8x8xf32>
  %g3 = tpc.parameter @g3 : tensor<8xf32>
  %n0 = tpc.rms_norm %x, %g0 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h0 = tpc.reshape %n0 : !x -> !h
  %t0 = tpc.attention causal %h0, %h0, %h0 scale 1.0 : !h, !h, !h -> !h
  %u0 = tpc.reshape %t0 : !h -> !x
  %o0 = tpc.matmul %u0, %w0 : !x, tensor<8x8xf32> -> !x
  %a0 = tpc.add %x, %o0 : !x, !x -> !x
  %d0 = tpc.matmul %a0, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %a0, %f0 : !x, !x -> !x
  %n1 = tpc.rms_norm %r0, %g1 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h1 = tpc.reshape %n1 : !x -> !h
  %t1 = tpc.attention causal %h1, %h1, %h1 scale 1.0 : !h, !h, !h -> !h
  %u1 = tpc.reshape %t1 : !h -> !x
  %o1 = tpc.matmul %u1, %w1 : !x, tensor<8x8xf32> -> !x
  %a1 = tpc.add %r0, %o1 : !x, !x -> !x
  %d1 = tpc.matmul %a1, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.relu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w1 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %a1, %f1 : !x, !x -> !x
  %n2 = tpc.rms_norm %r1, %g2 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h2 = tpc.reshape %n2 : !x -> !h
  %t2 = tpc.attention causal %h2, %h2, %h2 scale 1.0 : !h, !h, !h -> !h
  %u2 = tpc.reshape %t2 : !h -> !x
  %o2 = tpc.matmul %u2, %w2 : !x, tensor<8x8xf32> -> !x
  %a2 = tpc.add %r1, %o2 : !x, !x -> !x
  %d2 = tpc.matmul %a2, %w2 : !x, tensor<8x8xf32> -> !x
  %e2 = tpc.silu %d2 : !x -> !x
  %f2 = tpc.matmul %e2, %w2 : !x, tensor<8x8xf32> -> !x
  %r2 = tpc.add %a2, %f2 : !x, !x -> !x
  %n3 = tpc.rms_norm %r2, %g3 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h3 = tpc.reshape %n3 : !x -> !h
  %t3 = tpc.attention causal %h3, %h3, %h3 scale 1.0 : !h, !h, !h -> !h
  %u3 = tpc.reshape %t3 : !h -> !x
  %o3 = tpc.matmul %u3, %w3 : !x, tensor<8x8xf32> -> !x
  %a3 = tpc.add %r2, %o3 : !x, !x -> !x
  %d3 = tpc.matmul %a3, %w3 : !x, tensor<8x8xf32> -> !x
  %e3 = tpc.relu %d3 : !x -> !x
  %f3 = tpc.matmul %e3, %w3 : !x, tensor<8x8xf32> -> !x
  %r3 = tpc.add %a3, %f3 : !x, !x -> !x
  return %r3 : !x
}

// -----

// The second of three layers has another activation, so all three stay inline.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @g0 in "w.bin" at 256 : tensor<8xf32>
tpc.weight @w1 in "w.bin" at 288 : tensor<8x8xf32>
tpc.weight @g1 in "w.bin" at 544 : tensor<8xf32>
tpc.weight @w2 in "w.bin" at 576 : tensor<8x8xf32>
tpc.weight @g2 in "w.bin" at 832 : tensor<8xf32>

// CHECK-LABEL: func.func @main
// CHECK: %[[X1:.*]] = call @layer(%arg0
// CHECK: tpc.rms_norm %[[X1]]
// CHECK: tpc.relu
// CHECK: call @layer(
// CHECK: func.func private @layer
// CHECK: tpc.silu
// CHECK-NOT: func.func
func.func @main(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %g0 = tpc.parameter @g0 : tensor<8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %g1 = tpc.parameter @g1 : tensor<8xf32>
  %w2 = tpc.parameter @w2 : tensor<8x8xf32>
  %g2 = tpc.parameter @g2 : tensor<8xf32>
  %n0 = tpc.rms_norm %x, %g0 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h0 = tpc.reshape %n0 : !x -> !h
  %t0 = tpc.attention causal %h0, %h0, %h0 scale 1.0 : !h, !h, !h -> !h
  %u0 = tpc.reshape %t0 : !h -> !x
  %o0 = tpc.matmul %u0, %w0 : !x, tensor<8x8xf32> -> !x
  %a0 = tpc.add %x, %o0 : !x, !x -> !x
  %d0 = tpc.matmul %a0, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %a0, %f0 : !x, !x -> !x
  %n1 = tpc.rms_norm %r0, %g1 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h1 = tpc.reshape %n1 : !x -> !h
  %t1 = tpc.attention causal %h1, %h1, %h1 scale 1.0 : !h, !h, !h -> !h
  %u1 = tpc.reshape %t1 : !h -> !x
  %o1 = tpc.matmul %u1, %w1 : !x, tensor<8x8xf32> -> !x
  %a1 = tpc.add %r0, %o1 : !x, !x -> !x
  %d1 = tpc.matmul %a1, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.relu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w1 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %a1, %f1 : !x, !x -> !x
  %n2 = tpc.rms_norm %r1, %g2 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h2 = tpc.reshape %n2 : !x -> !h
  %t2 = tpc.attention causal %h2, %h2, %h2 scale 1.0 : !h, !h, !h -> !h
  %u2 = tpc.reshape %t2 : !h -> !x
  %o2 = tpc.matmul %u2, %w2 : !x, tensor<8x8xf32> -> !x
  %a2 = tpc.add %r1, %o2 : !x, !x -> !x
  %d2 = tpc.matmul %a2, %w2 : !x, tensor<8x8xf32> -> !x
  %e2 = tpc.silu %d2 : !x -> !x
  %f2 = tpc.matmul %e2, %w2 : !x, tensor<8x8xf32> -> !x
  %r2 = tpc.add %a2, %f2 : !x, !x -> !x
  return %r2 : !x
}

// -----

// No two layers are equal, so they stay inline, although their attention parts are equal.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @g0 in "w.bin" at 256 : tensor<8xf32>
tpc.weight @w1 in "w.bin" at 288 : tensor<8x8xf32>
tpc.weight @g1 in "w.bin" at 544 : tensor<8xf32>

// CHECK-LABEL: func.func @main
// CHECK-NOT: call
// CHECK-NOT: func.func
func.func @main(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %g0 = tpc.parameter @g0 : tensor<8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %g1 = tpc.parameter @g1 : tensor<8xf32>
  %n0 = tpc.rms_norm %x, %g0 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h0 = tpc.reshape %n0 : !x -> !h
  %t0 = tpc.attention causal %h0, %h0, %h0 scale 1.0 : !h, !h, !h -> !h
  %u0 = tpc.reshape %t0 : !h -> !x
  %o0 = tpc.matmul %u0, %w0 : !x, tensor<8x8xf32> -> !x
  %a0 = tpc.add %x, %o0 : !x, !x -> !x
  %d0 = tpc.matmul %a0, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %a0, %f0 : !x, !x -> !x
  %n1 = tpc.rms_norm %r0, %g1 epsilon 1.0e-5 : !x, tensor<8xf32> -> !x
  %h1 = tpc.reshape %n1 : !x -> !h
  %t1 = tpc.attention causal %h1, %h1, %h1 scale 1.0 : !h, !h, !h -> !h
  %u1 = tpc.reshape %t1 : !h -> !x
  %o1 = tpc.matmul %u1, %w1 : !x, tensor<8x8xf32> -> !x
  %a1 = tpc.add %r0, %o1 : !x, !x -> !x
  %d1 = tpc.matmul %a1, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.relu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w1 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %a1, %f1 : !x, !x -> !x
  return %r1 : !x
}

// -----

// Without attention, repeated blocks are layers. The result of the first is also a result of the
// model.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @unused0 in "w.bin" at 256 : tensor<8xf32>
tpc.weight @w1 in "w.bin" at 288 : tensor<8x8xf32>
tpc.weight @unused1 in "w.bin" at 544 : tensor<8xf32>

// CHECK-LABEL: func.func @main
// CHECK: %[[X1:.*]] = call @layer(%arg0, %{{[^,]*}}) 
// CHECK: %[[X2:.*]] = call @layer(%[[X1]], %{{[^,]*}}) 
// CHECK: return %[[X2]], %[[X1]]
func.func @main(%x: !x) -> (!x, !x) {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %d0 = tpc.matmul %x, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %x, %f0 : !x, !x -> !x
  %d1 = tpc.matmul %r0, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.silu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w1 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %r0, %f1 : !x, !x -> !x
  return %r1, %r0 : !x, !x
}

// -----

// One layer uses a weight twice, the other uses two weights. They are not the same function.
!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!h = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!m = tensor<?x?xi1, #tpc.dist<[b, s]>>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @w1 in "w.bin" at 256 : tensor<8x8xf32>
tpc.weight @w2 in "w.bin" at 512 : tensor<8x8xf32>

// CHECK-LABEL: func.func @main
// CHECK-NOT: call
func.func @main(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %w2 = tpc.parameter @w2 : tensor<8x8xf32>
  %d0 = tpc.matmul %x, %w0 : !x, tensor<8x8xf32> -> !x
  %e0 = tpc.silu %d0 : !x -> !x
  %f0 = tpc.matmul %e0, %w0 : !x, tensor<8x8xf32> -> !x
  %r0 = tpc.add %x, %f0 : !x, !x -> !x
  %d1 = tpc.matmul %r0, %w1 : !x, tensor<8x8xf32> -> !x
  %e1 = tpc.silu %d1 : !x -> !x
  %f1 = tpc.matmul %e1, %w2 : !x, tensor<8x8xf32> -> !x
  %r1 = tpc.add %r0, %f1 : !x, !x -> !x
  return %r1 : !x
}

// -----

// One layer is annotated with one stage, the other with two. The function has the locations of the
// first layer's nodes.
!x = tensor<4x8xf32>
tpc.weight @w0 in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @w1 in "w.bin" at 256 : tensor<8x8xf32>

// CHECK-LABEL: func.func @main(%arg0: tensor<4x8xf32>)
// CHECK: call @layer({{.*}}) {tpc.pipeline_stage = 0 : i64}
// CHECK: call @layer({{.*}}) {tpc.pipeline_stage = [{node = "l0.matmul", stage = 0 : i64}, {node = "l0.gelu", stage = 1 : i64}, {node = "l0.fused gelu", stage = 1 : i64}]}
// CHECK: func.func private @layer(
// CHECK-NOT: tpc.pipeline_stage
func.func @main(%x: !x) -> !x {
  %w0 = tpc.parameter @w0 : tensor<8x8xf32>
  %w1 = tpc.parameter @w1 : tensor<8x8xf32>
  %p0 = tpc.matmul %x, %w0 {tpc.pipeline_stage = 0} : !x, tensor<8x8xf32> -> !x loc("l0.matmul")
  %g0 = tpc.gelu tanh %p0 : !x -> !x loc(fused["l0.gelu", "l0.fused gelu"])
  %r0 = tpc.add %x, %g0 {tpc.pipeline_stage = 0} : !x, !x -> !x loc("l0.add")
  %p1 = tpc.matmul %r0, %w1 {tpc.pipeline_stage = 0} : !x, tensor<8x8xf32> -> !x loc("l1.matmul")
  %g1 = tpc.gelu tanh %p1 {tpc.pipeline_stage = 1} : !x -> !x loc("l1.gelu")
  %r1 = tpc.add %r0, %g1 : !x, !x -> !x loc("l1.add")
  return %r1 : !x
}
