// RUN: tpc-opt %s --tpc-localize --tpc-optimize-collectives | FileCheck %s

// Before the pass, types are global, as tpc-lower-reshards leaves them.
!x = tensor<32x8xf32>
!tp = tensor<32x8xf32, #tpc.dist<[32{tp}, 8]>>
!cp = tensor<32x8xf32, #tpc.dist<[32{cp}, 8]>>
!sum = tensor<32x8xf32, #tpc.dist<[32, 8], sum{tp}>>

module attributes {tpc.mesh = #tpc.mesh<tp = 4, cp = 2, pp = 1, mb = 2>} {

// CHECK-LABEL: @reduce_and_slice
// CHECK-NEXT: %[[R:.*]] = tpc.reduce_scatter %arg0 over ["tp"] dim 0
// CHECK-NEXT: return %[[R]]
func.func @reduce_and_slice(%x: !sum) -> !tp {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : !x -> !tp
  return %1 : !tp
}

// Another user needs the whole value, so the all-reduce stays and the slice costs nothing.
// CHECK-LABEL: @reduce_and_slice_of_two
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce
// CHECK-NEXT: %[[S:.*]] = tpc.local_slice %[[R]]
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @reduce_and_slice_of_two(%x: !sum) -> (!x, !tp) {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.local_slice %0 over ["tp"] dim 0 : !x -> !tp
  return %0, %1 : !x, !tp
}

// A scatter and a gather become one all-reduce, with equal bytes and one collective less.
// CHECK-LABEL: @scatter_and_gather
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce
// CHECK-NEXT: %[[S:.*]] = tpc.local_slice %[[R]]
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @scatter_and_gather(%x: !sum) -> (!x, !tp) {
  %0 = tpc.reduce_scatter %x over ["tp"] dim 0 : !sum -> !tp
  %1 = tpc.all_gather %0 over ["tp"] dim 0 : !tp -> !x
  return %1, %0 : !x, !tp
}

// CHECK-LABEL: @slice_and_gather
// CHECK-NEXT: return %arg0, %arg1
func.func @slice_and_gather(%x: !x, %y: !tp) -> (!x, !tp) {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : !x -> !tp
  %1 = tpc.all_gather %0 over ["tp"] dim 0 : !tp -> !x
  %2 = tpc.all_gather %y over ["tp"] dim 0 : !tp -> !x
  %3 = tpc.local_slice %2 over ["tp"] dim 0 : !x -> !tp
  return %1, %3 : !x, !tp
}

// CHECK-LABEL: @gather_and_slice_elsewhere
// CHECK-NEXT: %[[A:.*]] = tpc.all_to_all %arg0 over ["tp"] from 0 to 1
// CHECK-NEXT: return %[[A]]
func.func @gather_and_slice_elsewhere(%x: !tp) -> tensor<32x8xf32, #tpc.dist<[32, 8{tp}]>> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.local_slice %0 over ["tp"] dim 1 : !x -> tensor<32x8xf32, #tpc.dist<[32, 8{tp}]>>
  return %1 : tensor<32x8xf32, #tpc.dist<[32, 8{tp}]>>
}

// Micro-batches are sliced and never gathered.
// CHECK-LABEL: @micro_batches
// CHECK-NEXT: tpc.local_slice %arg0 over ["mb"] dim 0
// CHECK-NEXT: return
func.func @micro_batches(%x: !x) -> tensor<32x8xf32, #tpc.dist<[32{mb}, 8]>> {
  %0 = tpc.local_slice %x over ["tp"] dim 1 : !x -> tensor<32x8xf32, #tpc.dist<[32, 8{tp}]>>
  %1 = tpc.local_slice %0 over ["mb"] dim 0 : tensor<32x8xf32, #tpc.dist<[32, 8{tp}]>> -> tensor<32x8xf32, #tpc.dist<[32{mb}, 8{tp}]>>
  %2 = tpc.all_gather %1 over ["tp"] dim 1 : tensor<32x8xf32, #tpc.dist<[32{mb}, 8{tp}]>> -> tensor<32x8xf32, #tpc.dist<[32{mb}, 8]>>
  return %2 : tensor<32x8xf32, #tpc.dist<[32{mb}, 8]>>
}

// CHECK-LABEL: @dead_and_duplicate
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather
// CHECK-NEXT: return %[[G]], %[[G]]
func.func @dead_and_duplicate(%x: !tp, %y: !sum) -> (!x, !x) {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %2 = tpc.all_reduce %y over ["tp"] : !sum -> !x
  return %0, %1 : !x, !x
}

