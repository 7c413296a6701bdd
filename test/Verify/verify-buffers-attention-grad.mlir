// Calls of gradients of attention that differ from the ops on tensors are rejected.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics --tpc-verify-buffers

// The scale is missing.
!x = tensor<1x4x2x4xf32>
func.func private @f(%q: !x, %k: !x, %d: !x) -> !x {
  %0 = tpc.attention_grad 0 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32, %k = value 1 : 32 x f32, %d = value 2 : 32 x f32) to (%y : 32 x f32) {
  // expected-error @below {{has a scale 1.000000e+00 : f64, but must have 5.000000e-01 : f64}}
  tpc_buffer.attention_grad %q, %k, %k, %d to %y of [0] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 0 scale 1.0
}

// -----

// The gradient of q is that of k.
!x = tensor<1x4x2x4xf32>
func.func private @f(%q: !x, %k: !x, %d: !x) -> !x {
  %0 = tpc.attention_grad 0 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32, %k = value 1 : 32 x f32, %d = value 2 : 32 x f32) to (%y : 32 x f32) {
  // expected-error @below {{computes the gradient of operand 1, but no op on tensors does}}
  tpc_buffer.attention_grad %q, %k, %k, %d to %y of [1] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 0 scale 0.5
}

// -----

// The gradients of q and k are exchanged.
!x = tensor<1x4x2x4xf32>
func.func private @f(%q: !x, %k: !x, %d: !x) -> (!x, !x) {
  %0 = tpc.attention_grad 0 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  %1 = tpc.attention_grad 1 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  return %0, %1 : !x, !x
}
// expected-error @below {{needs the result of tpc.attention_grad}}
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32, %k = value 1 : 32 x f32, %d = value 2 : 32 x f32) to (%y : 32 x f32, %z : 32 x f32) {
  // expected-note @below {{the memory has the result of tpc.attention_grad}}
  tpc_buffer.attention_grad %q, %k, %k, %d to %z, %y of [0, 1] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 0 scale 0.5
}

// -----

// Queries see one key too many.
!x = tensor<1x4x2x4xf32>
func.func private @f(%q: !x, %k: !x, %d: !x) -> !x {
  %0 = tpc.attention_grad 0 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32, %k = value 1 : 32 x f32, %d = value 2 : 32 x f32) to (%y : 32 x f32) {
  // expected-error @below {{has a causal offset 1, but must have 0}}
  tpc_buffer.attention_grad %q, %k, %k, %d to %y of [0] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 1 scale 0.5
}

// -----

// The cotangent is another tensor.
!x = tensor<1x4x2x4xf32>
func.func private @f(%q: !x, %k: !x, %d: !x) -> !x {
  %0 = tpc.attention_grad 0 causal %q, %k, %k, %d scale 0.5 : !x, !x, !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32, %k = value 1 : 32 x f32, %d = value 2 : 32 x f32) to (%y : 32 x f32) {
  // expected-error @below {{must read the memory of argument 2}}
  tpc_buffer.attention_grad %q, %k, %k, %k to %y of [0] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 0 scale 0.5
}

// -----

// Numbers of the computed gradients must ascend.
tpc_buffer.func @b of @f(%q = value 0 : 32 x f32) to (%y : 32 x f32, %z : 32 x f32) {
  // expected-error @below {{must have a buffer for each of its ascending numbers}}
  tpc_buffer.attention_grad %q, %q, %q, %q to %y, %z of [1, 0] batch 1 queries 4 keys 4 heads 2 size 4 kv_heads 2 size 4 strides [8, 8, 8] causal 0 scale 0.5
}
