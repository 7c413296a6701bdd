// RUN: tpc-opt %s --split-input-file --tpc-verify-buffers --verify-diagnostics

// Matmuls with a norm and an activation in one kernel.

// Correct: a norm, two matmuls, and the activation of the first times the second.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  tpc_buffer.fused norm rms_norm %x scale %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Another norm.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  // expected-error @below {{has norm layer_norm, but the kernel before its matmuls is rms_norm}}
  tpc_buffer.fused norm layer_norm %x scale %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Another epsilon.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  // expected-error @below {{has another epsilon than the norm on tensors}}
  tpc_buffer.fused norm rms_norm %x scale %s epsilon 1.0E-5 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Another operand of the norm.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  // expected-error @below {{needs argument 0, which is not in the memory that it reads}}
  tpc_buffer.fused norm rms_norm %2 scale %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    // expected-note @below {{the memory has the result of func.call}}
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// A shift that does not exist.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  // expected-error @below {{has a shift, but the norm on tensors has none}}
  tpc_buffer.fused norm rms_norm %x scale %s shift %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Another activation.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  // expected-error @below {{has activation gelu_erf gated, but the kernel after its matmuls computes something else}}
  tpc_buffer.fused norm rms_norm %x scale %s epsilon 1.0E-6 activation gelu_erf gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Correct: the result is in the buffer of the norm's result, which the fused kernel does not store.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%x, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 0 : 16 x f32
  tpc_buffer.fused norm rms_norm %x scale %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_add(%x, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// A value that a fused kernel does not write is read afterwards.
!x = tensor<4x4xf32>
!g = tensor<4xf32>
func.func private @kernel_rms_norm(%a: !x, %s: !g) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.rms_norm %a, %s epsilon 1.0E-6 : !x, !g -> !x
  return %0 : !x
}
func.func private @kernel_silu_mul(%a: !x {tpc.row_stride = [1, #tpc.expr<8>]}, %b: !x {tpc.row_stride = [1, #tpc.expr<8>]}) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.silu %a : !x -> !x
  %1 = tpc.mul %0, %b : !x, !x -> !x
  return %1 : !x
}
func.func private @kernel_add(%a: !x, %b: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.add %a, %b : !x, !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x, %v: !x, %s: !g) -> !x {
  %n = call @kernel_rms_norm(%x, %s) : (!x, !g) -> !x
  %0 = tpc.matmul %n, %w {tpc.merged = 0 : i64} : !x, !x -> !x
  %1 = tpc.matmul %n, %v {tpc.merged = 0 : i64} : !x, !x -> !x
  %2 = call @kernel_silu_mul(%0, %1) : (!x, !x) -> !x
  %3 = call @kernel_add(%n, %2) : (!x, !x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1, %v = packed 2, %g = dense 3) to (%y : 16 x f32) {
  %s = tpc_buffer.dense %g : 4 x f32
  %frame = tpc_buffer.push 256
  %n = tpc_buffer.slot %frame at 0 : 16 x f32
  %all = tpc_buffer.slot %frame at 64 : 32 x f32
  %0 = tpc_buffer.columns %all from 0 n 4 of 8 : 16 x f32
  %1 = tpc_buffer.columns %all from 4 n 4 of 8 : 16 x f32
  %2 = tpc_buffer.slot %frame at 192 : 16 x f32
  tpc_buffer.fused norm rms_norm %x scale %s epsilon 1.0E-6 activation silu gated to %2 {
    tpc_buffer.launch @kernel_rms_norm(%x, %s) to (%n) rows 4 grain 1
    tpc_buffer.product %n m 4 k 4 by %w to %0 n 4, by %v to %1 n 4
    tpc_buffer.launch @kernel_silu_mul(%0, %1) to (%2) rows 4 grain 1
  }
  // expected-error @below {{which is not in the memory that it reads}}
  // expected-note @below {{the contents are unknown}}
  tpc_buffer.launch @kernel_add(%n, %2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}

// -----

// Without a norm, the kernel reads the matmul's operand, which the result must not overwrite.
!x = tensor<4x4xf32>
func.func private @kernel_exp(%a: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.exp %a : !x -> !x
  return %0 : !x
}
func.func private @kernel_gelu(%a: !x) -> !x attributes {tpc.kernel = 1} {
  %0 = tpc.gelu tanh %a : !x -> !x
  return %0 : !x
}
func.func private @f(%x: !x, %w: !x) -> !x {
  %0 = call @kernel_exp(%x) : (!x) -> !x
  %1 = tpc.matmul %0, %w : !x, !x -> !x
  %2 = call @kernel_gelu(%1) : (!x) -> !x
  %3 = call @kernel_exp(%2) : (!x) -> !x
  return %3 : !x
}
tpc_buffer.func @b of @f(%x = value 0 : 16 x f32, %w = packed 1) to (%y : 16 x f32) {
  %frame = tpc_buffer.push 128
  %0 = tpc_buffer.slot %frame at 0 : 16 x f32
  %1 = tpc_buffer.slot %frame at 64 : 16 x f32
  %2 = tpc_buffer.slot %frame at 0 : 16 x f32
  tpc_buffer.launch @kernel_exp(%x) to (%0) rows 4 grain 1
  // expected-error @below {{which is not in the memory that it reads}}
  tpc_buffer.fused activation gelu_tanh to %2 {
    tpc_buffer.product %0 m 4 k 4 by %w to %1 n 4
    // expected-note @below {{the memory has the result of func.call}}
    tpc_buffer.launch @kernel_gelu(%1) to (%2) rows 4 grain 1
  }
  tpc_buffer.launch @kernel_exp(%2) to (%y) rows 4 grain 1
  tpc_buffer.pop %frame
}
