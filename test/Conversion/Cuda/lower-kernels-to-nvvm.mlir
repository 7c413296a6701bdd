// RUN: tpc-opt %s --tpc-lower-kernels-to-nvvm | FileCheck %s

module attributes {tpc.target = "cuda"} {
tpc.pipeline @main(%x: tensor<?x768xf32, #tpc.dist<[n, 768]>>) inputs [{tpc.name = "x"}] outputs [] {
  tpc.stage 0 {
  }
}
module @kernels {

// A warp computes a row; each thread has a chunk of four elements, loaded at once and reduced lane
// by lane, then by shuffles. All threads have the sum. No element is loaded twice.
// CHECK-LABEL: llvm.func @short_rows(
// CHECK-SAME: %[[ENV:arg0]]: !llvm.ptr<1> {llvm.align = 8 : i64}
// CHECK-SAME: %arg2: !llvm.ptr<1> {llvm.align = 4 : i64}
// CHECK-SAME: %arg3: !llvm.ptr<1> {llvm.align = 4 : i64})
// CHECK-SAME: nvvm.kernel, nvvm.minctasm = 4 : i32, nvvm.reqntid = array<i32: 256>
// CHECK: nvvm.read.ptx.sreg.tid.x
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK: nvvm.read.ptx.sreg.nctaid.x
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: llvm.load
// CHECK-NOT: nvvm.barrier
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
tpc_kernel.func @short_rows(%x: memref<?x?xf32> of [n, 128]) -> (%y: memref<?x?xf32> of [n, 128]) {
  tpc_kernel.rows (%i) in [n] {
    %s = tpc_kernel.fold sum (%j) in [128] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements (%j) in [128] {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      %d = arith.subf %v, %s : f32
      memref.store %d, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// A block computes a long row, with as many threads as needed. Warps exchange their sums in shared
// memory after one barrier. The second barrier prevents the next row from overwriting the sums too
// early.
// CHECK: llvm.mlir.global internal @long_rows_shared0() {addr_space = 3 : i32, alignment = 16 : i64} : !llvm.array<6 x f32>
// CHECK-LABEL: llvm.func @long_rows(
// CHECK-SAME: nvvm.reqntid = array<i32: 192>
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK: nvvm.barrier
// CHECK-COUNT-6: llvm.load %{{.*}} : !llvm.ptr<3> -> f32
// CHECK: nvvm.barrier
// CHECK: llvm.br
tpc_kernel.func @long_rows(%x: memref<?x?xf32> of [n, 768]) -> (%y: memref<?xf32> of [n]) {
  tpc_kernel.rows (%i) in [n] {
    %s = tpc_kernel.fold sum (%j) in [768] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %x[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements () in [] {
      memref.store %s, %y[%i] : memref<?xf32>
    }
  }
}

// The next loop over a row keeps the values that the first one stored in registers. So the sum is
// never loaded, and there is no barrier. The weight is loaded before the loop over rows.
// CHECK-LABEL: llvm.func @stores_and_reads(
// CHECK: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: nvvm.read.ptx.sreg.ctaid.x
// CHECK-COUNT-2: llvm.load %{{.*}} {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
// CHECK-NOT: nvvm.bar
// CHECK-NOT: llvm.load
// CHECK-COUNT-5: nvvm.shfl.sync bfly
// CHECK-NOT: llvm.load
// CHECK: llvm.store %{{.*}} {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>
tpc_kernel.func @stores_and_reads(%x: memref<?x?xf32> of [n, 128], %r: memref<?x?xf32> of [n, 128], %w: memref<?xf32> of [128])
    -> (%s: memref<?x?xf32> of [n, 128], %y: memref<?x?xf32> of [n, 128]) {
  tpc_kernel.rows (%i) in [n] {
    tpc_kernel.elements (%j) in [128] {
      %u = memref.load %x[%i, %j] : memref<?x?xf32>
      %v = memref.load %r[%i, %j] : memref<?x?xf32>
      %a = arith.addf %u, %v : f32
      memref.store %a, %s[%i, %j] : memref<?x?xf32>
    }
    tpc_kernel.barrier
    %sum = tpc_kernel.fold sum (%j) in [128] adjacent : f32 init 0.0 identity -0.0 {
      %v = memref.load %s[%i, %j] : memref<?x?xf32>
      tpc_kernel.yield %v : f32
    }
    tpc_kernel.elements (%j) in [128] {
      %v = memref.load %s[%i, %j] : memref<?x?xf32>
      %c = memref.load %w[%j] : memref<?xf32>
      %d = arith.subf %v, %sum : f32
      %e = arith.mulf %d, %c : f32
      memref.store %e, %y[%i, %j] : memref<?x?xf32>
    }
  }
}

// Without a reduction, elements are distributed over threads. Odd rows are not aligned, so no
// access is wide. There is no 64-bit division.
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

// A row that reads its own stores belongs to one warp, which synchronizes as a warp.
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
