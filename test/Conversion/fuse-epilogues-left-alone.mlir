// RUN: tpc-opt %s --tpc-fuse-epilogues | FileCheck %s

// Ops that resemble epilogues but cannot be fused, and the form of operands that the library needs.
!part = tensor<2x1xf32, #tpc.dist<[2, 1], sum{tp}, local>>
!partial = tensor<2x5xf32, #tpc.dist<[2, 5], sum{tp}, local>>
!rows = tensor<1x12x2x4xf32, #tpc.dist<[1, 3*8{tp}, 2, 4], local>>
!keys = tensor<1x?x2x4xf32, #tpc.dist<[1, all, 2, 4], local>>
!mask = tensor<1x1x12x?xi1, #tpc.dist<[1, 1, 3*8{tp}, all], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @w in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @b in "w.bin" at 256 : tensor<8xf32>
tpc.weight @c in "w.bin" at 288 : tensor<8xf32>

// A matmul adds one bias, and this one already has one.
// CHECK-LABEL: @one_bias
// CHECK: tpc.matmul %{{.*}} bias
// CHECK-NOT: tpc.fused
func.func private @one_bias(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %b = tpc.parameter @b : tensor<8xf32>
  %c = tpc.parameter @c : tensor<8xf32>
  %0 = tpc.matmul %x, %w bias %b : tensor<4x8xf32>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<4x8xf32>
  %1 = tpc.add %0, %c : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The residual is added last, so an activation of the sum is a kernel.
// CHECK-LABEL: @after_residual
// CHECK: tpc.add %{{.*}} {tpc.fused = 0 : i32}
// CHECK-NOT: tpc.fused
func.func private @after_residual(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.add %0, %r : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.relu %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A product of vectors becomes an element-wise op; one with a reduction remains.
// CHECK-LABEL: @product_of_vectors
// CHECK: %[[X:.*]] = tpc.expand %arg0 : tensor<1x2x1xf32> -> tensor<3x2x5xf32>
// CHECK: %[[Y:.*]] = tpc.expand %arg1 : tensor<3x1x5xf32> -> tensor<3x2x5xf32>
// CHECK: tpc.mul %[[X]], %[[Y]]
// CHECK-NOT: tpc.matmul
func.func private @product_of_vectors(%x: tensor<1x2x1xf32>, %y: tensor<3x1x5xf32>) -> tensor<3x2x5xf32> {
  %0 = tpc.matmul %x, %y : tensor<1x2x1xf32>, tensor<3x1x5xf32> -> tensor<3x2x5xf32>
  return %0 : tensor<3x2x5xf32>
}

// Only the operand that is a part of a sum remains one.
// CHECK-LABEL: @product_of_a_part
// CHECK: tpc.expand %arg0 : tensor<2x1xf32, #tpc.dist<[2, 1], sum{tp}, local>> -> tensor<2x5xf32, #tpc.dist<[2, 5], sum{tp}, local>>
// CHECK: tpc.expand %arg1 : tensor<1x5xf32> -> tensor<2x5xf32>
func.func private @product_of_a_part(%x: !part, %y: tensor<1x5xf32>) -> !partial {
  %0 = tpc.matmul %x, %y : !part, tensor<1x5xf32> -> !partial
  return %0 : !partial
}

// Of two activations, the first is fused.
// CHECK-LABEL: @two_activations
// CHECK: tpc.silu %{{.*}} {tpc.fused = 0 : i32}
// CHECK-NEXT: tpc.relu
// CHECK-NOT: tpc.fused
func.func private @two_activations(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.silu %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.relu %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// The library supports GELU by erf and by tanh, not by sigmoid.
// CHECK-LABEL: @gelu_by_sigmoid
// CHECK-NOT: tpc.fused
// CHECK-LABEL: @gelu_exactly
// CHECK: tpc.gelu none %{{.*}} {tpc.fused = 0 : i32}
func.func private @gelu_by_sigmoid(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.gelu sigmoid %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}
func.func private @gelu_exactly(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.gelu none %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The sum of a value with itself has no other addend; an addend that broadcasts is neither a bias
// nor a residual.
// CHECK-LABEL: @no_residual
// CHECK-NOT: tpc.fused
func.func private @no_residual(%x: tensor<4x8xf32>, %one: tensor<1xf32>, %column: tensor<4x1xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.add %0, %0 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %3 = tpc.add %2, %one : tensor<4x8xf32>, tensor<1xf32> -> tensor<4x8xf32>
  %4 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %5 = tpc.add %4, %column : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  return %1, %3, %5 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// The matmul's result is broadcast by the addition, so it has fewer elements than the sum.
// CHECK-LABEL: @one_row
// CHECK-NOT: tpc.fused
func.func private @one_row(%x: tensor<1x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<1x8xf32>, tensor<8x8xf32> -> tensor<1x8xf32>
  %1 = tpc.add %0, %r : tensor<1x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// The bias of a row-parallel matmul is added once, after the reduction. So the matmul on each rank
// must not add it.
// CHECK-LABEL: @row_parallel
// CHECK-NOT: tpc.fused
func.func private @row_parallel(%x: tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>
  %b = tpc.parameter @b : tensor<8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x4xf32, #tpc.dist<[4, 8{tp}], local>>, tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>> -> tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
  %1 = tpc.all_reduce %0 over ["tp"] : tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>> -> tensor<4x8xf32>
  %2 = tpc.add %1, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// An argument that is a parameter in every call counts as a parameter. An argument that is computed
// in one call does not, so its matmul has no epilogue.
// CHECK-LABEL: func.func private @weight_of_layer
// CHECK: tpc.relu %{{.*}} {tpc.fused = 0 : i32}
// CHECK-LABEL: func.func private @weight_or_not
// CHECK-NOT: tpc.fused
// CHECK-LABEL: func.func private @calls
func.func private @weight_of_layer(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tpc.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tpc.relu %0 : tensor<8x8xf32> -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @weight_or_not(%x: tensor<8x8xf32>, %w: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %0 = tpc.matmul %x, %w : tensor<8x8xf32>, tensor<8x8xf32> -> tensor<8x8xf32>
  %1 = tpc.relu %0 : tensor<8x8xf32> -> tensor<8x8xf32>
  return %1 : tensor<8x8xf32>
}
func.func private @calls(%x: tensor<8x8xf32>) -> tensor<8x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = call @weight_of_layer(%x, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %1 = call @weight_or_not(%0, %w) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  %2 = call @weight_or_not(%1, %1) : (tensor<8x8xf32>, tensor<8x8xf32>) -> tensor<8x8xf32>
  return %2 : tensor<8x8xf32>
}

// A right operand that is the same for all batches is not expanded. If each operand has only some
// of the result's batch dimensions, both are expanded to all.
// CHECK-LABEL: @same_for_all
// CHECK-NOT: tpc.expand
// CHECK-LABEL: @both_in_part
// CHECK: %[[X:.*]] = tpc.expand %arg0 : tensor<3x1x4x8xf32> -> tensor<3x2x4x8xf32>
// CHECK: %[[Y:.*]] = tpc.expand %arg1 : tensor<2x8x5xf32> -> tensor<3x2x8x5xf32>
// CHECK: tpc.matmul %[[X]], %[[Y]]
func.func private @same_for_all(%x: tensor<3x2x4x8xf32>, %y: tensor<1x8x5xf32>) -> tensor<3x2x4x5xf32> {
  %0 = tpc.matmul %x, %y : tensor<3x2x4x8xf32>, tensor<1x8x5xf32> -> tensor<3x2x4x5xf32>
  return %0 : tensor<3x2x4x5xf32>
}
func.func private @both_in_part(%x: tensor<3x1x4x8xf32>, %y: tensor<2x8x5xf32>) -> tensor<3x2x4x5xf32> {
  %0 = tpc.matmul %x, %y : tensor<3x1x4x8xf32>, tensor<2x8x5xf32> -> tensor<3x2x4x5xf32>
  return %0 : tensor<3x2x4x5xf32>
}

// Matmuls computed by kernels keep their bias and broadcasts.
// CHECK-LABEL: @double
// CHECK-NEXT: tpc.matmul %arg0, %arg1 bias %arg2
func.func private @double(%x: tensor<3x1x4x8xf64>, %y: tensor<3x2x8x5xf64>, %b: tensor<5xf64>) -> tensor<3x2x4x5xf64> {
  %0 = tpc.matmul %x, %y bias %b : tensor<3x1x4x8xf64>, tensor<3x2x8x5xf64> bias tensor<5xf64> -> tensor<3x2x4x5xf64>
  return %0 : tensor<3x2x4x5xf64>
}

// A rank's queries are not contiguous, there is a mask, and there are past keys. A key is visible
// if both the mask and causality allow it.
// CHECK-LABEL: @both_masks
// CHECK: %[[Q:.*]] = tpc.iota dim 2
// CHECK: %[[K:.*]] = tpc.iota dim 3
// CHECK: %[[PAST:.*]] = tpc.size "all - 24"
// CHECK: %[[LAST:.*]] = tpc.add %[[Q]], %[[PAST]]
// CHECK: %[[CAUSAL:.*]] = tpc.cmp le %[[K]], %[[LAST]]
// CHECK: %[[BOTH:.*]] = tpc.and %arg2, %[[CAUSAL]]
// CHECK: tpc.attention %arg0, %arg1, %arg1 mask %[[BOTH]] scale
// CHECK-NOT: offset
func.func private @both_masks(%q: !rows, %k: !keys, %m: !mask) -> !rows {
  %0 = tpc.attention causal %q, %k, %k mask %m scale 1.0 offset "all - 24" : !rows, !keys, !keys mask !mask -> !rows
  return %0 : !rows
}
}
