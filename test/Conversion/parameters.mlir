// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=parameters | FileCheck %s

// Parameters that a program loads: once per stage and per use (packed for matmuls, dense
// otherwise), through any functions. A function of several stages takes the indices of its own
// parameters as arguments.
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 2, mb = 1>} {
tpc.weight @first in "/w.bin" at 0 : tensor<8x8xf32>
tpc.weight @second in "/w.bin" at 256 : tensor<8x8xf32>
tpc.weight @shared in "/w.bin" at 512 : tensor<8xf32>
tpc.weight @both in "/w.bin" at 544 : tensor<8x8xf32>

// The layer's own weight is an argument. The function refers to @shared, which all layers use, by
// name.
// CHECK-LABEL: llvm.func internal @layer(
// CHECK-SAME: %[[CTX:.*]]: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[X:.*]]: !llvm.ptr, %[[W:.*]]: i32, %[[SHARED:.*]]: i32, %{{.*}}: !llvm.ptr)
// CHECK: llvm.call @tpc_parameter(%[[CTX]], %[[SHARED]])
// CHECK: llvm.store %[[W]], %{{.*}} : i32
// CHECK: llvm.call @tpc_products(%[[CTX]], %[[X]],
func.func private @layer(%x: tensor<4x8xf32>, %w: tensor<8x8xf32>) -> tensor<4x8xf32> attributes {tpc.layer} {
  %s = tpc.parameter @shared : tensor<8xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %1 = tpc.mul %0, %s : tensor<4x8xf32>, tensor<8xf32> -> tensor<4x8xf32>
  %2 = tpc.exp %1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %2 : tensor<4x8xf32>
}

// A weight that a matmul and another op read is loaded in both forms, and only in this stage.
// CHECK-LABEL: llvm.func internal @stage_0(
// CHECK-DAG: %[[FIRST:.*]] = llvm.mlir.constant(0 : i32)
// CHECK-DAG: %[[SHARED0:.*]] = llvm.mlir.constant(1 : i32)
// CHECK-DAG: %[[PACKED:.*]] = llvm.mlir.constant(2 : i32)
// CHECK-DAG: %[[DENSE:.*]] = llvm.mlir.constant(3 : i32)
// CHECK-DAG: llvm.call @tpc_parameter(%{{.*}}, %[[DENSE]])
// CHECK: llvm.call @layer(%{{.*}}, %{{.*}}, %{{.*}}, %[[FIRST]], %[[SHARED0]], %{{.*}})
// CHECK: llvm.call @layer(
// CHECK: llvm.store %[[PACKED]], %{{.*}} : i32
// CHECK: llvm.call @tpc_products(
func.func private @stage_0(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tpc.parameter @first : tensor<8x8xf32>
  %b = tpc.parameter @both : tensor<8x8xf32>
  %0 = call @layer(%x, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %1 = call @layer(%0, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  %2 = tpc.matmul %1, %b : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  %3 = tpc.exp %b : tensor<8x8xf32> -> tensor<8x8xf32>
  %4 = tpc.matmul %2, %3 : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
  return %4 : tensor<4x8xf32>
}
// The other stage calls the same function with its own parameters.
// CHECK-LABEL: llvm.func internal @stage_1(
// CHECK-DAG: %[[SECOND:.*]] = llvm.mlir.constant(4 : i32)
// CHECK-DAG: %[[SHARED1:.*]] = llvm.mlir.constant(5 : i32)
// CHECK: llvm.call @layer(%{{.*}}, %{{.*}}, %{{.*}}, %[[SECOND]], %[[SHARED1]], %{{.*}})
func.func private @stage_1(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %a = tpc.parameter @second : tensor<8x8xf32>
  %0 = call @layer(%x, %a) : (tensor<4x8xf32>, tensor<8x8xf32>) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}
// CHECK: llvm.mlir.global internal constant @tpc_manifest("{
// CHECK-SAME: \22name\22:\22first\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22matmul_rhs\22
// CHECK-SAME: \22name\22:\22shared\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22dense\22
// CHECK-SAME: \22name\22:\22both\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22matmul_rhs\22
// CHECK-SAME: \22name\22:\22both\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22dense\22
// CHECK-SAME: \22name\22:\22second\22,\22offset\22:{{[^}]*}}\22stage\22:1,\22use\22:\22matmul_rhs\22
// CHECK-SAME: \22name\22:\22shared\22,\22offset\22:{{[^}]*}}\22stage\22:1,\22use\22:\22dense\22
// CHECK-NOT: \22offset\22
tpc.pipeline @main(%x: tensor<4x8xf32>) inputs [{tpc.name = "x"}] outputs [{name = "y", type = tensor<4x8xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %y = func.call @stage_0(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      tpc.send %y to 1 : tensor<4x8xf32>
    }
  }
  tpc.stage 1 {
    tpc.micro_batches {
      %r = tpc.recv from 0 : tensor<4x8xf32>
      %y = func.call @stage_1(%r) : (tensor<4x8xf32>) -> tensor<4x8xf32>
      tpc.output 0, %y : tensor<4x8xf32>
    }
  }
}
}
