// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers | FileCheck %s

// Kernels of data-movement ops: source index of each element. A kernel runs rows [lo, hi); the
// other dimensions are loops.

// A roll reads index + 4, minus 6 beyond the end.
// CHECK-LABEL: tpc_kernel.func @roll(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _6]) -> (%[[R:.*]]: memref<?x?xf32> of [_2, _6]) {
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "mod(_4, _6)"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_6] {
// CHECK: %[[V:.*]] = arith.addi %[[J]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.cmpi slt, %[[V]], %[[N_6]] : index
// CHECK: %[[V2:.*]] = arith.subi %[[V]], %[[N_6]] : index
// CHECK: %[[V3:.*]] = arith.select %[[V1]], %[[V]], %[[V2]] : index
// CHECK: %[[V4:.*]] = memref.load %[[X]][%[[I]], %[[V3]]] : memref<?x?xf32>
// CHECK: memref.store %[[V4]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @roll(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.roll %x dim 1 from 4 every 6 : tensor<2x6xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// A backward roll by 1 in blocks of 3 is a forward roll by 2. In a dimension of six, elements stay
// in their block.
// CHECK-LABEL: tpc_kernel.func @roll_runs(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _6]) -> (%[[R:.*]]: memref<?x?xf32> of [_2, _6]) {
// CHECK-DAG: %[[N_3:.*]] = tpc_kernel.size _3
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "mod(-1, _3)"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_6] {
// CHECK: %[[V:.*]] = arith.remui %[[J]], %[[N_3]] : index
// CHECK: %[[V1:.*]] = arith.divui %[[J]], %[[N_3]] : index
// CHECK: %[[V2:.*]] = arith.addi %[[V]], %[[N]] : index
// CHECK: %[[V3:.*]] = arith.cmpi slt, %[[V2]], %[[N_3]] : index
// CHECK: %[[V4:.*]] = arith.subi %[[V2]], %[[N_3]] : index
// CHECK: %[[V5:.*]] = arith.select %[[V3]], %[[V2]], %[[V4]] : index
// CHECK: %[[V6:.*]] = arith.muli %[[V1]], %[[N_3]] : index
// CHECK: %[[V7:.*]] = arith.addi %[[V6]], %[[V5]] : index
// CHECK: %[[V8:.*]] = memref.load %[[X]][%[[I]], %[[V7]]] : memref<?x?xf32>
// CHECK: memref.store %[[V8]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @roll_runs(%x: tensor<2x6xf32>) -> tensor<2x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.roll %x dim 1 from -1 every 3 : tensor<2x6xf32> -> tensor<2x6xf32>
  return %0 : tensor<2x6xf32>
}

// A concatenation reads the first operand if the index is below its size, otherwise the second.
// CHECK-LABEL: tpc_kernel.func @concat(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _6], %[[Y:.*]]: memref<?x?xf32> of [_2, _3]) -> (%[[R:.*]]: memref<?x?xf32> of [_2, _9]) {
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_9] {
// CHECK: %[[V:.*]] = arith.cmpi slt, %[[J]], %[[N_6]] : index
// CHECK: %[[V1:.*]] = scf.if %[[V]] -> (f32) {
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xf32>
// CHECK: scf.yield %[[V2]] : f32
// CHECK: } else {
// CHECK: %[[V3:.*]] = arith.subi %[[J]], %[[N_6]] : index
// CHECK: %[[V4:.*]] = memref.load %[[Y]][%[[I]], %[[V3]]] : memref<?x?xf32>
// CHECK: scf.yield %[[V4]] : f32
// CHECK: memref.store %[[V1]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @concat(%x: tensor<2x6xf32>, %y: tensor<2x3xf32>) -> tensor<2x9xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.concat %x, %y dim 1 : tensor<2x6xf32>, tensor<2x3xf32> -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

// A slice reads index `from` + `step` * index.
// CHECK-LABEL: tpc_kernel.func @slice(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _9]) -> (%[[R:.*]]: memref<?x?xf32> of [_2, _4]) {
// CHECK-DAG: %[[C2:.*]] = arith.constant 2 : index
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size _9.at1
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_4] {
// CHECK: %[[V:.*]] = arith.muli %[[J]], %[[C2]] : index
// CHECK: %[[V1:.*]] = arith.addi %[[V]], %[[N]] : index
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[V1]]] : memref<?x?xf32>
// CHECK: memref.store %[[V2]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @slice(%x: tensor<2x9xf32>) -> tensor<2x4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.slice %x dim 1 from 1 step 2 : tensor<2x9xf32> -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: tpc_kernel.func @slice_backwards(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _9]) -> (%[[R:.*]]: memref<?x?xf32> of [_2, _9]) {
// CHECK-DAG: %c-1 = arith.constant -1 : index
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size _9.at8
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_9] {
// CHECK: %[[V:.*]] = arith.muli %[[J]], %c-1 : index
// CHECK: %[[V1:.*]] = arith.addi %[[V]], %[[N]] : index
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[V1]]] : memref<?x?xf32>
// CHECK: memref.store %[[V2]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @slice_backwards(%x: tensor<2x9xf32>) -> tensor<2x9xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.slice %x dim 1 from 8 step -1 : tensor<2x9xf32> -> tensor<2x9xf32>
  return %0 : tensor<2x9xf32>
}

