// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers | FileCheck %s

// Kernels of ops that need a whole row or column: sums, extremes, norms, softmax, matmuls without a
// library implementation.

// In a reduction of the last dimension, operands are adjacent.
// CHECK-LABEL: tpc_kernel.func @maximum(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_4, _10]) -> (%[[R:.*]]: memref<?xf32> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: %[[V:.*]] = tpc_kernel.fold max (%[[J:.*]]) in [_10] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xf32>
// CHECK: tpc_kernel.yield %[[V1]] : f32
// CHECK: tpc_kernel.elements () in [] {
// CHECK: memref.store %[[V]], %[[R]][%[[I]]] : memref<?xf32>
func.func private @maximum(%x: tensor<4x10xf32>) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce max %x [1] : tensor<4x10xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: tpc_kernel.func @minimum_of_integers(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi32> of [_4, _10]) -> (%[[R:.*]]: memref<?x?xi32> of [_4, 1]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [1] {
// CHECK: %[[V:.*]] = tpc_kernel.fold min (%[[K:.*]]) in [_10] adjacent : i32 init 2147483647 identity 2147483647 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[K]]] : memref<?x?xi32>
// CHECK: tpc_kernel.yield %[[V1]] : i32
// CHECK: memref.store %[[V]], %[[R]][%[[I]], %[[J]]] : memref<?x?xi32>
func.func private @minimum_of_integers(%x: tensor<4x10xi32>) -> tensor<4x1xi32> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce min %x [1] keep : tensor<4x10xi32> -> tensor<4x1xi32>
  return %0 : tensor<4x1xi32>
}

// The identity of an unsigned maximum is 0, not -128.
// CHECK-LABEL: tpc_kernel.func @maximum_of_unsigned(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi8> of [_4, _10]) -> (%[[R:.*]]: memref<?xi8> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: %[[V:.*]] = tpc_kernel.fold umax (%[[J:.*]]) in [_10] adjacent : i8 init 0 identity 0 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xi8>
// CHECK: tpc_kernel.yield %[[V1]] : i8
// CHECK: tpc_kernel.elements () in [] {
// CHECK: memref.store %[[V]], %[[R]][%[[I]]] : memref<?xi8>
func.func private @maximum_of_unsigned(%x: tensor<4x10xui8>) -> tensor<4xui8> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce max %x [1] : tensor<4x10xui8> -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// An empty mean of integers is undefined, but must not trap.
// CHECK-LABEL: tpc_kernel.func @mean_of_integers(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi64> of [_3, _4]) -> (%[[R:.*]]: memref<?xi64> of [_4]) {
// CHECK-DAG: %[[N_3:.*]] = tpc_kernel.size _3
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[J:.*]]) in [_3] : i64 init 0 identity 0 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[J]], %[[I]]] : memref<?x?xi64>
// CHECK: tpc_kernel.yield %[[V1]] : i64
// CHECK: %[[V2:.*]] = arith.index_cast %[[N_3]] : index to i64
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : i64
// CHECK: %[[V3:.*]] = arith.maxsi %[[V2]], %[[C1]] : i64
// CHECK: %[[V4:.*]] = arith.divsi %[[V]], %[[V3]] : i64
// CHECK: tpc_kernel.elements () in [] {
// CHECK: memref.store %[[V4]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @mean_of_integers(%x: tensor<3x4xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce mean %x [0] : tensor<3x4xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// A reduction of two dimensions, one of which is not the last.
// CHECK-LABEL: tpc_kernel.func @sum_of_two(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xi64> of [_3, _4, _5]) -> (%[[R:.*]]: memref<?xi64> of [_4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[J:.*]], %[[K:.*]]) in [_3, _5] adjacent : i64 init 0 identity 0 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[J]], %[[I]], %[[K]]] : memref<?x?x?xi64>
// CHECK: tpc_kernel.yield %[[V1]] : i64
// CHECK: tpc_kernel.elements () in [] {
// CHECK: memref.store %[[V]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @sum_of_two(%x: tensor<3x4x5xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce sum %x [0, 2] : tensor<3x4x5xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}

// A running sum from the first element to the current one.
// CHECK-LABEL: tpc_kernel.func @cumsum(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi64> of [_4, _6]) -> (%[[R:.*]]: memref<?x?xi64> of [_4, _6]) {
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_6] {
// CHECK: %[[V:.*]] = arith.addi %[[J]], %[[C1]] : index
// CHECK-DAG: %[[C01:.*]] = arith.constant 0 : i64
// CHECK: %[[V1:.*]] = scf.for %[[K:.*]] = %[[C0]] to %[[V]] step %[[C1]] iter_args(%[[L:.*]] = %[[C01]]) -> (i64) {
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[K]]] : memref<?x?xi64>
// CHECK: %[[V3:.*]] = arith.addi %[[L]], %[[V2]] : i64
// CHECK: scf.yield %[[V3]] : i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]], %[[J]]] : memref<?x?xi64>
func.func private @cumsum(%x: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.cumsum %x dim 1 : tensor<4x6xi64> -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}

