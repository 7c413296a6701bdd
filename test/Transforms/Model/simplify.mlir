// RUN: tpc-opt %s --tpc-simplify --split-input-file | FileCheck %s

!bsh = tensor<?x?x12xf32, #tpc.dist<[b, s, 12]>>
!heads = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>

// PyTorch's dynamo exporter reshapes keys to [b*3, s, 4] and back.
// CHECK-LABEL: @chain
// CHECK-NEXT: %[[R:.*]] = tpc.reshape %arg0 {{.*}} -> tensor<?x?x3x4xf32
// CHECK-NEXT: %[[T:.*]] = tpc.transpose %[[R]] [0, 2, 3, 1]
// CHECK-NEXT: return %[[T]]
func.func @chain(%x: !bsh) -> tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>> {
  %0 = tpc.reshape %x : !bsh -> tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>>
  %1 = tpc.transpose %0 [0, 2, 1, 3] : tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>> -> !heads
  %2 = tpc.reshape %1 : !heads -> tensor<?x?x4xf32, #tpc.dist<[3*b, s, 4]>>
  %3 = tpc.transpose %2 [0, 2, 1] : tensor<?x?x4xf32, #tpc.dist<[3*b, s, 4]>> -> tensor<?x4x?xf32, #tpc.dist<[3*b, 4, s]>>
  %4 = tpc.reshape %3 : tensor<?x4x?xf32, #tpc.dist<[3*b, 4, s]>> -> tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
  return %4 : tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
}

// A cast of repeated heads converts each head once.
// CHECK-LABEL: @cast_of_repeats
// CHECK: %[[C:.*]] = tpc.cast %arg0 : tensor<?x2x?x4xf16
// CHECK: tpc.expand
// CHECK-NOT: tpc.cast
func.func @cast_of_repeats(%x: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>) -> tensor<?x6x?x4xf32, #tpc.dist<[b, 6, s, 4]>> {
  %0 = tpc.reshape %x : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x1x?x4xf16, #tpc.dist<[b, 2, 1, s, 4]>>
  %1 = tpc.expand %0 : tensor<?x2x1x?x4xf16, #tpc.dist<[b, 2, 1, s, 4]>> -> tensor<?x2x3x?x4xf16, #tpc.dist<[b, 2, 3, s, 4]>>
  %2 = tpc.reshape %1 : tensor<?x2x3x?x4xf16, #tpc.dist<[b, 2, 3, s, 4]>> -> tensor<?x6x?x4xf16, #tpc.dist<[b, 6, s, 4]>>
  %3 = tpc.cast %2 : tensor<?x6x?x4xf16, #tpc.dist<[b, 6, s, 4]>> -> tensor<?x6x?x4xf32, #tpc.dist<[b, 6, s, 4]>>
  return %3 : tensor<?x6x?x4xf32, #tpc.dist<[b, 6, s, 4]>>
}

// Elements really move, so nothing is simplified.
// CHECK-LABEL: @needed
// CHECK: tpc.transpose
// CHECK: tpc.reshape
func.func @needed(%x: tensor<2x3x4xf32>) -> tensor<2x12xf32> {
  %0 = tpc.transpose %x [0, 2, 1] : tensor<2x3x4xf32> -> tensor<2x4x3xf32>
  %1 = tpc.reshape %0 : tensor<2x4x3xf32> -> tensor<2x12xf32>
  return %1 : tensor<2x12xf32>
}

// CHECK-LABEL: @cancels
// CHECK-NEXT: return %arg0
func.func @cancels(%x: !bsh) -> !bsh {
  %0 = tpc.transpose %x [2, 0, 1] : !bsh -> tensor<12x?x?xf32, #tpc.dist<[12, b, s]>>
  %1 = tpc.reshape %0 : tensor<12x?x?xf32, #tpc.dist<[12, b, s]>> -> tensor<3x4x?x?xf32, #tpc.dist<[3, 4, b, s]>>
  %2 = tpc.transpose %1 [2, 3, 0, 1] : tensor<3x4x?x?xf32, #tpc.dist<[3, 4, b, s]>> -> tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>>
  %3 = tpc.reshape %2 : tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>> -> !bsh
  return %3 : !bsh
}

