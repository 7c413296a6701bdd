// RUN: tpc-opt %s --tpc-lower-to-llvm | FileCheck %s --implicit-check-not=fastmath

// No operation has fast-math flags, in any kind of kernel: KernelEmitter.h lists the explicit
// optimizations.

func.func private @stage_0(%x: tensor<4x64xf32>, %y: tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4xf32>, tensor<64xf32>) {
  %0 = tpc.mul %x, %y : tensor<4x64xf32>, tensor<64xf32> -> tensor<4x64xf32>
  %1 = tpc.sub %0, %y : tensor<4x64xf32>, tensor<64xf32> -> tensor<4x64xf32>
  %2 = tpc.cast %1 : tensor<4x64xf32> -> tensor<4x64xf16>
  %3 = tpc.cast %2 : tensor<4x64xf16> -> tensor<4x64xf32>
  %4 = tpc.gelu none %3 : tensor<4x64xf32> -> tensor<4x64xf32>
  %5 = tpc.layer_norm %4, %y epsilon 1.0e-5 : tensor<4x64xf32>, tensor<64xf32> -> tensor<4x64xf32>
  %6 = tpc.softmax %5 dim 1 : tensor<4x64xf32> -> tensor<4x64xf32>
  %7 = tpc.reduce sum %6 [1] : tensor<4x64xf32> -> tensor<4xf32>
  %8 = tpc.reduce mean %6 [0] : tensor<4x64xf32> -> tensor<64xf32>
  return %3, %6, %7, %8 : tensor<4x64xf32>, tensor<4x64xf32>, tensor<4xf32>, tensor<64xf32>
}

// CHECK-LABEL: llvm.func internal @kernel
// A sum along the last dimension has 32 lanes; a sum along another dimension is in order.
// CHECK: llvm.alloca %{{.*}} x f32
// A cast rounds, even in the middle of a kernel.
// CHECK: llvm.fptrunc %{{.*}} : f32 to f16
// CHECK: llvm.fpext %{{.*}} : f16 to f32
// CHECK-COUNT-4: llvm.fadd %{{.*}} : vector<8xf32>

tpc.pipeline @main(%x: tensor<4x64xf32>, %y: tensor<64xf32>) inputs [{tpc.name = "x"}, {tpc.name = "y"}] outputs [
    {name = "a", type = tensor<4x64xf32>}, {name = "b", type = tensor<4x64xf32>}, {name = "c", type = tensor<4xf32>}, {name = "d", type = tensor<64xf32>}] {
  tpc.stage 0 {
    tpc.micro_batches {
      %r:4 = func.call @stage_0(%x, %y) : (tensor<4x64xf32>, tensor<64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>, tensor<4xf32>, tensor<64xf32>)
      tpc.output 0, %r#0 : tensor<4x64xf32>
      tpc.output 1, %r#1 : tensor<4x64xf32>
      tpc.output 2, %r#2 : tensor<4xf32>
      tpc.output 3, %r#3 : tensor<64xf32>
    }
  }
}
