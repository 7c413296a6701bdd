// RUN: tpc-opt %s --split-input-file --tpc-verify-buffers --verify-diagnostics

// The second matmul overwrites memory that the third still reads.
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %0, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = tpc.matmul %0, %1 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %2 : tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 64
  %0 = tpc_buffer.slot %frame at 0 : 16 x f32
  tpc_buffer.batch_product %x by %x to %0 batch 1 m 4 k 4 n 4 strides 0, 0
  // expected-error @below {{to memory that it may still read}}
  tpc_buffer.batch_product %0 by %x to %0 batch 1 m 4 k 4 n 4 strides 0, 0
  tpc_buffer.batch_product %0 by %0 to %y batch 1 m 4 k 4 n 4 strides 0, 0
  tpc_buffer.pop %frame
}

// -----

// The frame ends within the slot.
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %0, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %1 : tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 32
  %0 = tpc_buffer.slot %frame at 0 : 16 x f32
  // expected-error @below {{writes 64 bytes at offset 0 of a buffer of 32}}
  tpc_buffer.batch_product %x by %x to %0 batch 1 m 4 k 4 n 4 strides 0, 0
  tpc_buffer.batch_product %0 by %x to %y batch 1 m 4 k 4 n 4 strides 0, 0
  tpc_buffer.pop %frame
}

// -----

// A wrong size, and a wrong operand.
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32) to (%y : 16 x f32) {
  // expected-error @below {{has k 5, but must have 4}}
  tpc_buffer.batch_product %x by %x to %y batch 1 m 4 k 5 n 4 strides 0, 0
}

// -----

func.func private @f(%x: tensor<4x4xf32>, %z: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %0 = tpc.matmul %x, %z : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0 : tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %z = value 1 : 16 x f32) to (%y : 16 x f32) {
  // expected-error @below {{must read the memory of argument 0}}
  tpc_buffer.batch_product %z by %x to %y batch 1 m 4 k 4 n 4 strides 0, 0
}

// -----

// The result is not written.
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}
// expected-error @below {{needs argument 0, which is not in the memory that it reads}}
// expected-note @below {{overwritten, or never written}}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32) to (%y : 16 x f32) {
}

// -----

// expected-error @below {{has no function on buffers}}
func.func private @f(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  return %x : tensor<4x4xf32>
}

// -----

// The window has two keys instead of three.
!x = tensor<1x4x2x4xf32>
!k = tensor<1x?x2x4xf32, #tpc.dist<[1, "p + 4", 2, 4]>>
func.func private @f(%x: !x, %k: !k, %s: tensor<2xf32>, %t: tensor<2xf32>) -> !x {
  %0 = tpc.attention causal %x, %k, %k slopes %s scale 1.0 offset "p" window "3" : !x, !k, !k slopes tensor<2xf32> -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 32 x f32, %k = value 1 : "8*p + 32" x f32, %s = value 2 : 2 x f32, %t = value 3 : 2 x f32) to (%y : 32 x f32) {
  // expected-error @below {{has a window that begins after p - 2, but must have p - 3}}
  tpc_buffer.attention %x, %k, %k slopes %s at p to %y batch 1 queries 4 keys "p + 4" heads 2 of 4 kv_heads 2 of 4 strides [8, 8, 8, 8] causal p after "p - 2" scale 1.0
}

// -----

// The window is missing.
!x = tensor<1x4x2x4xf32>
!k = tensor<1x?x2x4xf32, #tpc.dist<[1, "p + 4", 2, 4]>>
func.func private @f(%x: !x, %k: !k, %s: tensor<2xf32>, %t: tensor<2xf32>) -> !x {
  %0 = tpc.attention causal %x, %k, %k slopes %s scale 1.0 offset "p" window "3" : !x, !k, !k slopes tensor<2xf32> -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 32 x f32, %k = value 1 : "8*p + 32" x f32, %s = value 2 : 2 x f32, %t = value 3 : 2 x f32) to (%y : 32 x f32) {
  // expected-error @below {{must have a window if and only if the op on tensors has one}}
  tpc_buffer.attention %x, %k, %k slopes %s at p to %y batch 1 queries 4 keys "p + 4" heads 2 of 4 kv_heads 2 of 4 strides [8, 8, 8, 8] causal p scale 1.0
}

// -----

// The slopes' bias is 0 at another key. The result is the same except for rounding.
!x = tensor<1x4x2x4xf32>
!k = tensor<1x?x2x4xf32, #tpc.dist<[1, "p + 4", 2, 4]>>
func.func private @f(%x: !x, %k: !k, %s: tensor<2xf32>, %t: tensor<2xf32>) -> !x {
  %0 = tpc.attention causal %x, %k, %k slopes %s scale 1.0 offset "p" window "3" : !x, !k, !k slopes tensor<2xf32> -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 32 x f32, %k = value 1 : "8*p + 32" x f32, %s = value 2 : 2 x f32, %t = value 3 : 2 x f32) to (%y : 32 x f32) {
  // expected-error @below {{has slopes that are 0 at p + 1, but must have p}}
  tpc_buffer.attention %x, %k, %k slopes %s at "p + 1" to %y batch 1 queries 4 keys "p + 4" heads 2 of 4 kv_heads 2 of 4 strides [8, 8, 8, 8] causal p after "p - 3" scale 1.0
}

// -----

// The slopes are another value.
!x = tensor<1x4x2x4xf32>
!k = tensor<1x?x2x4xf32, #tpc.dist<[1, "p + 4", 2, 4]>>
func.func private @f(%x: !x, %k: !k, %s: tensor<2xf32>, %t: tensor<2xf32>) -> !x {
  %0 = tpc.attention causal %x, %k, %k slopes %s scale 1.0 offset "p" window "3" : !x, !k, !k slopes tensor<2xf32> -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 32 x f32, %k = value 1 : "8*p + 32" x f32, %s = value 2 : 2 x f32, %t = value 3 : 2 x f32) to (%y : 32 x f32) {
  // expected-error @below {{must read the memory of argument 2}}
  tpc_buffer.attention %x, %k, %k slopes %t at p to %y batch 1 queries 4 keys "p + 4" heads 2 of 4 kv_heads 2 of 4 strides [8, 8, 8, 8] causal p after "p - 3" scale 1.0
}

// -----

// The slopes are missing.
!x = tensor<1x4x2x4xf32>
!k = tensor<1x?x2x4xf32, #tpc.dist<[1, "p + 4", 2, 4]>>
func.func private @f(%x: !x, %k: !k, %s: tensor<2xf32>, %t: tensor<2xf32>) -> !x {
  %0 = tpc.attention causal %x, %k, %k slopes %s scale 1.0 offset "p" window "3" : !x, !k, !k slopes tensor<2xf32> -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 32 x f32, %k = value 1 : "8*p + 32" x f32, %s = value 2 : 2 x f32, %t = value 3 : 2 x f32) to (%y : 32 x f32) {
  // expected-error @below {{has no slopes, but the op on tensors has one}}
  tpc_buffer.attention %x, %k, %k to %y batch 1 queries 4 keys "p + 4" heads 2 of 4 kv_heads 2 of 4 strides [8, 8, 8, 8] causal p after "p - 3" scale 1.0
}
