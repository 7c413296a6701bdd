// RUN: tpc-opt %s --tpc-widen-matmuls --tpc-fuse-epilogues | FileCheck %s
// RUN: tpc-opt %s --tpc-widen-matmuls --tpc-fuse-epilogues --tpc-outline-kernels --tpc-plan-buffers --tpc-verify-buffers | FileCheck %s --check-prefix=BUFFERS

// 16-bit matmuls with f32 results.
module attributes {tpc.mesh = #tpc.mesh<tp = 2, pp = 1, mb = 1>, tpc.target = "cuda"} {
tpc.weight @w in "/w.bin" at 0 : tensor<8x6xf16>
tpc.weight @b in "/w.bin" at 96 : tensor<6xf16>

// With a packed parameter, the library returns f32 sums and adds an f32 residual.
// CHECK-LABEL: func.func @residual
// CHECK: tpc.matmul %arg0, %{{.*}} : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf32>
// CHECK-NEXT: tpc.add %arg1, %{{.*}} {tpc.fused = 1 : i32} : tensor<4x6xf32>
// CHECK-NEXT: return
// BUFFERS-LABEL: tpc_buffer.func @residual_on_buffers
// BUFFERS: tpc_buffer.product {{.*}} residual
func.func @residual(%x: tensor<4x8xf16>, %r: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = tpc.parameter @w : tensor<8x6xf16>
  %0 = tpc.matmul %x, %w : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf32>
  %1 = tpc.add %r, %0 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// The library does not add a 16-bit bias to f32 sums; a kernel adds it.
// CHECK-LABEL: func.func @bias
// CHECK: tpc.matmul %{{.*}} -> tensor<4x6xf32>
// CHECK-NOT: tpc.fused
// CHECK: return
// BUFFERS-LABEL: tpc_buffer.func @bias_on_buffers
// BUFFERS: tpc_buffer.product
// BUFFERS-NOT: bias %
// BUFFERS: tpc_buffer.launch @kernel_cast_add_add(
func.func @bias(%x: tensor<4x8xf16>, %r: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %w = tpc.parameter @w : tensor<8x6xf16>
  %b = tpc.parameter @b : tensor<6xf16>
  %c = tpc.cast %b : tensor<6xf16> -> tensor<6xf32>
  %0 = tpc.matmul %x, %w : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf32>
  %1 = tpc.add %0, %c : tensor<4x6xf32>, tensor<6xf32> -> tensor<4x6xf32>
  %2 = tpc.add %r, %1 : tensor<4x6xf32>, tensor<4x6xf32> -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// For two computed values the library returns their 16-bit type, which is then widened.
// CHECK-LABEL: func.func @computed
// CHECK: %[[P:.*]] = tpc.matmul %arg0, %arg1 : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf16>
// CHECK-NEXT: %[[C:.*]] = tpc.cast %[[P]] : tensor<4x6xf16> -> tensor<4x6xf32>
// CHECK-NEXT: return %[[C]]
// BUFFERS-LABEL: tpc_buffer.func @computed_on_buffers
// BUFFERS: tpc_buffer.batch_product
func.func @computed(%x: tensor<4x8xf16>, %y: tensor<8x6xf16>) -> tensor<4x6xf32> {
  %0 = tpc.matmul %x, %y : tensor<4x8xf16>, tensor<8x6xf16> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}
}
