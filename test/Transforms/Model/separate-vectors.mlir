// RUN: tpc-opt %s --tpc-separate-vectors --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-separate-vectors --tpc-assign-shardings=shard=tp2 --tpc-insert-reshards --split-input-file | FileCheck %s --check-prefix=TP

// As a model that was never trained has it after export: one bias of all products. Heads' columns are split, the residual is not.
// CHECK-LABEL: @main
// CHECK: %[[B1:.*]] = tpc.parameter @zeros : tensor<8xf32>
// CHECK: %[[B3:.*]] = tpc.parameter @zeros : tensor<8xf32>
// CHECK: %[[B2:.*]] = tpc.parameter @zeros : tensor<8xf32>
// CHECK: tpc.matmul {{.*}} bias %[[B1]]
// CHECK: tpc.matmul {{.*}} bias %[[B2]]
// CHECK: tpc.add {{.*}}, %[[B3]]
// TP-LABEL: @main
// TP: tpc.parameter @zeros : tensor<8xf32, #tpc.dist<[8{tp}]>>
// TP-COUNT-2: tpc.parameter @zeros : tensor<8xf32>
// TP-NOT: tpc.parameter @zeros
tpc.weight @up in "w" at 0 : tensor<8x8xf32>
tpc.weight @down in "w" at 256 : tensor<8x8xf32>
tpc.weight @zeros in "w" at 512 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x8xf32> {
  %up = tpc.parameter @up : tensor<8x8xf32>
  %down = tpc.parameter @down : tensor<8x8xf32>
  %zeros = tpc.parameter @zeros : tensor<8xf32>
  %0 = tpc.matmul %x, %up bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %1 = tpc.gelu tanh %0 : tensor<5x8xf32> -> tensor<5x8xf32>
  %2 = tpc.matmul %1, %down bias %zeros : tensor<5x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<5x8xf32>
  %3 = tpc.add %2, %zeros : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  return %3 : tensor<5x8xf32>
}

// -----

// TP-LABEL: @main
// A matrix is one value, and so is a vector that is used once.
// CHECK-LABEL: @main
// CHECK-COUNT-1: tpc.parameter @table
// CHECK-NOT: tpc.parameter @table
// CHECK-COUNT-1: tpc.parameter @scale
// CHECK-NOT: tpc.parameter @scale
// CHECK: return
tpc.weight @table in "w" at 0 : tensor<8x8xf32>
tpc.weight @scale in "w" at 256 : tensor<8xf32>
func.func @main(%ids: tensor<5xi64>) -> tensor<5x8xf32> {
  %table = tpc.parameter @table : tensor<8x8xf32>
  %scale = tpc.parameter @scale : tensor<8xf32>
  %0 = tpc.embedding %table, %ids : tensor<8x8xf32>, tensor<5xi64> -> tensor<5x8xf32>
  %1 = tpc.rms_norm %0, %scale epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %2 = tpc.matmul %1, %table : tensor<5x8xf32>, tensor<8x8xf32> -> tensor<5x8xf32>
  return %2 : tensor<5x8xf32>
}
