// RUN: tpc-opt %s --tpc-expand-math | FileCheck %s

// The range reduction uses the digits of 2/pi that the argument needs. Arguments below 1/2 are not
// reduced.
// CHECK-LABEL: llvm.func @sine(
// CHECK: arith.constant -1560706194 : i32
// CHECK-COUNT-3: llvm.intr.fshl
// CHECK: math.fma
// CHECK-NOT: math.sin
// CHECK: llvm.return
llvm.func @sine(%x: f32) -> f32 {
  %y = math.sin %x : f32
  llvm.return %y : f32
}

// CHECK-LABEL: llvm.func @cosine(
// CHECK-COUNT-3: llvm.intr.fshl
// CHECK-NOT: math.cos
// CHECK: llvm.return
llvm.func @cosine(%x: f32) -> f32 {
  %y = math.cos %x : f32
  llvm.return %y : f32
}

// The result is computed in f64 and rounded once.
// CHECK-LABEL: llvm.func @power(
// CHECK-COUNT-2: arith.extf {{.*}} : f32 to f64
// CHECK: math.roundeven {{.*}} : f64
// CHECK: arith.truncf {{.*}} : f64 to f32
// CHECK-NOT: math.powf
// CHECK: llvm.return
llvm.func @power(%x: f32, %z: f32) -> f32 {
  %y = math.powf %x, %z : f32
  llvm.return %y : f32
}

// CHECK-LABEL: llvm.func @remainder(
// CHECK-COUNT-6: arith.divf {{.*}} : f64
// CHECK-NOT: arith.remf
// CHECK: math.copysign
llvm.func @remainder(%x: f32, %z: f32) -> f32 {
  %y = arith.remf %x, %z : f32
  llvm.return %y : f32
}

// Functions with exact GPU instructions are not expanded.
// CHECK-LABEL: llvm.func @root(
// CHECK: math.sqrt
llvm.func @root(%x: f32) -> f32 {
  %y = math.sqrt %x : f32
  llvm.return %y : f32
}
