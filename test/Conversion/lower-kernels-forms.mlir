// RUN: tpc-opt %s --tpc-lower-kernels | FileCheck %s

// Reductions, loops and branches of kernels in forms that are not in lower-kernels.mlir.
module attributes {tpc.mesh = #tpc.mesh<tp = 3, pp = 1, mb = 1>} {
tpc.pipeline @main(%x: tensor<?x?xf32, #tpc.dist<[n, s], local>>) inputs [{}] outputs [] {
  tpc.stage 0 {
  }
}

// A dynamic length is reduced in whole steps of 32, and a partial last step if there is a
// remainder.
// CHECK-LABEL: llvm.func internal @length(
// CHECK: %[[PLACE:.*]] = llvm.getelementptr %arg0[1] : (!llvm.ptr) -> !llvm.ptr, i64
// CHECK-NEXT: %[[S:.*]] = llvm.load %[[PLACE]] : !llvm.ptr -> i64
// CHECK: %[[FULL:.*]] = llvm.udiv %[[S]], %[[C32:.*]] : i64
// CHECK: %[[REST:.*]] = llvm.urem %[[S]], %[[C32]] : i64
// CHECK: llvm.icmp "slt" %{{.*}}, %[[FULL]]
// CHECK-COUNT-4: arith.addf %{{.*}} : vector<8xf32>
// CHECK: %[[SOME:.*]] = llvm.icmp "slt" %{{.*}}, %[[REST]]
// CHECK: llvm.zext %[[SOME]] : i1 to i64
// CHECK-COUNT-4: llvm.store %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: llvm.mul %[[FULL]], %[[C32]]
// CHECK-COUNT-4: arith.addf %{{.*}} : vector<8xf32>
tpc_kernel.func @length(%x: memref<?x?xf32> of [n, s]) -> (%y: memref<?xf32> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %0 = tpc_kernel.fold sum (%j) in [s] adjacent : f32 init 0.0 identity -0.0 {
      %1 = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %1 : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xf32>
    }
  }
}

// 64 operands are two steps, without remainder and identity. Reductions of f64 also have 32 lanes.
// CHECK-LABEL: llvm.func internal @whole(
// CHECK: llvm.alloca %{{.*}} x f64 {alignment = 64 : i64}
// CHECK-NOT: llvm.urem
// CHECK-NOT: arith.constant dense<-0.0
// CHECK-COUNT-4: arith.addf %{{.*}} : vector<8xf64>
// CHECK-COUNT-3: arith.addf %{{.*}} : vector<8xf64>
// CHECK: arith.addf %{{.*}} : vector<4xf64>
tpc_kernel.func @whole(%x: memref<?x?xf64> of [n, _64]) -> (%y: memref<?xf64> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %0 = tpc_kernel.fold sum (%j) in [_64] adjacent : f64 init 0.0 identity -0.0 {
      %1 = memref.load %x[%i, %j] : memref<?x?xf64>
      tpc_kernel.yield %1 : f64
    }
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xf64>
    }
  }
}

// Integers are added in order along any dimension, because the order makes no difference.
// CHECK-LABEL: llvm.func internal @integers(
// CHECK-NOT: vector<
// CHECK: ^bb{{[0-9]+}}(%{{.*}}: i64, %[[SUM:.*]]: i64):
// CHECK: arith.addi %[[SUM]], %{{.*}} : i64
// CHECK-LABEL: llvm.func internal @two_dimensions(
tpc_kernel.func @integers(%x: memref<?x?xi64> of [n, _64]) -> (%y: memref<?xi64> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %0 = tpc_kernel.fold sum (%j) in [_64] adjacent : i64 init 0 identity 0 {
      %1 = memref.load %x[%i, %j] : memref<?x?xi64>
      tpc_kernel.yield %1 : i64
    }
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xi64>
    }
  }
}

// In a reduction of two dimensions, the outer loop carries the lanes, and the inner dimension is
// distributed over the lanes.
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>, %{{.*}}: vector<8xf32>):
// CHECK: arith.cmpf ogt, %{{.*}} : vector<8xf32>
// CHECK: llvm.extractelement
tpc_kernel.func @two_dimensions(%x: memref<?x?x?xf32> of [_3, n, _40]) -> (%y: memref<?xf32> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %0 = tpc_kernel.fold maxnum (%k, %j) in [_3, _40] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
      %1 = memref.load %x[%k, %i, %j] : memref<?x?x?xf32>
      tpc_kernel.yield %1 : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xf32>
    }
  }
}

