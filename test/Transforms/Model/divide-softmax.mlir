// RUN: tpc-opt %s --tpc-divide-softmax --tpc-assign-shardings=shard=tp3 --tpc-insert-reshards --tpc-lower-reshards --split-input-file | FileCheck %s

// A softmax over a sharded vocabulary has two small all-reduces and no gather.
// CHECK-LABEL: @main
// CHECK: %[[X:.*]] = tpc.matmul {{.*}} tensor<5x11xf32, #tpc.dist<[5, 11{tp}]>>
// CHECK: %[[M:.*]] = tpc.reduce max %[[X]] [1] keep {{.*}} tensor<5x1xf32, #tpc.dist<[5, 1], max{tp}>>
// CHECK: tpc.all_reduce %[[M]] over ["tp"]
// CHECK: %[[E:.*]] = tpc.exp
// CHECK: %[[S:.*]] = tpc.reduce sum %[[E]] [1] keep {{.*}} tensor<5x1xf32, #tpc.dist<[5, 1], sum{tp}>>
// CHECK: tpc.all_reduce %[[S]] over ["tp"]
// CHECK-NOT: tpc.all_gather
// CHECK: tpc.div {{.*}} -> tensor<5x11xf32, #tpc.dist<[5, 11{tp}]>>
tpc.weight @w in "w" at 0 : tensor<8x11xf32>
tpc.weight @s in "w" at 0 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x11xf32> {
  %w = tpc.parameter @w : tensor<8x11xf32>
  %s = tpc.parameter @s : tensor<8xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %y = tpc.matmul %n, %w : tensor<5x8xf32>, tensor<8x11xf32> -> tensor<5x11xf32>
  %z = tpc.softmax %y dim 1 : tensor<5x11xf32> -> tensor<5x11xf32>
  return %z : tensor<5x11xf32>
}

// -----

// Unchanged: a softmax over a dimension that no weight has.
// CHECK-LABEL: @main
// CHECK: tpc.softmax {{.*}} dim 0
tpc.weight @w in "w" at 0 : tensor<8x11xf32>
tpc.weight @s in "w" at 0 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>) -> tensor<5x11xf32> {
  %w = tpc.parameter @w : tensor<8x11xf32>
  %s = tpc.parameter @s : tensor<8xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %y = tpc.matmul %n, %w : tensor<5x8xf32>, tensor<8x11xf32> -> tensor<5x11xf32>
  %z = tpc.softmax %y dim 0 : tensor<5x11xf32> -> tensor<5x11xf32>
  return %z : tensor<5x11xf32>
}

// -----

// The loss picks the labels' elements: each rank picks from its shard of the vocabulary, and the
// results are summed.
// CHECK-LABEL: @main
// CHECK: %[[P:.*]] = tpc.gather_nd {{.*}}#tpc.dist<[5, 11{tp}]>{{.*}} -> tensor<5xf32, #tpc.dist<[5], sum{tp}>>
// CHECK: tpc.all_reduce %[[P]] over ["tp"]
// CHECK-NOT: tpc.all_gather
tpc.weight @w in "w" at 0 : tensor<8x11xf32>
tpc.weight @s in "w" at 0 : tensor<8xf32>
func.func @main(%x: tensor<5x8xf32>, %labels: tensor<5x1xi64>) -> tensor<5xf32> {
  %w = tpc.parameter @w : tensor<8x11xf32>
  %s = tpc.parameter @s : tensor<8xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<5x8xf32>, tensor<8xf32> -> tensor<5x8xf32>
  %y = tpc.matmul %n, %w : tensor<5x8xf32>, tensor<8x11xf32> -> tensor<5x11xf32>
  %p = tpc.gather_nd %y, %labels batch 1 : tensor<5x11xf32>, tensor<5x1xi64> -> tensor<5xf32>
  return %p : tensor<5xf32>
}
