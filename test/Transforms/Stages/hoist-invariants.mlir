// RUN: tpc-opt %s --tpc-hoist-invariants --split-input-file | FileCheck %s

// A table of positions is computed once, before the loop, and so are lookups for the whole batch.
// The slice of a micro-batch stays in the loop. So do cheap ops: the sum's second operand is a
// value times a number.
!pos = tensor<?xf32, #tpc.dist<[s], local>>
!all = tensor<?x?xf32, #tpc.dist<[b, s], local>>
!one = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
!ids = tensor<?xi64, #tpc.dist<[s], local>>
// CHECK-LABEL: module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>}
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>} {
  // CHECK: func.func private @stage_0_prologue(%[[P:[a-z0-9]*]]: tensor<?xf32, {{.*}}, %[[M:[a-z0-9]*]]: tensor<?x?xf32, {{.*}}, %[[I:[a-z0-9]*]]: tensor<?xi64,
  // CHECK-NEXT: %[[A:.*]] = tpc.cos %[[P]]
  // CHECK-NEXT: %[[B:.*]] = tpc.sin %[[A]]
  // CHECK-NEXT: %[[R:.*]] = tpc.gather %[[M]], %[[I]]
  // CHECK-NEXT: %[[G:.*]] = tpc.exp %[[R]]
  // CHECK-NEXT: return %[[B]], %[[G]]

  // CHECK: func.func private @stage_0(%[[X:[a-z0-9]*]]: tensor<?x?xf32, {{.*}}, %[[P:[a-z0-9]*]]: tensor<?xf32, {{.*}}, %[[B:[a-z0-9]*]]: tensor<?xf32, {{.*}}, %[[G:[a-z0-9]*]]: tensor<?x?xf32,
  // CHECK-NEXT: %[[S:.*]] = tpc.local_slice %[[X]] over ["mb"]
  // CHECK-NEXT: tpc.local_slice %[[G]] over ["mb"]
  // CHECK-NOT: tpc.gather
  // CHECK-NOT: tpc.cos
  // CHECK: %[[N:.*]] = tpc.neg %[[P]]
  // CHECK: return
  func.func private @stage_0(%x: !all, %p: !pos, %m: !all, %i: !ids) -> !one {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !all -> !one
    %1 = tpc.cos %p : !pos -> !pos
    %2 = tpc.sin %1 : !pos -> !pos
    %g = tpc.gather %m, %i dim 1 : !all, !ids -> !all
    %3 = tpc.exp %g : !all -> !all
    %4 = tpc.local_slice %3 over ["mb"] dim 0 : !all -> !one
    %5 = tpc.neg %p : !pos -> !pos
    %6 = tpc.add %0, %2 : !one, !pos -> !one
    %7 = tpc.add %6, %4 : !one, !one -> !one
    %8 = tpc.add %7, %5 : !one, !pos -> !one
    return %8 : !one
  }
  // CHECK: tpc.stage 0 {
  // CHECK-NEXT: %[[H:.*]]:2 = func.call @stage_0_prologue(%arg1, %arg2, %arg3)
  // CHECK-NEXT: tpc.micro_batches of <b{mb}> {
  // CHECK-NEXT: %[[Y:.*]] = func.call @stage_0(%arg0, %arg1, %[[H]]#0, %[[H]]#1)
  // CHECK-NEXT: tpc.output 0, %[[Y]]
  tpc.pipeline @main(%x: !all, %p: !pos, %m: !all, %i: !ids) inputs [{}, {}, {}, {}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %p, %m, %i) : (!all, !pos, !all, !ids) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}

// -----

