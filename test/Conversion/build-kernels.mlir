// RUN: tpc-opt %s --tpc-build-kernels --split-input-file --verify-diagnostics | FileCheck %s

// A stored result is read again after a barrier. The function on tensors is unchanged. If a weight
// has the name `kernels`, the module of kernels gets another name.
// CHECK: tpc.weight @kernels
tpc.weight @kernels in "/w.bin" at 64 : tensor<8xf32>

// CHECK: func.func private @softmax_of_sum(%{{.*}}) -> {{.*}} attributes {tpc.kernel = 1 : i64} {
// CHECK: tpc.softmax
func.func private @softmax_of_sum(%x: tensor<?x8xf32, #tpc.dist<[n, 8]>>)
    -> (tensor<?x8xf32, #tpc.dist<[n, 8]>>, tensor<?x8xf32, #tpc.dist<[n, 8]>>) attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %x : tensor<?x8xf32, #tpc.dist<[n, 8]>>, tensor<?x8xf32, #tpc.dist<[n, 8]>> -> tensor<?x8xf32, #tpc.dist<[n, 8]>>
  %1 = tpc.softmax %0 dim 1 : tensor<?x8xf32, #tpc.dist<[n, 8]>> -> tensor<?x8xf32, #tpc.dist<[n, 8]>>
  return %0, %1 : tensor<?x8xf32, #tpc.dist<[n, 8]>>, tensor<?x8xf32, #tpc.dist<[n, 8]>>
}

// Functions that are not kernels are unchanged.
// CHECK: func.func private @layer(
// CHECK-NEXT: return
func.func private @layer(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// CHECK: module @kernels_0 {
// CHECK-NEXT: tpc_kernel.func @softmax_of_sum(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [n, _8]) -> (%[[SUM:.*]]: memref<?x?xf32> of [n, _8], %[[Y:.*]]: memref<?x?xf32> of [n, _8])
// CHECK: tpc_kernel.rows (%[[ROW:.*]]) in [n] {
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_8] {
// CHECK: memref.store %{{.*}}, %[[SUM]][%[[ROW]], %[[J]]]
// CHECK: tpc_kernel.barrier
// CHECK: %[[LARGEST:.*]] = tpc_kernel.fold maxnum (%[[K:.*]]) in [_8] adjacent : f32 init 0xFF800000 identity 0xFF800000 {
// CHECK-NEXT: memref.load %[[SUM]][%[[ROW]], %[[K]]]
// CHECK: tpc_kernel.fold sum
// CHECK: math.exp
// CHECK-NOT: tpc_kernel.barrier
// CHECK: tpc_kernel.elements
// CHECK-NOT: tpc_kernel.func @layer

// -----

// A program without kernels gets no module.
// CHECK: func.func private @alone
// CHECK-NOT: module
func.func private @alone(%x: tensor<8xf32>) -> tensor<8xf32> {
  return %x : tensor<8xf32>
}

// -----

func.func private @product(%x: tensor<4x4xf32>) -> tensor<4x4xf32> attributes {tpc.kernel = 1} {
  // expected-error@+1 {{is in the kernel @product, but kernels do not support the op}}
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}

// -----

func.func private @twice(%x: tensor<4xf32>) -> tensor<4xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.add %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}
// expected-error@+1 {{exists already; only this pass makes a module for kernels}}
module @kernels {}
