// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers | FileCheck %s

// Lookups in kernels: negative indices count from the end, an index outside of the whole dimension
// is reported, and an index into another rank's shard reads as zero. (lower-lookups.mlir has an
// embedding.)
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {

// A gather in the middle dimension: the dimensions before and after remain.
// CHECK-LABEL: tpc_kernel.func @gather(
// CHECK-SAME: %[[X:.*]]: memref<?x?x?xf32> of [_2, _6, _3], %[[I:.*]]: memref<?xi32> of [_4]) -> (%[[R:.*]]: memref<?x?x?xf32> of [_2, _4, _3]) {
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I1:.*]]) in [_2] {
// CHECK: tpc_kernel.elements (%[[J:.*]], %[[K:.*]]) in [_4, _3] {
// CHECK: %[[V:.*]] = memref.load %[[I]][%[[J]]] : memref<?xi32>
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : i32 to index
// CHECK: %[[V2:.*]] = arith.cmpi slt, %[[V1]], %[[C0]] : index
// CHECK: %[[V3:.*]] = arith.addi %[[V1]], %[[N_6]] : index
// CHECK: %[[V4:.*]] = arith.select %[[V2]], %[[V3]], %[[V1]] : index
// CHECK: %[[V5:.*]] = arith.cmpi ult, %[[V4]], %[[N_6]] : index
// CHECK: tpc_kernel.check %[[V5]], %[[V1]] of %[[N_6]] at "{{.*}}kernels-lookup.mlir:{{[0-9]+}}"
// CHECK: %[[V6:.*]] = scf.if %[[V5]] -> (f32) {
// CHECK: %[[V7:.*]] = memref.load %[[X]][%[[I1]], %[[V4]], %[[K]]] : memref<?x?x?xf32>
// CHECK: scf.yield %[[V7]] : f32
// CHECK: } else {
// CHECK: %[[C01:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.yield %[[C01]] : f32
// CHECK: memref.store %[[V6]], %[[R]][%[[I1]], %[[J]], %[[K]]] : memref<?x?x?xf32>
func.func private @gather(%x: tensor<2x6x3xf32>, %i: tensor<4xi32>) -> tensor<2x4x3xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 1 : tensor<2x6x3xf32>, tensor<4xi32> -> tensor<2x4x3xf32>
  return %0 : tensor<2x4x3xf32>
}

