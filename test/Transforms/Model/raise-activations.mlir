// RUN: tpc-opt %s --tpc-raise-activations | FileCheck %s

!x = tensor<4x8xf32>
!c = tensor<f32>

// CHECK-LABEL: @erf
// CHECK: %[[R:.*]] = tpc.gelu none %arg0
// CHECK-NEXT: return %[[R]]
func.func @erf(%x: !x) -> !x {
  %r2 = tpc.constant dense<1.41421354> : !c : !c
  %one = tpc.constant dense<1.0> : !c : !c
  %half = tpc.constant dense<0.5> : !c : !c
  %u = tpc.div %x, %r2 : !x, !c -> !x
  %t = tpc.erf %u : !x -> !x
  %p = tpc.add %t, %one : !x, !c -> !x
  %m = tpc.mul %x, %p : !x, !x -> !x
  %r = tpc.mul %m, %half : !x, !c -> !x
  return %r : !x
}

// The factor 1/2 is on the other side, and the product with the sum is expanded.
// CHECK-LABEL: @erf_expanded
// CHECK: %[[R:.*]] = tpc.gelu none %arg0
// CHECK-NEXT: return %[[R]]
func.func @erf_expanded(%x: !x) -> !x {
  %r2 = tpc.constant dense<0.707106769> : !c : !c
  %half = tpc.constant dense<0.5> : !c : !c
  %u = tpc.mul %r2, %x : !c, !x -> !x
  %t = tpc.erf %u : !x -> !x
  %h = tpc.mul %half, %x : !c, !x -> !x
  %m = tpc.mul %h, %t : !x, !x -> !x
  %r = tpc.add %h, %m : !x, !x -> !x
  return %r : !x
}

// CHECK-LABEL: @tanh
// CHECK: %[[R:.*]] = tpc.gelu tanh %arg0
// CHECK-NEXT: return %[[R]]
func.func @tanh(%x: !x) -> !x {
  %a = tpc.constant dense<4.471500e-02> : !c : !c
  %b = tpc.constant dense<0.797884583> : !c : !c
  %one = tpc.constant dense<1.0> : !c : !c
  %half = tpc.constant dense<0.5> : !c : !c
  %h = tpc.mul %x, %half : !x, !c -> !x
  %x2 = tpc.mul %x, %x : !x, !x -> !x
  %x3 = tpc.mul %x2, %x : !x, !x -> !x
  %s = tpc.mul %x3, %a : !x, !c -> !x
  %i = tpc.add %x, %s : !x, !x -> !x
  %u = tpc.mul %i, %b : !x, !c -> !x
  %t = tpc.tanh %u : !x -> !x
  %p = tpc.add %t, %one : !x, !c -> !x
  %r = tpc.mul %h, %p : !x, !x -> !x
  return %r : !x
}

// x * (1 + 0.044715 x^2), where x itself is a sum.
// CHECK-LABEL: @tanh_factored
// CHECK: %[[X:.*]] = tpc.add %arg0, %arg1
// CHECK: tpc.gelu tanh %[[X]]
func.func @tanh_factored(%y: !x, %z: !x) -> !x {
  %a = tpc.constant dense<4.471500e-02> : !c : !c
  %b = tpc.constant dense<0.797884583> : !c : !c
  %one = tpc.constant dense<1.0> : !c : !c
  %half = tpc.constant dense<0.5> : !c : !c
  %x = tpc.add %y, %z : !x, !x -> !x
  %x2 = tpc.mul %x, %x : !x, !x -> !x
  %s = tpc.mul %x2, %a : !x, !c -> !x
  %f = tpc.add %s, %one : !x, !c -> !x
  %bx = tpc.mul %x, %b : !x, !c -> !x
  %u = tpc.mul %bx, %f : !x, !x -> !x
  %t = tpc.tanh %u : !x -> !x
  %p = tpc.add %one, %t : !c, !x -> !x
  %q = tpc.mul %p, %x : !x, !x -> !x
  %r = tpc.mul %q, %half : !x, !c -> !x
  return %r : !x
}

// CHECK-LABEL: @sigmoids
// CHECK-DAG: tpc.silu %arg0
// CHECK-DAG: tpc.gelu sigmoid %arg0
func.func @sigmoids(%x: !x) -> (!x, !x) {
  %one = tpc.constant dense<1.0> : !c : !c
  %q = tpc.constant dense<1.702> : !c : !c
  %n = tpc.neg %x : !x -> !x
  %e = tpc.exp %n : !x -> !x
  %p = tpc.add %one, %e : !c, !x -> !x
  %s = tpc.div %one, %p : !c, !x -> !x
  %r = tpc.mul %x, %s : !x, !x -> !x
  %qx = tpc.mul %x, %q : !x, !c -> !x
  %qs = tpc.sigmoid %qx : !x -> !x
  %qr = tpc.mul %x, %qs : !x, !x -> !x
  return %r, %qr : !x, !x
}

// Not GELU: a wrong constant, another x as the first factor, 1/4 instead of 1/2.
// CHECK-LABEL: @others
// CHECK-NOT: tpc.gelu
func.func @others(%x: !x, %y: !x) -> (!x, !x, !x) {
  %r2 = tpc.constant dense<0.75> : !c : !c
  %r3 = tpc.constant dense<0.707106769> : !c : !c
  %one = tpc.constant dense<1.0> : !c : !c
  %half = tpc.constant dense<0.5> : !c : !c
  %quarter = tpc.constant dense<0.25> : !c : !c
  %u0 = tpc.mul %x, %r2 : !x, !c -> !x
  %t0 = tpc.erf %u0 : !x -> !x
  %p0 = tpc.add %t0, %one : !x, !c -> !x
  %m0 = tpc.mul %x, %p0 : !x, !x -> !x
  %0 = tpc.mul %m0, %half : !x, !c -> !x
  %u1 = tpc.mul %x, %r3 : !x, !c -> !x
  %t1 = tpc.erf %u1 : !x -> !x
  %p1 = tpc.add %t1, %one : !x, !c -> !x
  %m1 = tpc.mul %y, %p1 : !x, !x -> !x
  %1 = tpc.mul %m1, %half : !x, !c -> !x
  %m2 = tpc.mul %x, %p1 : !x, !x -> !x
  %2 = tpc.mul %m2, %quarter : !x, !c -> !x
  return %0, %1, %2 : !x, !x, !x
}
