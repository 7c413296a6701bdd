// RUN: tpc-opt %s --tpc-build-kernels | FileCheck %s

// Indices of lookups, running sums and data movement: forms that are not in kernels-lookup,
// kernels-rows and kernels-movement.mlir.
!n = tensor<?xf32, #tpc.dist<[n]>>
!all = tensor<?xf32, #tpc.dist<["n + 5"]>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {

// Two-dimensional ids, in a table with a dynamic number of rows. The table's row is computed once
// for each id, not for each column.
// CHECK-LABEL: tpc_kernel.func @embedding(
// CHECK-SAME: %[[T:.*]]: memref<?x?xf32> of [v, _4], %[[IDS:.*]]: memref<?x?xi32> of [_2, _3]) -> (%[[R:.*]]: memref<?x?x?xf32> of [_2, _3, _4]) {
// CHECK: %[[V:.*]] = tpc_kernel.size v
// CHECK: tpc_kernel.rows (%[[I:.*]], %[[J:.*]]) in [_2, _3] {
// CHECK-NEXT: memref.load %[[IDS]][%[[I]], %[[J]]]
// CHECK: %[[ROW:.*]] = arith.select
// CHECK-NEXT: %[[EXISTS:.*]] = arith.cmpi ult, %[[ROW]], %[[V]]
// CHECK-NEXT: tpc_kernel.check %[[EXISTS]], %{{.*}} of %[[V]]
// CHECK-NEXT: tpc_kernel.elements (%[[K:.*]]) in [_4] {
// CHECK-NEXT: scf.if %[[EXISTS]]
// CHECK-NEXT: memref.load %[[T]][%[[ROW]], %[[K]]]
// CHECK-NOT: tpc_kernel.check
func.func private @embedding(%t: tensor<?x4xf32, #tpc.dist<[v, 4]>>, %i: tensor<2x3xi32>) -> tensor<2x3x4xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.embedding %t, %i : tensor<?x4xf32, #tpc.dist<[v, 4]>>, tensor<2x3xi32> -> tensor<2x3x4xf32>
  return %0 : tensor<2x3x4xf32>
}

// Computed ids are also computed once per row, or for each element if the kernel's rows are not
// those of the ids.
// CHECK-LABEL: tpc_kernel.func @computed_ids(
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_3] {
// CHECK: arith.addi %{{.*}}, %{{.*}} : i64
// CHECK: tpc_kernel.check
// CHECK: tpc_kernel.elements
// CHECK-NOT: : i64
// CHECK-LABEL: tpc_kernel.func @rows_apart(
// CHECK: tpc_kernel.rows () in [] {
// CHECK-NEXT: tpc_kernel.elements (%[[I:.*]], %[[J:.*]]) in [_3, _4] {
// CHECK: tpc_kernel.check
func.func private @computed_ids(%t: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> attributes {tpc.kernel = 1} {
  %c = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %0 = tpc.add %i, %c : tensor<3xi64>, tensor<i64> -> tensor<3xi64>
  %1 = tpc.embedding %t, %0 : tensor<9x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}
func.func private @rows_apart(%t: tensor<9x4xf32>, %i: tensor<3xi64>) -> tensor<3x4xf32> attributes {tpc.kernel = 0} {
  %1 = tpc.embedding %t, %i : tensor<9x4xf32>, tensor<3xi64> -> tensor<3x4xf32>
  return %1 : tensor<3x4xf32>
}

// Two-dimensional indices replace the dimension that they index.
// CHECK-LABEL: tpc_kernel.func @gather_two(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xf32> of [_2, _6, _5], %[[IDS:.*]]: memref<?x?xi64> of [_3, _4])
// CHECK: tpc_kernel.rows (%[[A:.*]]) in [_2] {
// CHECK-NEXT: tpc_kernel.elements (%[[B:.*]], %[[C:.*]], %[[D:.*]]) in [_3, _4, _5] {
// CHECK-NEXT: memref.load %[[IDS]][%[[B]], %[[C]]]
// CHECK: %[[AT:.*]] = arith.select
// CHECK: memref.load %[[X]][%[[A]], %[[AT]], %[[D]]]
func.func private @gather_two(%x: tensor<2x6x5xf32>, %i: tensor<3x4xi64>) -> tensor<2x3x4x5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 1 : tensor<2x6x5xf32>, tensor<3x4xi64> -> tensor<2x3x4x5xf32>
  return %0 : tensor<2x3x4x5xf32>
}

// A scalar index removes its dimension.
// CHECK-LABEL: tpc_kernel.func @gather_scalar(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_2, _6], %[[I:.*]]: memref<i64> of [])
// CHECK: memref.load %[[I]][]
// CHECK: %[[AT:.*]] = arith.select
// CHECK: memref.load %[[X]][%{{.*}}, %[[AT]]]
func.func private @gather_scalar(%x: tensor<2x6xf32>, %i: tensor<i64>) -> tensor<2xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 1 : tensor<2x6xf32>, tensor<i64> -> tensor<2xf32>
  return %0 : tensor<2xf32>
}