// -----

tpc.weight @w in "w.bin" at 0 : tensor<64x192xf32>

// CHECK-LABEL: @views
// CHECK-NEXT: %[[P:.*]] = tpc.parameter @w view <64 {{\[\[}}64 x 1], [64 x 192]]> : tensor<64x64xf32>
// CHECK-NEXT: return %[[P]]
func.func @views() -> tensor<64x64xf32> {
  %0 = tpc.parameter @w : tensor<64x192xf32>
  %1 = tpc.slice %0 dim 1 from 64 : tensor<64x192xf32> -> tensor<64x64xf32>
  %2 = tpc.transpose %1 [1, 0] : tensor<64x64xf32> -> tensor<64x64xf32>
  return %2 : tensor<64x64xf32>
}

// 96 of 192 columns are reshaped to rows of 36. No factors express this, so the reshape stays.
// CHECK-LABEL: @no_view
// CHECK: tpc.parameter @w view
// CHECK: tpc.reshape
func.func @no_view() -> tensor<24x36xf32> {
  %0 = tpc.parameter @w : tensor<64x192xf32>
  %1 = tpc.slice %0 dim 0 from 0 : tensor<64x192xf32> -> tensor<9x192xf32>
  %2 = tpc.slice %1 dim 1 from 0 : tensor<9x192xf32> -> tensor<9x96xf32>
  %3 = tpc.reshape %2 : tensor<9x96xf32> -> tensor<24x36xf32>
  return %3 : tensor<24x36xf32>
}

// CHECK-LABEL: @gather_is_slice
// CHECK: %[[S:.*]] = tpc.slice %arg0 dim 1 from 2
// CHECK: tpc.reshape %[[S]]
func.func @gather_is_slice(%x: tensor<4x3x5xf32>) -> tensor<4x5xf32> {
  %i = tpc.constant dense<-1> : tensor<i64> : tensor<i64>
  %0 = tpc.gather %x, %i dim 1 : tensor<4x3x5xf32>, tensor<i64> -> tensor<4x5xf32>
  return %0 : tensor<4x5xf32>
}

// Indices of any shape that are evenly spaced become a slice.
// CHECK-LABEL: @gather_of_a_table
// CHECK: %[[S:.*]] = tpc.slice %arg0 dim 0 from 1 step 2
// CHECK: tpc.reshape %[[S]] {{.*}} -> tensor<2x2x5xf32>
func.func @gather_of_a_table(%x: tensor<9x5xf32>) -> tensor<2x2x5xf32> {
  %i = tpc.constant dense<[[1, 3], [5, 7]]> : tensor<2x2xi64> : tensor<2x2xi64>
  %0 = tpc.gather %x, %i dim 0 : tensor<9x5xf32>, tensor<2x2xi64> -> tensor<2x2x5xf32>
  return %0 : tensor<2x2x5xf32>
}

// A constant tuple with one coordinate, as torch.export writes x[[-2]], becomes a slice.
// CHECK-LABEL: @tuple
// CHECK: %[[S:.*]] = tpc.slice %arg0 dim 0 from 8
// CHECK: return %[[S]] : tensor<1x?x5xf32
func.func @tuple(%x: tensor<10x?x5xf32, #tpc.dist<[10, n, 5]>>) -> tensor<1x?x5xf32, #tpc.dist<[1, n, 5]>> {
  %i = tpc.constant dense<-2> : tensor<1x1xi64> : tensor<1x1xi64>
  %0 = tpc.gather_nd %x, %i : tensor<10x?x5xf32, #tpc.dist<[10, n, 5]>>, tensor<1x1xi64> -> tensor<1x?x5xf32, #tpc.dist<[1, n, 5]>>
  return %0 : tensor<1x?x5xf32, #tpc.dist<[1, n, 5]>>
}

