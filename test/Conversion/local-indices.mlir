// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers | FileCheck %s

// Element indices of a rank's shard. 7 elements over three ranks: the first has 3, from 0 on; the
// others 2, from 3 and 5 on. (7 + 2 - c) floordiv 3 elements, beginning at 2 c + min(c, 1). The
// coordinate is the first word of env.
module attributes {tpc.mesh = #tpc.mesh<tp = 3, pp = 1, mb = 1>} {

// The split factor is the dimension's only one, so a rank's elements are contiguous.
// CHECK-LABEL: tpc_kernel.func @outer(
// CHECK-SAME: ) -> (%[[R:.*]]: memref<?xi64> of ["floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "floordiv(_7, ranks.tp)*rank.tp + min(mod(_7, ranks.tp), rank.tp)"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in ["floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.addi %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : index to i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @outer() -> tensor<?xi64, #tpc.dist<[7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[7{tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[7{tp}], local>>
}

// A factor of 5 follows the split one: each of the 7 has 5 elements.
// CHECK-LABEL: tpc_kernel.func @outer_of_two(
// CHECK-SAME: ) -> (%[[R:.*]]: memref<?xi64> of ["_5*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "_5*floordiv(_7, ranks.tp)*rank.tp + _5*min(mod(_7, ranks.tp), rank.tp)"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in ["_5*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.addi %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : index to i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @outer_of_two() -> tensor<?xi64, #tpc.dist<[7{tp} * 5], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[7{tp} * 5], local>>
  return %0 : tensor<?xi64, #tpc.dist<[7{tp} * 5], local>>
}

// The split factor follows a factor of 2: a rank has a range of each of two blocks. A rank without
// elements must not divide by 0.
// CHECK-LABEL: tpc_kernel.func @inner_of_two(
// CHECK-SAME: ) -> (%[[R:.*]]: memref<?xi64> of ["_2*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "max(1, floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp))"
// CHECK-DAG: %[[N1:.*]] = tpc_kernel.size "floordiv(_7, ranks.tp)*rank.tp + min(mod(_7, ranks.tp), rank.tp)"
// CHECK-DAG: %[[N_7:.*]] = tpc_kernel.size _7
// CHECK: tpc_kernel.rows (%[[I:.*]]) in ["_2*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.remui %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.divui %[[I]], %[[N]] : index
// CHECK: %[[V2:.*]] = arith.addi %[[V]], %[[N1]] : index
// CHECK: %[[V3:.*]] = arith.muli %[[V1]], %[[N_7]] : index
// CHECK: %[[V4:.*]] = arith.addi %[[V3]], %[[V2]] : index
// CHECK: %[[V5:.*]] = arith.index_cast %[[V4]] : index to i64
// CHECK: memref.store %[[V5]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @inner_of_two() -> tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[2 * 7{tp}], local>>
}

// A split product of factors: 14 over three ranks gives 5, 5 and 4.
// CHECK-LABEL: tpc_kernel.func @product(
// CHECK-SAME: ) -> (%[[R:.*]]: memref<?xi64> of ["floordiv(_14 - rank.tp + ranks.tp - 1, ranks.tp)"]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "floordiv(_14, ranks.tp)*rank.tp + min(mod(_14, ranks.tp), rank.tp)"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in ["floordiv(_14 - rank.tp + ranks.tp - 1, ranks.tp)"] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.addi %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : index to i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @product() -> tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>>
  return %0 : tensor<?xi64, #tpc.dist<[(2 * 7){tp}], local>>
}

// 9 over three ranks gives 3 each: the size is static.
// CHECK-LABEL: tpc_kernel.func @even(
// CHECK-SAME: ) -> (%[[R:.*]]: memref<?xi64> of [_9.tp]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "_9.tp*rank.tp"
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_9.tp] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.addi %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.index_cast %[[V]] : index to i64
// CHECK: memref.store %[[V1]], %[[R]][%[[I]]] : memref<?xi64>
func.func private @even() -> tensor<3xi64, #tpc.dist<[9{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.iota dim 0 : tensor<3xi64, #tpc.dist<[9{tp}], local>>
  return %0 : tensor<3xi64, #tpc.dist<[9{tp}], local>>
}

// A rank's slice of a whole value reads the same indices.
// CHECK-LABEL: tpc_kernel.func @part(
// CHECK-SAME: %[[X:.*]]: memref<?xf32> of [_14]) -> (%[[R:.*]]: memref<?xf32> of ["_2*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"]) {
// CHECK-DAG: %[[N:.*]] = tpc_kernel.size "max(1, floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp))"
// CHECK-DAG: %[[N1:.*]] = tpc_kernel.size "floordiv(_7, ranks.tp)*rank.tp + min(mod(_7, ranks.tp), rank.tp)"
// CHECK-DAG: %[[N_7:.*]] = tpc_kernel.size _7
// CHECK: tpc_kernel.rows (%[[I:.*]]) in ["_2*floordiv(_7 - rank.tp + ranks.tp - 1, ranks.tp)"] {
// CHECK: tpc_kernel.elements () in [] {
// CHECK: %[[V:.*]] = arith.remui %[[I]], %[[N]] : index
// CHECK: %[[V1:.*]] = arith.divui %[[I]], %[[N]] : index
// CHECK: %[[V2:.*]] = arith.addi %[[V]], %[[N1]] : index
// CHECK: %[[V3:.*]] = arith.muli %[[V1]], %[[N_7]] : index
// CHECK: %[[V4:.*]] = arith.addi %[[V3]], %[[V2]] : index
// CHECK: %[[V5:.*]] = memref.load %[[X]][%[[V4]]] : memref<?xf32>
// CHECK: memref.store %[[V5]], %[[R]][%[[I]]] : memref<?xf32>
func.func private @part(%x: tensor<14xf32>) -> tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>> attributes {tpc.kernel = 1} {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<14xf32> -> tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>>
  return %0 : tensor<?xf32, #tpc.dist<[2 * 7{tp}], local>>
}
}
