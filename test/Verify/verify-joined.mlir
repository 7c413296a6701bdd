// Two coalesced reductions equal those of the model, but not if their result is sliced differently.
// RUN: tpc-opt %s --tpc-localize --tpc-coalesce-collectives -o %t.mlir
// RUN: FileCheck %s < %t.mlir
// RUN: tpc-opt %t.mlir --tpc-verify-equivalence=reference=%S/Inputs/verify-joined-model.mlir -o /dev/null
// RUN: sed 's/dim 1 from 2/dim 1 from 1/' %t.mlir > %t.shifted.mlir
// RUN: not tpc-opt %t.shifted.mlir --tpc-verify-equivalence=reference=%S/Inputs/verify-joined-model.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER
// RUN: sed 's/dim 1 from 2/dim 1 from 0/' %t.mlir > %t.same.mlir
// RUN: not tpc-opt %t.same.mlir --tpc-verify-equivalence=reference=%S/Inputs/verify-joined-model.mlir -o /dev/null 2>&1 | FileCheck %s --check-prefix=OTHER

// CHECK: tpc.concat
// CHECK-COUNT-1: tpc.all_reduce
// CHECK-NOT: tpc.all_reduce
// OTHER: does not compute what the model computes

!k = tensor<4x6xf32, #tpc.dist<[4, 6{tp}]>>
!m = tensor<6x2xf32, #tpc.dist<[6{tp}, 2]>>
!sum = tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 1, pp = 1, mb = 1>} {
  tpc.weight @v in "w" at 0 : tensor<6x2xf32>
  tpc.weight @w in "w" at 48 : tensor<6x2xf32>
  func.func @main(%x: tensor<4x6xf32>) -> (tensor<4x2xf32>, tensor<4x2xf32>) {
    %v = tpc.parameter @v : !m
    %w = tpc.parameter @w : !m
    %k = tpc.local_slice %x over ["tp"] dim 1 : tensor<4x6xf32> -> !k
    %p = tpc.matmul %k, %v : !k, !m -> !sum
    %q = tpc.matmul %k, %w : !k, !m -> !sum
    %0 = tpc.all_reduce %p over ["tp"] : !sum -> tensor<4x2xf32>
    %1 = tpc.all_reduce %q over ["tp"] : !sum -> tensor<4x2xf32>
    %2 = tpc.tanh %0 : tensor<4x2xf32> -> tensor<4x2xf32>
    %3 = tpc.exp %1 : tensor<4x2xf32> -> tensor<4x2xf32>
    return %2, %3 : tensor<4x2xf32>, tensor<4x2xf32>
  }
}