// Constant tuples that differ in one coordinate become slices.
// CHECK-LABEL: @tuples
// CHECK: %[[A:.*]] = tpc.slice %arg0 dim 0 from 3
// CHECK: %[[R:.*]] = tpc.reshape %[[A]] {{.*}} -> tensor<6x5xf32>
// CHECK: %[[B:.*]] = tpc.slice %[[R]] dim 0 from 2 step 3
// CHECK: return %[[B]] : tensor<2x5xf32>
func.func @tuples(%x: tensor<4x6x5xf32>) -> tensor<2x5xf32> {
  %i = tpc.constant dense<[[-1, 2], [3, -1]]> : tensor<2x2xi64> : tensor<2x2xi64>
  %0 = tpc.gather_nd %x, %i : tensor<4x6x5xf32>, tensor<2x2xi64> -> tensor<2x5xf32>
  return %0 : tensor<2x5xf32>
}

// Each batch element has the same two tuples.
// CHECK-LABEL: @tuples_of_a_batch
// CHECK: tpc.slice %arg0 dim 1 from 1
// CHECK: tpc.expand {{.*}} -> tensor<3x2x5xf32>
// CHECK-NOT: tpc.gather_nd
func.func @tuples_of_a_batch(%x: tensor<3x4x5xf32>) -> tensor<3x2x5xf32> {
  %i = tpc.constant dense<1> : tensor<3x2x1xi64> : tensor<3x2x1xi64>
  %0 = tpc.gather_nd %x, %i batch 1 : tensor<3x4x5xf32>, tensor<3x2x1xi64> -> tensor<3x2x5xf32>
  return %0 : tensor<3x2x5xf32>
}

// Tuples that differ in two coordinates, or are not constant.
// CHECK-LABEL: @tuples_that_stay
// CHECK-COUNT-2: tpc.gather_nd
func.func @tuples_that_stay(%x: tensor<4x6x5xf32>) -> (tensor<2x5xf32>, tensor<1x6x5xf32>) {
  %i = tpc.constant dense<[[0, 2], [1, 3]]> : tensor<2x2xi64> : tensor<2x2xi64>
  %k = tpc.constant dense<4> : tensor<1x1xi64> : tensor<1x1xi64>
  %0 = tpc.gather_nd %x, %i : tensor<4x6x5xf32>, tensor<2x2xi64> -> tensor<2x5xf32>
  %1 = tpc.gather_nd %x, %k : tensor<4x6x5xf32>, tensor<1x1xi64> -> tensor<1x6x5xf32>
  return %0, %1 : tensor<2x5xf32>, tensor<1x6x5xf32>
}

// CHECK-LABEL: @gather_is_no_slice
// CHECK: tpc.gather
func.func @gather_is_no_slice(%x: tensor<4x3x5xf32>) -> tensor<4x3x5xf32> {
  %i = tpc.constant dense<[0, 2, 1]> : tensor<3xi64> : tensor<3xi64>
  %0 = tpc.gather %x, %i dim 1 : tensor<4x3x5xf32>, tensor<3xi64> -> tensor<4x3x5xf32>
  return %0 : tensor<4x3x5xf32>
}

// -----

!x = tensor<?x8xf32, #tpc.dist<[n, 8]>>

// sqrt(sqrt(16)) * x / 2 - 0 is x.
// CHECK-LABEL: @arithmetic
// CHECK-NEXT: return %arg0
func.func @arithmetic(%x: !x) -> !x {
  %size = tpc.size 16 : tensor<i64>
  %f = tpc.cast %size : tensor<i64> -> tensor<f32>
  %r = tpc.sqrt %f : tensor<f32> -> tensor<f32>
  %two = tpc.sqrt %r : tensor<f32> -> tensor<f32>
  %half = tpc.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %one = tpc.mul %two, %half : tensor<f32>, tensor<1xf32> -> tensor<1xf32>
  %zero = tpc.sub %one, %one : tensor<1xf32>, tensor<1xf32> -> tensor<1xf32>
  %0 = tpc.mul %one, %x : tensor<1xf32>, !x -> !x
  %1 = tpc.sub %0, %zero : !x, tensor<1xf32> -> !x
  return %1 : !x
}

