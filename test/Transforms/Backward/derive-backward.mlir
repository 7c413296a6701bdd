// Loss and gradients of models.
// RUN: tpc-opt %s --split-input-file --tpc-derive-backward | FileCheck %s
// RUN: tpc-opt %s --split-input-file --tpc-derive-backward="label-smoothing=0.25 z-loss=0.5" | FileCheck %s --check-prefix=SMOOTH

// The gradient of a matmul's weight is x^T d; its input has none. Ops of the model precede the loss.
// With smoothing, classes share a quarter of the targets; with a z-loss, probabilities are multiplied
// by 1 + 2 z l. Per row, there are three reductions.
// SMOOTH-LABEL: func @main
// SMOOTH: %[[IS:.*]] = tpc.cmp eq
// SMOOTH: tpc.reduce max
// SMOOTH: tpc.reduce sum %{{.*}} [1] keep
// SMOOTH: %[[CLASSES:.*]] = tpc.size 9
// SMOOTH: %[[SHARE:.*]] = tpc.div %{{.*}}, %[[CLASSES]]
// SMOOTH: %[[LABEL:.*]] = tpc.add %[[SHARE]], %{{.*}}
// SMOOTH: %[[TARGETS:.*]] = tpc.select %[[IS]], %[[LABEL]], %[[SHARE]]
// SMOOTH: %[[DOT:.*]] = tpc.mul %[[Y:.*]], %[[TARGETS]]
// SMOOTH: tpc.reduce sum %[[DOT]] [1] keep
// SMOOTH: %[[SUM:.*]] = tpc.add %{{.*}}, %{{.*}} : tensor<2x1xf32>
// SMOOTH: tpc.mul %[[SUM]], %[[SUM]]
// SMOOTH: %[[P:.*]] = tpc.exp %{{.*}} : tensor<2x9xf32>
// SMOOTH: %[[SCALED:.*]] = tpc.mul %[[P]], %{{.*}} : tensor<2x9xf32>, tensor<2x1xf32>
// SMOOTH: tpc.sub %[[SCALED]], %[[TARGETS]]
// CHECK-LABEL: func @main
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[LABELS:.*]]: tensor<2xi64> {tpc.name = "labels"}
// CHECK-SAME: -> (tensor<f32> {tpc.name = "loss"}, tensor<4x9xf32> {tpc.name = "grad.w"}, tensor<9xf32> {tpc.name = "grad.b"})
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x9xf32>
  tpc.weight @b in "w.bin" at 144 : tensor<9xf32>
  func.func @main(%x: tensor<2x4xf32>) -> tensor<2x9xf32> {
    %w = tpc.parameter @w : tensor<4x9xf32>
    %b = tpc.parameter @b : tensor<9xf32>
    // CHECK: tpc.matmul %[[X]]
    // CHECK: %[[VALID:.*]] = tpc.cmp ge
    // CHECK: tpc.reduce max
    // CHECK: %[[EXP:.*]] = tpc.exp
    // CHECK: %[[SUM:.*]] = tpc.reduce sum %[[EXP]] [1] keep
    // CHECK: tpc.exp %{{.*}} : tensor<2x9xf32>
    // CHECK: %[[D:.*]] = tpc.mul %{{.*}} : tensor<2x9xf32>, tensor<2x1xf32>
    // CHECK: %[[LOSS:.*]] = tpc.div %{{.*}} : tensor<f32>, tensor<f32>
    // CHECK: %[[DB:.*]] = tpc.reduce sum %[[D]] [0]
    // CHECK: %[[XT:.*]] = tpc.transpose %[[X]] [1, 0]
    // CHECK: %[[DW:.*]] = tpc.matmul %[[XT]], %[[D]]
    // CHECK-NOT: tpc.matmul
    // CHECK: return %[[LOSS]], %[[DW]], %[[DB]]
    %y = tpc.matmul %x, %w bias %b : tensor<2x4xf32>, tensor<4x9xf32> bias tensor<9xf32> -> tensor<2x9xf32>
    return %y : tensor<2x9xf32>
  }
}

// -----