// Unsigned indices are zero-extended.
// CHECK-LABEL: tpc_kernel.func @gather_unsigned(
// CHECK-SAME: %[[X:.*]]: memref<?xf32> of [_6], %[[I:.*]]: memref<?xi8> of [_4]) -> (%[[R:.*]]: memref<?xf32> of [_4]) {
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK: tpc_kernel.rows (%[[I1:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[I]][%[[I1]]] : memref<?xi8>
// CHECK: %[[V1:.*]] = arith.index_castui %[[V]] : i8 to index
// CHECK: %[[V2:.*]] = arith.cmpi slt, %[[V1]], %[[C0]] : index
// CHECK: %[[V3:.*]] = arith.addi %[[V1]], %[[N_6]] : index
// CHECK: %[[V4:.*]] = arith.select %[[V2]], %[[V3]], %[[V1]] : index
// CHECK: %[[V5:.*]] = arith.cmpi ult, %[[V4]], %[[N_6]] : index
// CHECK: tpc_kernel.check %[[V5]], %[[V1]] of %[[N_6]] at "{{.*}}kernels-lookup.mlir:{{[0-9]+}}"
// CHECK: %[[V6:.*]] = scf.if %[[V5]] -> (f32) {
// CHECK: %[[V7:.*]] = memref.load %[[X]][%[[V4]]] : memref<?xf32>
// CHECK: scf.yield %[[V7]] : f32
// CHECK: } else {
// CHECK: %[[C01:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.yield %[[C01]] : f32
// CHECK: memref.store %[[V6]], %[[R]][%[[I1]]] : memref<?xf32>
func.func private @gather_unsigned(%x: tensor<6xf32>, %i: tensor<4xui8>) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 0 : tensor<6xf32>, tensor<4xui8> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A row of the rank's shard reads all ids, and the updates if an id is this row.
// CHECK-LABEL: tpc_kernel.func @scatter_add(
// CHECK-SAME: %[[D:.*]]: memref<?x?xf32> of [_5, _3], %[[I:.*]]: memref<?xi64> of [_5]) -> (%[[R:.*]]: memref<?x?xf32>
// CHECK-DAG: %[[FIRST:.*]] = tpc_kernel.size "floordiv(_9, ranks.tp)*rank.tp + min(mod(_9, ranks.tp), rank.tp)"
// CHECK-DAG: %[[N_9:.*]] = tpc_kernel.size _9
// CHECK: tpc_kernel.rows (%[[I1:.*]]) in
// CHECK: %[[ROW:.*]] = arith.addi %[[I1]], %[[FIRST]] : index
// CHECK: %[[COUNT:.*]] = tpc_kernel.fold sum (%{{.*}}) in [_5] adjacent
// CHECK: arith.addi %{{.*}}, %[[N_9]] : index
// CHECK: %[[ISROW:.*]] = arith.cmpi eq, %{{.*}}, %[[ROW]] : index
// CHECK: arith.select %[[ISROW]]
// CHECK: %[[ANY:.*]] = arith.cmpf ogt, %[[COUNT]]
// CHECK: tpc_kernel.elements (%[[H:.*]]) in [_3] {
// CHECK: scf.if %[[ANY]] -> (f32) {
// CHECK: tpc_kernel.fold sum (%[[J:.*]]) in [_5] :
// CHECK: %[[U:.*]] = memref.load %[[D]][%[[J]], %[[H]]]
// CHECK: arith.cmpi eq, %{{.*}}, %[[ROW]] : index
// CHECK: arith.select %{{.*}}, %[[U]], %{{.*}} : f32
// CHECK: memref.store %{{.*}}, %[[R]][%[[I1]], %[[H]]]
func.func private @scatter_add(%d: tensor<5x3xf32>, %i: tensor<5xi64>) -> tensor<?x3xf32, #tpc.dist<[9{tp}, 3], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.scatter_add %d, %i : tensor<5x3xf32>, tensor<5xi64> -> tensor<?x3xf32, #tpc.dist<[9{tp}, 3], local>>
  return %0 : tensor<?x3xf32, #tpc.dist<[9{tp}, 3], local>>
}

// The gathered dimension is split: each of two ranks has half of it.
// CHECK-LABEL: tpc_kernel.func @gather_split(
// CHECK-SAME: %[[X:.*]]: memref<?xf32> of [_6.tp], %[[I:.*]]: memref<?xi64> of [_4]) -> (%[[R:.*]]: memref<?xf32> of [_4]) {
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "_6.tp*rank.tp"
// CHECK-DAG: %[[N1:.*]] = tpc_kernel.size _6.tp
// CHECK: tpc_kernel.rows (%[[I1:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[I]][%[[I1]]] : memref<?xi64>
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : i64 to index
// CHECK: %[[V2:.*]] = arith.cmpi slt, %[[V1]], %[[C0]] : index
// CHECK: %[[V3:.*]] = arith.addi %[[V1]], %[[N_6]] : index
// CHECK: %[[V4:.*]] = arith.select %[[V2]], %[[V3]], %[[V1]] : index
// CHECK: %[[V5:.*]] = arith.cmpi ult, %[[V4]], %[[N_6]] : index
// CHECK: tpc_kernel.check %[[V5]], %[[V1]] of %[[N_6]] at "{{.*}}kernels-lookup.mlir:{{[0-9]+}}"
// CHECK: %[[V6:.*]] = arith.subi %[[V4]], %[[N]] : index
// CHECK: %[[V7:.*]] = arith.cmpi ult, %[[V6]], %[[N1]] : index
// CHECK: %[[V8:.*]] = arith.andi %[[V5]], %[[V7]] : i1
// CHECK: %[[V9:.*]] = scf.if %[[V8]] -> (f32) {
// CHECK: %[[V10:.*]] = memref.load %[[X]][%[[V6]]] : memref<?xf32>
// CHECK: scf.yield %[[V10]] : f32
// CHECK: } else {
// CHECK: %[[C01:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: scf.yield %[[C01]] : f32
// CHECK: memref.store %[[V9]], %[[R]][%[[I1]]] : memref<?xf32>
func.func private @gather_split(%x: tensor<3xf32, #tpc.dist<[6{tp}], local>>, %i: tensor<4xi64>) -> tensor<4xf32, #tpc.dist<[4], sum{tp}, local>> attributes {tpc.kernel = 1} {
  %0 = tpc.gather %x, %i dim 0 : tensor<3xf32, #tpc.dist<[6{tp}], local>>, tensor<4xi64> -> tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>
  return %0 : tensor<4xf32, #tpc.dist<[4], sum{tp}, local>>
}

// Two indices for each element; both must be in this rank's shard.
// CHECK-LABEL: tpc_kernel.func @gather_nd(
// CHECK-SAME: %[[X:.*]]: memref<?x?xi64> of [_5, _6], %[[I:.*]]: memref<?x?xi64> of [_4, _2]) -> (%[[R:.*]]: memref<?xi64> of [_4]) {
// CHECK-DAG: %[[C0:.*]] = arith.constant 0 : index
// CHECK-DAG: %[[N_5:.*]] = tpc_kernel.size _5
// CHECK-DAG: %[[C1:.*]] = arith.constant 1 : index
// CHECK-DAG: %[[N_6:.*]] = tpc_kernel.size _6
// CHECK: tpc_kernel.rows (%[[I1:.*]]) in [_4] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = memref.load %[[I]][%[[I1]], %[[C0]]] : memref<?x?xi64>
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : i64 to index
// CHECK: %[[V2:.*]] = arith.cmpi slt, %[[V1]], %[[C0]] : index
// CHECK: %[[V3:.*]] = arith.addi %[[V1]], %[[N_5]] : index
// CHECK: %[[V4:.*]] = arith.select %[[V2]], %[[V3]], %[[V1]] : index
// CHECK: %[[V5:.*]] = arith.cmpi ult, %[[V4]], %[[N_5]] : index
// CHECK: tpc_kernel.check %[[V5]], %[[V1]] of %[[N_5]] at "{{.*}}kernels-lookup.mlir:{{[0-9]+}}"
// CHECK: %[[V6:.*]] = memref.load %[[I]][%[[I1]], %[[C1]]] : memref<?x?xi64>
// CHECK: %[[V7:.*]] = arith.index_cast %[[V6]] : i64 to index
// CHECK: %[[V8:.*]] = arith.cmpi slt, %[[V7]], %[[C0]] : index
// CHECK: %[[V9:.*]] = arith.addi %[[V7]], %[[N_6]] : index
// CHECK: %[[V10:.*]] = arith.select %[[V8]], %[[V9]], %[[V7]] : index
// CHECK: %[[V11:.*]] = arith.cmpi ult, %[[V10]], %[[N_6]] : index
// CHECK: tpc_kernel.check %[[V11]], %[[V7]] of %[[N_6]] at "{{.*}}kernels-lookup.mlir:{{[0-9]+}}"
// CHECK: %[[V12:.*]] = arith.andi %[[V5]], %[[V11]] : i1
// CHECK: %[[V13:.*]] = scf.if %[[V12]] -> (i64) {
// CHECK: %[[V14:.*]] = memref.load %[[X]][%[[V4]], %[[V10]]] : memref<?x?xi64>
// CHECK: scf.yield %[[V14]] : i64
// CHECK: } else {
// CHECK-DAG: %[[C01:.*]] = arith.constant 0 : i64
// CHECK: scf.yield %[[C01]] : i64
// CHECK: memref.store %[[V13]], %[[R]][%[[I1]]] : memref<?xi64>
func.func private @gather_nd(%x: tensor<5x6xi64>, %i: tensor<4x2xi64>) -> tensor<4xi64> attributes {tpc.kernel = 1} {
  %0 = tpc.gather_nd %x, %i : tensor<5x6xi64>, tensor<4x2xi64> -> tensor<4xi64>
  return %0 : tensor<4xi64>
}
}