// Tuples of indices within batches: both operands have the same batch index, and the dimensions
// after those of the tuple remain.
// CHECK-LABEL: tpc_kernel.func @gather_nd_batch(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xf32> of [_3, _5, _6], %[[IDS:.*]]: memref<?x?x?xi64> of [_3, _4, 1])
// CHECK: %[[C0:.*]] = arith.constant 0 : index
// CHECK: %[[N:.*]] = tpc_kernel.size _5
// CHECK: tpc_kernel.rows (%[[A:.*]]) in [_3] {
// CHECK-NEXT: tpc_kernel.elements (%[[B:.*]], %[[C:.*]]) in [_4, _6] {
// CHECK-NEXT: memref.load %[[IDS]][%[[A]], %[[B]], %[[C0]]]
// CHECK: %[[AT:.*]] = arith.select
// CHECK: tpc_kernel.check %{{.*}}, %{{.*}} of %[[N]]
// CHECK: memref.load %[[X]][%[[A]], %[[AT]], %[[C]]]
func.func private @gather_nd_batch(%x: tensor<3x5x6xf32>, %i: tensor<3x4x1xi64>) -> tensor<3x4x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather_nd %x, %i batch 1 : tensor<3x5x6xf32>, tensor<3x4x1xi64> -> tensor<3x4x6xf32>
  return %0 : tensor<3x4x6xf32>
}

// Running sums from the first to the previous element, and from an element to the last. 16-bit sums
// accumulate in f32.
// CHECK-LABEL: tpc_kernel.func @cumsum_before(
// CHECK: tpc_kernel.elements (%[[I:.*]], %[[J:.*]]) in [_4, _6] {
// CHECK: %[[SUM:.*]] = scf.for %[[K:.*]] = %c0 to %[[I]] step %c1 iter_args(%{{.*}} = %{{.*}}) -> (f32) {
// CHECK-NEXT: memref.load %{{.*}}[%[[K]], %[[J]]] : memref<?x?xf16>
// CHECK: arith.truncf %[[SUM]] : f32 to f16
// CHECK-LABEL: tpc_kernel.func @cumsum_to_the_end(
// CHECK: %[[N:.*]] = tpc_kernel.size _6
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_6] {
// CHECK: scf.for %{{.*}} = %[[J]] to %[[N]] step
func.func private @cumsum_before(%x: tensor<4x6xf16>) -> tensor<4x6xf16> attributes {tpc.kernel = 0} {
  %0 = tpc.cumsum %x dim 0 exclusive : tensor<4x6xf16> -> tensor<4x6xf16>
  return %0 : tensor<4x6xf16>
}
func.func private @cumsum_to_the_end(%x: tensor<4x6xf32>) -> tensor<4x6xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.cumsum %x dim 1 reverse : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// The angles of each batch element are read at its batch index.
// CHECK-LABEL: tpc_kernel.func @rotary_of_batch(
// CHECK-SAME: %{{.*}}: memref<?x?x?x?xf32> of [_2, _3, 1, _8], %[[COS:.*]]: memref<?x?x?xf32> of [_2, _3, _4], %[[SIN:[a-z0-9]+]]: memref
// CHECK: tpc_kernel.rows (%[[B:.*]], %[[S:.*]]) in [_2, _3] {
// CHECK: %[[PAIR:.*]] = arith.select
// CHECK: memref.load %[[SIN]][%[[B]], %[[S]], %[[PAIR]]]
// CHECK: memref.load %[[COS]][%[[B]], %[[S]], %[[PAIR]]]
func.func private @rotary_of_batch(%x: tensor<2x3x1x8xf32>, %cos: tensor<2x3x4xf32>, %sin: tensor<2x3x4xf32>) -> tensor<2x3x1x8xf32> attributes {tpc.kernel = 2} {
  %0 = tpc.rotary %x, %cos, %sin : tensor<2x3x1x8xf32>, tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x1x8xf32>
  return %0 : tensor<2x3x1x8xf32>
}

// In a concatenation of three operands, the sizes of earlier operands are subtracted from the
// index.
// CHECK-LABEL: tpc_kernel.func @concat_three(
// CHECK-SAME: %[[X:.*]]: memref<?xf32> of [_2], %[[Y:.*]]: memref<?xf32> of [n], %[[Z:.*]]: memref<?xf32> of [_3])
// CHECK-DAG: %[[N2:.*]] = tpc_kernel.size _2
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size n
// CHECK: tpc_kernel.elements (%[[I:.*]]) in
// CHECK: arith.cmpi slt, %[[I]], %[[N2]]
// CHECK: memref.load %[[X]][%[[I]]]
// CHECK: %[[J:.*]] = arith.subi %[[I]], %[[N2]]
// CHECK: arith.cmpi slt, %[[J]], %[[N]]
// CHECK: memref.load %[[Y]][%[[J]]]
// CHECK: %[[K:.*]] = arith.subi %[[J]], %[[N]]
// CHECK-NEXT: memref.load %[[Z]][%[[K]]]
func.func private @concat_three(%x: tensor<2xf32>, %y: !n, %z: tensor<3xf32>) -> !all attributes {tpc.kernel = 0} {
  %0 = tpc.concat %x, %y, %z dim 0 : tensor<2xf32>, !n, tensor<3xf32> -> !all
  return %0 : !all
}

// Rows of a concatenation are not rows of its operands. So the norm of an operand is computed for
// each element that is read.
// CHECK-LABEL: tpc_kernel.func @norm_before_concat(
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_6] {
// CHECK-NEXT: tpc_kernel.elements (%[[J:.*]]) in [_8] {
// CHECK: scf.if
// CHECK: tpc_kernel.fold sum (%[[K:.*]]) in [_8] adjacent
// CHECK-NEXT: memref.load %{{.*}}[%[[I]], %[[K]]]
func.func private @norm_before_concat(%x: tensor<2x8xf32>, %s: tensor<8xf32>, %y: tensor<4x8xf32>) -> tensor<6x8xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<2x8xf32>, tensor<8xf32> -> tensor<2x8xf32>
  %1 = tpc.concat %0, %y dim 0 : tensor<2x8xf32>, tensor<4x8xf32> -> tensor<6x8xf32>
  return %1 : tensor<6x8xf32>
}

