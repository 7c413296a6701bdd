// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program --canonicalize --cse | FileCheck %s

// Calls of the runtime's library and of kernels: sizes, strides, and fused epilogues.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @w in "/w.bin" at 0 : tensor<6x8xf32>
tpc.weight @b in "/w.bin" at 192 : tensor<8xf32>

// The arguments are parameter 0 (packed), the bias (parameter 1, dense), the residual, m = 2 * 3, k,
// n and the distance between rows. Activation 2 is GELU by tanh.
// CHECK-LABEL: llvm.func internal @product(
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[I32_2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: %[[PART:.*]] = llvm.alloca {{.*}} !llvm.struct<(i64, i64, ptr, ptr, ptr, i32, i32, i32, i32)>
// CHECK: %[[V0:.*]] = llvm.call @tpc_parameter(%arg0, %[[I32_1]])
// CHECK: llvm.store %[[C8]], %{{.*}} : i64
// CHECK: llvm.store %[[C8]], %{{.*}} : i64
// CHECK: llvm.store %[[V0]], %{{.*}} : !llvm.ptr
// CHECK: llvm.store %arg3, %{{.*}} : !llvm.ptr
// CHECK: llvm.store %arg4, %{{.*}} : !llvm.ptr
// CHECK: llvm.store %[[I32_0]], %{{.*}} : i32
// CHECK: llvm.store %[[I32_2]], %{{.*}} : i32
// CHECK: llvm.call @tpc_products(%arg0, %arg2, %[[C6]], %[[C6]], %[[PART]], %[[I32_1]])
func.func private @product(%x: tensor<2x3x6xf32>, %r: tensor<2x3x8xf32>) -> tensor<2x3x8xf32> {
  %w = tpc.parameter @w : tensor<6x8xf32>
  %b = tpc.parameter @b : tensor<8xf32>
  %0 = tpc.matmul %x, %w bias %b : tensor<2x3x6xf32>, tensor<6x8xf32> bias tensor<8xf32> -> tensor<2x3x8xf32>
  %1 = tpc.gelu tanh %0 : tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  %2 = tpc.add %1, %r : tensor<2x3x8xf32>, tensor<2x3x8xf32> -> tensor<2x3x8xf32>
  return %2 : tensor<2x3x8xf32>
}

// A matmul of two computed values has batch, m, k, n, and the strides between matrices.
// CHECK-LABEL: llvm.func internal @batches(
// CHECK-DAG: %[[C18:.*]] = llvm.mlir.constant(18 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C42:.*]] = llvm.mlir.constant(42 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg2, %arg3, %arg4, %[[C5]], %[[C3]], %[[C6]], %[[C7]], %[[C18]], %[[C42]])
func.func private @batches(%x: tensor<5x3x6xf32>, %y: tensor<5x6x7xf32>) -> tensor<5x3x7xf32> {
  %0 = tpc.matmul %x, %y : tensor<5x3x6xf32>, tensor<5x6x7xf32> -> tensor<5x3x7xf32>
  return %0 : tensor<5x3x7xf32>
}

// The right operand is the same for all batches: one matmul of 15 rows.
// CHECK-LABEL: llvm.func internal @taller(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C15:.*]] = llvm.mlir.constant(15 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg2, %arg3, %arg4, %[[C1]], %[[C15]], %[[C6]], %[[C7]], %[[C0]], %[[C0]])
func.func private @taller(%x: tensor<5x3x6xf32>, %y: tensor<6x7xf32>) -> tensor<5x3x7xf32> {
  %0 = tpc.matmul %x, %y : tensor<5x3x6xf32>, tensor<6x7xf32> -> tensor<5x3x7xf32>
  return %0 : tensor<5x3x7xf32>
}

// The left operand is the same for all batches: its stride is 0.
// CHECK-LABEL: llvm.func internal @shared_left(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C42:.*]] = llvm.mlir.constant(42 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C7:.*]] = llvm.mlir.constant(7 : i64)
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg2, %arg3, %arg4, %[[C5]], %[[C3]], %[[C6]], %[[C7]], %[[C0]], %[[C42]])
func.func private @shared_left(%x: tensor<3x6xf32>, %y: tensor<5x6x7xf32>) -> tensor<5x3x7xf32> {
  %0 = tpc.matmul %x, %y : tensor<3x6xf32>, tensor<5x6x7xf32> -> tensor<5x3x7xf32>
  return %0 : tensor<5x3x7xf32>
}