// An output that is the same for all micro-batches is computed before the loop. A collective is
// hoisted too, but not an op whose result is larger than its operands.
!part = tensor<?x8xf32, #tpc.dist<[s, 8], sum{tp}, local>>
!sum = tensor<?x8xf32, #tpc.dist<[s, 8], local>>
!few = tensor<?x2xf32, #tpc.dist<[s, 2], local>>
!half = tensor<?x4xf32, #tpc.dist<[s, 8{tp}], local>>
!two = tensor<4x2xf32, #tpc.dist<[8{tp}, 2], local>>
!partial = tensor<?x2xf32, #tpc.dist<[s, 2], sum{tp}, local>>
!all = tensor<?x?x2xf32, #tpc.dist<[b, s, 2], local>>
!one = tensor<?x?x2xf32, #tpc.dist<[b{mb}, s, 2], local>>
!wide = tensor<1x?x2xf32, #tpc.dist<[1, s, 2], local>>
!more = tensor<64x?x2xf32, #tpc.dist<[64, s, 2], local>>
// CHECK-LABEL: module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>}
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 2>} {
  // CHECK: func.func private @stage_0_prologue
  // CHECK: tpc.local_slice
  // CHECK: tpc.matmul
  // CHECK: %[[SUM:.*]] = tpc.all_reduce
  // CHECK: %[[W:.*]] = tpc.reshape %[[SUM]]
  // CHECK: return %[[SUM]], %[[W]]
  // CHECK: func.func private @stage_0(
  // CHECK-NOT: tpc.all_reduce
  // CHECK: tpc.expand %{{.*}} : tensor<1x?x2xf32, {{.*}} -> tensor<64x?x2xf32
  // CHECK: return %{{[0-9]+}}, %{{[0-9]+}} :
  func.func private @stage_0(%x: !all, %u: !sum, %v: !two) -> (!one, !few, !more) {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !all -> !one
    %1 = tpc.local_slice %u over ["tp"] dim 1 : !sum -> !half
    %2 = tpc.matmul %1, %v : !half, !two -> !partial
    %3 = tpc.all_reduce %2 over ["tp"] : !partial -> !few
    %4 = tpc.reshape %3 : !few -> !wide
    %5 = tpc.add %0, %4 : !one, !wide -> !one
    %6 = tpc.expand %4 : !wide -> !more
    return %5, %3, %6 : !one, !few, !more
  }
  // CHECK: %[[H:.*]]:2 = func.call @stage_0_prologue(
  // CHECK: %[[Y:.*]]:2 = func.call @stage_0(
  // CHECK-NEXT: tpc.output 0, %[[Y]]#0
  // CHECK-NEXT: tpc.output 1, %[[H]]#0
  // CHECK-NEXT: tpc.output 2, %[[Y]]#1
  tpc.pipeline @main(%x: !all, %u: !sum, %v: !two) inputs [{}, {}, {}] outputs [{name = "y", type = tensor<?x?x2xf32, #tpc.dist<[b, s, 2]>>},
      {name = "z", type = tensor<?x2xf32, #tpc.dist<[s, 2]>>}, {name = "w", type = tensor<64x?x2xf32, #tpc.dist<[64, s, 2]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        %y:3 = func.call @stage_0(%x, %u, %v) : (!all, !sum, !two) -> (!one, !few, !more)
        tpc.output 0, %y#0 : !one
        tpc.output 1, %y#1 : !few
        tpc.output 2, %y#2 : !more
      }
    }
  }
}

// -----

// Not hoisted: values received from another stage; values that depend only on weights, also if they
// are gathered in each iteration; cheap ops; ops in called functions.
!t = tensor<8x8xf32>
!part = tensor<4x8xf32, #tpc.dist<[8{dp}, 8], local>>
!all = tensor<?x8xf32, #tpc.dist<[b, 8], local>>
!one = tensor<?x8xf32, #tpc.dist<[b{mb}, 8], local>>
// CHECK-LABEL: module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 2, mb = 2>}
module attributes {tpc.mesh = #tpc.mesh<dp = 2, pp = 2, mb = 2>} {
  tpc.weight @w in "w" at 0 : tensor<8x8xf32>
  func.func private @layer(%x: !t) -> !t attributes {tpc.layer} {
    %0 = tpc.exp %x : !t -> !t
    %1 = tpc.exp %0 : !t -> !t
    return %1 : !t
  }
  // CHECK: func.func private @stage_0(%{{.*}}: tensor<?x8xf32, {{.*}}>, %{{.*}}: tensor<8x8xf32>) ->
  func.func private @stage_0(%x: !all, %c: !t) -> (!one, !t) {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !all -> !one
    %1 = tpc.neg %c : !t -> !t
    %2 = call @layer(%1) : (!t) -> !t
    return %0, %2 : !one, !t
  }
  // CHECK: func.func private @stage_1(
  // CHECK: tpc.exp
  // CHECK: tpc.all_gather
  func.func private @stage_1(%x: !one, %t: !t) -> !one {
    %0 = tpc.exp %t : !t -> !t
    %1 = tpc.exp %0 : !t -> !t
    %w = tpc.parameter @w : !part
    %2 = tpc.all_gather %w over ["dp"] dim 0 : !part -> !t
    %3 = tpc.exp %2 : !t -> !t
    %4 = tpc.exp %3 : !t -> !t
    %5 = tpc.matmul %x, %4 : !one, !t -> !one
    %6 = tpc.matmul %5, %1 : !one, !t -> !one
    return %6 : !one
  }
  // CHECK-NOT: prologue
  tpc.pipeline @main(%x: !all, %c: !t) inputs [{}, {}] outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[b, 8]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <2{mb}> {
        %y:2 = func.call @stage_0(%x, %c) : (!all, !t) -> (!one, !t)
        tpc.send %y#0 to 1 : !one
        tpc.send %y#1 to 1 : !t
      }
    }
    tpc.stage 1 {
      tpc.micro_batches of <2{mb}> {
        %0 = tpc.recv from 0 : !one
        %1 = tpc.recv from 0 : !t
        %y = func.call @stage_1(%0, %1) : (!one, !t) -> !one
        tpc.output 0, %y : !one
      }
    }
  }
}

