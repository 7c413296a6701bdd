// An expert computes at most a number of tokens of a sample.
// RUN: tpc-opt %s --tpc-limit-experts=capacity=1.25 --split-input-file -verify-diagnostics | FileCheck %s

!rows = tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
!routing = tensor<?x4xf32, #tpc.dist<[b*s, 4]>>

// Weights of later tokens become 0, also for the biases after the experts. Other uses are kept.
// CHECK-LABEL: @limit
// CHECK: %[[LIMIT:.*]] = tpc.size "floordiv(10*s + 15, 16)"
// CHECK: %[[W:.*]] = tpc.reshape %arg1
// CHECK: %[[USES:.*]] = tpc.cmp ne %[[W]]
// CHECK: %[[ONES:.*]] = tpc.cast %[[USES]]
// CHECK: %[[COUNT:.*]] = tpc.cumsum %[[ONES]] dim 1
// CHECK: %[[FITS:.*]] = tpc.cmp le %[[COUNT]], %[[LIMIT]]
// CHECK: %[[KEPT:.*]] = tpc.select %[[FITS]], %[[W]]
// CHECK: %[[R:.*]] = tpc.reshape %[[KEPT]]
// CHECK: tpc.moe silu %arg0, %[[R]],
// CHECK: tpc.matmul %[[R]],
// CHECK: return {{.*}}, %arg1
func.func @limit(%x: !rows, %r: !routing, %ids: tensor<?x?xi64, #tpc.dist<[b, s]>>,
                 %up: tensor<4x6x8xf32>, %down: tensor<4x8x6xf32>, %bias: tensor<4x8xf32>) -> (!rows, !routing) {
  %y = tpc.moe silu %x, %r, %up, %down top_k 2 : !rows, !routing, tensor<4x6x8xf32>, tensor<4x8x6xf32> -> !rows
  %b = tpc.matmul %r, %bias : !routing, tensor<4x8xf32> -> !rows
  %z = tpc.add %y, %b : !rows, !rows -> !rows
  return %z, %r : !rows, !routing
}

// -----

// expected-error @+1 {{has no mixture of experts}}
func.func @none(%x: tensor<4xf32>) -> tensor<4xf32> {
  return %x : tensor<4xf32>
}

// -----

!rows = tensor<?x8xf32, #tpc.dist<[t, 8]>>
!routing = tensor<?x4xf32, #tpc.dist<[t, 4]>>

func.func @tokens(%x: !rows, %r: !routing, %up: tensor<4x6x8xf32>, %down: tensor<4x8x6xf32>) -> !rows {
  // expected-error @+1 {{has t tokens, which is not batch * sequence of an input}}
  %y = tpc.moe silu %x, %r, %up, %down top_k 2 : !rows, !routing, tensor<4x6x8xf32>, tensor<4x8x6xf32> -> !rows
  return %y : !rows
}