// CHECK-LABEL: tpc_kernel.func @transpose(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xf32> of [_2, _3, _5]) -> (%[[R:.*]]: memref<?x?x?xf32> of [_5, _2, _3]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_5] {
// CHECK: tpc_kernel.elements (%[[J:.*]], %[[K:.*]]) in [_2, _3] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[J]], %[[K]], %[[I]]] : memref<?x?x?xf32>
// CHECK: memref.store %[[V]], %[[R]][%[[I]], %[[J]], %[[K]]] : memref<?x?x?xf32>
func.func private @transpose(%x: tensor<2x3x5xf32>) -> tensor<5x2x3xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.transpose %x [2, 0, 1] : tensor<2x3x5xf32> -> tensor<5x2x3xf32>
  return %0 : tensor<5x2x3xf32>
}

// An expanded dimension of size 1 is read at 0.
// CHECK-LABEL: tpc_kernel.func @expand(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xf32> of [_2, 1, _5]) -> (%[[R:.*]]: memref<?x?x?xf32> of [_2, _4, _5]) {
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[J:.*]]) in [_2, _4] {
// CHECK: tpc_kernel.elements (%[[K:.*]]) in [_5] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]], %[[C0]], %[[K]]] : memref<?x?x?xf32>
// CHECK: memref.store %[[V]], %[[R]][%[[I]], %[[J]], %[[K]]] : memref<?x?x?xf32>
func.func private @expand(%x: tensor<2x1x5xf32>) -> tensor<2x4x5xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.expand %x : tensor<2x1x5xf32> -> tensor<2x4x5xf32>
  return %0 : tensor<2x4x5xf32>
}

// Inside a kernel, a reshape is index arithmetic.
// CHECK-LABEL: tpc_kernel.func @reshape(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_4, _6]) -> (%[[R:.*]]: memref<?x?xf32> of [_3, _8]) {
// CHECK-DAG: %[[N_8:.*]] = tpc_kernel.size _8
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_3] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_8] {
// CHECK: %[[V:.*]] = arith.muli %[[I]], %[[N_8]] : index
// CHECK: %[[V1:.*]] = arith.addi %[[V]], %[[J]] : index
// CHECK: %[[V2:.*]] = arith.remui %[[V1]], %[[N_6]] : index
// CHECK: %[[V3:.*]] = arith.divui %[[V1]], %[[N_6]] : index
// CHECK: %[[V4:.*]] = memref.load %[[X]][%[[V3]], %[[V2]]] : memref<?x?xf32>
// CHECK: %[[V5:.*]] = arith.negf %[[V4]] : f32
// CHECK: memref.store %[[V5]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @reshape(%x: tensor<4x6xf32>) -> tensor<3x8xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  %1 = tpc.neg %0 : tensor<3x8xf32> -> tensor<3x8xf32>
  return %1 : tensor<3x8xf32>
}

