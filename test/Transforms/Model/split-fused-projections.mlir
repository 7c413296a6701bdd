// RUN: tpc-opt %s --tpc-split-fused-projections --canonicalize | FileCheck %s

!x = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
tpc.weight @w in "w.bin" at 0 : tensor<8x24xf32>
tpc.weight @b in "w.bin" at 768 : tensor<24xf32>

// GPT-2: the columns of all of Q, then all of K, then all of V.
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
  %q = tpc.slice %1 dim 2 from 0 : tensor<?x?x24xf32, #tpc.dist<[b, s, 24]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
  %k = tpc.slice %1 dim 2 from 8 : tensor<?x?x24xf32, #tpc.dist<[b, s, 24]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
  return %q, %k : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
}

// GPT-NeoX: Q, K and V of each head, sliced after the heads were moved. With two heads of size 4, K
// is at columns 4..7 and 16..19.
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
  %3 = tpc.slice %2 dim 3 from 4 : tensor<?x2x?x12xf32, #tpc.dist<[b, 2, s, 12]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  return %3 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
}

// BLOOM: columns are [h, 3, d], and Q, K and V are indices of the middle dimension.
// CHECK-LABEL: @interleaved
// CHECK: tpc.parameter @w view <8 {{\[\[}}8 x 24], [2 x 12, 4 x 1]]>
// CHECK-NOT: tpc.slice
func.func @interleaved(%x: !x) -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.reshape %0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x?x2x3x4xf32, #tpc.dist<[b, s, 2, 3, 4]>>
  %2 = tpc.slice %1 dim 3 from 2 : tensor<?x?x2x3x4xf32, #tpc.dist<[b, s, 2, 3, 4]>> -> tensor<?x?x2x1x4xf32, #tpc.dist<[b, s, 2, 1, 4]>>
  %3 = tpc.reshape %2 : tensor<?x?x2x1x4xf32, #tpc.dist<[b, s, 2, 1, 4]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  return %3 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
}

// Falcon: columns are reshaped to [heads + 2, d], from which Q is sliced. K is sliced after a
// transpose that moves heads to the front. There are six query heads and one kv head.
// CHECK-LABEL: @multi_query
// CHECK-DAG: %[[Q:.*]] = tpc.parameter @w view <0 {{\[\[}}8 x 24], [18 x 1]]>
// CHECK-DAG: %[[K:.*]] = tpc.parameter @w view <18 {{\[\[}}8 x 24], [3 x 1]]>
// CHECK-DAG: %[[B:.*]] = tpc.parameter @b view <18 {{\[\[}}3 x 1]]>
// CHECK-DAG: tpc.matmul %arg0, %[[Q]] bias {{.*}} -> tensor<?x18xf32
// CHECK-DAG: tpc.matmul %arg0, %[[K]] bias %[[B]] {{.*}} -> tensor<?x3xf32
// CHECK-NOT: tpc.slice
// CHECK: return
func.func @multi_query(%x: !x) -> (tensor<?x?x6x3xf32, #tpc.dist<[b, s, 6, 3]>>, tensor<1x?x?x3xf32, #tpc.dist<[1, b, s, 3]>>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %b = tpc.parameter @b : tensor<24xf32>
  %0 = tpc.matmul %x, %w bias %b : !x, tensor<8x24xf32> bias tensor<24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.reshape %0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x?x8x3xf32, #tpc.dist<[b, s, 8, 3]>>
  %q = tpc.slice %1 dim 2 from 0 : tensor<?x?x8x3xf32, #tpc.dist<[b, s, 8, 3]>> -> tensor<?x?x6x3xf32, #tpc.dist<[b, s, 6, 3]>>
  %2 = tpc.transpose %1 [2, 0, 1, 3] : tensor<?x?x8x3xf32, #tpc.dist<[b, s, 8, 3]>> -> tensor<8x?x?x3xf32, #tpc.dist<[8, b, s, 3]>>
  %k = tpc.slice %2 dim 0 from 6 : tensor<8x?x?x3xf32, #tpc.dist<[8, b, s, 3]>> -> tensor<1x?x?x3xf32, #tpc.dist<[1, b, s, 3]>>
  return %q, %k : tensor<?x?x6x3xf32, #tpc.dist<[b, s, 6, 3]>>, tensor<1x?x?x3xf32, #tpc.dist<[1, b, s, 3]>>
}