// -0 + 0 is 0, and so is -0 - -0. So an addition of zero stays if its result is an output, or if a
// later op distinguishes the two zeros. Matmuls, softmax and comparisons do not distinguish them.
// CHECK-LABEL: @visible_zeros
// CHECK: %[[OUT:.*]] = tpc.add %arg0
// CHECK: %[[OTHER:.*]] = tpc.sub %arg0
// CHECK: %[[D:.*]] = tpc.add %arg0
// CHECK: %[[MOVED:.*]] = tpc.reshape %[[D]]
// CHECK: tpc.div %{{.*}}, %{{.*}}
// CHECK: return %[[OUT]], %[[OTHER]]
func.func @visible_zeros(%x: !x) -> (!x, !x, tensor<?xf32, #tpc.dist<[n * 8]>>) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %minus = tpc.constant dense<-0.0> : tensor<f32> : tensor<f32>
  %one = tpc.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = tpc.add %x, %zero : !x, tensor<f32> -> !x
  %1 = tpc.sub %x, %minus : !x, tensor<f32> -> !x
  %2 = tpc.add %zero, %x : tensor<f32>, !x -> !x
  %3 = tpc.reshape %2 : !x -> tensor<?xf32, #tpc.dist<[n * 8]>>
  %4 = tpc.sin %3 : tensor<?xf32, #tpc.dist<[n * 8]>> -> tensor<?xf32, #tpc.dist<[n * 8]>>
  %5 = tpc.div %one, %4 : tensor<f32>, tensor<?xf32, #tpc.dist<[n * 8]>> -> tensor<?xf32, #tpc.dist<[n * 8]>>
  return %0, %1, %5 : !x, !x, tensor<?xf32, #tpc.dist<[n * 8]>>
}

// CHECK-LABEL: @invisible_zeros
// CHECK-NOT: tpc.add
// CHECK-NOT: tpc.sub
// CHECK: return %arg0, %arg0
func.func @invisible_zeros(%x: !x, %w: tensor<8x3xf32>)
    -> (!x, !x, tensor<?x3xf32, #tpc.dist<[n, 3]>>, !x, tensor<?x8xi1, #tpc.dist<[n, 8]>>) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %minus = tpc.constant dense<-0.0> : tensor<f32> : tensor<f32>
  %0 = tpc.add %x, %minus : !x, tensor<f32> -> !x
  %1 = tpc.sub %x, %zero : !x, tensor<f32> -> !x
  %2 = tpc.add %x, %zero : !x, tensor<f32> -> !x
  %3 = tpc.matmul %2, %w : !x, tensor<8x3xf32> -> tensor<?x3xf32, #tpc.dist<[n, 3]>>
  %4 = tpc.softmax %2 dim 1 : !x -> !x
  %5 = tpc.neg %2 : !x -> !x
  %6 = tpc.cmp lt %5, %zero : !x, tensor<f32> -> tensor<?x8xi1, #tpc.dist<[n, 8]>>
  return %0, %1, %3, %4, %6 : !x, !x, tensor<?x3xf32, #tpc.dist<[n, 3]>>, !x, tensor<?x8xi1, #tpc.dist<[n, 8]>>
}

// Unchanged: x * 0, which is not zero for infinities, and 0 - x.
// CHECK-LABEL: @not_neutral
// CHECK: tpc.mul
// CHECK: tpc.sub
func.func @not_neutral(%x: !x) -> (!x, !x) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %0 = tpc.mul %x, %zero : !x, tensor<f32> -> !x
  %1 = tpc.sub %zero, %x : tensor<f32>, !x -> !x
  return %0, %1 : !x, !x
}

// CHECK-LABEL: @pow
// CHECK: %[[S:.*]] = tpc.mul %arg0, %arg0
// CHECK: tpc.mul %[[S]], %arg0
// CHECK: tpc.sqrt
// CHECK: tpc.pow
func.func @pow(%x: !x) -> (!x, !x, !x) {
  %three = tpc.constant dense<3.0> : tensor<f32> : tensor<f32>
  %half = tpc.constant dense<0.5> : tensor<f32> : tensor<f32>
  %other = tpc.constant dense<2.5> : tensor<f32> : tensor<f32>
  %0 = tpc.pow %x, %three : !x, tensor<f32> -> !x
  %1 = tpc.pow %x, %half : !x, tensor<f32> -> !x
  %2 = tpc.pow %x, %other : !x, tensor<f32> -> !x
  return %0, %1, %2 : !x, !x, !x
}

