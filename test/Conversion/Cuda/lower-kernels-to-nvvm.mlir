// RUN: tpc-opt %s --tpc-lower-kernels-to-nvvm | FileCheck %s

module attributes {tpc.target = "cuda"} {
tpc.pipeline @main(%x: tensor<?x768xf32, #tpc.dist<[n, 768]>>) inputs [{tpc.name = "x"}] outputs [] {
  tpc.stage 0 {
  }
}
module @kernels {

// A row is a warp's: partial sums of chunks of four, lane by lane, then shuffles. All have the sum.
// CHECK-LABEL: llvm.func @short_rows(
// CHECK-SAME: %[[ENV:arg0]]: !llvm.ptr<1> {llvm.align = 8 : i64, llvm.noalias, llvm.readonly}
// CHECK-SAME: %arg2: !llvm.ptr<1> {llvm.align = 4 : i64, llvm.noalias, llvm.readonly}
// CHECK-SAME: %arg3: !llvm.ptr<1> {llvm.align = 4 : i64})
// CHECK-SAME: nvvm.kernel, nvvm.reqntid = array<i32: 256>
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: llvm.load %{{.*}} invariant {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
tpc_kernel.func @short_rows(%x: memref<?x?xf32> of [n, 768]) -> (%y: memref<?x?xf32> of [n, 768]) {
  tpc_kernel.rows (%i) in [n] {
    %s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements (%j) in [768] {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %s : f32
      memref.store %d, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// A long row is a block's: warps exchange their sums in shared memory, behind one barrier; the second keeps the
// next row from writing before this one's are read.
// CHECK: llvm.mlir.global internal @long_rows_shared0() {addr_space = 3 : i32} : !llvm.array<8 x f32>
// CHECK-LABEL: llvm.func @long_rows(
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: nvvm.barrier
// CHECK-COUNT-8: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CHECK: nvvm.barrier
// CHECK-NOT: nvvm.barrier
tpc_kernel.func @long_rows(%x: memref<?x?xf32> of [n, 4096]) -> (%y: memref<?xf32> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %s = tpc_kernel.fold sum (%j) in [4096] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %s, %y[%i] : memref<?xf32>
    }
  }
}

// Without a fold, threads share elements. Odd rows are not aligned: no access is wide. No division of 64 bits.
// CHECK-LABEL: llvm.func @odd_rows(
// CHECK-NOT: vector<
// CHECK-NOT: nvvm.shfl
// CHECK-NOT: nvvm.bar
// CHECK: llvm.return
tpc_kernel.func @odd_rows(%x: memref<?x?xf32> of [n, 33]) -> (%y: memref<?x?xf32> of [n, 33]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [33] {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      %d = arith.negf %v : f32
      memref.store %d, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// Rows that wait for what they have stored are a warp's, and wait as one.
// CHECK-LABEL: llvm.func @waits(
// CHECK: nvvm.bar.warp.sync
tpc_kernel.func @waits(%x: memref<?x?xf32> of [n, 64]) -> (%y: memref<?x?xf32> of [n, 64], %z: memref<?x?xf32> of [n, 64]) {
  %last = arith.constant 63 : index
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [64] {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      memref.store %v, %y[%i, %j] : memref<?x?xf32>
    }
    tpc_kernel.barrier
    tpc_kernel.elements (%j) in [64] {
      %from = arith.subi %last, %j : index
      %v = memref.load %y[%i, %from] : memref<?x?xf32>
      memref.store %v, %z[%i, %j] : memref<?x?xf32>
    }
  }
}
}
}