// A rotary embedding needs both whole heads and their halves. The halves do not become separate
// matmuls, because they would be computed and stored twice.
// CHECK-LABEL: @halves
// CHECK: tpc.parameter @w view <0 {{\[\[}}8 x 24], [8 x 1]]>
// CHECK-COUNT-1: tpc.matmul
// CHECK-NOT: tpc.matmul
// CHECK: tpc.slice {{.*}} dim 3 from 2
func.func @halves(%x: !x) -> (tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %q = tpc.slice %0 dim 1 from 0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  %1 = tpc.reshape %q : !x -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %2 = tpc.slice %1 dim 3 from 2 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
  return %1, %2 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
}

// With a constant bias, the second and third column of each head of three are sliced.
// CHECK-LABEL: @constant_bias
// CHECK: %[[B:.*]] = tpc.constant dense<[1.0{{.*}}, 2.0{{.*}}, 4.0{{.*}}, 5.0{{.*}}]> : tensor<4xf32>
// CHECK: tpc.matmul %arg0, %{{.*}} bias %[[B]]
// CHECK-NOT: tpc.slice
func.func @constant_bias(%x: !x) -> tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>> {
  %w = tpc.parameter @w view <0 [[8 x 24], [6 x 1]]> : tensor<8x6xf32>
  %b = tpc.constant dense<[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]> : tensor<6xf32> : tensor<6xf32>
  %0 = tpc.matmul %x, %w bias %b : !x, tensor<8x6xf32> bias tensor<6xf32> -> tensor<?x6xf32, #tpc.dist<[b*s, 6]>>
  %1 = tpc.reshape %0 : tensor<?x6xf32, #tpc.dist<[b*s, 6]>> -> tensor<?x?x2x3xf32, #tpc.dist<[b, s, 2, 3]>>
  %2 = tpc.slice %1 dim 3 from 1 : tensor<?x?x2x3xf32, #tpc.dist<[b, s, 2, 3]>> -> tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
  return %2 : tensor<?x?x2x2xf32, #tpc.dist<[b, s, 2, 2]>>
}

// Slices of slices, if the larger one has no other users.
// CHECK-LABEL: @slices_of_slices
// CHECK-DAG: tpc.parameter @w view <0 {{\[\[}}8 x 24], [2 x 4]]>
// CHECK-DAG: tpc.parameter @w view <1 {{\[\[}}8 x 24], [2 x 4, 3 x 1]]>
// CHECK-NOT: tpc.slice
func.func @slices_of_slices(%x: !x) -> (tensor<?x?x2x1xf32, #tpc.dist<[b, s, 2, 1]>>, tensor<?x?x2x3xf32, #tpc.dist<[b, s, 2, 3]>>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %q = tpc.slice %0 dim 1 from 0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  %1 = tpc.reshape %q : !x -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %2 = tpc.slice %1 dim 3 from 0 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x2x1xf32, #tpc.dist<[b, s, 2, 1]>>
  %3 = tpc.slice %1 dim 3 from 1 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x2x3xf32, #tpc.dist<[b, s, 2, 3]>>
  return %2, %3 : tensor<?x?x2x1xf32, #tpc.dist<[b, s, 2, 1]>>, tensor<?x?x2x3xf32, #tpc.dist<[b, s, 2, 3]>>
}

// MPT and DBRX clip Q, K and V together. Afterwards each is clipped separately.
// CHECK-LABEL: @clipped
// CHECK: %[[W:.*]] = tpc.parameter @w view <8 {{\[\[}}8 x 24], [8 x 1]]>
// CHECK: %[[P:.*]] = tpc.matmul %arg0, %[[W]]
// CHECK: %[[L:.*]] = tpc.max %[[P]], %{{.*}} -> tensor<?x8xf32
// CHECK: %[[H:.*]] = tpc.min %[[L]], %{{.*}} -> tensor<?x8xf32
// CHECK: %[[C:.*]] = tpc.cast %[[H]] {{.*}} -> tensor<?x8xf16
// CHECK: tpc.reshape %[[C]]
// CHECK-NOT: tpc.slice
func.func @clipped(%x: !x) -> tensor<?x?x2x4xf16, #tpc.dist<[b, s, 2, 4]>> {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %low = tpc.constant dense<-8.0> : tensor<f32> : tensor<f32>
  %high = tpc.constant dense<8.0> : tensor<1xf32> : tensor<1xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.max %0, %low : tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, tensor<f32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %2 = tpc.min %1, %high : tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, tensor<1xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %3 = tpc.cast %2 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x24xf16, #tpc.dist<[b*s, 24]>>
  %4 = tpc.slice %3 dim 1 from 8 : tensor<?x24xf16, #tpc.dist<[b*s, 24]>> -> tensor<?x8xf16, #tpc.dist<[b*s, 8]>>
  %5 = tpc.reshape %4 : tensor<?x8xf16, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf16, #tpc.dist<[b, s, 2, 4]>>
  return %5 : tensor<?x?x2x4xf16, #tpc.dist<[b, s, 2, 4]>>
}