// Casts from bool to int to bool are removed. Casts from float to int to float truncate fractions
// and stay.
// CHECK-LABEL: @casts
// CHECK-NEXT: %[[I:.*]] = tpc.cast %arg1
// CHECK-NEXT: %[[F:.*]] = tpc.cast %[[I]]
// CHECK-NEXT: return %arg0, %[[F]]
func.func @casts(%p: tensor<4xi1>, %f: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>) {
  %0 = tpc.cast %p : tensor<4xi1> -> tensor<4xi64>
  %1 = tpc.cast %0 : tensor<4xi64> -> tensor<4xi1>
  %2 = tpc.cast %f : tensor<4xf32> -> tensor<4xi64>
  %3 = tpc.cast %2 : tensor<4xi64> -> tensor<4xf32>
  return %1, %3 : tensor<4xi1>, tensor<4xf32>
}

// The op would broadcast %m itself, so its expand is removed. That of %c is needed.
// CHECK-LABEL: @broadcast
// CHECK-NEXT: tpc.add %arg0, %arg1
// CHECK-NEXT: tpc.expand %arg2
func.func @broadcast(%x: tensor<4x8xf32>, %m: tensor<8xf32>, %c: tensor<1x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0 = tpc.expand %m : tensor<8xf32> -> tensor<4x8xf32>
  %1 = tpc.add %x, %0 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.expand %c : tensor<1x8xf32> -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// -----

tpc.weight @w in "w.bin" at 0 : tensor<8x6xf32>
tpc.weight @b in "w.bin" at 192 : tensor<6xf32>

// CHECK-LABEL: @bias
// CHECK: %[[M:.*]] = tpc.matmul %arg0, %{{.*}} bias %
// CHECK: tpc.reshape %[[M]]
// CHECK-NOT: tpc.add
func.func @bias(%x: tensor<10x8xf32>) -> tensor<2x5x6xf32> {
  %w = tpc.parameter @w : tensor<8x6xf32>
  %b = tpc.parameter @b : tensor<6xf32>
  %0 = tpc.matmul %x, %w : tensor<10x8xf32>, tensor<8x6xf32> -> tensor<10x6xf32>
  %1 = tpc.reshape %0 : tensor<10x6xf32> -> tensor<2x5x6xf32>
  %2 = tpc.add %b, %1 : tensor<6xf32>, tensor<2x5x6xf32> -> tensor<2x5x6xf32>
  return %2 : tensor<2x5x6xf32>
}

// Not a bias: a residual, and an addend of only one of a matmul's two uses.
// CHECK-LABEL: @no_bias
// CHECK-NOT: bias
func.func @no_bias(%x: tensor<10x8xf32>, %r: tensor<6xf32>) -> (tensor<10x6xf32>, tensor<10x6xf32>, tensor<10x6xf32>) {
  %w = tpc.parameter @w : tensor<8x6xf32>
  %p = tpc.parameter @b : tensor<6xf32>
  %0 = tpc.matmul %x, %w : tensor<10x8xf32>, tensor<8x6xf32> -> tensor<10x6xf32>
  %1 = tpc.add %0, %r : tensor<10x6xf32>, tensor<6xf32> -> tensor<10x6xf32>
  %2 = tpc.add %0, %p : tensor<10x6xf32>, tensor<6xf32> -> tensor<10x6xf32>
  return %0, %1, %2 : tensor<10x6xf32>, tensor<10x6xf32>, tensor<10x6xf32>
}

// -----

// Scores are computed by matmuls of [b*H, s, d].
// CHECK-LABEL: @merged_batch
// CHECK: %[[P:.*]] = tpc.matmul {{.*}} -> tensor<?x3x?x?xf32
// CHECK: %[[S:.*]] = tpc.softmax %[[P]] dim 3
// CHECK: tpc.reshape %[[S]] {{.*}} -> tensor<?x?x?xf32
func.func @merged_batch(%q: tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>, %k: tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>) -> tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>> {
  %0 = tpc.reshape %q : tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>> -> tensor<?x?x4xf32, #tpc.dist<[3*b, s, 4]>>
  %1 = tpc.reshape %k : tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>> -> tensor<?x4x?xf32, #tpc.dist<[3*b, 4, s]>>
  %2 = tpc.matmul %0, %1 : tensor<?x?x4xf32, #tpc.dist<[3*b, s, 4]>>, tensor<?x4x?xf32, #tpc.dist<[3*b, 4, s]>> -> tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>>
  %3 = tpc.softmax %2 dim 2 : tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>> -> tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>>
  return %3 : tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>>
}

// -----

// mask[rows, columns] with all rows and columns is the mask.
// CHECK-LABEL: @gather_own_place
// CHECK-NEXT: return %arg0
func.func @gather_own_place(%mask: tensor<?x?xi1, #tpc.dist<[b, s]>>) -> tensor<?x?xi1, #tpc.dist<[b, s]>> {
  %r = tpc.iota dim 0 : tensor<?x?x1xi64, #tpc.dist<[b, s, 1]>>
  %c = tpc.iota dim 1 : tensor<?x?x1xi64, #tpc.dist<[b, s, 1]>>
  %i = tpc.concat %r, %c dim 2 : tensor<?x?x1xi64, #tpc.dist<[b, s, 1]>>, tensor<?x?x1xi64, #tpc.dist<[b, s, 1]>> -> tensor<?x?x2xi64, #tpc.dist<[b, s, 2]>>
  %0 = tpc.gather_nd %mask, %i : tensor<?x?xi1, #tpc.dist<[b, s]>>, tensor<?x?x2xi64, #tpc.dist<[b, s, 2]>> -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  return %0 : tensor<?x?xi1, #tpc.dist<[b, s]>>
}

// -----

// mask[columns, rows] is the transposed mask, which is not the mask even if both sizes are equal.
// CHECK-LABEL: @gather_other_place
// CHECK: tpc.gather_nd
func.func @gather_other_place(%mask: tensor<?x?xi1, #tpc.dist<[s, s]>>) -> tensor<?x?xi1, #tpc.dist<[s, s]>> {
  %r = tpc.iota dim 0 : tensor<?x?x1xi64, #tpc.dist<[s, s, 1]>>
  %c = tpc.iota dim 1 : tensor<?x?x1xi64, #tpc.dist<[s, s, 1]>>
  %i = tpc.concat %c, %r dim 2 : tensor<?x?x1xi64, #tpc.dist<[s, s, 1]>>, tensor<?x?x1xi64, #tpc.dist<[s, s, 1]>> -> tensor<?x?x2xi64, #tpc.dist<[s, s, 2]>>
  %0 = tpc.gather_nd %mask, %i : tensor<?x?xi1, #tpc.dist<[s, s]>>, tensor<?x?x2xi64, #tpc.dist<[s, s, 2]>> -> tensor<?x?xi1, #tpc.dist<[s, s]>>
  return %0 : tensor<?x?xi1, #tpc.dist<[s, s]>>
}

// -----

// OPT computes positions in f32, as a running sum of ones, minus 1.
// CHECK-LABEL: @counted_in_floats
// CHECK-NOT: tpc.cumsum
// CHECK-DAG: %[[I:.*]] = tpc.iota dim 1 : tensor<?x?xi64
// CHECK-DAG: %[[TWO:.*]] = tpc.constant dense<2> : tensor<i64>
// CHECK: %[[P:.*]] = tpc.add %[[I]], %[[TWO]]
// CHECK-NEXT: return %[[P]]
func.func @counted_in_floats() -> tensor<?x?xi64, #tpc.dist<[b, s]>> {
  %one = tpc.constant dense<1.0> : tensor<f32> : tensor<f32>
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %ones = tpc.expand %one : tensor<f32> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %sum = tpc.cumsum %ones dim 1 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %0 = tpc.sub %sum, %one : tensor<?x?xf32, #tpc.dist<[b, s]>>, tensor<f32> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %1 = tpc.cast %0 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  %2 = tpc.add %1, %two : tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<i64> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  return %2 : tensor<?x?xi64, #tpc.dist<[b, s]>>
}

