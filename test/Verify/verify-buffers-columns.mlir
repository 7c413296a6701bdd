// RUN: tpc-opt %s --split-input-file --tpc-verify-buffers --verify-diagnostics

// Results of merged matmuls that are columns of one buffer.

!x = tensor<4x4xf32>
func.func private @kernel_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.mul %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x) -> !x {
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_mul(%0, %1) : (!x, !x) -> !x
  return %2 : !x
}
tpc_buffer.func @good of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
  tpc_buffer.launch @kernel_mul(%0, %1) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Columns that overlap.
!x = tensor<4x4xf32>
func.func private @kernel_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.mul %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x) -> !x {
  %0 = tpc.matmul %x, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %x, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_mul(%0, %1) : (!x, !x) -> !x
  return %2 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 3 n 4 of 8 : 16 x f32
  // expected-error @below {{writes two results to memory that may overlap}}
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
  tpc_buffer.launch @kernel_mul(%0, %1) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Columns after the end of a row.
!x = tensor<4x4xf32>
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 5 n 4 of 8 : 16 x f32
  // expected-error @below {{uses columns 5 to 9 of rows of 8}}
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  tpc_buffer.pop %frame
}

// -----

// The buffer has four rows of 8, not of 9.
!x = tensor<4x4xf32>
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 9 : 16 x f32
  // expected-error @below {{uses columns of 16 x 'f32', which are not 4 of 9 in a buffer of 32 x 'f32'}}
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  tpc_buffer.pop %frame
}

// -----

// A kernel that reads dense rows gets columns.
!x = tensor<4x4xf32>
func.func private @kernel_exp(%a: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.exp %a : !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  %1 = call @kernel_exp(%0) : (!x) -> !x
  return %1 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  // expected-error @below {{passes columns of a buffer for argument 0 of @kernel_exp, which reads dense rows}}
  tpc_buffer.launch @kernel_exp(%0) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// A kernel that reads rows with a stride gets a dense buffer.
!x = tensor<4x4xf32>
func.func private @kernel_exp(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.exp %a : !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x) -> !x {
  %0 = call @kernel_exp(%x) : (!x) -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32) to (%y : 16 x f32) {
  // expected-error @below {{passes a dense buffer for argument 0 of @kernel_exp, which reads rows with a stride}}
  tpc_buffer.launch @kernel_exp(%x) to (%y) rows 4 grain 1
}

// -----

// The kernel reads rows at another distance than that of the buffer's rows.
!x = tensor<4x4xf32>
func.func private @kernel_exp(%a: !x {tpc.row_stride = [1, #tpc.expr<7>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.exp %a : !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  %1 = call @kernel_exp(%0) : (!x) -> !x
  return %1 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  // expected-error @below {{has a kernel that reads rows at a distance of 7, but must have 8}}
  tpc_buffer.launch @kernel_exp(%0) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// A matmul reads its left operand from dense rows, not from columns.
!x = tensor<4x4xf32>
func.func private @f(%x: !x, %w: !x, %v: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  %1 = tpc.matmul %0, %v : !x, !x -> !x
  return %1 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  // expected-error @below {{uses columns of a buffer as if they were dense}}
  tpc_buffer.product %0 m 4 k 4 by %v to %y n 4
  tpc_buffer.pop %frame
}

// -----

// Columns of columns.
!x = tensor<4x4xf32>
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 256
  %all = tpc_buffer.slot %frame at 0 : 64 x f32
  %some = tpc_buffer.columns %all from 0 n 8 of 16 : 32 x f32
  %0 = tpc_buffer.columns %some from 0 n 4 of 8 : 16 x f32
  // expected-error @below {{uses columns of a buffer as if they were dense}}
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  tpc_buffer.pop %frame
}

// -----

// The parameter has 4 columns, but the result is stored in 2.
!x = tensor<4x4xf32>
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = tpc.matmul %x, %w : !x, !x -> !x
  return %0 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %all = tpc_buffer.slot %frame at 0 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 2 of 4 : 16 x f32
  // expected-error @below {{has n 4, but must have 2}}
  tpc_buffer.product %x m 4 k 4 by %w to %0 n 4
  tpc_buffer.pop %frame
}
