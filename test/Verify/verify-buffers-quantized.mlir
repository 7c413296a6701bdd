// A call of a matmul with quantized parameters must read them as tpc.dequantize and the ops after it
// do. Each change of the call is an error.
// RUN: tpc-opt %s --tpc-fuse-dequantize --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers -o %t
// RUN: tpc-opt %t --tpc-verify-buffers -o /dev/null
// RUN: sed 's/strides \[_4, 1\]/strides [1, _4]/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=STRIDES
// STRIDES: must have strides of scales [4, 1]
// RUN: sed 's/strides \[_4, 1\] zero_bits/strides [_3, 1] zero_bits/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=ZEROS
// ZEROS: must have strides of zero points [4, 1]
// RUN: sed 's/block "_2\*_8"/block _8/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=BLOCK
// BLOCK: has block _8, but must have 16
// RUN: sed 's/bits 4 zero 8 rows/bits 4 zero 7 rows/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=ZERO
// ZERO: has zero 7, but must have 8
// RUN: sed 's/rows of "_4\*_8"/rows of _8/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=ROWS
// ROWS: has rows of _8 bytes, which are not those of the packed numbers
// RUN: sed 's/zero_bits 4/zero_bits 8/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=BITS
// BITS: has zero_bits 8, but must have 4
// RUN: sed 's/epilogue relu/epilogue silu/' %t | not tpc-opt --tpc-verify-buffers 2>&1 | FileCheck %s --check-prefix=EPILOGUE
// EPILOGUE: has epilogue silu, but the op on tensors relu

module {
tpc.weight @q in "/w.bin" at 0 : tensor<6x4x8xui8>
tpc.weight @s in "/w.bin" at 256 : tensor<6x4x1x1xf32>
tpc.weight @z in "/w.bin" at 512 : tensor<6x2xui8>

func.func private @columns(%x: tensor<4x64xf32>) -> tensor<4x6xf32> {
  %q = tpc.parameter @q : tensor<6x4x8xui8>
  %s = tpc.parameter @s : tensor<6x4x1x1xf32>
  %0 = tpc.dequantize %q, %s bits 4 zero 8 : tensor<6x4x8xui8>, tensor<6x4x1x1xf32> -> tensor<6x4x8x2xf32>
  %1 = tpc.transpose %0 [1, 2, 3, 0] : tensor<6x4x8x2xf32> -> tensor<4x8x2x6xf32>
  %2 = tpc.reshape %1 : tensor<4x8x2x6xf32> -> tensor<64x6xf32>
  %3 = tpc.matmul %x, %2 : tensor<4x64xf32>, tensor<64x6xf32> -> tensor<4x6xf32>
  %4 = tpc.relu %3 : tensor<4x6xf32> -> tensor<4x6xf32>
  return %4 : tensor<4x6xf32>
}

func.func private @zeros(%x: tensor<4x48xf32>) -> tensor<4x6xf32> {
  %q = tpc.parameter @q view <0 [[6 x 32], [3 x 8], [8 x 1]]> : tensor<6x3x8xui8>
  %s = tpc.parameter @s view <0 [[6 x 4], [3 x 1], [1 x 1], [1 x 1]]> : tensor<6x3x1x1xf32>
  %z = tpc.parameter @z : tensor<6x2xui8>
  %one = tpc.constant dense<1.0> : tensor<f32> : tensor<f32>
  %0 = tpc.dequantize %z, %one bits 4 : tensor<6x2xui8>, tensor<f32> -> tensor<6x2x2xf32>
  %1 = tpc.reshape %0 : tensor<6x2x2xf32> -> tensor<6x4xf32>
  %2 = tpc.slice %1 dim 1 from 0 : tensor<6x4xf32> -> tensor<6x3xf32>
  %3 = tpc.reshape %2 : tensor<6x3xf32> -> tensor<6x3x1x1xf32>
  %4 = tpc.dequantize %q, %s, %3 bits 4 : tensor<6x3x8xui8>, tensor<6x3x1x1xf32>, tensor<6x3x1x1xf32> -> tensor<6x3x8x2xf32>
  %5 = tpc.transpose %4 [1, 2, 3, 0] : tensor<6x3x8x2xf32> -> tensor<3x8x2x6xf32>
  %6 = tpc.reshape %5 : tensor<3x8x2x6xf32> -> tensor<48x6xf32>
  %7 = tpc.matmul %x, %6 : tensor<4x48xf32>, tensor<48x6xf32> -> tensor<4x6xf32>
  return %7 : tensor<4x6xf32>
}
}