// -----

// With a past, positions are the last ones of the running sum over all tokens.
// CHECK-LABEL: @counted_behind_a_past
// CHECK-NOT: tpc.cumsum
// CHECK-NOT: tpc.slice
// CHECK-DAG: %[[I:.*]] = tpc.iota dim 1 : tensor<?x?xi64, #tpc.dist<[b, s]>>
// CHECK-DAG: %[[P:.*]] = tpc.size "p + 1" : tensor<i64>
// CHECK: %[[R:.*]] = tpc.add %[[I]], %[[P]]
// CHECK-NEXT: return %[[R]]
func.func @counted_behind_a_past() -> tensor<?x?xi64, #tpc.dist<[b, s]>> {
  %one = tpc.constant dense<1.0> : tensor<f32> : tensor<f32>
  %ones = tpc.expand %one : tensor<f32> -> tensor<?x?xf32, #tpc.dist<[b, "p + s"]>>
  %sum = tpc.cumsum %ones dim 1 : tensor<?x?xf32, #tpc.dist<[b, "p + s"]>> -> tensor<?x?xf32, #tpc.dist<[b, "p + s"]>>
  %0 = tpc.slice %sum dim 1 from p : tensor<?x?xf32, #tpc.dist<[b, "p + s"]>> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %1 = tpc.cast %0 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  return %1 : tensor<?x?xi64, #tpc.dist<[b, s]>>
}

