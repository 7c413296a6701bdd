// RUN: tpc-opt %s --tpc-split-fused-projections --canonicalize | FileCheck %s

!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
tpc.weight @w in "w.bin" at 0 : tensor<8x24xf32>
tpc.weight @b in "w.bin" at 768 : tensor<24xf32>

// GPT-2: all of Q, all of K, all of V.
// CHECK-LABEL: @blocks
// CHECK-DAG: %[[W:.*]] = tpc.parameter @w view <8 {{\[\[}}8 x 24], [8 x 1]]>
// CHECK-DAG: %[[B:.*]] = tpc.parameter @b view <8 {{\[\[}}8 x 1]]>
// CHECK: tpc.matmul %arg0, %[[W]] bias %[[B]] {{.*}} -> tensor<?x8xf32
// CHECK-NOT: tpc.slice
func.func @blocks(%x: !x) -> (tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %b = tpc.parameter @b : tensor<24xf32>
  %0 = tpc.matmul %x, %w bias %b : !x, tensor<8x24xf32> bias tensor<24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.reshape %0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x?x24xf32, #tpc.dist<[b, s, 24]>>
  %q = tpc.slice %1 dim 2 from "0" : tensor<?x?x24xf32, #tpc.dist<[b, s, 24]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
  %k = tpc.slice %1 dim 2 from "8" : tensor<?x?x24xf32, #tpc.dist<[b, s, 24]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
  return %q, %k : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
}

// GPT-NeoX: Q, K and V of each head, sliced after the heads were moved. Two
// heads of size 4: K is at 4..7 and 16..19.
// CHECK-LABEL: @by_head
// CHECK: %[[W:.*]] = tpc.parameter @w view <4 {{\[\[}}8 x 24], [2 x 12, 4 x 1]]>
// CHECK: %[[K:.*]] = tpc.matmul %arg0, %[[W]]
// CHECK: %[[R:.*]] = tpc.reshape %[[K]] {{.*}} -> tensor<?x?x2x4xf32
// CHECK: tpc.transpose %[[R]] [0, 2, 1, 3]
// CHECK-NOT: tpc.slice
func.func @by_head(%x: !x) -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>> {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.reshape %0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x?x2x12xf32, #tpc.dist<[b, s, 2, 12]>>
  %2 = tpc.transpose %1 [0, 2, 1, 3] : tensor<?x?x2x12xf32, #tpc.dist<[b, s, 2, 12]>> -> tensor<?x2x?x12xf32, #tpc.dist<[b, 2, s, 12]>>
  %3 = tpc.slice %2 dim 3 from "4" : tensor<?x2x?x12xf32, #tpc.dist<[b, 2, s, 12]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  return %3 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
}

// BLOOM: [h, 3, d], one index of the middle dimension.
// CHECK-LABEL: @interleaved
// CHECK: tpc.parameter @w view <8 {{\[\[}}8 x 24], [2 x 12, 4 x 1]]>
// CHECK-NOT: tpc.slice
func.func @interleaved(%x: !x) -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.reshape %0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x?x2x3x4xf32, #tpc.dist<[b, s, 2, 3, 4]>>
  %2 = tpc.slice %1 dim 3 from "2" : tensor<?x?x2x3x4xf32, #tpc.dist<[b, s, 2, 3, 4]>> -> tensor<?x?x2x1x4xf32, #tpc.dist<[b, s, 2, 1, 4]>>
  %3 = tpc.reshape %2 : tensor<?x?x2x1x4xf32, #tpc.dist<[b, s, 2, 1, 4]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  return %3 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
}

// The whole is used as well: a product for the slice would be a second one.
// CHECK-LABEL: @used_whole
// CHECK: tpc.slice
func.func @used_whole(%x: !x) -> (tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, !x) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.slice %0 dim 1 from "8" : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  return %0, %1 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, !x
}

// Rows, and a product of two activations.
// CHECK-LABEL: @not_columns
// CHECK-COUNT-2: tpc.slice
func.func @not_columns(%x: tensor<6x8xf32>, %y: tensor<8x4xf32>) -> (tensor<2x24xf32>, tensor<6x2xf32>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : tensor<6x8xf32>, tensor<8x24xf32> -> tensor<6x24xf32>
  %1 = tpc.slice %0 dim 0 from "4" : tensor<6x24xf32> -> tensor<2x24xf32>
  %2 = tpc.matmul %x, %y : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %3 = tpc.slice %2 dim 1 from "0" : tensor<6x4xf32> -> tensor<6x2xf32>
  return %1, %3 : tensor<2x24xf32>, tensor<6x2xf32>
}