// A running sum from the next element to the last.
// CHECK-LABEL: tpc_kernel.func @cumsum_backwards(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi64> of [_4, _6]) -> (%[[R:.*]]: memref<?x?xi64> of [_4, _6]) {
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_6] {
// CHECK: %[[V:.*]] = arith.addi %[[J]], %[[C1]] : index
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : i64
// CHECK: %[[V1:.*]] = scf.for %[[K:.*]] = %[[V]] to %[[N_6]] step %[[C1]] iter_args(%[[L:.*]] = %[[C0]]) -> (i64) {
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[K]]] : memref<?x?xi64>
// CHECK: %[[V3:.*]] = arith.addi %[[L]], %[[V2]] : i64
// CHECK: scf.yield %[[V3]] : i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]], %[[J]]] : memref<?x?xi64>
func.func private @cumsum_backwards(%x: tensor<4x6xi64>) -> tensor<4x6xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.cumsum %x dim 1 exclusive reverse : tensor<4x6xi64> -> tensor<4x6xi64>
  return %0 : tensor<4x6xi64>
}

// A softmax along a dimension other than the last reduces in order, without vectors.
// CHECK-LABEL: tpc_kernel.func @softmax(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_4, _6]) -> (%[[R:.*]]: memref<?x?xf32> of [_4, _6]) {
// CHECK: tpc_kernel.rows () in [] {
// CHECK: tpc_kernel.elements (%[[I:.*]], %[[J:.*]]) in [_4, _6] {
// CHECK: %[[V:.*]] = tpc_kernel.fold maxnum (%[[K:.*]]) in [_4] : f32 init 0xFF800000 identity 0xFF800000 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[K]], %[[J]]] : memref<?x?xf32>
// CHECK: tpc_kernel.yield %[[V1]] : f32
// CHECK: %[[V2:.*]] = tpc_kernel.fold sum (%[[K]]) in [_4] : f32 init 0.000000e+00 identity -0.000000e+00 {
// CHECK: %[[V3:.*]] = memref.load %[[X]][%[[K]], %[[J]]] : memref<?x?xf32>
// CHECK: %[[V4:.*]] = arith.subf %[[V3]], %[[V]] : f32
// CHECK: %[[V5:.*]] = math.exp %[[V4]] : f32
// CHECK: tpc_kernel.yield %[[V5]] : f32
// CHECK: %[[C1:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: %[[V6:.*]] = arith.divf %[[C1]], %[[V2]] : f32
// CHECK: %[[V7:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xf32>
// CHECK: %[[V8:.*]] = arith.subf %[[V7]], %[[V]] : f32
// CHECK: %[[V9:.*]] = math.exp %[[V8]] : f32
// CHECK: %[[V10:.*]] = arith.mulf %[[V9]], %[[V6]] : f32
// CHECK: memref.store %[[V10]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @softmax(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {tpc.kernel = 0} {
  %0 = tpc.softmax %x dim 0 : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Without `interleaved`, x[i] and x[i + 3] are a pair; the sine is negated for x[i]. Elements after
