// RUN: tpc-opt %s --tpc-widen-matmuls | FileCheck %s

// Matmuls of 16-bit values multiply and add in f32 and round once, because the library computes
// only in f32.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @w in "/w.bin" at 0 : tensor<8x6xf16>
tpc.weight @u in "/w.bin" at 96 : tensor<8x6xbf16>

// A right operand that is a parameter is widened at load. Two matmuls by the same parameter share
// the widened one. A left operand of two matmuls is widened once.
// CHECK-LABEL: func.func @loaded
// CHECK: %[[X:.*]] = tpc.cast %arg0 : tensor<4x8xf16> -> tensor<4x8xf32>
// CHECK-NEXT: %[[W:.*]] = tpc.parameter @w
// CHECK-NEXT: %[[L:.*]] = tpc.cast %[[W]] {tpc.loaded} : tensor<8x6xf16> -> tensor<8x6xf32>
// CHECK-NEXT: %[[A:.*]] = tpc.matmul %[[X]], %[[L]] : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[R:.*]] = tpc.cast %[[A]] {tpc.rounds_parts} : tensor<4x6xf32> -> tensor<4x6xf16>
// CHECK-NEXT: %[[B:.*]] = tpc.matmul %[[X]], %[[L]]
// CHECK-NEXT: %[[S:.*]] = tpc.cast %[[B]] {tpc.rounds_parts}
// CHECK-NEXT: tpc.add %[[R]], %[[S]] : tensor<4x6xf16>
func.func @loaded(%x: tensor<4x8xf16>) -> tensor<4x6xf16> {
  %w = tpc.parameter @w : tensor<8x6xf16>
  %0 = tpc.matmul %x, %w : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
  %1 = tpc.matmul %x, %w : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
  %2 = tpc.add %0, %1 : tensor<4x6xf16>, tensor<4x6xf16> -> tensor<4x6xf16>
  return %2 : tensor<4x6xf16>
}

// A parameter with other users is loaded in its own type as well. A parameter that is a left
// operand is widened like an activation.
// CHECK-LABEL: func.func @both_ways
// CHECK: %[[U:.*]] = tpc.parameter @u
// CHECK-DAG: %[[L:.*]] = tpc.cast %[[U]] {tpc.loaded} : tensor<8x6xbf16> -> tensor<8x6xf32>
// CHECK-DAG: %[[C:.*]] = tpc.cast %[[U]] : tensor<8x6xbf16> -> tensor<8x6xf32>
// CHECK: tpc.exp %[[U]] : tensor<8x6xbf16>
// CHECK: tpc.matmul %{{.*}}, %[[L]]
// CHECK: tpc.matmul %[[C]], %{{.*}} : tensor<8x6xf32>, tensor<6x2xf32> -> tensor<8x2xf32>
func.func @both_ways(%x: tensor<4x8xbf16>, %y: tensor<6x2xbf16>) -> (tensor<8x6xbf16>, tensor<4x6xbf16>, tensor<8x2xbf16>) {
  %u = tpc.parameter @u : tensor<8x6xbf16>
  %0 = tpc.exp %u : tensor<8x6xbf16> -> tensor<8x6xbf16>
  %1 = tpc.matmul %x, %u : tensor<4x8xbf16>, tensor<8x6xbf16> -> tensor<4x6xbf16>
  %2 = tpc.matmul %u, %y : tensor<8x6xbf16>, tensor<6x2xbf16> -> tensor<8x2xbf16>
  return %0, %1, %2 : tensor<8x6xbf16>, tensor<4x6xbf16>, tensor<8x2xbf16>
}

// A partial sum is rounded like the original matmul before it is reduced.
// CHECK-LABEL: func.func @part
// CHECK: %[[P:.*]] = tpc.matmul {{.*}} -> tensor<4x2xf32, #tpc.dist<[4, 2], sum{tp}, local>>
// CHECK-NEXT: %[[R:.*]] = tpc.cast %[[P]] {tpc.rounds_parts}
// CHECK-NEXT: tpc.all_reduce %[[R]] over ["tp"] : tensor<4x2xf16, #tpc.dist<[4, 2], sum{tp}, local>> -> tensor<4x2xf16>
func.func @part(%x: tensor<4x3xf16, #tpc.dist<[4, 6{tp}], local>>, %y: tensor<3x2xf16, #tpc.dist<[6{tp}, 2], local>>) -> tensor<4x2xf16> {
  %0 = tpc.matmul %x, %y : tensor<4x3xf16, #tpc.dist<[4, 6{tp}], local>>, tensor<3x2xf16, #tpc.dist<[6{tp}, 2], local>> -> tensor<4x2xf16, #tpc.dist<[4, 2], sum{tp}, local>>
  %1 = tpc.all_reduce %0 over ["tp"] : tensor<4x2xf16, #tpc.dist<[4, 2], sum{tp}, local>> -> tensor<4x2xf16>
  return %1 : tensor<4x2xf16>
}

// A matmul with an f32 result is not rounded.
// CHECK-LABEL: func.func @sums
// CHECK: %[[A:.*]] = tpc.matmul %{{.*}}, %{{.*}} : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: return %[[A]]
func.func @sums(%x: tensor<4x8xf16>) -> tensor<4x6xf32> {
  %w = tpc.parameter @w : tensor<8x6xf16>
  %0 = tpc.matmul %x, %w : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Matmuls in f32 and other ops are unchanged.
// CHECK-LABEL: func.func @as_it_is
// CHECK-NEXT: %[[Y:.*]] = tpc.matmul %arg0, %arg1 : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: %[[E:.*]] = tpc.exp %arg2 : tensor<4x6xf16> -> tensor<4x6xf16>
// CHECK-NEXT: return %[[Y]], %[[E]]
func.func @as_it_is(%x: tensor<4x8xf32>, %w: tensor<8x6xf32>, %h: tensor<4x6xf16>) -> (tensor<4x6xf32>, tensor<4x6xf16>) {
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  %1 = tpc.exp %h : tensor<4x6xf16> -> tensor<4x6xf16>
  return %0, %1 : tensor<4x6xf32>, tensor<4x6xf16>
}
}