// A running sum is a sequential loop between its bounds; the loop carries the sum.
// CHECK-LABEL: llvm.func internal @running(
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):
// CHECK: %[[END:.*]] = arith.addi %[[J]], %{{.*}} : i64
// CHECK: %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK: %[[ANY:.*]] = llvm.icmp "slt" %{{.*}}, %[[END]]
// CHECK: llvm.cond_br %[[ANY]], ^bb{{[0-9]+}}(%{{.*}}, %[[ZERO]] : i64, f32), ^[[AFTER:bb[0-9]+]](%[[ZERO]] : f32)
// CHECK: ^bb{{[0-9]+}}(%{{.*}}: i64, %[[SUM:.*]]: f32):
// CHECK: %[[NEXT:.*]] = arith.addf %[[SUM]], %{{.*}} : f32
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[NEXT]] : i64, f32), ^[[AFTER]](%[[NEXT]] : f32)
// CHECK: ^[[AFTER]](%[[RESULT:.*]]: f32):
// CHECK: llvm.store %[[RESULT]]
tpc_kernel.func @running(%x: memref<?xf32> of [n]) -> (%y: memref<?xf32> of [n]) {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  tpc_kernel.rows () in [] {
    tpc_kernel.elements (%j) in [n] {
      %end = arith.addi %j, %one : index
      %init = arith.constant 0.0 : f32
      %0 = scf.for %k = %zero to %end step %one iter_args(%sum = %init) -> (f32) {
        %1 = memref.load %x[%k] : memref<?xf32>
        %2 = arith.addf %sum, %1 : f32
        scf.yield %2 : f32
      }
      memref.store %0, %y[%j] : memref<?xf32>
    }
  }
}

// A branch stays a branch, so that elements that do not exist are not read. Indices have 64 bits,
// also as results of branches.
// CHECK-LABEL: llvm.func internal @branch(
// CHECK: llvm.cond_br %{{.*}}, ^[[YES:bb[0-9]+]], ^[[NO:bb[0-9]+]]
// CHECK: ^[[YES]]:
// CHECK: %[[A:.*]] = arith.extui %{{.*}} : i32 to i64
// CHECK: llvm.br ^[[AFTER:bb[0-9]+]](%[[A]] : i64)
// CHECK: ^[[NO]]:
// CHECK: llvm.br ^[[AFTER]](%{{.*}} : i64)
// CHECK: ^[[AFTER]](%[[AT:.*]]: i64):
// CHECK: %[[SHORT:.*]] = arith.trunci %[[AT]] : i64 to i32
// CHECK: llvm.store %[[SHORT]]
tpc_kernel.func @branch(%x: memref<?xi32> of [n]) -> (%y: memref<?xi32> of [n]) {
  %four = arith.constant 4 : index
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements () in [] {
      %there = arith.cmpi slt, %i, %four : index
      %0 = scf.if %there -> (index) {
        %1 = memref.load %x[%i] : memref<?xi32>
        %2 = arith.index_castui %1 : i32 to index
        scf.yield %2 : index
      } else {
        scf.yield %i : index
      }
      %3 = arith.index_cast %0 : index to i32
      memref.store %3, %y[%i] : memref<?xi32>
    }
  }
}

// Rows whose last dimension has one element need no division to find the first.
// CHECK-LABEL: llvm.func internal @single(
// CHECK-NOT: llvm.urem
// CHECK-NOT: llvm.udiv
// CHECK: llvm.return
tpc_kernel.func @single(%x: memref<?x?xf32> of [n, 1]) -> (%y: memref<?x?xf32> of [n, 1]) {
  tpc_kernel.rows (%i, %j) in [n, 1] {
    tpc_kernel.elements () in [] {
      %0 = memref.load %x[%i, %j] : memref<?x?xf32>
      memref.store %0, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// Indices have 64 bits, whatever the length of a row.
// CHECK-LABEL: llvm.func internal @large(
// CHECK-NOT: i32
// CHECK: %[[LENGTH:.*]] = llvm.mlir.constant(3000000000 : i64) : i64
// CHECK: ^bb{{[0-9]+}}(%[[J:.*]]: i64):  // 2 preds: ^bb2, ^bb3
// CHECK-NEXT: %[[LEFT:.*]] = arith.subi %[[LENGTH]], %[[J]] : i64
// CHECK-NEXT: %[[LAST:.*]] = arith.subi %[[LEFT]], %{{.*}} : i64
// CHECK-NEXT: %[[ROW:.*]] = llvm.mul %[[I:.*]], %[[LENGTH]] : i64
// CHECK-NEXT: %[[FROM:.*]] = llvm.add %[[ROW]], %[[LAST]] : i64
// CHECK-NEXT: llvm.getelementptr %{{.*}}[%[[FROM]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// CHECK: llvm.icmp "slt" %{{.*}}, %[[LENGTH]] : i64
// CHECK-NOT: i32
// CHECK: llvm.return
tpc_kernel.func @large(%x: memref<?x?xi8> of [n, _3000000000]) -> (%y: memref<?x?xi64> of [n, _3000000000]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [_3000000000] {
      %length = tpc_kernel.size _3000000000
      %left = arith.subi %length, %j : index
      %one = arith.constant 1 : index
      %last = arith.subi %left, %one : index
      %0 = memref.load %x[%i, %last] : memref<?x?xi8>
      %1 = arith.index_cast %last : index to i64
      memref.store %1, %y[%i, %j] : memref<?x?xi64>
    }
  }
}
}
