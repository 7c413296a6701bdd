// RUN: split-file %s %t
// RUN: tpc-opt %t/tensors.mlir --verify-diagnostics --tpc-lower-program
// RUN: tpc-opt %t/staged.mlir --verify-diagnostics --tpc-lower-program
// RUN: tpc-opt %t/kernels.mlir --verify-diagnostics --tpc-plan-buffers --tpc-lower-program
// RUN: tpc-opt %t/built.mlir --verify-diagnostics --tpc-build-kernels --tpc-plan-buffers --tpc-lower-program

// The error names each pass that was not run.

//--- tensors.mlir
// expected-error@+1 {{needs a staged program, with one tpc.pipeline: run tpc-split-stages and tpc-schedule-pipeline first}}
module {
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
}

//--- staged.mlir
// expected-error@+1 {{has no functions on buffers: run tpc-plan-buffers first}}
module {
func.func private @layer(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}
tpc.pipeline @main(%x: tensor<4xf32>) inputs [{}] outputs [] {
  tpc.stage 0 {
  }
}
}

//--- kernels.mlir
// expected-error@+1 {{is a kernel that is not lowered: run tpc-build-kernels and tpc-lower-kernels first}}
func.func private @kernel(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tpc.kernel = 1 : i64} {
  %0 = tpc.neg %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

//--- built.mlir
// expected-error@+1 {{is a kernel that is not lowered: run tpc-build-kernels and tpc-lower-kernels first}}
func.func private @kernel(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tpc.kernel = 1 : i64} {
  %0 = tpc.neg %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
