// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-merge-matmuls --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers \
// RUN:   | tpc-opt --tpc-verify-buffers | FileCheck %s

// GPUs: a norm before matmuls and an activation after them are in one kernel.

!x = tensor<?x8xf32, #tpc.dist<[n, 8], local>>
!f = tensor<?x16xf32, #tpc.dist<[n, 16], local>>
!w = tensor<8x16xf32>
!d = tensor<16x8xf32>
!g = tensor<8xf32>
!b = tensor<16xf32>
!whole = tensor<?x16xf32, #tpc.dist<[n, 16]>>
!norm = tensor<?x8xf32, #tpc.dist<[n, 8]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 1, mb = 1>, tpc.target = "cuda"} {
tpc.weight @w in "/w.bin" at 0 : tensor<8x16xf32>
tpc.weight @v in "/w.bin" at 512 : tensor<8x16xf32>
tpc.weight @d in "/w.bin" at 1024 : tensor<16x8xf32>
tpc.weight @g in "/w.bin" at 2048 : tensor<8xf32>
tpc.weight @h in "/w.bin" at 2112 : tensor<8xf32>
tpc.weight @b in "/w.bin" at 2176 : tensor<16xf32>
tpc.weight @t in "/w.bin" at 4096 : tensor<8x16xf32>
tpc.weight @u in "/w.bin" at 8192 : tensor<8x16xf32>

// The result does not share memory with the norm's operand.
// CHECK-LABEL: tpc_buffer.func @gated_on_buffers
// CHECK-DAG: %[[G:.*]] = tpc_buffer.dense {{.*}} : _8 x f32
// CHECK-DAG: %[[A:.*]] = tpc_buffer.columns %{{.*}} from 0
// CHECK-DAG: %[[B:.*]] = tpc_buffer.columns %{{.*}} from _16
// CHECK: tpc_buffer.fused norm rms_norm %arg0 scale %[[G]] epsilon 9.9999999999999995E-7 activation silu gated to %[[Y:.*]] {
// CHECK-NEXT: tpc_buffer.launch @kernel_rms_norm(%arg0, %[[G]]) to (%[[N:.*]]) rows n
// CHECK: tpc_buffer.product %[[N]] m n k _8 by %{{.*}} to %[[A]] n _16,
// CHECK: tpc_buffer.launch @kernel_silu_mul(%[[A]], %[[B]]) to (%[[Y]]) rows n
// CHECK: }
// CHECK-NEXT: tpc_buffer.product %[[Y]] {{.*}} residual %arg0
func.func private @gated(%x: !x) -> !x {
  %g = tpc.parameter @g : !g
  %w = tpc.parameter @w : !w
  %v = tpc.parameter @v : !w
  %d = tpc.parameter @d : !d
  %n = tpc.rms_norm %x, %g epsilon 1.0E-6 : !x, !g -> !x
  %0 = tpc.matmul %n, %w : !x, !w -> !f
  %1 = tpc.matmul %n, %v : !x, !w -> !f
  %2 = tpc.silu %0 : !f -> !f
  %3 = tpc.mul %2, %1 : !f, !f -> !f
  %4 = tpc.matmul %3, %d : !f, !d -> !x
  %5 = tpc.add %x, %4 : !x, !x -> !x
  return %5 : !x
}

// A bias is added before the activation.
// CHECK-LABEL: tpc_buffer.func @gelu_on_buffers
// CHECK: tpc_buffer.fused norm layer_norm %arg0 scale %{{.*}} shift %{{.*}} epsilon 1.000000e-05 activation gelu_tanh to %{{.*}} {
// CHECK: tpc_buffer.launch @kernel_layer_norm
// CHECK: tpc_buffer.product {{.*}} bias
// CHECK: tpc_buffer.launch @kernel_gelu
// CHECK: }
// CHECK-NEXT: tpc_buffer.product
func.func private @gelu(%x: !x) -> !x {
  %g = tpc.parameter @g : !g
  %h = tpc.parameter @h : !g
  %w = tpc.parameter @t : !w
  %b = tpc.parameter @b : !b
  %d = tpc.parameter @d : !d
  %n = tpc.layer_norm %x, %g bias %h epsilon 1.0E-5 : !x, !g bias !g -> !x
  %0 = tpc.matmul %n, %w : !x, !w -> !f
  %1 = tpc.add %0, %b : !f, !b -> !f
  %2 = tpc.gelu tanh %1 : !f -> !f
  %3 = tpc.matmul %2, %d : !f, !d -> !x
  %4 = tpc.add %x, %3 : !x, !x -> !x
  return %4 : !x
}

// Not fused: a norm that another op reads, and an activation of a sum.
// CHECK-LABEL: tpc_buffer.func @others_on_buffers
// CHECK-NOT: tpc_buffer.fused
func.func private @others(%x: !x) -> (!f, !x) {
  %g = tpc.parameter @g : !g
  %w = tpc.parameter @u : !w
  %n = tpc.rms_norm %x, %g epsilon 1.0E-6 : !x, !g -> !x
  %0 = tpc.matmul %n, %w : !x, !w -> !f
  %1 = tpc.add %0, %0 : !f, !f -> !f
  %2 = tpc.silu %1 : !f -> !f
  return %2, %n : !f, !x
}

tpc.pipeline @main(%x: !x) inputs [{}]
    outputs [{name = "y", type = !whole}, {name = "z", type = !norm}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @gated(%x) : (!x) -> !x
      %1 = func.call @gelu(%0) : (!x) -> !x
      %2:2 = func.call @others(%1) : (!x) -> (!f, !x)
      tpc.output 0, %2#0 : !f
      tpc.output 1, %2#1 : !x
    }
  }
}
}
