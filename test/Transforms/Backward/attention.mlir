// The gradients of attention are one op for each active operand, and equal differences of the loss.
// RUN: tpc-opt %s --split-input-file --tpc-derive-backward --tpc-verify-gradients | FileCheck %s
// RUN: tpc-opt %s --split-input-file --tpc-derive-backward=decompose-attention --tpc-verify-gradients | FileCheck %s --check-prefix=MATMULS

// Without the op, they are matmuls with matrices of probabilities.
// MATMULS-NOT: tpc.attention_grad
// MATMULS: tpc.softmax
// MATMULS-NOT: tpc.attention_grad

!q = tensor<2x5x4x3xf32>
!k = tensor<2x5x2x3xf32>

// Keys are an input.
// CHECK-LABEL: module
// CHECK: tpc.attention_grad 0 causal %[[Q:.*]], %[[K:.*]], %[[V:.*]], %[[D:.*]] key_mask %{{.*}} slopes %{{.*}} scale 5.000000e-01 window 3 {softcap = 2.000000e+00 : f64}
// CHECK-NEXT: tpc.attention_grad 2 causal %[[Q]], %[[K]], %[[V]], %[[D]] key_mask
// CHECK-NOT: tpc.attention_grad
module {
  tpc.weight @w in "w.bin" at 0 : tensor<3x3xf32>
  func.func @main(%x: !q, %k: !k, %v: !k, %m: tensor<2x5xi1>, %s: tensor<4xf32>) -> tensor<10x12xf32> {
    %w = tpc.parameter @w : tensor<3x3xf32>
    %q = tpc.matmul %x, %w : !q, tensor<3x3xf32> -> !q
    %y = tpc.matmul %v, %w : !k, tensor<3x3xf32> -> !k
    %z = tpc.attention causal %q, %k, %y key_mask %m slopes %s scale 0.5 window "3" {softcap = 2.0} : !q, !k, !k key_mask tensor<2x5xi1> slopes tensor<4xf32> -> !q
    %logits = tpc.reshape %z : !q -> tensor<10x12xf32>
    return %logits : tensor<10x12xf32>
  }
}

// -----

!q = tensor<2x5x4x3xf32>
!k = tensor<2x5x2x3xf32>

// Rows without visible keys are means.
// CHECK-LABEL: module
// CHECK: tpc.attention_grad 0 causal {{.*}} offset -2 uniform_rows
// CHECK-NEXT: tpc.attention_grad 1 causal {{.*}} offset -2 uniform_rows
// CHECK-NEXT: tpc.attention_grad 2 causal {{.*}} offset -2 uniform_rows
module {
  tpc.weight @w in "w.bin" at 0 : tensor<3x3xf32>
  func.func @main(%x: !q, %k: !k) -> tensor<10x12xf32> {
    %w = tpc.parameter @w : tensor<3x3xf32>
    %q = tpc.matmul %x, %w : !q, tensor<3x3xf32> -> !q
    %y = tpc.matmul %k, %w : !k, tensor<3x3xf32> -> !k
    %t = tpc.mul %y, %y : !k, !k -> !k
    %z = tpc.attention causal %q, %y, %t scale 0.5 offset "-2" {masked_row = 1 : i32} : !q, !k, !k -> !q
    %logits = tpc.reshape %z : !q -> tensor<10x12xf32>
    return %logits : tensor<10x12xf32>
  }
}

// -----

!q = tensor<2x5x2x3xf32>

// A bias with a gradient needs the matrices of probabilities.
// CHECK-LABEL: module
// CHECK-NOT: tpc.attention_grad
// CHECK: tpc.softmax
module {
  tpc.weight @w in "w.bin" at 0 : tensor<3x3xf32>
  tpc.weight @b in "w.bin" at 36 : tensor<1x2x5x5xf32>
  func.func @main(%x: !q) -> tensor<10x6xf32> {
    %w = tpc.parameter @w : tensor<3x3xf32>
    %b = tpc.parameter @b : tensor<1x2x5x5xf32>
    %q = tpc.matmul %x, %w : !q, tensor<3x3xf32> -> !q
    %z = tpc.attention causal %q, %x, %x bias %b scale 0.5 : !q, !q, !q bias tensor<1x2x5x5xf32> -> !q
    %logits = tpc.reshape %z : !q -> tensor<10x6xf32>
    return %logits : tensor<10x6xf32>
  }
}
