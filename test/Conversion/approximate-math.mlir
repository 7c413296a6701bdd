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

// Polynomials are poor far from zero: these stay calls. A square is a product.
// CHECK-LABEL: @called
// CHECK: math.sin
// CHECK: math.cos
// CHECK-NOT: math.powf
// CHECK: arith.mulf
func.func @called(%x: f32) -> (f32, f32, f32) {
  %two = arith.constant 2.0 : f32
  %0 = math.sin %x : f32
  %1 = math.cos %x : f32
  %2 = math.powf %x, %two : f32
  return %0, %1, %2 : f32, f32, f32
}

// Only contraction, no reordering, where nobody asked for it.
// CHECK-LABEL: @flags
// CHECK: arith.addf %{{.*}} fastmath<nsz,contract> : f32
// CHECK: arith.addf %{{.*}} fastmath<reassoc,nsz,contract> : f32
func.func @flags(%x: f32, %y: f32) -> f32 {
  %0 = arith.addf %x, %y : f32
  %1 = arith.addf %0, %y fastmath<reassoc> : f32
  return %1 : f32
}