// -----

// Unchanged: one micro-batch.
// CHECK-LABEL: module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>}
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 1>} {
  // CHECK: func.func private @stage_0
  // CHECK-NEXT: tpc.exp
  // CHECK-NEXT: tpc.exp
  // CHECK-NOT: prologue
  func.func private @stage_0(%x: tensor<4xf32>) -> tensor<4xf32> {
    %0 = tpc.exp %x : tensor<4xf32> -> tensor<4xf32>
    %1 = tpc.exp %0 : tensor<4xf32> -> tensor<4xf32>
    return %1 : tensor<4xf32>
  }
  tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [{name = "y", type = tensor<4xf32>}] {
    tpc.stage 0 {
      tpc.micro_batches {
        %y = func.call @stage_0(%x) : (tensor<4xf32>) -> tensor<4xf32>
        tpc.output 0, %y : tensor<4xf32>
      }
    }
  }
}

// -----

// Rows of a quantized table are looked up once. The numbers of a matrix depend on weights alone and
// are computed in each micro-batch, so that only their bytes stay in memory.
!bytes = tensor<512x256xui8>
!scale = tensor<512x1x1xf32>
!numbers = tensor<512x256x2xf32>
!matrix = tensor<512x512xf32>
!ids = tensor<?xi64, #tpc.dist<[s], local>>
!rows = tensor<?x256x2xf32, #tpc.dist<[s, 256, 2], local>>
!found = tensor<?x512xf32, #tpc.dist<[s, 512], local>>
!all = tensor<?x512xf32, #tpc.dist<[b, 512], local>>
!one = tensor<?x512xf32, #tpc.dist<[b{mb}, 512], local>>
!y = tensor<?x?xf32, #tpc.dist<[b{mb}, s], local>>
// CHECK-LABEL: module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>}
module attributes {tpc.mesh = #tpc.mesh<pp = 1, mb = 2>} {
  tpc.weight @w in "w" at 0 : !bytes
  tpc.weight @s in "w" at 131072 : !scale
  // CHECK: func.func private @stage_0_prologue
  // CHECK: tpc.dequantize
  // CHECK: tpc.gather
  // CHECK: return %{{[0-9]+}} : tensor<512x?xf32,
  // CHECK: func.func private @stage_0(
  // CHECK-NOT: tpc.gather
  // CHECK: tpc.dequantize
  // CHECK: tpc.transpose
  // CHECK: return
  func.func private @stage_0(%x: !all, %ids: !ids) -> !y {
    %0 = tpc.local_slice %x over ["mb"] dim 0 : !all -> !one
    %w = tpc.parameter @w : !bytes
    %s = tpc.parameter @s : !scale
    %1 = tpc.dequantize %w, %s bits 4 zero 8 : !bytes, !scale -> !numbers
    %2 = tpc.reshape %1 : !numbers -> !matrix
    %3 = tpc.transpose %2 [1, 0] : !matrix -> !matrix
    %4 = tpc.matmul %0, %3 : !one, !matrix -> !one
    %5 = tpc.gather %1, %ids dim 0 : !numbers, !ids -> !rows
    %6 = tpc.reshape %5 : !rows -> !found
    %7 = tpc.exp %6 : !found -> !found
    %8 = tpc.transpose %7 [1, 0] : !found -> tensor<512x?xf32, #tpc.dist<[512, s], local>>
    %9 = tpc.matmul %4, %8 : !one, tensor<512x?xf32, #tpc.dist<[512, s], local>> -> !y
    return %9 : !y
  }
  tpc.pipeline @main(%x: !all, %ids: !ids) inputs [{}, {}] outputs [{name = "y", type = tensor<?x?xf32, #tpc.dist<[b, s]>>}] {
    tpc.stage 0 {
      tpc.micro_batches of <b{mb}> {
        %y = func.call @stage_0(%x, %ids) : (!all, !ids) -> !y
        tpc.output 0, %y : !y
      }
    }
  }
}
