// RUN: tpc-opt %s --tpc-widen-matmuls | FileCheck %s
// RUN: sed 's/tpc.mesh = /tpc.target = "cuda", tpc.mesh = /' %s | tpc-opt --tpc-widen-matmuls | FileCheck %s --check-prefix=CUDA

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

// Matrices of experts remain in 16 bits; other operands are widened.
// CHECK-LABEL: func.func @experts
// CHECK-DAG: %[[X:.*]] = tpc.cast %arg0 : tensor<6x8xbf16> -> tensor<6x8xf32>
// CHECK-DAG: %[[R:.*]] = tpc.cast %arg1 : tensor<6x4xbf16> -> tensor<6x4xf32>
// CHECK: %[[Y:.*]] = tpc.moe silu %[[X]], %[[R]], %arg2, %arg3 gate %arg2 top_k 2
// CHECK: tpc.cast %[[Y]] {tpc.rounds_parts} : tensor<6x8xf32> -> tensor<6x8xbf16>
// CUDA-LABEL: func.func @experts
// CUDA: tpc.moe {{.*}} : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xbf16>, tensor<4x8x12xbf16> gate tensor<4x12x8xbf16>
func.func @experts(%x: tensor<6x8xbf16>, %r: tensor<6x4xbf16>, %u: tensor<4x12x8xbf16>, %d: tensor<4x8x12xbf16>) -> tensor<6x8xbf16> {
  %0 = tpc.moe silu %x, %r, %u, %d gate %u top_k 2 : tensor<6x8xbf16>, tensor<6x4xbf16>, tensor<4x12x8xbf16>, tensor<4x8x12xbf16> gate tensor<4x12x8xbf16> -> tensor<6x8xbf16>
  return %0 : tensor<6x8xbf16>
}

// Experts of f32 tokens read f16 matrices without a cast if all matrices have one type.
// CHECK-LABEL: func.func @f32_experts
// CHECK: tpc.moe relu %arg0, %arg1, %arg2, %arg3 top_k 1
// CHECK: %[[U:.*]] = tpc.cast %arg2
// CHECK: tpc.moe relu %arg0, %arg1, %[[U]], %arg4 top_k 1
// CUDA-LABEL: func.func @f32_experts
// CUDA: tpc.moe {{.*}} : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf16>, tensor<4x8x12xf16>
func.func @f32_experts(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf16>, %d: tensor<4x8x12xf16>, %v: tensor<4x8x12xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %0 = tpc.cast %u : tensor<4x12x8xf16> -> tensor<4x12x8xf32>
  %1 = tpc.cast %d : tensor<4x8x12xf16> -> tensor<4x8x12xf32>
  %2 = tpc.moe relu %x, %r, %0, %1 top_k 1 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  %3 = tpc.cast %u : tensor<4x12x8xf16> -> tensor<4x12x8xf32>
  %4 = tpc.moe relu %x, %r, %3, %v top_k 1 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> -> tensor<6x8xf32>
  return %2, %4 : tensor<6x8xf32>, tensor<6x8xf32>
}
}
