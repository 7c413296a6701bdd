// RUN: tpc-opt %s --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program --canonicalize --cse | FileCheck %s

// Arguments of communication calls (tpc/runtime.h): axes as a bit mask in the order of the grid,
// the type of elements (0: f32, 3: bf16, 4: i8), the reduction (0: sum, 1: max), and the tensor as
// [outer, n, inner], of which n is split.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, dp = 3, pp = 2, mb = 1>} {

// An all-reduce over axes 0 and 1. The index of the ONNX node is passed for error messages.
// CHECK-LABEL: llvm.func internal @all_reduce(
// CHECK-DAG: %[[C24:.*]] = llvm.mlir.constant(24 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_3:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: llvm.call @tpc_at(%arg0, %[[I32_0]])
// CHECK: llvm.call @tpc_all_reduce(%arg0, %[[I32_3]], %[[I32_0]], %[[I32_0]], %arg2, %arg3, %[[C24]])
func.func private @all_reduce(%x: tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp, dp}>>) -> tensor<4x6xf32> {
  %0 = tpc.all_reduce %x over ["tp", "dp"] : tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp, dp}>> -> tensor<4x6xf32> loc("/sum")
  return %0 : tensor<4x6xf32>
}

// Each chunk is started, and waited for with its token.
// CHECK-LABEL: llvm.func internal @all_reduce_start(
// CHECK: llvm.call @tpc_at(
// CHECK: %[[FIRST:.*]] = llvm.call @tpc_all_reduce_start(%arg0,
// CHECK: %[[SECOND:.*]] = llvm.call @tpc_all_reduce_start(%arg0,
// CHECK: llvm.call @tpc_wait(%arg0, %[[FIRST]])
// CHECK: llvm.call @tpc_wait(%arg0, %[[SECOND]])
func.func private @all_reduce_start(%x: tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp, dp}>>) -> tensor<4x6xf32> {
  %0 = tpc.all_reduce_start %x over ["tp", "dp"] chunks 2 grain 1 : tensor<4x6xf32, #tpc.dist<[4, 6], sum{tp, dp}>> -> tensor<4x6xf32> loc("/sum")
  %1 = tpc.wait %0 : tensor<4x6xf32> loc("/sum")
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: llvm.func internal @maximum(
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[I32_2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[I32_3:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: llvm.call @tpc_at(%arg0, %[[I32_1]])
// CHECK: llvm.call @tpc_all_reduce(%arg0, %[[I32_2]], %[[I32_3]], %[[I32_1]], %arg2, %arg3, %[[C4]])
func.func private @maximum(%x: tensor<4xbf16, #tpc.dist<[4], max{dp}>>) -> tensor<4xbf16> {
  %0 = tpc.all_reduce %x over ["dp"] : tensor<4xbf16, #tpc.dist<[4], max{dp}>> -> tensor<4xbf16> loc("/max")
  return %0 : tensor<4xbf16>
}

// CHECK-LABEL: llvm.func internal @all_gather(
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(2 : i32)
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_all_gather(%arg0, %[[I32_1]], %[[I32_0]], %arg2, %arg3, %[[C5]], %[[C8]], %[[C6]])
func.func private @all_gather(%x: tensor<5x4x6xf32, #tpc.dist<[5, 8{tp}, 6], local>>) -> tensor<5x8x6xf32> {
  %0 = tpc.all_gather %x over ["tp"] dim 1 : tensor<5x4x6xf32, #tpc.dist<[5, 8{tp}, 6], local>> -> tensor<5x8x6xf32> loc("/gather")
  return %0 : tensor<5x8x6xf32>
}

// A gather over two axes is one call per axis, the innermost first, with an intermediate buffer.
// CHECK-LABEL: llvm.func internal @all_gather_two(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C12:.*]] = llvm.mlir.constant(12 : i64)
// CHECK-DAG: %[[C64:.*]] = llvm.mlir.constant(64 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[I32_2:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[I32_4:.*]] = llvm.mlir.constant(4 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(3 : i32)
// CHECK: %[[V9:.*]] = llvm.call @tpc_frame_push(%arg0, %[[C64]])
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_all_gather(%arg0, %[[I32_2]], %[[I32_4]], %arg2, %[[V9]], %[[C5]], %[[C6]], %[[C1]])
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_all_gather(%arg0, %[[I32_1]], %[[I32_4]], %[[V9]], %arg3, %[[C5]], %[[C12]], %[[C1]])
// CHECK: llvm.call @tpc_frame_pop(%arg0, %[[V9]])
func.func private @all_gather_two(%x: tensor<5x2xi8, #tpc.dist<[5, 12{tp, dp}], local>>) -> tensor<5x12xi8> {
  %0 = tpc.all_gather %x over ["tp", "dp"] dim 1 : tensor<5x2xi8, #tpc.dist<[5, 12{tp, dp}], local>> -> tensor<5x12xi8> loc("/two")
  return %0 : tensor<5x12xi8>
}

// CHECK-LABEL: llvm.func internal @reduce_scatter(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(4 : i32)
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_reduce_scatter(%arg0, %[[I32_1]], %[[I32_0]], %[[I32_0]], %arg2, %arg3, %[[C3]], %[[C8]], %[[C1]])
func.func private @reduce_scatter(%x: tensor<3x8xf32, #tpc.dist<[3, 8], sum{tp}>>) -> tensor<3x4xf32, #tpc.dist<[3, 8{tp}], local>> {
  %0 = tpc.reduce_scatter %x over ["tp"] dim 1 : tensor<3x8xf32, #tpc.dist<[3, 8], sum{tp}>> -> tensor<3x4xf32, #tpc.dist<[3, 8{tp}], local>> loc("/scatter")
  return %0 : tensor<3x4xf32, #tpc.dist<[3, 8{tp}], local>>
}

// Gathers dimension 2 and splits dimension 0: [outer, first, middle, second, inner], with
// `split_first` set.
// CHECK-LABEL: llvm.func internal @all_to_all(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C16:.*]] = llvm.mlir.constant(16 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_1:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(5 : i32)
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_all_to_all(%arg0, %[[I32_1]], %[[I32_0]], %arg2, %arg3, %[[C1]], %[[C4]], %[[C3]], %[[C16]], %[[C1]], %[[I32_1]])
func.func private @all_to_all(%x: tensor<4x3x8xf32, #tpc.dist<[4, 3, 16{tp}], local>>) -> tensor<2x3x16xf32, #tpc.dist<[4{tp}, 3, 16], local>> {
  %0 = tpc.all_to_all %x over ["tp"] from 2 to 0 : tensor<4x3x8xf32, #tpc.dist<[4, 3, 16{tp}], local>> -> tensor<2x3x16xf32, #tpc.dist<[4{tp}, 3, 16], local>> loc("/turn")
  return %0 : tensor<2x3x16xf32, #tpc.dist<[4{tp}, 3, 16], local>>
}

// A permute has the axes before and after, each list terminated by -1; then outer, blocks, n, unit
// and inner; then the first element.
// CHECK-LABEL: llvm.func internal @permute(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C3:.*]] = llvm.mlir.constant(3 : i64)
// CHECK-DAG: %[[C5:.*]] = llvm.mlir.constant(5 : i64)
// CHECK-DAG: %[[C6:.*]] = llvm.mlir.constant(6 : i64)
// CHECK-DAG: %[[C8:.*]] = llvm.mlir.constant(8 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_M1:.*]] = llvm.mlir.constant(-1 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(6 : i32)
// CHECK: %[[V1:.*]] = llvm.alloca %[[C6]] x i32 {alignment = 16 : i64} : (i64) -> !llvm.ptr
// CHECK: llvm.store %[[I32_0]], %[[V1]] : i32
// CHECK: llvm.store %[[I32_M1]], %{{.*}} : i32
// CHECK: llvm.store %[[I32_M1]], %{{.*}} : i32
// CHECK: llvm.store %[[I32_0]], %{{.*}} : i32
// CHECK: llvm.store %[[I32_M1]], %{{.*}} : i32
// CHECK: llvm.store %[[I32_M1]], %{{.*}} : i32
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_collective_permute(%arg0, %[[V1]], %[[I32_0]], %arg2, %arg3, %[[C1]], %[[C1]], %[[C8]], %[[C1]], %[[C3]], %[[C5]])
func.func private @permute(%x: tensor<4x3xf32, #tpc.dist<[8{tp}, 3], local>>) -> tensor<4x3xf32, #tpc.dist<[8{tp}, 3], local>> {
  %0 = tpc.collective_permute %x over ["tp"] dim 0 from 5 every 8 : tensor<4x3xf32, #tpc.dist<[8{tp}, 3], local>> -> tensor<4x3xf32, #tpc.dist<[8{tp}, 3], local>> loc("/shift")
  return %0 : tensor<4x3xf32, #tpc.dist<[8{tp}, 3], local>>
}

// A broadcast works in place on the root, so the operand is copied first.
// CHECK-LABEL: llvm.func internal @broadcast(
// CHECK-DAG: %[[C1:.*]] = llvm.mlir.constant(1 : i64)
// CHECK-DAG: %[[C16:.*]] = llvm.mlir.constant(16 : i64)
// CHECK-DAG: %[[C4:.*]] = llvm.mlir.constant(4 : i64)
// CHECK-DAG: %[[I32_0:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[I32_4:.*]] = llvm.mlir.constant(4 : i32)
// CHECK-DAG: %[[NODE:.*]] = llvm.mlir.constant(7 : i32)
// CHECK: llvm.call @tpc_copy(%arg0, %arg3, %arg2, %[[C16]])
// CHECK: llvm.call @tpc_at(%arg0, %[[NODE]])
// CHECK: llvm.call @tpc_broadcast(%arg0, %[[I32_4]], %[[I32_0]], %arg3, %[[C4]], %[[C1]])
func.func private @broadcast(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tpc.broadcast %x over ["pp"] root 1 : tensor<4xf32> -> tensor<4xf32> loc("/root")
  return %0 : tensor<4xf32>
}

}