// A constant is its device address. Equal constants are merged.
// CHECK-LABEL: llvm.func internal @constants(
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK: %[[A:.*]] = llvm.call @tpc_constant(%arg0, %[[I32_0]])
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg2, %[[A]],
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg3, %[[A]],
func.func private @constants(%x: tensor<4x4xf32>, %y: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %a = tpc.constant dense<2.0> : tensor<4x4xf32> : tensor<4x4xf32>
  %0 = tpc.matmul %x, %a : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %b = tpc.constant dense<2.0> : tensor<4x4xf32> : tensor<4x4xf32>
  %1 = tpc.matmul %y, %b : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// A launch has the kernel's arguments in order, the number of rows, and the minimum number of rows
// per thread: 8192 / 16 + 1.
// CHECK-LABEL: llvm.func internal @kernel_call(
// CHECK-DAG: %[[C513:.*]] = llvm.mlir.constant(513 : i64)
// CHECK-DAG: %[[C64:.*]] = llvm.mlir.constant(64 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[KERNEL:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[COUNT:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: %[[V1:.*]] = llvm.alloca %[[C4]] x !llvm.ptr {alignment = 16 : i64} : (i64) -> !llvm.ptr
// CHECK: llvm.store %arg2, %[[V1]] : !llvm.ptr
// CHECK: llvm.store %arg3, %{{.*}} : !llvm.ptr
// CHECK: llvm.store %arg4, %{{.*}} : !llvm.ptr
// CHECK: llvm.call @tpc_launch(%arg0, %[[KERNEL]], %[[V1]], %[[COUNT]], %[[C64]], %[[C513]])
func.func private @kernel_call(%x: tensor<64x16xf32>, %y: tensor<16xf32>) -> tensor<64x16xf32> {
  %0 = tpc.mul %x, %y : tensor<64x16xf32>, tensor<16xf32> -> tensor<64x16xf32>
  return %0 : tensor<64x16xf32>
}

// Values with disjoint lifetimes share memory: two slots of 64-byte lines for three intermediate
// values.
// CHECK-LABEL: llvm.func internal @slots(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C128:.*]] = llvm.mlir.constant(128 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK: %[[V0:.*]] = llvm.call @tpc_frame_push(%arg0, %[[C128]])
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %arg2, %arg2, %[[V0]], %[[C1]], %[[C4]], %[[C4]], %[[C4]], %[[C0]], %[[C0]])
// CHECK: %[[V1:.*]] = llvm.getelementptr %[[V0]][64]
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %[[V0]], %arg2, %[[V1]], %[[C1]], %[[C4]], %[[C4]], %[[C4]], %[[C0]], %[[C0]])
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %[[V1]], %arg2, %[[V0]], %[[C1]], %[[C4]], %[[C4]], %[[C4]], %[[C0]], %[[C0]])
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %[[V0]], %arg2, %arg3, %[[C1]], %[[C4]], %[[C4]], %[[C4]], %[[C0]], %[[C0]])
// CHECK: llvm.call @tpc_frame_pop(%arg0, %[[V0]])
func.func private @slots(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %0, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = tpc.matmul %1, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %3 = tpc.matmul %2, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}

// A slice of the outermost dimension is an address: the rank's coordinate times 4 rows of 8
// elements.
// CHECK-LABEL: llvm.func internal @part(
// CHECK-DAG: %[[C0:.*]] = llvm.mlir.constant(0 : i64)
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[C32:.*]] = llvm.mlir.constant(32 : i64)
// CHECK: %[[V0:.*]] = llvm.load %arg1 {{.*}}-> i64
// CHECK: %[[V4:.*]] = llvm.mul %[[V0]], %[[C32]]
// CHECK: %[[V5:.*]] = llvm.mul %[[V4]], %[[C4]]
// CHECK: %[[V6:.*]] = llvm.getelementptr %arg2[%[[V5]]]
// CHECK: llvm.call @tpc_batch_matmul(%arg0, %{{[^,]+}}, %[[V6]], %arg3, %arg4, %[[C1]], %[[C4]], %[[C8]], %[[C8]], %[[C0]], %[[C0]])
func.func private @part(%x: tensor<8x8xf32>, %y: tensor<8x8xf32>) -> tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>> {
  %0 = tpc.local_slice %x over ["tp"] dim 0 : tensor<8x8xf32> -> tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>
  %1 = tpc.matmul %0, %y : tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>, tensor<8x8xf32> -> tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>
  return %1 : tensor<4x8xf32, #tpc.dist<[8{tp}, 8], local>>
}
}