// Unchanged: an op before the slice combines columns, or adds a value that differs between them.
// CHECK-LABEL: @mixed
// CHECK: tpc.softmax
// CHECK: tpc.slice
// CHECK: tpc.add
// CHECK: tpc.slice
func.func @mixed(%x: !x, %v: tensor<24xf32>) -> (!x, !x) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.softmax %0 dim 1 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %2 = tpc.slice %1 dim 1 from 8 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  %3 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %4 = tpc.add %3, %v : tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, tensor<24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %5 = tpc.slice %4 dim 1 from 8 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  return %2, %5 : !x, !x
}

// Unchanged: the whole result has other users, so a matmul for the slice would be an additional
// one.
// CHECK-LABEL: @used_whole
// CHECK: tpc.slice
func.func @used_whole(%x: !x) -> (tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, !x) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.slice %0 dim 1 from 8 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  return %0, %1 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>>, !x
}

// Slices that are concatenated again stay slices: a cyclic shift after a transpose, and blocks of
// columns in another order, with the first of them twice.
// CHECK-LABEL: @joined_again
// CHECK: tpc.matmul %arg0, %{{.*}} -> tensor<?x24xf32
// CHECK-COUNT-2: tpc.slice
// CHECK: tpc.matmul %arg0, %{{.*}} -> tensor<?x24xf32
// CHECK-COUNT-2: tpc.slice
// CHECK-NOT: tpc.matmul
// CHECK: return
func.func @joined_again(%x: !x) -> (tensor<24x?xf32, #tpc.dist<[24, b*s]>>, tensor<?x40xf32, #tpc.dist<[b*s, 40]>>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %1 = tpc.transpose %0 [1, 0] : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<24x?xf32, #tpc.dist<[24, b*s]>>
  %2 = tpc.slice %1 dim 0 from 6 : tensor<24x?xf32, #tpc.dist<[24, b*s]>> -> tensor<18x?xf32, #tpc.dist<[18, b*s]>>
  %3 = tpc.slice %1 dim 0 from 0 : tensor<24x?xf32, #tpc.dist<[24, b*s]>> -> tensor<6x?xf32, #tpc.dist<[6, b*s]>>
  %4 = tpc.concat %2, %3 dim 0 : tensor<18x?xf32, #tpc.dist<[18, b*s]>>, tensor<6x?xf32, #tpc.dist<[6, b*s]>> -> tensor<24x?xf32, #tpc.dist<[24, b*s]>>
  %5 = tpc.matmul %x, %w : !x, tensor<8x24xf32> -> tensor<?x24xf32, #tpc.dist<[b*s, 24]>>
  %6 = tpc.slice %5 dim 1 from 0 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> tensor<?x16xf32, #tpc.dist<[b*s, 16]>>
  %7 = tpc.slice %5 dim 1 from 16 : tensor<?x24xf32, #tpc.dist<[b*s, 24]>> -> !x
  %8 = tpc.concat %6, %7, %6 dim 1 : tensor<?x16xf32, #tpc.dist<[b*s, 16]>>, !x, tensor<?x16xf32, #tpc.dist<[b*s, 16]>> -> tensor<?x40xf32, #tpc.dist<[b*s, 40]>>
  return %4, %8 : tensor<24x?xf32, #tpc.dist<[24, b*s]>>, tensor<?x40xf32, #tpc.dist<[b*s, 40]>>
}

// Unchanged: slices of rows, and slices of a matmul of two activations.
// CHECK-LABEL: @not_columns
// CHECK-COUNT-2: tpc.slice
func.func @not_columns(%x: tensor<6x8xf32>, %y: tensor<8x4xf32>) -> (tensor<2x24xf32>, tensor<6x2xf32>) {
  %w = tpc.parameter @w : tensor<8x24xf32>
  %0 = tpc.matmul %x, %w : tensor<6x8xf32>, tensor<8x24xf32> -> tensor<6x24xf32>
  %1 = tpc.slice %0 dim 0 from 4 : tensor<6x24xf32> -> tensor<2x24xf32>
  %2 = tpc.matmul %x, %y : tensor<6x8xf32>, tensor<8x4xf32> -> tensor<6x4xf32>
  %3 = tpc.slice %2 dim 1 from 0 : tensor<6x4xf32> -> tensor<6x2xf32>
  return %1, %3 : tensor<2x24xf32>, tensor<6x2xf32>
}
