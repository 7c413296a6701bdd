// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=mlp | FileCheck %s

module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 3>} {
tpc.weight @w in "/w.bin" at 64 : tensor<8x6xf32>
tpc.weight @v in "/w.bin" at 256 : tensor<6x8xf32>

// A column-parallel and a row-parallel matmul, then one reduction.
// CHECK-LABEL: llvm.func internal @stage_0(
// CHECK: llvm.call @tpc_frame_push(
// CHECK: llvm.call @tpc_products(
// CHECK: llvm.call @tpc_products(
// The index of the communication's ONNX node is set for error messages.
// CHECK: llvm.call @tpc_at(
// CHECK: llvm.call @tpc_all_reduce(
// CHECK: llvm.call @tpc_launch(
// CHECK: llvm.call @tpc_frame_pop(
func.func private @stage_0(%x: tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>) -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>> {
  %w = tpc.parameter @w : tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>>
  %v = tpc.parameter @v : tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
  %0 = tpc.matmul %x, %w : tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>, tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>> -> tensor<?x3xf32, #tpc.dist<[n{mb}, 6{tp}], local>>
  %1 = tpc.matmul %0, %v : tensor<?x3xf32, #tpc.dist<[n{mb}, 6{tp}], local>>, tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>> -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], sum{tp}, local>>
  %2 = tpc.all_reduce %1 over ["tp"] : tensor<?x8xf32, #tpc.dist<[n{mb}, 8], sum{tp}, local>> -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
  %3 = tpc.add %2, %x : tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>, tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>> -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
  return %3 : tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
}

tpc.pipeline @main(%x: tensor<?x8xf32, #tpc.dist<[n, 8], local>>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<?x8xf32, #tpc.dist<[n, 8]>>}] {
  tpc.stage 0 {
    tpc.micro_batches of #tpc.dim<n> {
      // The step: three micro-batches.
      // CHECK-LABEL: llvm.func internal @tpc_stage_0(
      // CHECK: %[[THREE:.*]] = llvm.mlir.constant(3 : i64)
      // CHECK: llvm.call @tpc_input(
      // A slice of the outermost dimension is not a copy.
      // CHECK-NOT: tpc_launch
      // CHECK: llvm.call @stage_0(
      // CHECK: llvm.cond_br
      // CHECK: llvm.call @tpc_output(
      // CHECK: %[[MORE:.*]] = llvm.icmp "slt" %{{.*}}, %[[THREE]]
      // CHECK: llvm.cond_br %[[MORE]]
      %0 = tpc.local_slice %x over ["mb"] dim 0 : tensor<?x8xf32, #tpc.dist<[n, 8], local>> -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
      %1 = func.call @stage_0(%0) : (tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>) -> tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
      tpc.output 0, %1 : tensor<?x8xf32, #tpc.dist<[n{mb}, 8], local>>
    }
  }
}
}

// CHECK: llvm.mlir.global internal constant @tpc_manifest("{
// CHECK-SAME: \22axes\22:[\22tp\22],\22size\22:6,\22stride\22:1
// CHECK-SAME: \22use\22:\22matmul_rhs\22
// Code refers to kernels, constants and nodes by index in tables.
// CHECK: llvm.mlir.global internal constant @tpc_stages()
// CHECK: llvm.mlir.addressof @tpc_stage_0
// CHECK: llvm.mlir.global internal constant @tpc_kernel_name_0("kernel_add\00")
// CHECK: llvm.mlir.global internal constant @tpc_kernels()
// CHECK: llvm.mlir.addressof @kernel_add
// CHECK: llvm.mlir.global internal constant @tpc_constants() {{.*}}array<0 x struct<(ptr, i64)>>
// CHECK: llvm.mlir.global internal constant @tpc_nodes() {{.*}}array<1 x ptr>
// CHECK: llvm.mlir.global external constant @tpc_program_v7()