// Collectives of the same operand over different axes are not duplicates.
// CHECK-LABEL: @other_axes
// CHECK-DAG: tpc.all_reduce %arg0 over ["tp"]
// CHECK-DAG: tpc.all_reduce %arg0 over ["cp"]
// CHECK: return
func.func @other_axes(%x: tensor<8xf32, #tpc.dist<[8], sum{tp, cp}>>) -> (tensor<8xf32, #tpc.dist<[8], sum{cp}>>, tensor<8xf32, #tpc.dist<[8], sum{tp}>>) {
  %0 = tpc.all_reduce %x over ["tp"] : tensor<8xf32, #tpc.dist<[8], sum{tp, cp}>> -> tensor<8xf32, #tpc.dist<[8], sum{cp}>>
  %1 = tpc.all_reduce %x over ["cp"] : tensor<8xf32, #tpc.dist<[8], sum{tp, cp}>> -> tensor<8xf32, #tpc.dist<[8], sum{tp}>>
  return %0, %1 : tensor<8xf32, #tpc.dist<[8], sum{cp}>>, tensor<8xf32, #tpc.dist<[8], sum{tp}>>
}

// CHECK-LABEL: @gathers_meet
// CHECK-NEXT: %[[E:.*]] = tpc.exp %arg0
// CHECK-NEXT: %[[A:.*]] = tpc.add %[[E]], %arg1
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %[[A]] over ["tp"] dim 0
// CHECK-NEXT: return %[[G]]
func.func @gathers_meet(%x: !tp, %y: !tp) -> !x {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.all_gather %y over ["tp"] dim 0 : !tp -> !x
  %2 = tpc.exp %0 : !x -> !x
  %3 = tpc.add %2, %1 : !x, !x -> !x
  return %3 : !x
}

// A gather after the addition saves nothing if the operands are gathered over different axes, or
// have other users.
// CHECK-LABEL: @gathers_do_not_meet
// CHECK: tpc.all_gather %arg0 over ["tp"]
// CHECK: tpc.all_gather %arg1 over ["cp"]
// CHECK: tpc.add
// CHECK-NEXT: return
func.func @gathers_do_not_meet(%x: !tp, %y: !cp) -> !x {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.all_gather %y over ["cp"] dim 0 : !cp -> !x
  %2 = tpc.add %0, %1 : !x, !x -> !x
  return %2 : !x
}
// CHECK-LABEL: @gather_is_shared
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather
// CHECK-NEXT: tpc.exp %[[G]]
// CHECK-NEXT: tpc.tanh %[[G]]
// CHECK-NEXT: return
func.func @gather_is_shared(%x: !tp) -> (!x, !x) {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.exp %0 : !x -> !x
  %2 = tpc.tanh %0 : !x -> !x
  return %1, %2 : !x, !x
}

// The gather does not move after a column-parallel matmul, which splits columns over the same axis.
// CHECK-LABEL: @column_parallel
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %arg0
// CHECK-NEXT: tpc.matmul %[[G]], %arg1
// CHECK-NEXT: return
func.func @column_parallel(%x: !tp, %w: tensor<8x64xf32, #tpc.dist<[8, 64{tp}]>>) -> tensor<32x64xf32, #tpc.dist<[32, 64{tp}]>> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.matmul %0, %w : !x, tensor<8x64xf32, #tpc.dist<[8, 64{tp}]>> -> tensor<32x64xf32, #tpc.dist<[32, 64{tp}]>>
  return %1 : tensor<32x64xf32, #tpc.dist<[32, 64{tp}]>>
}

// The gather moves to that side of a cast that has the narrower type.
// CHECK-LABEL: @casts
// CHECK-NEXT: %[[C:.*]] = tpc.cast %arg0
// CHECK-NEXT: tpc.all_gather %[[C]] {{.*}} -> tensor<32x8xf16>
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %arg1 {{.*}} -> tensor<32x8xf32>
// CHECK-NEXT: tpc.cast %[[G]]
// CHECK-NEXT: return
func.func @casts(%x: !tp, %y: !tp) -> (tensor<32x8xf16>, tensor<32x8xf64>) {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.cast %0 : !x -> tensor<32x8xf16>
  %2 = tpc.all_gather %y over ["tp"] dim 0 : !tp -> !x
  %3 = tpc.cast %2 : !x -> tensor<32x8xf64>
  return %1, %3 : tensor<32x8xf16>, tensor<32x8xf64>
}

// If a matmul has few columns, each rank multiplies its tokens, and the small result is gathered.
// If the result is larger than the operand, the operand is gathered.
// CHECK-LABEL: @products
// CHECK-NEXT: %[[P:.*]] = tpc.matmul %arg0, %arg1
// CHECK-NEXT: tpc.all_gather %[[P]] {{.*}} -> tensor<32x2xf32>
// CHECK-NEXT: %[[G:.*]] = tpc.all_gather %arg3
// CHECK-NEXT: tpc.matmul %[[G]], %arg2
// CHECK-NEXT: return
func.func @products(%x: !tp, %w: tensor<8x2xf32>, %v: tensor<8x64xf32>, %y: !tp) -> (tensor<32x2xf32>, tensor<32x64xf32>) {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.matmul %0, %w : !x, tensor<8x2xf32> -> tensor<32x2xf32>
  %2 = tpc.all_gather %y over ["tp"] dim 0 : !tp -> !x
  %3 = tpc.matmul %2, %v : !x, tensor<8x64xf32> -> tensor<32x64xf32>
  return %1, %3 : tensor<32x2xf32>, tensor<32x64xf32>
}

