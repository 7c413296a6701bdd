// Matmuls take quantized parameters in their packed form.
// RUN: tpc-opt %s --tpc-fuse-dequantize | FileCheck %s
// RUN: tpc-opt %s --tpc-fuse-dequantize --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers \
// RUN:   | tpc-opt --tpc-verify-buffers | FileCheck %s --check-prefix=BUFFERS
// Other targets compute the matrix.
// RUN: sed 's/tpc.mesh = /tpc.target = "cuda", tpc.mesh = /' %s | tpc-opt --tpc-fuse-dequantize \
// RUN:   | FileCheck %s --check-prefix=CUDA
// CUDA-NOT: tpc.quantized

!x = tensor<4x64xf32>
!q = tensor<?x4x8xui8, #tpc.dist<[6{tp}, 4, 8], local>>
!s = tensor<?x4x1x1xf32, #tpc.dist<[6{tp}, 4, 1, 1], local>>
!n = tensor<?x4x8x2xf32, #tpc.dist<[6{tp}, 4, 8, 2], local>>
!t = tensor<4x8x2x?xf32, #tpc.dist<[4, 8, 2, 6{tp}], local>>
!m = tensor<64x?xf32, #tpc.dist<[64, 6{tp}], local>>
!y = tensor<4x?xf32, #tpc.dist<[4, 6{tp}], local>>
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>} {
tpc.weight @q in "/w.bin" at 0 : tensor<6x4x8xui8>
tpc.weight @s in "/w.bin" at 256 : tensor<6x4x1x1xf32>
tpc.weight @z in "/w.bin" at 512 : tensor<6x2xui8>
tpc.weight @rows in "/w.bin" at 1024 : tensor<64x6xi8>
tpc.weight @r in "/w.bin" at 2048 : tensor<6xf32>

// A function that multiplies by a matrix takes its parameters.
// CHECK-LABEL: func.func private @layer
// CHECK-SAME: tensor<?x4x8xui8, {{.*}}, %{{.*}}: tensor<?x4x1x1xf32,
// CHECK: tpc.dequantize {{.*}} {tpc.quantized}
// CHECK: tpc.transpose {{.*}} {tpc.quantized}
// CHECK: tpc.reshape {{.*}} {tpc.quantized}
// CHECK: tpc.matmul
// BUFFERS-LABEL: tpc_buffer.func @layer_on_buffers
// BUFFERS: tpc_buffer.quantized_product %{{.*}} m _4 k _64 by %{{.*}} bits 4 zero 8 rows of "_4*_8"
// BUFFERS-SAME: scale %{{.*}} strides [_4, 1] block "_2*_8"
// BUFFERS-SAME: epilogue relu to %{{.*}} n _6.tp
func.func private @layer(%x: !x, %w: !m) -> !y {
  %0 = tpc.matmul %x, %w : !x, !m -> !y
  %1 = tpc.relu %0 : !y -> !y
  return %1 : !y
}
// CHECK-LABEL: func.func private @caller
// CHECK-NOT: tpc.dequantize
// CHECK: call @layer(%{{.*}}, %{{.*}}, %{{.*}})
func.func private @caller(%x: !x) -> !y {
  %q = tpc.parameter @q : !q
  %s = tpc.parameter @s : !s
  %0 = tpc.dequantize %q, %s bits 4 zero 8 : !q, !s -> !n
  %1 = tpc.transpose %0 [1, 2, 3, 0] : !n -> !t
  %2 = tpc.reshape %1 : !t -> !m
  %3 = call @layer(%x, %2) : (!x, !m) -> !y
  return %3 : !y
}

// The call reads packed zero points. A column uses only a part of its last byte.
// CHECK-LABEL: func.func private @zeros
// CHECK-COUNT-7: tpc.quantized
// BUFFERS-LABEL: tpc_buffer.func @zeros_on_buffers
// BUFFERS: tpc_buffer.quantized_product {{.*}} bits 4 rows of "_3*_8"
// BUFFERS-SAME: strides [_3, 1]
// BUFFERS-SAME: zeros %{{.*}} strides [_4, 1] zero_bits 4
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

// The matrix is packed by rows, with a scale for each column.
// BUFFERS-LABEL: tpc_buffer.func @by_rows_on_buffers
// BUFFERS: tpc_buffer.quantized_product {{.*}} bits 8 rows of _6 by_rows
// BUFFERS-SAME: strides [1, 0] block _64
func.func private @by_rows(%x: !x) -> tensor<4x6xf32> {
  %q = tpc.parameter @rows : tensor<64x6xi8>
  %s = tpc.parameter @r view <0 [[1 x 1], [6 x 1], [1 x 1]]> : tensor<1x6x1xf32>
  %0 = tpc.dequantize %q, %s bits 8 : tensor<64x6xi8>, tensor<1x6x1xf32> -> tensor<64x6x1xf32>
  %1 = tpc.reshape %0 : tensor<64x6x1xf32> -> tensor<64x6xf32>
  %2 = tpc.matmul %x, %1 : !x, tensor<64x6xf32> -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// A kernel also computes a matrix that has other uses. A matrix with computed scales is not fused.
// CHECK-LABEL: func.func private @other_uses
// CHECK: tpc.reshape %{{[^ ]*}} :
// CHECK: tpc.dequantize {{.*}} {tpc.quantized}
// CHECK: tpc.reshape %{{[^ ]*}} {tpc.quantized} :
// BUFFERS-LABEL: tpc_buffer.func @other_uses_on_buffers
// BUFFERS: tpc_buffer.quantized_product
func.func private @other_uses(%x: !x) -> (tensor<4x6xf32>, tensor<64x6xf32>) {
  %q = tpc.parameter @rows : tensor<64x6xi8>
  %s = tpc.parameter @r view <0 [[1 x 1], [6 x 1], [1 x 1]]> : tensor<1x6x1xf32>
  %0 = tpc.dequantize %q, %s bits 8 : tensor<64x6xi8>, tensor<1x6x1xf32> -> tensor<64x6x1xf32>
  %1 = tpc.reshape %0 : tensor<64x6x1xf32> -> tensor<64x6xf32>
  %2 = tpc.matmul %x, %1 : !x, tensor<64x6xf32> -> tensor<4x6xf32>
  return %2, %1 : tensor<4x6xf32>, tensor<64x6xf32>
}

// CHECK-LABEL: func.func private @computed_scales
// CHECK-NOT: tpc.quantized
// CHECK: return
func.func private @computed_scales(%x: !x) -> tensor<4x6xf32> {
  %q = tpc.parameter @rows : tensor<64x6xi8>
  %p = tpc.parameter @r view <0 [[1 x 1], [6 x 1], [1 x 1]]> : tensor<1x6x1xf32>
  %s = tpc.abs %p : tensor<1x6x1xf32> -> tensor<1x6x1xf32>
  %0 = tpc.dequantize %q, %s bits 8 : tensor<64x6xi8>, tensor<1x6x1xf32> -> tensor<64x6x1xf32>
  %1 = tpc.reshape %0 : tensor<64x6x1xf32> -> tensor<64x6xf32>
  %2 = tpc.matmul %x, %1 : !x, tensor<64x6xf32> -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}
}
