// RUN: tpc-opt %s --split-input-file --tpc-recognize-caches | FileCheck %s

!new = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!old = tensor<2x?x2x?x4xf32, #tpc.dist<[2, b, 2, p, 4]>>
!half = tensor<1x?x2x?x4xf32, #tpc.dist<[1, b, 2, p, 4]>>
!past = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>
!turned = tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, p]>>
!now = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
!nowTurned = tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, s]>>
!both = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>
!bothTurned = tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, "p + s"]>>
!keys = tensor<?x?x2x4xf32, #tpc.dist<[b, "p + s", 2, 4]>>
!one = tensor<1x?x2x?x4xf32, #tpc.dist<[1, b, 2, "p + s", 4]>>
!packed = tensor<2x?x2x?x4xf32, #tpc.dist<[2, b, 2, "p + s", 4]>>

// ONNX Runtime's form: keys and values of a layer in one tensor; new keys are appended along the
// last token dimension.
// CHECK: tpc.step = #tpc.step<past = p, tokens = s>
// CHECK: tpc.cache @k0 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: tpc.cache @v0 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: func.func @main(%arg0: {{.*}}, %arg1: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>> {tpc.cache = @k0, tpc.name = "k0"}, %arg2:
// CHECK-SAME: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>> {tpc.cache = @k0, tpc.name = "k0"}, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>> {tpc.cache = @v0, tpc.name = "v0"})
// CHECK-NOT: tpc.slice
// CHECK: %[[KC:.*]] = tpc.concat %arg1, %{{.*}} dim 2
// CHECK: %[[K:.*]] = tpc.transpose %[[KC]] [0, 2, 1, 3]
// CHECK: %[[VC:.*]] = tpc.concat %arg2, %{{.*}} dim 2
// CHECK: %[[V:.*]] = tpc.transpose %[[VC]] [0, 2, 1, 3]
// CHECK: %[[Y:.*]] = tpc.attention causal %arg0, %[[K]], %[[V]] scale 1.000000e+00 offset p
// CHECK: return %[[Y]], %[[KC]], %[[VC]]
func.func @main(%x: !new, %old: !old) -> (!new, !packed) {
  %0 = tpc.slice %old dim 0 from 0 : !old -> !half
  %1 = tpc.reshape %0 : !half -> !past
  %2 = tpc.transpose %1 [0, 1, 3, 2] : !past -> !turned
  %3 = tpc.transpose %x [0, 2, 3, 1] : !new -> !nowTurned
  %4 = tpc.concat %2, %3 dim 3 : !turned, !nowTurned -> !bothTurned
  %k = tpc.transpose %4 [0, 3, 1, 2] : !bothTurned -> !keys
  %5 = tpc.slice %old dim 0 from 1 : !old -> !half
  %6 = tpc.reshape %5 : !half -> !past
  %n = tpc.neg %x : !new -> !new
  %7 = tpc.transpose %n [0, 2, 1, 3] : !new -> !now
  %8 = tpc.concat %6, %7 dim 2 : !past, !now -> !both
  %v = tpc.transpose %8 [0, 2, 1, 3] : !both -> !keys
  %y = tpc.attention causal %x, %k, %v scale 1.0 offset p : !new, !keys, !keys -> !new
  %9 = tpc.transpose %4 [0, 1, 3, 2] : !bothTurned -> !both
  %10 = tpc.reshape %9 : !both -> !one
  %11 = tpc.reshape %8 : !both -> !one
  %12 = tpc.concat %10, %11 dim 0 : !one, !one -> !packed
  return %y, %12 : !new, !packed
}

// -----

!new = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
!now = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
!now16 = tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>
!past = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>
!past16 = tensor<?x2x?x4xf16, #tpc.dist<[b, 2, p, 4]>>
!both = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "p + s", 4]>>
!both16 = tensor<?x2x?x4xf16, #tpc.dist<[b, 2, "p + s", 4]>>
!keys = tensor<?x?x2x4xf32, #tpc.dist<[b, "p + s", 2, 4]>>

// Casts before and after the concatenation: the cache has the type of the concatenation, and
// attention another.
// CHECK: tpc.cache @k0 : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: tpc.cache @v0 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: func.func @main({{.*}}%arg1: tensor<?x2x?x4xf16, {{.*}} {tpc.cache = @k0, tpc.name = "k0"}
// CHECK: %[[K:.*]] = tpc.concat %arg1, %{{.*}} dim 2 : {{.*}}xf16
// CHECK: %[[KT:.*]] = tpc.transpose %[[K]] [0, 2, 1, 3]
// CHECK: %[[V:.*]] = tpc.concat %arg2, %{{.*}} dim 2 : {{.*}}xf32
// CHECK: %[[VT:.*]] = tpc.transpose %[[V]] [0, 2, 1, 3]
// CHECK: %[[KW:.*]] = tpc.cast %[[KT]] : {{.*}}f16, {{.*}} -> tensor<?x?x2x4xf32
// CHECK: tpc.attention causal %arg0, %[[KW]], %[[VT]]
func.func @main(%x: !new, %pk: !past, %pv: !past16) -> (!new, !both, !both16) {
  %n = tpc.transpose %x [0, 2, 1, 3] : !new -> !now
  %n16 = tpc.cast %n : !now -> !now16
  %pk16 = tpc.cast %pk : !past -> !past16
  %0 = tpc.concat %pk16, %n16 dim 2 : !past16, !now16 -> !both16
  %1 = tpc.cast %0 : !both16 -> !both
  %k = tpc.transpose %1 [0, 2, 1, 3] : !both -> !keys
  %pv32 = tpc.cast %pv : !past16 -> !past
  %2 = tpc.concat %pv32, %n dim 2 : !past, !now -> !both
  %3 = tpc.cast %2 : !both -> !both16
  %v = tpc.transpose %2 [0, 2, 1, 3] : !both -> !keys
  %y = tpc.attention causal %x, %k, %v scale 1.0 offset p : !new, !keys, !keys -> !new
  return %y, %1, %3 : !new, !both, !both16
}

// -----

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
// A model without a past is unchanged.
// CHECK-NOT: tpc.cache
// CHECK-NOT: tpc.step
func.func @main(%x: !h) -> !h {
  %y = tpc.attention causal %x, %x, %x scale 1.0 : !h, !h, !h -> !h
  return %y : !h
}