// the six rotated ones are copied.
// CHECK-LABEL: tpc_kernel.func @rotary(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?x?xf32> of [1, _2, 1, _8], %[[COS:.*]]: memref<?x?x?xf32> of [1, _2, _3], %[[SIN:.*]]: memref<?x?x?xf32> of [1, _2, _3]) -> (%[[R:.*]]: memref<?x?x?x?xf32> of [1, _2, 1, _8]) {
// CHECK-DAG: %[[N_3:.*]] = tpc_kernel.size _3
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[J:.*]]) in [1, _2] {
// CHECK: tpc_kernel.elements (%[[K:.*]], %[[L:.*]]) in [1, _8] {
// CHECK: %[[V:.*]] = arith.muli %[[N_3]], %[[C2]] : index
// CHECK: %[[V1:.*]] = arith.cmpi slt, %[[L]], %[[V]] : index
// CHECK: %[[V2:.*]] = scf.if %[[V1]] -> (f32) {
// CHECK: %[[V3:.*]] = arith.cmpi slt, %[[L]], %[[N_3]] : index
// CHECK: %[[V4:.*]] = arith.subi %[[L]], %[[N_3]] : index
// CHECK: %[[V5:.*]] = arith.select %[[V3]], %[[L]], %[[V4]] : index
// CHECK: %[[V6:.*]] = arith.addi %[[L]], %[[N_3]] : index
// CHECK: %[[V7:.*]] = arith.subi %[[L]], %[[N_3]] : index
// CHECK: %[[V8:.*]] = arith.select %[[V3]], %[[V6]], %[[V7]] : index
// CHECK: %[[V9:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
// CHECK: %[[V10:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[K]], %[[V8]]] : memref<?x?x?x?xf32>
// CHECK: %[[V11:.*]] = memref.load %[[SIN]][%[[C0]], %[[J]], %[[V5]]] : memref<?x?x?xf32>
// CHECK: %[[V12:.*]] = arith.negf %[[V11]] : f32
// CHECK: %[[V13:.*]] = arith.select %[[V3]], %[[V12]], %[[V11]] : f32
// CHECK: %[[V14:.*]] = memref.load %[[COS]][%[[C0]], %[[J]], %[[V5]]] : memref<?x?x?xf32>
// CHECK: %[[V15:.*]] = arith.mulf %[[V9]], %[[V14]] : f32
// CHECK: %[[V16:.*]] = arith.mulf %[[V10]], %[[V13]] : f32
// CHECK: %[[V17:.*]] = arith.addf %[[V15]], %[[V16]] : f32
// CHECK: scf.yield %[[V17]] : f32
// CHECK: } else {
// CHECK: %[[V18:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
// CHECK: scf.yield %[[V18]] : f32
// CHECK: memref.store %[[V2]], %[[R]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
func.func private @rotary(%x: tensor<1x2x1x8xf32>, %cos: tensor<1x2x3xf32>, %sin: tensor<1x2x3xf32>) -> tensor<1x2x1x8xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.rotary %x, %cos, %sin : tensor<1x2x1x8xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x1x8xf32>
  return %0 : tensor<1x2x1x8xf32>
}

// With `interleaved`, x[2 i] and x[2 i + 1] are a pair. All pairs are rotated.
// CHECK-LABEL: tpc_kernel.func @rotary_interleaved(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?x?xf32> of [1, _2, 1, _6], %[[COS:.*]]: memref<?x?x?xf32> of [1, _2, _3], %[[SIN:.*]]: memref<?x?x?xf32> of [1, _2, _3]) -> (%[[R:.*]]: memref<?x?x?x?xf32> of [1, _2, 1, _6]) {
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[J:.*]]) in [1, _2] {
// CHECK: tpc_kernel.elements (%[[K:.*]], %[[L:.*]]) in [1, _6] {
// CHECK-NOT: scf.if
// CHECK: %[[V3:.*]] = arith.remui %[[L]], %[[C2]] : index
// CHECK: %[[V4:.*]] = arith.cmpi eq, %[[V3]], %[[C0]] : index
// CHECK: %[[V5:.*]] = arith.divui %[[L]], %[[C2]] : index
// CHECK: %[[V6:.*]] = arith.addi %[[L]], %[[C1]] : index
// CHECK: %[[V7:.*]] = arith.subi %[[L]], %[[C1]] : index
// CHECK: %[[V8:.*]] = arith.select %[[V4]], %[[V6]], %[[V7]] : index
// CHECK: %[[V9:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
// CHECK: %[[V10:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[K]], %[[V8]]] : memref<?x?x?x?xf32>
// CHECK: %[[V11:.*]] = memref.load %[[SIN]][%[[C0]], %[[J]], %[[V5]]] : memref<?x?x?xf32>
// CHECK: %[[V12:.*]] = arith.negf %[[V11]] : f32
// CHECK: %[[V13:.*]] = arith.select %[[V4]], %[[V12]], %[[V11]] : f32
// CHECK: %[[V14:.*]] = memref.load %[[COS]][%[[C0]], %[[J]], %[[V5]]] : memref<?x?x?xf32>
// CHECK: %[[V15:.*]] = arith.mulf %[[V9]], %[[V14]] : f32
// CHECK: %[[V16:.*]] = arith.mulf %[[V10]], %[[V13]] : f32
// CHECK: %[[V17:.*]] = arith.addf %[[V15]], %[[V16]] : f32
// CHECK: memref.store %[[V17]], %[[R]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
func.func private @rotary_interleaved(%x: tensor<1x2x1x6xf32>, %cos: tensor<1x2x3xf32>, %sin: tensor<1x2x3xf32>) -> tensor<1x2x1x6xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.rotary interleaved %x, %cos, %sin : tensor<1x2x1x6xf32>, tensor<1x2x3xf32>, tensor<1x2x3xf32> -> tensor<1x2x1x6xf32>
  return %0 : tensor<1x2x1x6xf32>
}

