// RUN: tpc-opt %s --tpc-build-kernels | FileCheck %s

// Norms, softmax along rows, and values shared by ops of one kernel: computed once per row, once
// per element, or rematerialized.

// Mean and variance are computed once per row. The variance is computed from centered values, to
// avoid cancellation with large means.
// CHECK-LABEL: tpc_kernel.func @layer_norm(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [n, _8], %[[S:.*]]: memref<?xf32> of [_8], %[[B:.*]]: memref<?xf32> of [_8]) -> (%[[R:.*]]: memref<?x?xf32> of [n, _8]) {
// CHECK: %[[N:.*]] = tpc_kernel.size _8
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [n] {
// CHECK: %[[N64:.*]] = arith.index_cast %[[N]] : index to i64
// CHECK: %[[COUNT:.*]] = arith.sitofp %[[N64]] : i64 to f32
// CHECK: %[[SUM:.*]] = tpc_kernel.fold sum (%[[J:.*]]) in [_8] adjacent : f32
// CHECK: %[[MEAN:.*]] = arith.divf %[[SUM]], %[[COUNT]]
// CHECK: %[[SQUARES:.*]] = tpc_kernel.fold sum (%[[J]]) in [_8] adjacent : f32
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]], %[[J]]]
// CHECK: %[[D:.*]] = arith.subf %[[V]], %[[MEAN]]
// CHECK: %[[Q:.*]] = arith.mulf %[[D]], %[[D]]
// CHECK: tpc_kernel.yield %[[Q]]
// CHECK: %[[VARIANCE:.*]] = arith.divf %[[SQUARES]], %[[COUNT]]
// CHECK: %[[EPSILON:.*]] = arith.constant 9.99999974E-6 : f32
// CHECK: %[[SHIFTED:.*]] = arith.addf %[[VARIANCE]], %[[EPSILON]]
// CHECK: %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CHECK: %[[ROOT:.*]] = math.sqrt %[[SHIFTED]]
// CHECK: %[[INVERSE:.*]] = arith.divf %[[ONE]], %[[ROOT]]
// CHECK: tpc_kernel.elements (%[[K:.*]]) in [_8] {
// CHECK: %[[V:.*]] = memref.load %[[X]][%[[I]], %[[K]]]
// CHECK: %[[D:.*]] = arith.subf %[[V]], %[[MEAN]]
// CHECK: %[[Y:.*]] = arith.mulf %[[D]], %[[INVERSE]]
// CHECK: %[[SCALE:.*]] = memref.load %[[S]][%[[K]]]
// CHECK: %[[Z:.*]] = arith.mulf %[[Y]], %[[SCALE]]
// CHECK: %[[BIAS:.*]] = memref.load %[[B]][%[[K]]]
// CHECK: %[[W:.*]] = arith.addf %[[Z]], %[[BIAS]]
// CHECK: memref.store %[[W]], %[[R]][%[[I]], %[[K]]]
!x = tensor<?x8xf32, #tpc.dist<[n, 8]>>
func.func private @layer_norm(%x: !x, %s: tensor<8xf32>, %b: tensor<8xf32>) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.layer_norm %x, %s bias %b epsilon 1.0e-5 : !x, tensor<8xf32> bias tensor<8xf32> -> !x
  return %0 : !x
}

// With 16-bit elements, squares accumulate in f32, and only the result is rounded.
// CHECK-LABEL: tpc_kernel.func @rms_norm(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf16> of [_4, _8], %[[S:.*]]: memref<?xf16> of [_8])
// CHECK: %[[SUM:.*]] = tpc_kernel.fold sum (%[[J:.*]]) in [_8] adjacent : f32
// CHECK: %[[V:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK-NEXT: %[[Q:.*]] = arith.mulf %[[V]], %[[V]] : f32
// CHECK-NEXT: tpc_kernel.yield %[[Q]]
// CHECK: %[[MEAN:.*]] = arith.divf %[[SUM]], %{{.*}} : f32
// CHECK: arith.addf %[[MEAN]], %{{.*}} : f32
// CHECK: %[[INVERSE:.*]] = arith.divf
// CHECK-NOT: arith.truncf
// CHECK: tpc_kernel.elements
// CHECK: %[[Y:.*]] = arith.mulf %{{.*}}, %[[INVERSE]] : f32
// CHECK: %[[SCALE:.*]] = arith.extf %{{.*}} : f16 to f32
// CHECK: %[[Z:.*]] = arith.mulf %[[Y]], %[[SCALE]] : f32
// CHECK: arith.truncf %[[Z]] : f32 to f16
func.func private @rms_norm(%x: tensor<4x8xf16>, %s: tensor<8xf16>) -> tensor<4x8xf16> attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<4x8xf16>, tensor<8xf16> -> tensor<4x8xf16>
  return %0 : tensor<4x8xf16>
}