// -----

// 16-bit floats count only to 256 (bf16) or 2048 (f16).
// CHECK-LABEL: @counted_in_halves
// CHECK: tpc.cumsum
func.func @counted_in_halves() -> tensor<?x?xi64, #tpc.dist<[b, s]>> {
  %one = tpc.constant dense<1.0> : tensor<bf16> : tensor<bf16>
  %ones = tpc.expand %one : tensor<bf16> -> tensor<?x?xbf16, #tpc.dist<[b, s]>>
  %sum = tpc.cumsum %ones dim 1 : tensor<?x?xbf16, #tpc.dist<[b, s]>> -> tensor<?x?xbf16, #tpc.dist<[b, s]>>
  %0 = tpc.cast %sum : tensor<?x?xbf16, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  return %0 : tensor<?x?xi64, #tpc.dist<[b, s]>>
}

// -----

// Unchanged: running sums of a mask, of twos, and of halves (which are truncated) are no iota.
// CHECK-LABEL: @sums_that_stay
// CHECK-COUNT-3: tpc.cumsum
func.func @sums_that_stay(%mask: tensor<?x?xf32, #tpc.dist<[b, s]>>) -> (tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<?x?xi64, #tpc.dist<[b, s]>>) {
  %two = tpc.constant dense<2.0> : tensor<f32> : tensor<f32>
  %half = tpc.constant dense<0.5> : tensor<f32> : tensor<f32>
  %twos = tpc.expand %two : tensor<f32> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %halves = tpc.expand %half : tensor<f32> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %0 = tpc.cumsum %mask dim 1 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %1 = tpc.cumsum %twos dim 1 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %2 = tpc.cumsum %halves dim 1 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xf32, #tpc.dist<[b, s]>>
  %3 = tpc.cast %0 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  %4 = tpc.cast %1 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  %5 = tpc.cast %2 : tensor<?x?xf32, #tpc.dist<[b, s]>> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  return %3, %4, %5 : tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<?x?xi64, #tpc.dist<[b, s]>>
}

// -----

// A norm of each head, where heads are merged with tokens.
// CHECK-LABEL: @norm_of_heads
// CHECK: %[[X:.*]] = tpc.reshape %arg0 : {{.*}} -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
// CHECK: %[[Y:.*]] = tpc.rms_norm %[[X]]
// CHECK: return %[[Y]]
func.func @norm_of_heads(%x: tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, %scale: tensor<4xf32>) -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> {
  %0 = tpc.reshape %x : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> -> tensor<?x?x4xf32, #tpc.dist<[b, "2*s", 4]>>
  %1 = tpc.rms_norm %0, %scale epsilon 1.0e-5 : tensor<?x?x4xf32, #tpc.dist<[b, "2*s", 4]>>, tensor<4xf32> -> tensor<?x?x4xf32, #tpc.dist<[b, "2*s", 4]>>
  %2 = tpc.reshape %1 : tensor<?x?x4xf32, #tpc.dist<[b, "2*s", 4]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  return %2 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
}
