// RUN: tpc-opt %s --tpc-expand-math --verify-diagnostics --split-input-file

llvm.func @no_formula(%x: f32) -> f32 {
  // expected-error@+1 {{'math.atan' of 'f32' has no formula for GPUs; only sin, cos, pow and remf of f32 have one}}
  %y = math.atan %x : f32
  llvm.return %y : f32
}

// -----

llvm.func @of_another_type(%x: f64) -> f64 {
  // expected-error@+1 {{'math.sin' of 'f64' has no formula for GPUs; only sin, cos, pow and remf of f32 have one}}
  %y = math.sin %x : f64
  llvm.return %y : f64
}

// -----

llvm.func @remainder_of_another_type(%x: f64, %z: f64) -> f64 {
  // expected-error@+1 {{'arith.remf' of 'f64' has no formula for GPUs; only sin, cos, pow and remf of f32 have one}}
  %y = arith.remf %x, %z : f64
  llvm.return %y : f64
}
