// RUN: tpc-opt %s --split-input-file --tpc-verify-buffers --verify-diagnostics

// The results of two merged matmuls are stored in each other's memory.
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
// expected-error @below {{, which is not in the memory that it reads}}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32, %z : 16 x f32) {
  // expected-note @below {{, written by tpc_buffer.product}}
  tpc_buffer.product %x m 4 k 4 by %w to %z n 4, by %v to %y n 4
}

// -----

// The parameters are swapped.
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32, %z : 16 x f32) {
  // expected-error @below {{uses another parameter than argument 1, packed}}
  tpc_buffer.product %x m 4 k 4 by %v to %y n 4, by %w to %z n 4
}

// -----

// One of the two matmuls is missing.
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32, %z : 16 x f32) {
  // expected-error @below {{has 1 parameters, but on tensors there are 2}}
  tpc_buffer.product %x m 4 k 4 by %w to %y n 4
}

// -----

// A merged matmul may overwrite its own residual, but not another's, because all run at the same
// time.
func.func private @f(%x: tensor<4x4xf32>, %w: tensor<4x4xf32>, %v: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %e = tpc.matmul %x, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %1 = tpc.add %0, %e {tpc.fused = 0 : i32} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %2 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %3 = tpc.matmul %1, %2 : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  return %3 : tensor<4x4xf32>
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %e = tpc_buffer.slot %frame at 0 : 16 x f32
  %0 = tpc_buffer.slot %frame at 64 : 16 x f32
  tpc_buffer.batch_product %x by %x to %e batch 1 m 4 k 4 n 4 strides 0, 0
  // expected-error @below {{to memory that it may still read}}
  tpc_buffer.product %x m 4 k 4 by %w residual %e to %0 n 4, by %v to %e n 4
  tpc_buffer.batch_product %0 by %e to %y batch 1 m 4 k 4 n 4 strides 0, 0
  tpc_buffer.pop %frame
}
