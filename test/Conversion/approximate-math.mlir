// RUN: tpc-opt %s --tpc-approximate-math | FileCheck %s

// CHECK-LABEL: @approximated
// CHECK-NOT: math.exp
// CHECK-NOT: math.tanh
// CHECK-NOT: math.erf
// CHECK-NOT: math.log
func.func @approximated(%x: f32) -> (f32, f32, f32, f32) {
  %0 = math.exp %x : f32
  %1 = math.tanh %x : f32
  %2 = math.erf %x : f32
  %3 = math.log %x : f32
  return %0, %1, %2, %3 : f32, f32, f32, f32
}

// These functions stay calls, because polynomials are inaccurate far from zero.
// CHECK-LABEL: @called
// CHECK: math.sin
// CHECK: math.cos
// CHECK: math.powf
func.func @called(%x: f32) -> (f32, f32, f32) {
  %half = arith.constant 0.5 : f32
  %0 = math.sin %x : f32
  %1 = math.cos %x : f32
  %2 = math.powf %x, %half : f32
  return %0, %1, %2 : f32, f32, f32
}

// Neither casts nor polynomials have fast-math flags.
// CHECK-LABEL: @exact
// CHECK-NOT: fastmath
func.func @exact(%x: f32, %y: f32) -> (f32, f32) {
  %0 = arith.mulf %x, %y : f32
  %1 = arith.subf %0, %y : f32
  %2 = arith.truncf %1 : f32 to f16
  %3 = arith.extf %2 : f16 to f32
  %4 = math.exp %3 : f32
  %5 = math.erf %3 : f32
  return %4, %5 : f32, f32
}