// A reshape that only adds or removes dimensions of size 1 needs no arithmetic.
// CHECK-LABEL: tpc_kernel.func @reshape_ones(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_4, _6]) -> (%[[R:.*]]: memref<?x?x?x?xf32> of [_4, 1, _6, 1]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK: tpc_kernel.elements (%[[J:.*]], %[[K:.*]], %[[L:.*]]) in [1, _6, 1] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]], %[[K]]] : memref<?x?xf32>
// CHECK: %[[V1:.*]] = arith.negf %[[V]] : f32
// CHECK: memref.store %[[V1]], %[[R]][%[[I]], %[[J]], %[[K]], %[[L]]] : memref<?x?x?x?xf32>
func.func private @reshape_ones(%x: tensor<4x6xf32>) -> tensor<4x1x6x1xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.reshape %x : tensor<4x6xf32> -> tensor<4x1x6x1xf32>
  %1 = tpc.neg %0 : tensor<4x1x6x1xf32> -> tensor<4x1x6x1xf32>
  return %1 : tensor<4x1x6x1xf32>
}

// Elements on and below the diagonal are copied; those above are zeros.
// CHECK-LABEL: tpc_kernel.func @trilu(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_5, _5]) -> (%[[R:.*]]: memref<?x?xf32> of [_5, _5]) {
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_5] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_5] {
// CHECK: %[[V:.*]] = arith.cmpi sle, %[[J]], %[[I]] : index
// CHECK: %[[V1:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xf32>
// CHECK: %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V2:.*]] = arith.select %[[V]], %[[V1]], %[[C0]] : f32
// CHECK: memref.store %[[V2]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @trilu(%x: tensor<5x5xf32>) -> tensor<5x5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.trilu %x k 0 : tensor<5x5xf32> -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}

// CHECK-LABEL: tpc_kernel.func @trilu_upper(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_5, _5]) -> (%[[R:.*]]: memref<?x?xf32> of [_5, _5]) {
// CHECK-DAG: %[[N_2:.*]] = tpc_kernel.size 2
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_5] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_5] {
// CHECK: %[[V:.*]] = arith.addi %[[I]], %[[N_2]] : index
// CHECK: %[[V1:.*]] = arith.cmpi sge, %[[J]], %[[V]] : index
// CHECK: %[[V2:.*]] = memref.load %[[X]][%[[I]], %[[J]]] : memref<?x?xf32>
// CHECK: %[[C0:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[V3:.*]] = arith.select %[[V1]], %[[V2]], %[[C0]] : f32
// CHECK: memref.store %[[V3]], %[[R]][%[[I]], %[[J]]] : memref<?x?xf32>
func.func private @trilu_upper(%x: tensor<5x5xf32>) -> tensor<5x5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.trilu upper %x k 2 : tensor<5x5xf32> -> tensor<5x5xf32>
  return %0 : tensor<5x5xf32>
}

// The value of a size as an element of any type.
// CHECK-LABEL: tpc_kernel.func @sizes(
// CHECK-SAME: ) -> (%[[R0:.*]]: memref<f32> of [], %[[R1:.*]]: memref<i32> of [], %[[R2:.*]]: memref<i1> of []) {
// CHECK-DAG: %[[N_7:.*]] = tpc_kernel.size _7
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows () in [] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.index_cast %[[N_7]] : index to i64
// CHECK: %[[V1:.*]] = arith.sitofp %[[V]] : i64 to f32
// CHECK: memref.store %[[V1]], %[[R0]][] : memref<f32>
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V2:.*]] = arith.index_cast %[[N_7]] : index to i32
// CHECK: memref.store %[[V2]], %[[R1]][] : memref<i32>
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V3:.*]] = arith.cmpi ne, %[[N_7]], %[[C0]] : index
// CHECK: memref.store %[[V3]], %[[R2]][] : memref<i1>
func.func private @sizes() -> (tensor<f32>, tensor<i32>, tensor<i1>) attributes {tpc.kernel = 0} {
  %0 = tpc.size 7 : tensor<f32>
  %1 = tpc.size 7 : tensor<i32>
  %2 = tpc.size 7 : tensor<i1>
  return %0, %1, %2 : tensor<f32>, tensor<i32>, tensor<i1>
}
