// RUN: tpc-opt %s --tpc-fuse-epilogues --tpc-outline-kernels --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program=name=experts | FileCheck %s

// Matrices that only tpc.moe reads have the use `experts`, through any functions: a device may
// reorder them. Matrices that another op reads too, in any function, and biases are dense.
module attributes {tpc.mesh = #tpc.mesh<tp = 1, pp = 2, mb = 1>} {
tpc.weight @up in "/w.bin" at 0 : tensor<4x12x8xf32>
tpc.weight @down in "/w.bin" at 1536 : tensor<4x8x12xf32>
tpc.weight @gate in "/w.bin" at 3072 : tensor<4x12x8xf32>
tpc.weight @bias in "/w.bin" at 4608 : tensor<4x12xf32>
tpc.weight @shared in "/w.bin" at 4800 : tensor<4x12x8xf32>

// CHECK-LABEL: llvm.func internal @stage_0(
// CHECK: llvm.mlir.global internal constant @tpc_manifest("{
// CHECK-SAME: \22name\22:\22down\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22experts\22
// CHECK-SAME: \22name\22:\22up\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22experts\22
// CHECK-SAME: \22name\22:\22gate\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22experts\22
// CHECK-SAME: \22name\22:\22bias\22,\22offset\22:{{[^}]*}}\22stage\22:0,\22use\22:\22dense\22
// CHECK-SAME: \22name\22:\22shared\22,\22offset\22:{{[^}]*}}\22stage\22:1,\22use\22:\22dense\22
// CHECK-SAME: \22name\22:\22down\22,\22offset\22:{{[^}]*}}\22stage\22:1,\22use\22:\22experts\22
func.func private @layer(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>, %u: tensor<4x12x8xf32>, %g: tensor<4x12x8xf32>, %b: tensor<4x12xf32>) -> tensor<6x8xf32> attributes {tpc.layer} {
  %d = tpc.parameter @down : tensor<4x8x12xf32>
  %0 = tpc.moe silu %x, %r, %u, %d gate %g up_bias %b top_k 2 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> gate tensor<4x12x8xf32> up_bias tensor<4x12xf32> -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
func.func private @stage_0(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>) -> tensor<6x8xf32> {
  %u = tpc.parameter @up : tensor<4x12x8xf32>
  %g = tpc.parameter @gate : tensor<4x12x8xf32>
  %b = tpc.parameter @bias : tensor<4x12xf32>
  %0 = call @layer(%x, %r, %u, %g, %b) : (tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x12x8xf32>, tensor<4x12xf32>) -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
func.func private @stage_1(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>) -> tensor<6x8xf32> {
  %u = tpc.parameter @shared : tensor<4x12x8xf32>
  %d = tpc.parameter @down : tensor<4x8x12xf32>
  %e = tpc.exp %u : tensor<4x12x8xf32> -> tensor<4x12x8xf32>
  %0 = tpc.moe relu %x, %r, %u, %d gate %e top_k 2 : tensor<6x8xf32>, tensor<6x4xf32>, tensor<4x12x8xf32>, tensor<4x8x12xf32> gate tensor<4x12x8xf32> -> tensor<6x8xf32>
  return %0 : tensor<6x8xf32>
}
tpc.pipeline @main(%x: tensor<6x8xf32>, %r: tensor<6x4xf32>) inputs [{tpc.name = "x"}, {tpc.name = "r"}] outputs [{name = "y", type = tensor<6x8xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %y = func.call @stage_0(%x, %r) : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
      tpc.send %y to 1 : tensor<6x8xf32>
    }
  }
  tpc.stage 1 {
    tpc.micro_batches {
      %z = tpc.recv from 0 : tensor<6x8xf32>
      %y = func.call @stage_1(%z, %r) : (tensor<6x8xf32>, tensor<6x4xf32>) -> tensor<6x8xf32>
      tpc.output 0, %y : tensor<6x8xf32>
    }
  }
}
}
