// Attributes that lowering passes set must not be in the input, because no verifier checks them
// there.
// RUN: split-file %s %t
// RUN: tpc-opt %t/kernel.mlir --verify-diagnostics --tpc-outline-kernels
// RUN: tpc-opt %t/fused.mlir --verify-diagnostics --tpc-fuse-epilogues
// RUN: tpc-opt %t/merged.mlir --verify-diagnostics --tpc-merge-matmuls
// RUN: tpc-opt %t/quantized.mlir --verify-diagnostics --tpc-fuse-dequantize
// RUN: tpc-opt %t/op.mlir --verify-diagnostics --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program
// RUN: tpc-opt %t/cache.mlir --verify-diagnostics --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program
// RUN: tpc-opt %t/old.mlir --verify-diagnostics --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program
// RUN: tpc-opt %t/read.mlir --verify-diagnostics --tpc-build-kernels --tpc-plan-buffers --tpc-lower-kernels --tpc-lower-program

//--- kernel.mlir
// expected-error@+1 {{has 'tpc.kernel' already: only this pass sets it}}
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {tpc.kernel = 1 : i64} {
  %0 = tpc.neg %x : tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
//--- fused.mlir
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  // expected-error@+1 {{has 'tpc.fused' already: only this pass sets it}}
  %1 = tpc.add %0, %x {tpc.fused = 0 : i32} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
//--- merged.mlir
func.func private @f(%x: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  // expected-error@+1 {{has 'tpc.merged' already: only this pass sets it}}
  %0 = tpc.matmul %x, %x {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %x, %0 {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
//--- quantized.mlir
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<16xf32>) -> tensor<4x4xf32> {
  // expected-error@+1 {{has 'tpc.quantized' already: only this pass sets it}}
  %0 = tpc.reshape %w {tpc.quantized} : tensor<16xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %x, %0 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
//--- op.mlir
func.func private @kernel(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {tpc.kernel = 1 : i64} {
  // expected-error@+1 {{is in the kernel @kernel, but kernels do not support the op}}
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
//--- cache.mlir
!n = tensor<?xi64, #tpc.dist<[b], local>>
!x = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
func.func private @kernel(%n: !n, %x: !x, %k: !k) -> (!k, !k) attributes {tpc.kernel = 2 : i64} {
  // expected-error@+1 {{writes into memory that the kernel @kernel computes or uses elsewhere: the memory must be an argument without other uses, and become a result}}
  %0 = tpc.append %k, %x at %n : !k, !x, !n -> !k
  %1 = tpc.exp %k : !k -> !k
  return %0, %1 : !k, !k
}
//--- old.mlir
!n = tensor<?xi64, #tpc.dist<[b], local>>
!x = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
func.func private @kernel(%n: !n, %x: !x, %k: !k) -> !k attributes {tpc.kernel = 2 : i64} {
  %0 = tpc.exp %k : !k -> !k
  // expected-error@+1 {{writes into memory that the kernel @kernel computes or uses elsewhere}}
  %1 = tpc.append %0, %x at %n : !k, !x, !n -> !k
  return %1 : !k
}
//--- read.mlir
!n = tensor<?xi64, #tpc.dist<[b], local>>
!x = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, s, 8], local>>
!k = tensor<?x2x?x8xf32, #tpc.dist<[b, 2, c, 8], local>>
func.func private @kernel(%n: !n, %x: !x, %k: !k) -> !k attributes {tpc.kernel = 2 : i64} {
  // expected-error@+1 {{writes into memory that the kernel @kernel computes or uses elsewhere}}
  %0 = tpc.append %k, %x at %n : !k, !x, !n -> !k
  %1 = tpc.exp %0 : !k -> !k
  return %1 : !k
}