// A table and its transpose are one weight: the gradients of both uses are added. Disjoint views
// have one result each, ordered by offset. The gradient of a lookup adds rows by id.
// CHECK-LABEL: func @main
// CHECK-SAME: tensor<9x4xf32> {tpc.name = "grad.table"}, tensor<4x4xf32> {tpc.name = "grad.two.at0"}, tensor<4x4xf32> {tpc.name = "grad.two.at4"})
// CHECK: %[[ROWS:.*]] = tpc.scatter_add %{{.*}}, %{{.*}} : tensor<2x4xf32>, tensor<2xi64> -> tensor<9x4xf32>
// CHECK: %[[TABLE:.*]] = tpc.add %{{.*}}, %{{.*}} : tensor<9x4xf32>
// CHECK: return %{{.*}}, %[[TABLE]],
module {
  tpc.weight @table in "w.bin" at 0 : tensor<9x4xf32>
  tpc.weight @two in "w.bin" at 0 : tensor<4x8xf32>
  func.func @main(%ids: tensor<2xi64>) -> tensor<2x9xf32> {
    %0 = tpc.parameter @table : tensor<9x4xf32>
    %1 = tpc.embedding %0, %ids : tensor<9x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
    %2 = tpc.parameter @two view <4 [[4 x 8], [4 x 1]]> : tensor<4x4xf32>
    %3 = tpc.matmul %1, %2 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %4 = tpc.parameter @two view <0 [[4 x 8], [4 x 1]]> : tensor<4x4xf32>
    %5 = tpc.matmul %3, %4 : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %6 = tpc.parameter @table view <0 [[4 x 1], [9 x 4]]> : tensor<4x9xf32>
    %7 = tpc.matmul %5, %6 : tensor<2x4xf32>, tensor<4x9xf32> -> tensor<2x9xf32>
    return %7 : tensor<2x9xf32>
  }
}

// -----

// The derivative of tanh needs only its result, so the layer saves this. Its backward function gets
// the weights, saved activations and the cotangent of the result.
// CHECK-LABEL: func @main
// CHECK: %[[FIRST:.*]]:2 = call @layer(
// CHECK: %[[SECOND:.*]]:2 = call @layer(%[[FIRST]]#0
// CHECK: %[[BACK:.*]]:3 = call @layer_backward(%[[FIRST]]#0, %{{.*}}, %{{.*}}, %[[SECOND]]#1, %{{.*}})
// CHECK: call @layer_backward(%{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]]#1, %[[BACK]]#0)
// CHECK-LABEL: func private @layer(
// CHECK-SAME: -> (tensor<2x4xf32>, tensor<2x4xf32>)
// CHECK: %[[M:.*]] = tpc.matmul
// CHECK: %[[T:.*]] = tpc.tanh %[[M]]
// CHECK: return %{{.*}}, %[[T]]
// CHECK-LABEL: func private @layer_backward(
// CHECK-SAME: %[[X:.*]]: tensor<2x4xf32>, %[[W:.*]]: tensor<4x4xf32>, %[[V:.*]]: tensor<4x4xf32>, %[[SAVED:.*]]: tensor<2x4xf32>, %[[D:.*]]: tensor<2x4xf32>)
// CHECK-SAME: attributes {tpc.layer}
// CHECK-NOT: tpc.tanh
// CHECK: tpc.mul %[[SAVED]], %[[SAVED]]
// CHECK: return
module {
  tpc.weight @w in "w.bin" at 0 : tensor<4x4xf32>
  tpc.weight @v in "v.bin" at 0 : tensor<4x4xf32>
  tpc.weight @table in "t.bin" at 0 : tensor<9x4xf32>
  func.func @main(%ids: tensor<2xi64>) -> tensor<2x4xf32> {
    %t = tpc.parameter @table : tensor<9x4xf32>
    %x = tpc.embedding %t, %ids : tensor<9x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
    %w = tpc.parameter @w : tensor<4x4xf32>
    %v = tpc.parameter @v : tensor<4x4xf32>
    %0 = call @layer(%x, %w, %v) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    %1 = call @layer(%0, %v, %w) : (tensor<2x4xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<2x4xf32>
    return %1 : tensor<2x4xf32>
  }
  func.func private @layer(%x: tensor<2x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<2x4xf32>
      attributes {tpc.layer} {
    %0 = tpc.matmul %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %1 = tpc.tanh %0 : tensor<2x4xf32> -> tensor<2x4xf32>
    %2 = tpc.matmul %1, %v : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
    %3 = tpc.add %2, %x : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
    return %3 : tensor<2x4xf32>
  }
}