// A sum over the gathered dimension: each rank sums its shard, and the sums are reduced.
// CHECK-LABEL: @gather_and_reduce
// CHECK-NEXT: %[[S:.*]] = tpc.reduce sum %arg0 [0] {{.*}} -> tensor<8xf32, #tpc.dist<[8], sum{tp}, local>>
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce %[[S]] over ["tp"]
// CHECK-NEXT: return %[[R]]
func.func @gather_and_reduce(%x: !tp) -> tensor<8xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.reduce sum %0 [0] : !x -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// The mean of a shard is not a partial mean of the whole.
// CHECK-LABEL: @gather_and_mean
// CHECK-NEXT: tpc.all_gather
// CHECK-NEXT: tpc.reduce mean
// CHECK-NEXT: return
func.func @gather_and_mean(%x: !tp) -> tensor<8xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.reduce mean %0 [0] : !x -> tensor<8xf32>
  return %1 : tensor<8xf32>
}

// CHECK-LABEL: @reductions_meet
// CHECK-NEXT: %[[A:.*]] = tpc.add %arg0, %arg1
// CHECK-NEXT: %[[R:.*]] = tpc.all_reduce %[[A]] over ["tp"]
// CHECK-NEXT: %[[B:.*]] = tpc.sub %arg0, %arg1
// CHECK-NEXT: %[[S:.*]] = tpc.reduce_scatter %[[B]] over ["tp"] dim 0
// CHECK-NEXT: return %[[R]], %[[S]]
func.func @reductions_meet(%x: !sum, %y: !sum) -> (!x, !tp) {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.all_reduce %y over ["tp"] : !sum -> !x
  %2 = tpc.add %0, %1 : !x, !x -> !x
  %3 = tpc.reduce_scatter %x over ["tp"] dim 0 : !sum -> !tp
  %4 = tpc.reduce_scatter %y over ["tp"] dim 0 : !sum -> !tp
  %5 = tpc.sub %3, %4 : !tp, !tp -> !tp
  return %2, %5 : !x, !tp
}

// The all-reduce does not move after a multiplication of two sums, nor after a bias, which is added
// once.
// CHECK-LABEL: @not_linear
// CHECK-NEXT: %[[A:.*]] = tpc.all_reduce %arg0
// CHECK-NEXT: %[[B:.*]] = tpc.all_reduce %arg1
// CHECK-NEXT: tpc.mul %[[A]], %[[B]]
// CHECK-NEXT: tpc.add
// CHECK-NEXT: return
func.func @not_linear(%x: !sum, %y: !sum, %b: tensor<8xf32>) -> !x {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.all_reduce %y over ["tp"] : !sum -> !x
  %2 = tpc.mul %0, %1 : !x, !x -> !x
  %3 = tpc.add %2, %b : !x, tensor<8xf32> -> !x
  return %3 : !x
}

// A reduction is not applied to elements that are sliced away.
// CHECK-LABEL: @slice_of_reduced
// CHECK-NEXT: %[[S:.*]] = tpc.slice %arg0 dim 0 from 31
// CHECK-NEXT: tpc.all_reduce %[[S]]
// CHECK-NEXT: return
func.func @slice_of_reduced(%x: !sum) -> tensor<1x8xf32> {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.slice %0 dim 0 from 31 : !x -> tensor<1x8xf32>
  return %1 : tensor<1x8xf32>
}

// A rank cannot shift its shard without other ranks' elements.
// CHECK-LABEL: @shift_of_gathered
// CHECK-NEXT: tpc.all_gather
// CHECK-NEXT: tpc.roll
// CHECK-NEXT: return
func.func @shift_of_gathered(%x: !tp) -> !x {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.roll %0 dim 0 from 1 every 32 : !x -> !x
  return %1 : !x
}

// Partial sums keep the type in which they were computed.
// CHECK-LABEL: @cast_of_reduced
// CHECK-NEXT: tpc.all_reduce
// CHECK-NEXT: tpc.cast
// CHECK-NEXT: return
func.func @cast_of_reduced(%x: !sum) -> tensor<32x8xf16> {
  %0 = tpc.all_reduce %x over ["tp"] : !sum -> !x
  %1 = tpc.cast %0 : !x -> tensor<32x8xf16>
  return %1 : tensor<32x8xf16>
}

// An op combines a gathered and a replicated value. Each rank computes it on shards, and its result
// is gathered, unless the result is larger than the gathered operand.
// CHECK-LABEL: @slices_the_other
// CHECK-NEXT: %[[L:.*]] = tpc.local_slice %arg1 over ["tp"] dim 0
// CHECK-NEXT: %[[C:.*]] = tpc.cmp {{.*}}%arg0, %[[L]]
// CHECK-NEXT: tpc.all_gather %[[C]]
// CHECK-NEXT: return
func.func @slices_the_other(%x: !tp, %y: !x) -> tensor<32x8xi1> {
  %0 = tpc.all_gather %x over ["tp"] dim 0 : !tp -> !x
  %1 = tpc.cmp lt %0, %y : !x, !x -> tensor<32x8xi1>
  return %1 : tensor<32x8xi1>
}
}