// Matmuls of types other than f32 are kernels. The right operand is the same for all batches.
// CHECK-LABEL: tpc_kernel.func @matmul(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xi64> of [_2, _3, _4], %[[Y:.*]]: memref<?x?x?xi64> of [1, _4, _5]) -> (%[[R:.*]]: memref<?x?x?xi64> of [_2, _3, _5]) {
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[J:.*]]) in [_2, _3] {
// CHECK: tpc_kernel.elements (%[[K:.*]]) in [_5] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[L:.*]]) in [_4] : i64 init 0 identity 0 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[J]], %[[L]]] : memref<?x?x?xi64>
// CHECK: %[[V2:.*]] = memref.load %[[Y]][%[[C0]], %[[L]], %[[K]]] : memref<?x?x?xi64>
// CHECK: %[[V3:.*]] = arith.muli %[[V1]], %[[V2]] : i64
// CHECK: tpc_kernel.yield %[[V3]] : i64
// CHECK: memref.store %[[V]], %[[R]][%[[I]], %[[J]], %[[K]]] : memref<?x?x?xi64>
func.func private @matmul(%x: tensor<2x3x4xi64>, %y: tensor<1x4x5xi64>) -> tensor<2x3x5xi64> attributes {tpc.kernel = 2} {
  %0 = tpc.matmul %x, %y : tensor<2x3x4xi64>, tensor<1x4x5xi64> -> tensor<2x3x5xi64>
  return %0 : tensor<2x3x5xi64>
}

// CHECK-LABEL: tpc_kernel.func @matmul_vector(
// CHECK-SAME: %[[X:.*]]: memref<?xf64> of [_4], %[[Y:.*]]: memref<?x?xf64> of [_4, _5], %[[B:.*]]: memref<?xf64> of [_5]) -> (%[[R:.*]]: memref<?xf64> of [_5]) {
// CHECK: tpc_kernel.rows () in [] {
// CHECK: tpc_kernel.elements (%[[I:.*]]) in [_5] {
// CHECK: %[[V:.*]] = tpc_kernel.fold sum (%[[J:.*]]) in [_4] : f64 init 0.000000e+00 identity -0.000000e+00 {
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[J]]] : memref<?xf64>
// CHECK: %[[V2:.*]] = memref.load %[[Y]][%[[J]], %[[I]]] : memref<?x?xf64>
// CHECK: %[[V3:.*]] = arith.mulf %[[V1]], %[[V2]] : f64
// CHECK: tpc_kernel.yield %[[V3]] : f64
// CHECK: %[[V4:.*]] = memref.load %[[B]][%[[I]]] : memref<?xf64>
// CHECK: %[[V5:.*]] = arith.addf %[[V]], %[[V4]] : f64
// CHECK: memref.store %[[V5]], %[[R]][%[[I]]] : memref<?xf64>
func.func private @matmul_vector(%x: tensor<4xf64>, %y: tensor<4x5xf64>, %b: tensor<5xf64>) -> tensor<5xf64> attributes {tpc.kernel = 0} {
  %0 = tpc.matmul %x, %y bias %b : tensor<4xf64>, tensor<4x5xf64> bias tensor<5xf64> -> tensor<5xf64>
  return %0 : tensor<5xf64>
}

// A kernel with one row along the second dimension loads stored elements of its row, also where the
// operand is broadcast. If they were recomputed with another order of a sum, no element would equal
// the maximum.
// CHECK-LABEL: tpc_kernel.func @one_row(
// CHECK-SAME: -> (%[[R:.*]]: memref<?x?x?xf32> of [_3, 1, _4], %{{.*}}: memref<?x?x?xi1> of [_3, 1, _4]) {
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[ONE:.*]]) in [_3, 1] {
// CHECK: memref.store %{{.*}}, %[[R]][%[[I]], %[[ONE]], %{{.*}}]
// CHECK-NOT: math.exp
// CHECK: tpc_kernel.barrier
// CHECK: %[[M:.*]] = tpc_kernel.fold max
// CHECK: memref.load %[[R]][%[[I]], %[[ONE]], %{{.*}}] : memref<?x?x?xf32>
// CHECK: tpc_kernel.elements (%[[K:.*]]) in [_4] {
// CHECK: %[[X:.*]] = memref.load %[[R]][%[[I]], %[[ONE]], %[[K]]] : memref<?x?x?xf32>
// CHECK: arith.cmpf oeq, %[[X]], %[[M]] : f32
func.func private @one_row(%x: tensor<3x1x4xf32>) -> (tensor<3x1x4xf32>, tensor<3x1x4xi1>) attributes {tpc.kernel = 2} {
  %0 = tpc.softmax %x dim 2 : tensor<3x1x4xf32> -> tensor<3x1x4xf32>
  %1 = tpc.reduce max %0 [2] keep : tensor<3x1x4xf32> -> tensor<3x1x1xf32>
  %2 = tpc.cmp eq %0, %1 : tensor<3x1x4xf32>, tensor<3x1x1xf32> -> tensor<3x1x4xi1>
  return %0, %2 : tensor<3x1x4xf32>, tensor<3x1x4xi1>
}
