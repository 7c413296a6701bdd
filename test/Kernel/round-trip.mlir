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

// The position of new keys may be any function of the length that is equal for all rows of a
// sequence: with branches, quotients, and sums with several uses.
// CHECK-LABEL: tpc_kernel.func @appends
// CHECK: scf.if %{{[a-z0-9_]+}} {
// CHECK-NEXT: memref.store %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : memref<?x?xf32>
tpc_kernel.func @appends(%n: memref<?xi64> of [2], %x: memref<?x?xf32> of [2, 8]) -> (%y: memref<?x?xf32> of [2, 9]) {
  %most = tpc_kernel.size 9
  %zero = arith.constant 0 : index
  tpc_kernel.rows (%b, %i) in [2, 8] {
    %0 = memref.load %x[%b, %i] : memref<?x?xf32>
    %1 = memref.load %n[%b] : memref<?xi64>
    %2 = arith.index_cast %1 : i64 to index
    %3 = arith.divsi %2, %most : index
    %4 = arith.cmpi slt, %3, %zero : index
    %l0 = scf.if %4 -> (index) {
      scf.yield %zero : index
    } else {
      scf.yield %3 : index
    }
    %l1 = arith.addi %l0, %l0 : index
    %l2 = arith.addi %l1, %l1 : index
    %l3 = arith.addi %l2, %l2 : index
    %l4 = arith.addi %l3, %l3 : index
    %l5 = arith.addi %l4, %l4 : index
    %l6 = arith.addi %l5, %l5 : index
    %l7 = arith.addi %l6, %l6 : index
    %l8 = arith.addi %l7, %l7 : index
    %l9 = arith.addi %l8, %l8 : index
    %l10 = arith.addi %l9, %l9 : index
    %l11 = arith.addi %l10, %l10 : index
    %l12 = arith.addi %l11, %l11 : index
    %l13 = arith.addi %l12, %l12 : index
    %l14 = arith.addi %l13, %l13 : index
    %l15 = arith.addi %l14, %l14 : index
    %l16 = arith.addi %l15, %l15 : index
    %l17 = arith.addi %l16, %l16 : index
    %l18 = arith.addi %l17, %l17 : index
    %l19 = arith.addi %l18, %l18 : index
    %l20 = arith.addi %l19, %l19 : index
    %l21 = arith.addi %l20, %l20 : index
    %l22 = arith.addi %l21, %l21 : index
    %l23 = arith.addi %l22, %l22 : index
    %l24 = arith.addi %l23, %l23 : index
    %l25 = arith.addi %l24, %l24 : index
    %l26 = arith.addi %l25, %l25 : index
    %l27 = arith.addi %l26, %l26 : index
    %l28 = arith.addi %l27, %l27 : index
    %l29 = arith.addi %l28, %l28 : index
    %l30 = arith.addi %l29, %l29 : index
    %l31 = arith.addi %l30, %l30 : index
    %l32 = arith.addi %l31, %l31 : index
    %l33 = arith.addi %l32, %l32 : index
    %l34 = arith.addi %l33, %l33 : index
    %l35 = arith.addi %l34, %l34 : index
    %l36 = arith.addi %l35, %l35 : index
    %l37 = arith.addi %l36, %l36 : index
    %l38 = arith.addi %l37, %l37 : index
    %l39 = arith.addi %l38, %l38 : index
    %l40 = arith.addi %l39, %l39 : index
    %l41 = arith.addi %l40, %l40 : index
    %l42 = arith.addi %l41, %l41 : index
    %l43 = arith.addi %l42, %l42 : index
    %l44 = arith.addi %l43, %l43 : index
    %l45 = arith.addi %l44, %l44 : index
    %l46 = arith.addi %l45, %l45 : index
    %l47 = arith.addi %l46, %l46 : index
    %l48 = arith.addi %l47, %l47 : index
    %l49 = arith.addi %l48, %l48 : index
    %l50 = arith.addi %l49, %l49 : index
    %l51 = arith.addi %l50, %l50 : index
    %l52 = arith.addi %l51, %l51 : index
    %l53 = arith.addi %l52, %l52 : index
    %l54 = arith.addi %l53, %l53 : index
    %l55 = arith.addi %l54, %l54 : index
    %l56 = arith.addi %l55, %l55 : index
    %l57 = arith.addi %l56, %l56 : index
    %l58 = arith.addi %l57, %l57 : index
    %l59 = arith.addi %l58, %l58 : index
    %l60 = arith.addi %l59, %l59 : index
    %l61 = arith.addi %l60, %l60 : index
    %l62 = arith.addi %l61, %l61 : index
    %l63 = arith.addi %l62, %l62 : index
    %l64 = arith.addi %l63, %l63 : index
    %5 = arith.addi %l64, %i : index
    %6 = arith.cmpi ult, %5, %most : index
    tpc_kernel.elements () in [] {
      scf.if %6 {
        memref.store %0, %y[%b, %5] : memref<?x?xf32>
      }
    }
  }
}

// CHECK-LABEL: tpc_kernel.func @columns(
// CHECK-SAME: memref<?x?x?xf32> of [n, _12, 64] rows 1 stride "_768 + 128", %{{.*}}: memref<?xf32> of [64]) ->
// CHECK-SAME: (%{{.*}}: memref<?x?x?xf32> of [n, _12, 64]) {
tpc_kernel.func @columns(%x: memref<?x?x?xf32> of [n, _12, 64] rows 1 stride "_768 + 128", %z: memref<?xf32> of [64])
    -> (%y: memref<?x?x?xf32> of [n, _12, 64]) {
  tpc_kernel.rows (%row) in [n] {
    tpc_kernel.elements (%h, %j) in [_12, 64] {
      %v = memref.load %x[%row, %h, %j] : memref<?x?x?xf32>
      memref.store %v, %y[%row, %h, %j] : memref<?x?x?xf32>
    }
  }
}

// CHECK-LABEL: tpc_kernel.func @in_place(
// CHECK-SAME: %[[W:.*]]: memref<?xf32> of [n], %[[G:.*]]: memref<?xf32> of [n]) ->
// CHECK-SAME: (%{{.*}}: memref<?xf32> of [n], %{{.*}}: memref<?xf32> of [n] over %[[W]]) {
tpc_kernel.func @in_place(%w: memref<?xf32> of [n], %g: memref<?xf32> of [n])
    -> (%s: memref<?xf32> of [n], %y: memref<?xf32> of [n] over %w) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements () in [] {
      %v = memref.load %w[%i] : memref<?xf32>
      %d = memref.load %g[%i] : memref<?xf32>
      %r = arith.subf %v, %d : f32
      memref.store %d, %s[%i] : memref<?xf32>
      memref.store %r, %y[%i] : memref<?xf32>
    }
  }
}
