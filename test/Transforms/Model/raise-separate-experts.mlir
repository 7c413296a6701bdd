// A sum of layers with weights of their own, each times a column, becomes tpc.moe, also with zeros
// in the sum.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-raise-experts | FileCheck %s

// CHECK-LABEL: @columns
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<6x8xf32>, %[[R:[a-z0-9]+]]: tensor<6x2xf32>
// CHECK-DAG: %[[UP:.*]] = tpc.concat {{.*}} dim 0 : tensor<1x8x12xf32>, tensor<1x8x12xf32> -> tensor<2x8x12xf32>
// CHECK-DAG: %[[DOWN:.*]] = tpc.concat {{.*}} dim 0 : tensor<1x12x8xf32>, tensor<1x12x8xf32> -> tensor<2x12x8xf32>
// CHECK-DAG: %[[BIAS:.*]] = tpc.concat {{.*}} dim 0 : tensor<1x12xf32>, tensor<1x12xf32> -> tensor<2x12xf32>
// CHECK: %[[M:.*]] = tpc.moe relu %[[X]], %[[R]], {{.*}} up_bias %[[BIAS]] top_k 2
// CHECK-NOT: tpc.matmul
// CHECK: return %[[M]]
tpc.weight @u0 in "m.onnx" at 0 : tensor<8x12xf32>
tpc.weight @u1 in "m.onnx" at 1000 : tensor<8x12xf32>
tpc.weight @d0 in "m.onnx" at 2000 : tensor<12x8xf32>
tpc.weight @d1 in "m.onnx" at 3000 : tensor<12x8xf32>
tpc.weight @b0 in "m.onnx" at 4000 : tensor<12xf32>
tpc.weight @b1 in "m.onnx" at 5000 : tensor<12xf32>
func.func @columns(%x: tensor<6x8xf32>, %r: tensor<6x2xf32>) -> tensor<6x8xf32> {
  %u0 = tpc.parameter @u0 : tensor<8x12xf32>
  %u1 = tpc.parameter @u1 : tensor<8x12xf32>
  %d0 = tpc.parameter @d0 : tensor<12x8xf32>
  %d1 = tpc.parameter @d1 : tensor<12x8xf32>
  %b0 = tpc.parameter @b0 : tensor<12xf32>
  %b1 = tpc.parameter @b1 : tensor<12xf32>
  %r0 = tpc.slice %r dim 1 from 0 : tensor<6x2xf32> -> tensor<6x1xf32>
  %r1 = tpc.slice %r dim 1 from 1 : tensor<6x2xf32> -> tensor<6x1xf32>
  %p0 = tpc.matmul %x, %u0 : tensor<6x8xf32>, tensor<8x12xf32> -> tensor<6x12xf32>
  %q0 = tpc.add %p0, %b0 : tensor<6x12xf32>, tensor<12xf32> -> tensor<6x12xf32>
  %h0 = tpc.relu %q0 : tensor<6x12xf32> -> tensor<6x12xf32>
  %y0 = tpc.matmul %h0, %d0 : tensor<6x12xf32>, tensor<12x8xf32> -> tensor<6x8xf32>
  %z0 = tpc.mul %y0, %r0 : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %p1 = tpc.matmul %x, %u1 : tensor<6x8xf32>, tensor<8x12xf32> -> tensor<6x12xf32>
  %q1 = tpc.add %p1, %b1 : tensor<6x12xf32>, tensor<12xf32> -> tensor<6x12xf32>
  %h1 = tpc.relu %q1 : tensor<6x12xf32> -> tensor<6x12xf32>
  %y1 = tpc.matmul %h1, %d1 : tensor<6x12xf32>, tensor<12x8xf32> -> tensor<6x8xf32>
  %z1 = tpc.mul %y1, %r1 : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %w1 = tpc.add %z1, %zero : tensor<6x8xf32>, tensor<f32> -> tensor<6x8xf32>
  %s = tpc.add %z0, %w1 : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return %s : tensor<6x8xf32>
}

// -----

// Weights in two files cannot be one weight. Different activations are no mixture.
// CHECK-LABEL: @files
// CHECK-NOT: tpc.moe
tpc.weight @d0 in "m.onnx" at 2000 : tensor<8x8xf32>
tpc.weight @d1 in "n.onnx" at 3000 : tensor<8x8xf32>
func.func @files(%x: tensor<6x8xf32>, %r0: tensor<6x1xf32>, %r1: tensor<6x1xf32>) -> (tensor<6x8xf32>, tensor<6x8xf32>) {
  %d0 = tpc.parameter @d0 : tensor<8x8xf32>
  %d1 = tpc.parameter @d1 : tensor<8x8xf32>
  %a0 = tpc.matmul %x, %d0 : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %a1 = tpc.matmul %x, %d1 : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %h0 = tpc.relu %a0 : tensor<6x8xf32> -> tensor<6x8xf32>
  %h1 = tpc.relu %a1 : tensor<6x8xf32> -> tensor<6x8xf32>
  %g1 = tpc.silu %a1 : tensor<6x8xf32> -> tensor<6x8xf32>
  %y0 = tpc.matmul %h0, %d0 : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %y1 = tpc.matmul %h1, %d1 : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %y2 = tpc.matmul %g1, %d1 : tensor<6x8xf32>, tensor<8x8xf32> -> tensor<6x8xf32>
  %z0 = tpc.mul %y0, %r0 : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %z1 = tpc.mul %y1, %r1 : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  %z2 = tpc.mul %y2, %r1 : tensor<6x8xf32>, tensor<6x1xf32> -> tensor<6x8xf32>
  // expected-warning @+1 {{computes all 2 experts for each token, because their weights are not one tensor: they are in different files}}
  %s = tpc.add %z0, %z1 : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  // expected-warning @+1 {{computes all 2 experts for each token, not part of a recognized mixture}}
  %t = tpc.add %z0, %z2 : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  return %s, %t : tensor<6x8xf32>, tensor<6x8xf32>
}