// A slice that begins at a symbol. An index into a dimension of one element needs no arithmetic.
// CHECK-LABEL: tpc_kernel.func @slice_from_symbol(
// CHECK: %[[FROM:.*]] = tpc_kernel.size n
// CHECK: %[[AT:.*]] = arith.addi %{{.*}}, %[[FROM]]
// CHECK: memref.load %{{.*}}[%[[AT]]]
func.func private @slice_from_symbol(%x: !all) -> tensor<5xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.slice %x dim 0 from n : !all -> tensor<5xf32>
  return %0 : tensor<5xf32>
}

// Constants of booleans, f16 and unsigned numbers become scalars in the kernel.
// CHECK-LABEL: tpc_kernel.func @constants(
// CHECK-DAG: arith.constant true
// CHECK-DAG: arith.constant 5.000000e-01 : f16
// CHECK-DAG: arith.constant -1 : i8
func.func private @constants() -> (tensor<2xi1>, tensor<2xf16>, tensor<2xui8>) attributes {tpc.kernel = 1} {
  %0 = tpc.constant dense<true> : tensor<2xi1> : tensor<2xi1>
  %1 = tpc.constant dense<0.5> : tensor<2xf16> : tensor<2xf16>
  %2 = tpc.constant dense<255> : tensor<2xui8> : tensor<2xui8>
  return %0, %1, %2 : tensor<2xi1>, tensor<2xf16>, tensor<2xui8>
}

// Comparisons and casts of unsigned numbers are unsigned.
// CHECK-LABEL: tpc_kernel.func @unsigned(
// CHECK-DAG: arith.cmpi ult, %{{.*}} : i8
// CHECK-DAG: arith.uitofp %{{.*}} : i8 to f32
// CHECK-LABEL: tpc_kernel.func @signed(
// CHECK-DAG: arith.cmpi slt, %{{.*}} : i8
// CHECK-DAG: arith.sitofp %{{.*}} : i8 to f32
func.func private @unsigned(%x: tensor<4xui8>, %y: tensor<4xui8>) -> (tensor<4xi1>, tensor<4xf32>) attributes {tpc.kernel = 1} {
  %0 = tpc.cmp lt %x, %y : tensor<4xui8>, tensor<4xui8> -> tensor<4xi1>
  %1 = tpc.cast %x : tensor<4xui8> -> tensor<4xf32>
  return %0, %1 : tensor<4xi1>, tensor<4xf32>
}
func.func private @signed(%x: tensor<4xi8>, %y: tensor<4xi8>) -> (tensor<4xi1>, tensor<4xf32>) attributes {tpc.kernel = 1} {
  %0 = tpc.cmp lt %x, %y : tensor<4xi8>, tensor<4xi8> -> tensor<4xi1>
  %1 = tpc.cast %x : tensor<4xi8> -> tensor<4xf32>
  return %0, %1 : tensor<4xi1>, tensor<4xf32>
}
}
