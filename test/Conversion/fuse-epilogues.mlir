// RUN: tpc-opt %s --tpc-fuse-epilogues | FileCheck %s

tpc.weight @w in "w.bin" at 0 : tensor<8x8xf32>
tpc.weight @b in "w.bin" at 256 : tensor<8xf32>

// An epilogue is a bias, an activation and a residual, in this order.
// CHECK-LABEL: @all
func.func private @all(%x: tensor<4x8xf32>, %r: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %b = tpc.parameter @b : tensor<8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  // CHECK: tpc.add %{{.*}} {tpc.fused = 0 : i32}
  %1 = tpc.add %0, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  // CHECK: tpc.gelu tanh %{{.*}} {tpc.fused = 0 : i32}
  %2 = tpc.gelu tanh %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  // CHECK: tpc.add %{{.*}} {tpc.fused = 1 : i32}
  %3 = tpc.add %r, %2 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %3 : tensor<4x8xf32>
}

// Not fused if the intermediate value has another user.
// CHECK-LABEL: @two_uses
// CHECK-NOT: tpc.fused
func.func private @two_uses(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.relu %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// An addition after the activation is not a bias of the matmul.
// CHECK-LABEL: @late_bias
// CHECK: tpc.silu %{{.*}} {tpc.fused = 0 : i32}
// CHECK: tpc.add
// CHECK-NOT: tpc.fused
func.func private @late_bias(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<8x8xf32>
  %b = tpc.parameter @b : tensor<8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.silu %0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.add %1, %b : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A matmul of two computed values has no epilogue, so its bias becomes an op. Batches that only one
// operand has are expanded.
// CHECK-LABEL: @batches
// CHECK: %[[E:.*]] = tpc.expand %{{.*}} : tensor<3x1x4x8xf32> -> tensor<3x2x4x8xf32>
// CHECK: %[[P:.*]] = tpc.matmul %[[E]], %{{.*}} : tensor<3x2x4x8xf32>, tensor<3x2x8x5xf32> ->
// CHECK: tpc.add %[[P]], %
func.func private @batches(%x: tensor<3x1x4x8xf32>, %y: tensor<3x2x8x5xf32>, %b: tensor<5xf32>) -> tensor<3x2x4x5xf32> {
  %0 = tpc.matmul %x, %y bias %b : tensor<3x1x4x8xf32>, tensor<3x2x8x5xf32> bias tensor<5xf32> -> tensor<3x2x4x5xf32>
  return %0 : tensor<3x2x4x5xf32>
}

// A rank has, for example, queries 0 to 3 of every 8. Therefore the visible keys are given by a
// mask, not by one offset.
// CHECK-LABEL: @queries_not_in_a_row
// CHECK: %[[Q:.*]] = tpc.iota dim 2 : tensor<{{.*}}xi64, #tpc.dist<[1, 1, 3*8{tp}, 24], local>>
// CHECK: %[[K:.*]] = tpc.iota dim 3
// CHECK: %[[LAST:.*]] = tpc.add %[[Q]], %
// CHECK: %[[VISIBLE:.*]] = tpc.cmp le %[[K]], %[[LAST]]
// CHECK: tpc.attention %{{.*}} mask %[[VISIBLE]] scale
!rows = tensor<1x12x2x4xf32, #tpc.dist<[1, 3*8{tp}, 2, 4], local>>
!outer = tensor<1x12x2x4xf32, #tpc.dist<[1, 4{tp}*6, 2, 4], local>>
func.func private @queries_not_in_a_row(%q: !rows, %k: tensor<1x24x2x4xf32>) -> !rows {
  %0 = tpc.attention causal %q, %k, %k scale 1.0 : !rows, tensor<1x24x2x4xf32>, tensor<1x24x2x4xf32> -> !rows
  return %0 : !rows
}

// CHECK-LABEL: @window_of_queries_not_in_a_row
// CHECK: %[[Q:.*]] = tpc.iota dim 2 : tensor<{{.*}}xi64, #tpc.dist<[1, 1, 3*8{tp}, 24], local>>
// CHECK: %[[K:.*]] = tpc.iota dim 3
// CHECK: %[[AT:.*]] = tpc.add %[[Q]], %
// CHECK: %[[LAST:.*]] = tpc.cmp le %[[K]], %[[AT]]
// CHECK: %[[SIZE:.*]] = tpc.size window.5
// CHECK: %[[BEFORE:.*]] = tpc.sub %[[AT]], %[[SIZE]]
// CHECK: %[[FIRST:.*]] = tpc.cmp gt %[[K]], %[[BEFORE]]
// CHECK: %[[VISIBLE:.*]] = tpc.and %[[LAST]], %[[FIRST]]
// CHECK: tpc.attention %{{.*}} mask %[[VISIBLE]] slopes %{{.*}} scale 1.000000e+00 :
func.func private @window_of_queries_not_in_a_row(%q: !rows, %k: tensor<1x24x2x4xf32>, %slopes: tensor<2xf32>) -> !rows {
  %0 = tpc.attention causal %q, %k, %k slopes %slopes scale 1.0 offset "3" window "5" : !rows, tensor<1x24x2x4xf32>, tensor<1x24x2x4xf32> slopes tensor<2xf32> -> !rows
  return %0 : !rows
}

// CHECK-LABEL: @queries_in_a_row
// CHECK: tpc.attention causal {{.*}} window 5
func.func private @queries_in_a_row(%q: !outer, %k: tensor<1x24x2x4xf32>) -> !outer {
  %0 = tpc.attention causal %q, %k, %k scale 1.0 window "5" : !outer, tensor<1x24x2x4xf32>, tensor<1x24x2x4xf32> -> !outer
  return %0 : !outer
}
