// RUN: tpc-opt %s | tpc-opt | FileCheck %s
// RUN: tpc-opt %s --mlir-print-op-generic | tpc-opt | FileCheck %s

// CHECK-LABEL: tpc_kernel.func @norm(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of ["batch*sequence", _768], %[[IDS:.*]]: memref<?xi64> of ["batch*sequence"]) ->
// CHECK-SAME: (%[[SUM:.*]]: memref<?x?xf32> of ["batch*sequence", _768], %[[Y:.*]]: memref<?x?xi1> of ["batch*sequence", _768]) {
// CHECK: %[[N:.*]] = tpc_kernel.size _768
// CHECK: %[[AT:.*]] = tpc_kernel.size "_768*rank.tp + 1"
// CHECK: tpc_kernel.rows (%[[ROW:.*]]) in ["batch*sequence"] {
// CHECK: tpc_kernel.check %{{.*}}, %{{.*}} of %[[N]] at "wte"
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_768] {
// CHECK: memref.store %{{.*}}, %[[SUM]][%[[ROW]], %[[J]]]
// CHECK: tpc_kernel.barrier
// CHECK: tpc_kernel.fold sum (%[[K:.*]]) in [_768] adjacent : f32 init 0.000000e+00 identity -0.000000e+00 {
// CHECK: tpc_kernel.yield %{{.*}} : f32
// CHECK: tpc_kernel.elements (%{{.*}}) in [_768] {
tpc_kernel.func @norm(%x: memref<?x?xf32> of ["batch*sequence", _768], %ids: memref<?xi64> of ["sequence*batch"])
    -> (%sum: memref<?x?xf32> of ["batch*sequence", _768], %y: memref<?x?xi1> of ["batch*sequence", _768]) {
  %n = tpc_kernel.size _768
  %at = tpc_kernel.size "1 + rank.tp*_768"
  tpc_kernel.rows (%row) in ["batch*sequence"] {
    %given = memref.load %ids[%row] : memref<?xi64>
    %id = arith.index_cast %given : i64 to index
    %exists = arith.cmpi ult, %id, %n : index
    tpc_kernel.check %exists, %id of %n at "wte"
    tpc_kernel.elements (%j) in [_768] {
      %v = memref.load %x[%row, %j] : memref<?x?xf32>
      %s = arith.addf %v, %v : f32
      memref.store %s, %sum[%row, %j] : memref<?x?xf32>
    }
    tpc_kernel.barrier
    %total = tpc_kernel.fold sum (%j) in [_768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %sum[%row, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements (%j) in [_768] {
      %v = memref.load %x[%row, %j] : memref<?x?xf32>
      %more = arith.cmpf ogt, %v, %total : f32
      memref.store %more, %y[%row, %j] : memref<?x?xi1>
    }
  }
}

// Without operands, without rows, without indices.
// CHECK-LABEL: tpc_kernel.func @one()
// CHECK-SAME: -> (%{{.*}}: memref<i64> of []) attributes {tpc_kernel.note = "kept"} {
// CHECK: tpc_kernel.rows () in [] {
// CHECK: tpc_kernel.fold umax () in [] : i64 init 0 identity 0 {
// CHECK: tpc_kernel.elements () in [] {
tpc_kernel.func @one() -> (%r: memref<i64> of []) attributes {tpc_kernel.note = "kept"} {
  %n = tpc_kernel.size past
  tpc_kernel.rows () in [] {
    %m = tpc_kernel.fold umax () in [] : i64 init 0 identity 0 {
      %v = arith.index_cast %n : index to i64
      tpc_kernel.yield %v : i64
    }
    tpc_kernel.elements () in [] {
      memref.store %m, %r[] : memref<i64>
    }
  }
}
