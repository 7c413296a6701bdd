// RUN: tpc-opt %s --tpc-lower-kernels | FileCheck %s
// RUN: tpc-opt %s --tpc-lower-kernels --tpc-lower-kernels | FileCheck %s --check-prefix=ALONE

// Kernels that are already lowered are unchanged.
// ALONE-NOT: tpc_kernel.func

// CHECK: #[[UNROLL:.*]] = #llvm.loop_unroll<full = true>
// CHECK-DAG: #[[SHORT:.*]] = #llvm.loop_annotation<{{.*}}unroll = #[[UNROLL]]

// Adjacent operands are reduced as four vectors of eight lanes at a time, then the remainder; see
// docs/design/lowering.md for the order. A row of ten is copied to a buffer of 32 elements, whose
// others are the identity.
// CHECK-LABEL: llvm.func internal @adjacent(
// CHECK-SAME: %[[ENV:.*]]: !llvm.ptr, %[[STATUS:.*]]: !llvm.ptr, %[[OPERANDS:.*]]: !llvm.ptr, %[[LO:.*]]: i64, %[[HI:.*]]: i64)
// CHECK: llvm.alloca {{.*}} x f32 {alignment = 64 : i64}
// A launch may cover more rows than exist.
// CHECK: %[[END:.*]] = llvm.intr.smin(%[[HI]], %{{.*}})
// CHECK: llvm.icmp "slt" %[[LO]], %[[END]]
// CHECK: arith.constant dense<0xFF800000> : vector<8xf32>
// CHECK-COUNT-4: llvm.store %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: llvm.load {{.*}} invariant
// CHECK: llvm.store %{{.*}}, %{{.*}} : f32
// CHECK-COUNT-4: arith.maximumf %{{.*}}, %{{.*}} : vector<8xf32>
// Lanes are then reduced pairwise: from 32 to 8, 4, 2 and 1.
// CHECK-COUNT-3: arith.maximumf %{{.*}}, %{{.*}} : vector<8xf32>
// CHECK: %[[V4:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<4xf32>
// CHECK: %[[V2:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<2xf32>
// CHECK: %[[V1:.*]] = arith.maximumf %{{.*}}, %{{.*}} : vector<1xf32>
// CHECK: %[[MAX:.*]] = llvm.extractelement %[[V1]]
// CHECK: llvm.store %[[MAX]], %{{.*}} : f32
tpc_kernel.func @adjacent(%x: memref<?x?xf32> of [_4, _10]) -> (%y: memref<?xf32> of [_4]) {
  tpc_kernel.rows (%i) in [_4] {
    %0 = tpc_kernel.fold max (%j) in [_10] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
      %1 = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %1 : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i] : memref<?xf32>
    }
  }
}

// Other reductions are in order. Short ones have no loop, so that the surrounding loop can be
// vectorized. Operands are 2 * 3 columns apart, which is one constant.
// CHECK-LABEL: llvm.func internal @short(
// CHECK: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK: ^bb{{[0-9]+}}(%[[K:.*]]: i64, %[[SUM:.*]]: f32):
// CHECK: llvm.mul %[[K]], %[[C6]]
// CHECK: arith.addf %[[SUM]], %{{.*}} : f32
// CHECK: llvm.cond_br {{.*}} {loop_annotation = #[[SHORT]]}
tpc_kernel.func @short(%x: memref<?x?xf32> of [_5, "_2*_3"]) -> (%y: memref<?xf32> of ["_2*_3"]) {
  tpc_kernel.rows () in [] {
    tpc_kernel.elements (%j) in ["_2*_3"] {
      %0 = tpc_kernel.fold sum (%k) in [_5] : f32 init 0.0 identity -0.0 {
        %1 = memref.load %x[%k, %j] : memref<?x?xf32>
        tpc_kernel.yield %1 : f32
      }
      memref.store %0, %y[%j] : memref<?xf32>
    }
  }
}

// Results are not invariant memory, barriers are removed, and a boolean takes a byte.
// CHECK-LABEL: llvm.func internal @again(
// CHECK: llvm.zext %{{.*}} : i1 to i8
// CHECK: llvm.store %{{.*}} : i8
// CHECK-NOT: invariant
// CHECK: %[[BYTE:.*]] = llvm.load {{.*}} -> i8
// CHECK: llvm.icmp "ne" %[[BYTE]]
tpc_kernel.func @again(%x: memref<?xi32> of [_4]) -> (%y: memref<?xi1> of [_4], %z: memref<?xi1> of [_4]) {
  %zero = arith.constant 0 : index
  tpc_kernel.rows (%i) in [_4] {
    %0 = memref.load %x[%i] : memref<?xi32>
    %1 = arith.index_cast %0 : i32 to index
    %2 = arith.cmpi slt, %1, %zero : index
    tpc_kernel.elements () in [] {
      memref.store %2, %y[%i] : memref<?xi1>
    }
    tpc_kernel.barrier
    tpc_kernel.elements () in [] {
      %3 = memref.load %y[%i] : memref<?xi1>
      memref.store %3, %z[%i] : memref<?xi1>
    }
  }
}

// With rows in several dimensions, the indices of the first row are divisions. Those of the next
// one are an addition with carries.
// CHECK-LABEL: llvm.func internal @carries(
// CHECK: %[[B:.*]] = llvm.urem %{{.*}}, %{{.*}}
// CHECK: %[[A:.*]] = llvm.udiv %{{.*}}, %{{.*}}
// CHECK: llvm.cond_br %{{.*}}, ^bb{{[0-9]+}}(%{{.*}}, %[[A]], %[[B]] : i64, i64, i64)
// CHECK: llvm.select
tpc_kernel.func @carries(%x: memref<?x?xf32> of [_6, _7]) -> (%y: memref<?x?xf32> of [_6, _7]) {
  tpc_kernel.rows (%i, %j) in [_6, _7] {
    %0 = memref.load %x[%i, %j] : memref<?x?xf32>
    tpc_kernel.elements () in [] {
      memref.store %0, %y[%i, %j] : memref<?x?xf32>
    }
  }
}
