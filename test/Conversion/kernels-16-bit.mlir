// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers | FileCheck %s

// 16-bit elements are computed in f32, and each op rounds once, including between fused ops, so
// that bits do not depend on fusion.
// CHECK-LABEL: tpc_kernel.func @each_op_rounds(
// CHECK-SAME: %[[X:.*]]: memref<?xf16> of [_4], %[[Y:.*]]: memref<?xf16> of [_4]) -> (%[[R:.*]]: memref<?xf16> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]]] : memref<?xf16>
// CHECK: %[[V1:.*]] = arith.extf %[[V]] : f16 to f32
// CHECK: %[[V2:.*]] = memref.load %[[Y]][%[[I]]] : memref<?xf16>
// CHECK: %[[V3:.*]] = arith.extf %[[V2]] : f16 to f32
// CHECK: %[[V4:.*]] = arith.addf %[[V1]], %[[V3]] : f32
// CHECK: %[[V5:.*]] = arith.truncf %[[V4]] : f32 to f16
// CHECK: %[[V6:.*]] = arith.extf %[[V5]] : f16 to f32
// CHECK: %[[V7:.*]] = arith.extf %[[V2]] : f16 to f32
// CHECK: %[[V8:.*]] = arith.mulf %[[V6]], %[[V7]] : f32
// CHECK: %[[V9:.*]] = arith.truncf %[[V8]] : f32 to f16
// CHECK: memref.store %[[V9]], %[[R]][%[[I]]] : memref<?xf16>
func.func private @each_op_rounds(%x: tensor<4xf16>, %y: tensor<4xf16>) -> tensor<4xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %y : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16>
  %1 = tpc.mul %0, %y : tensor<4xf16>, tensor<4xf16> -> tensor<4xf16>
  return %1 : tensor<4xf16>
}

// CHECK-LABEL: tpc_kernel.func @bfloat(
// CHECK-SAME: %[[X:.*]]: memref<?xbf16> of [_4]) -> (%[[R:.*]]: memref<?xbf16> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]]] : memref<?xbf16>
// CHECK: %[[V1:.*]] = arith.extf %[[V]] : bf16 to f32
// CHECK: %[[V2:.*]] = math.exp %[[V1]] : f32
// CHECK: %[[V3:.*]] = arith.truncf %[[V2]] : f32 to bf16
// CHECK: memref.store %[[V3]], %[[R]][%[[I]]] : memref<?xbf16>
func.func private @bfloat(%x: tensor<4xbf16>) -> tensor<4xbf16> attributes {tpc.kernel = 1} {
  %0 = tpc.exp %x : tensor<4xbf16> -> tensor<4xbf16>
  return %0 : tensor<4xbf16>
}

// A sum is rounded only at the end.
// CHECK-LABEL: tpc_kernel.func @sum(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf16> of [_5, _4]) -> (%[[R:.*]]: memref<?xf16> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[J:.*]]) in [_5] : f32 init 0.000000e+00 identity -0.000000e+00 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[J]], %[[I]]] : memref<?x?xf16>
// CHECK: %[[V2:.*]] = arith.extf %[[V1]] : f16 to f32
// CHECK: tpc_kernel.yield %[[V2]] : f32
// CHECK: %[[V3:.*]] = arith.truncf %[[V]] : f32 to f16
// CHECK: tpc_kernel.elements () in [] {
// CHECK: memref.store %[[V3]], %[[R]][%[[I]]] : memref<?xf16>
func.func private @sum(%x: tensor<5x4xf16>) -> tensor<4xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce sum %x [0] : tensor<5x4xf16> -> tensor<4xf16>
  return %0 : tensor<4xf16>
}

// A matmul without a library implementation is also rounded only at the end.
// CHECK-LABEL: tpc_kernel.func @matmul(
// CHECK-SAME: %[[X:.*]]: memref<?x?xbf16> of [_3, _4], %[[Y:.*]]: memref<?x?xbf16> of [_4, _5]) -> (%[[R:.*]]: memref<?x?xbf16> of [_3, _5]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_3] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_5] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[K:.*]]) in [_4] : f32 init 0.000000e+00 identity -0.000000e+00 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[K]]] : memref<?x?xbf16>
// CHECK: %[[V2:.*]] = arith.extf %[[V1]] : bf16 to f32
// CHECK: %[[V3:.*]] = memref.load %[[Y]][%[[K]], %[[J]]] : memref<?x?xbf16>
// CHECK: %[[V4:.*]] = arith.extf %[[V3]] : bf16 to f32
// CHECK: %[[V5:.*]] = arith.mulf %[[V2]], %[[V4]] : f32
// CHECK: tpc_kernel.yield %[[V5]] : f32
// CHECK: %[[V6:.*]] = arith.truncf %[[V]] : f32 to bf16
// CHECK: memref.store %[[V6]], %[[R]][%[[I]], %[[J]]] : memref<?x?xbf16>
func.func private @matmul(%x: tensor<3x4xbf16>, %y: tensor<4x5xbf16>) -> tensor<3x5xbf16> attributes {tpc.kernel = 1} {
  %0 = tpc.matmul %x, %y : tensor<3x4xbf16>, tensor<4x5xbf16> -> tensor<3x5xbf16>
  return %0 : tensor<3x5xbf16>
}

// Elements that are only copied are not widened.
// CHECK-LABEL: tpc_kernel.func @moves(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf16> of [_3, _4]) -> (%[[R:.*]]: memref<?x?xf16> of [_4, _3]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_3] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[J]], %[[I]]] : memref<?x?xf16>
// CHECK: memref.store %[[V]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf16>
func.func private @moves(%x: tensor<3x4xf16>) -> tensor<4x3xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.transpose %x [1, 0] : tensor<3x4xf16> -> tensor<4x3xf16>
  return %0 : tensor<4x3xf16>
}

// A boolean is a byte; nonzero is true.
// CHECK-LABEL: tpc_kernel.func @booleans(
// CHECK-SAME: %[[X:.*]]: memref<?xi1> of [_4], %[[Y:.*]]: memref<?xi1> of [_4]) -> (%[[R:.*]]: memref<?xi1> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]]] : memref<?xi1>
// CHECK: %[[V1:.*]] = memref.load %[[Y]][%[[I]]] : memref<?xi1>
// CHECK: %[[V2:.*]] = arith.andi %[[V]], %[[V1]] : i1
// CHECK: memref.store %[[V2]], %[[R]][%[[I]]] : memref<?xi1>
func.func private @booleans(%x: tensor<4xi1>, %y: tensor<4xi1>) -> tensor<4xi1> attributes {tpc.kernel = 1} {
  %0 = tpc.and %x, %y : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
  return %0 : tensor<4xi1>
}
