// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=names | FileCheck %s

// Weights have the model's names. These may equal names that lowering creates: of a global, a
// function of the runtime, a stage or a kernel. Each symbol is still correct and created once.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @tpc_node_0 in "/w.bin" at 64 : tensor<8x6xf32>
tpc.weight @tpc_products in "/w.bin" at 256 : tensor<6x8xf32>
tpc.weight @tpc_stage_0 in "/w.bin" at 448 : tensor<8xf32>
tpc.weight @kernel_mul in "/w.bin" at 480 : tensor<8xf32>
tpc.weight @tpc_manifest in "/w.bin" at 512 : tensor<8xf32>
tpc.weight @kernels in "/w.bin" at 544 : tensor<8xf32>

// CHECK: llvm.func @tpc_products(
// CHECK-NOT: llvm.func @tpc_products(
// CHECK: llvm.func internal @tpc_stage_0(
// CHECK-NOT: llvm.func @tpc_products(
func.func private @stage_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @tpc_node_0 : tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>>
  %v = tpc.parameter @tpc_products : tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>>
  %s = tpc.parameter @tpc_stage_0 : tensor<8xf32>
  %t = tpc.parameter @kernel_mul : tensor<8xf32>
  %u = tpc.parameter @tpc_manifest : tensor<8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x3xf32, #tpc.dist<[8, 6{tp}], local>> -> tensor<4x3xf32, #tpc.dist<[4, 6{tp}], local>>
  %1 = tpc.matmul %0, %v : tensor<4x3xf32, #tpc.dist<[4, 6{tp}], local>>, tensor<3x8xf32, #tpc.dist<[6{tp}, 8], local>> -> tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>>
  %2 = tpc.all_reduce %1 over ["tp"] : tensor<4x8xf32, #tpc.dist<[4, 8], sum{tp}, local>> -> tensor<4x8xf32> loc("/sum")
  %3 = tpc.mul %2, %s : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %4 = tpc.mul %3, %t : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %5 = tpc.mul %4, %u : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  return %5 : tensor<4x8xf32>
}

// CHECK: llvm.mlir.global internal constant @tpc_manifest("{
// CHECK-SAME: \22name\22:\22tpc_node_0\22,\22offset\22:64
// CHECK-SAME: \22name\22:\22tpc_products\22,\22offset\22:256
// CHECK-SAME: \22name\22:\22tpc_stage_0\22,\22offset\22:448
// CHECK-SAME: \22name\22:\22kernel_mul\22,\22offset\22:480
// CHECK-SAME: \22name\22:\22tpc_manifest\22,\22offset\22:512
// CHECK: llvm.mlir.global internal constant @tpc_node_0("/sum\00")
// CHECK: llvm.func internal @kernel_mul_mul_mul(
// CHECK-NOT: llvm.func @tpc_products(
tpc.pipeline @main(%x: tensor<4x8xf32>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<4x8xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %0 = func.call @stage_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      tpc.output 0, %0 : tensor<4x8xf32>
    }
  }
}
}