// A norm per head, where rows are tokens: the sum is over the head's elements, inside the loop over
// heads.
// CHECK-LABEL: tpc_kernel.func @norm_of_heads(
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK-NEXT: tpc_kernel.elements (%[[HEAD:.*]], %[[J:.*]]) in [_2, _8] {
// CHECK-NEXT: tpc_kernel.fold sum (%[[K:.*]]) in [_8] adjacent : f32
// CHECK-NEXT: memref.load %{{.*}}[%[[I]], %[[HEAD]], %[[K]]]
func.func private @norm_of_heads(%x: tensor<4x2x8xf32>, %s: tensor<8xf32>) -> tensor<4x2x8xf32> attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<4x2x8xf32>, tensor<8xf32> -> tensor<4x2x8xf32>
  return %0 : tensor<4x2x8xf32>
}

// The operand of a softmax is computed at each of its three uses; maximum and sum precede the loop
// over elements.
// CHECK-LABEL: tpc_kernel.func @masked_softmax(
// CHECK: tpc_kernel.rows (%[[I:.*]]) in [_4] {
// CHECK-NEXT: %[[MAX:.*]] = tpc_kernel.fold maxnum (%{{.*}}) in [_8] adjacent : f32 init 0xFF800000
// CHECK: %[[S:.*]] = arith.select
// CHECK-NEXT: tpc_kernel.yield %[[S]]
// CHECK: %[[SUM:.*]] = tpc_kernel.fold sum
// CHECK: %[[S:.*]] = arith.select
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[S]], %[[MAX]]
// CHECK-NEXT: %[[E:.*]] = math.exp %[[D]]
// CHECK-NEXT: tpc_kernel.yield %[[E]]
// CHECK: %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[SUM]]
// CHECK-NEXT: tpc_kernel.elements
// CHECK: %[[S:.*]] = arith.select
// CHECK-NEXT: %[[D:.*]] = arith.subf %[[S]], %[[MAX]]
// CHECK-NEXT: %[[E:.*]] = math.exp %[[D]]
// CHECK-NEXT: arith.mulf %[[E]], %[[INVERSE]]
func.func private @masked_softmax(%x: tensor<4x8xf32>, %m: tensor<4x8xi1>) -> tensor<4x8xf32> attributes {tpc.kernel = 1} {
  %c = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %0 = tpc.select %m, %x, %c : tensor<4x8xi1>, tensor<4x8xf32>, tensor<f32> -> tensor<4x8xf32>
  %1 = tpc.softmax %0 dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %1 : tensor<4x8xf32>
}

// A mean over a dynamic size divides by the size at run time.
// CHECK-LABEL: tpc_kernel.func @mean(
// CHECK: %[[N:.*]] = tpc_kernel.size s
// CHECK: %[[SUM:.*]] = tpc_kernel.fold sum (%{{.*}}) in [s] adjacent
// CHECK: %[[N64:.*]] = arith.index_cast %[[N]]
// CHECK: %[[COUNT:.*]] = arith.sitofp %[[N64]]
// CHECK: arith.divf %[[SUM]], %[[COUNT]]
func.func private @mean(%x: tensor<?x?xf32, #tpc.dist<[n, s]>>) -> tensor<?xf32, #tpc.dist<[n]>> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce mean %x [1] : tensor<?x?xf32, #tpc.dist<[n, s]>> -> tensor<?xf32, #tpc.dist<[n]>>
  return %0 : tensor<?xf32, #tpc.dist<[n]>>
}

// A reduction over all dimensions is in memory order, whatever the order of its list. A mean over
// two dimensions divides by both sizes.
// CHECK-LABEL: tpc_kernel.func @of_all(
// CHECK-SAME: %[[X:.*]]: memref<?x?xf32> of [_4, _8]) -> (%[[MIN:.*]]: memref<f32> of [], %[[MEAN:.*]]: memref<f32> of []) {
// CHECK: %[[N:.*]] = tpc_kernel.size "_4*_8"
// CHECK: tpc_kernel.rows () in [] {
// CHECK: %[[V:.*]] = tpc_kernel.fold min (%[[I:.*]], %[[J:.*]]) in [_4, _8] adjacent : f32 init 0x7F800000 identity 0x7F800000 {
// CHECK-NEXT: memref.load %[[X]][%[[I]], %[[J]]]
// CHECK: memref.store %[[V]], %[[MIN]][]
// CHECK: tpc_kernel.fold sum
// CHECK: arith.index_cast %[[N]]
func.func private @of_all(%x: tensor<4x8xf32>) -> (tensor<f32>, tensor<f32>) attributes {tpc.kernel = 0} {
  %0 = tpc.reduce min %x [1, 0] : tensor<4x8xf32> -> tensor<f32>
  %1 = tpc.reduce mean %x [0, 1] : tensor<4x8xf32> -> tensor<f32>
  return %0, %1 : tensor<f32>, tensor<f32>
}

// The identity of an unsigned minimum is the largest number: all bits are set.
// CHECK-LABEL: tpc_kernel.func @minimum_of_unsigned(
// CHECK: tpc_kernel.fold umin (%{{.*}}) in [_8] adjacent : i8 init -1 identity -1
func.func private @minimum_of_unsigned(%x: tensor<4x8xui8>) -> tensor<4xui8> attributes {tpc.kernel = 1} {
  %0 = tpc.reduce min %x [1] : tensor<4x8xui8> -> tensor<4xui8>
  return %0 : tensor<4xui8>
}

// An element is loaded and computed once for each result that uses it; values of one loop are not
// reused in the next.
// CHECK-LABEL: tpc_kernel.func @two_results(
// CHECK: tpc_kernel.elements (%[[J:.*]]) in [_8] {
// CHECK-NEXT: %[[X:.*]] = memref.load
// CHECK-NEXT: %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT: %[[Y:.*]] = arith.mulf %[[E]], %[[E]]
// CHECK-NEXT: memref.store %[[Y]]
// CHECK: tpc_kernel.elements (%[[J]]) in [_8] {
// CHECK-NEXT: %[[X:.*]] = memref.load
// CHECK-NEXT: %[[E:.*]] = math.exp %[[X]]
// CHECK-NEXT: %[[Y:.*]] = arith.addf %[[E]], %[[X]]
// CHECK-NEXT: memref.store %[[Y]]
func.func private @two_results(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {tpc.kernel = 1} {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.mul %0, %0 : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.add %0, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  return %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>
}

// Of three stores, the second and the third read stored values. There is a barrier before each of
// these two, and none after the last.
// CHECK-LABEL: tpc_kernel.func @three_stores(
// CHECK-SAME: (%[[A:.*]]: memref<?x?xf32> of [_4, _8], %[[B:.*]]: memref<?x?xf32> of [_4, _8], %[[C:.*]]: memref<?x?xf32> of [_4, _8]) {
// CHECK: memref.store %{{.*}}, %[[A]]
// CHECK: tpc_kernel.barrier
// CHECK: memref.load %[[A]]
// CHECK: memref.store %{{.*}}, %[[B]]
// CHECK: tpc_kernel.barrier
// CHECK: memref.load %[[B]]
// CHECK: memref.store %{{.*}}, %[[C]]
// CHECK-NOT: tpc_kernel.barrier
// CHECK: tpc_kernel.func @no_barrier(
// CHECK-NOT: tpc_kernel.barrier
func.func private @three_stores(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) attributes {tpc.kernel = 1} {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.softmax %0 dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  %2 = tpc.softmax %1 dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %1, %2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}
func.func private @no_barrier(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) attributes {tpc.kernel = 1} {
  %0 = tpc.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tpc.softmax %y dim 1 : tensor<4x8xf32> -> tensor<4x8xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x8xf32>
}
