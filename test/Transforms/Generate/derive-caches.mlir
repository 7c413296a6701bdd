// RUN: tpc-opt %s --split-input-file --tpc-derive-caches | FileCheck %s

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!heads = tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>

// Queries and positions come after the past. Keys and values are those of the past, then the new
// ones. New names differ from those in the program.
// CHECK: module attributes {tpc.constraints = [{expr = #tpc.expr<"past_1 + s">, max = 64 : i64}, {expr = #tpc.expr<past>, min = 1 : i64}]
// CHECK-SAME: tpc.step = #tpc.step<past = past_1, tokens = s>
module attributes {tpc.constraints = [{expr = #tpc.expr<s>, max = 64 : i64}, {expr = #tpc.expr<past>, min = 1 : i64}]} {
tpc.weight @k0 in "w" at 0 : tensor<64x8xf32>
// CHECK: tpc.cache @[[K:k0_[0-9]+]] : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: tpc.cache @v0 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: func.func @main({{.*}}, %arg2: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, past_1, 4]>> {tpc.cache = @[[K]], tpc.name = "[[K]]"},
// CHECK-SAME: %arg3: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, past_1, 4]>> {tpc.cache = @v0, tpc.name = "v0"})
// CHECK-SAME: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "past_1 + s", 4]>> {tpc.cache = @[[K]], tpc.name = "[[K]]"}, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, "past_1 + s", 4]>> {tpc.cache = @v0,
// CHECK: %[[I:.*]] = tpc.iota dim 1
// CHECK: %[[P:.*]] = tpc.size past_1 : tensor<i64>
// CHECK: %[[POSITION:.*]] = tpc.add %[[I]], %[[P]]
// CHECK: tpc.embedding %{{.*}}, %[[POSITION]]
// CHECK: %[[H:.*]] = tpc.reshape
// CHECK-DAG: %[[KT:.*]] = tpc.transpose %[[H]] [0, 2, 1, 3]
// CHECK-DAG: %[[KC:.*]] = tpc.concat %arg2, %[[KT]] dim 2
// CHECK-DAG: %[[KA:.*]] = tpc.transpose %[[KC]] [0, 2, 1, 3]
// CHECK-DAG: %[[V:.*]] = tpc.neg %[[H]]
// CHECK-DAG: %[[VT:.*]] = tpc.transpose %[[V]] [0, 2, 1, 3]
// CHECK-DAG: %[[VC:.*]] = tpc.concat %arg3, %[[VT]] dim 2
// CHECK-DAG: %[[VA:.*]] = tpc.transpose %[[VC]] [0, 2, 1, 3]
// CHECK: %[[Y:.*]] = tpc.attention causal %[[H]], %[[KA]], %[[VA]] scale 1.000000e+00 offset past_1 window 3
// CHECK: return %[[Y]], %[[KC]], %[[VC]]
func.func @main(%ids: !ids, %other: tensor<?xf32, #tpc.dist<[past]>>) -> (!heads {tpc.name = "y"}) {
  %w = tpc.parameter @k0 : tensor<64x8xf32>
  %p = tpc.iota dim 1 : !ids
  %q = tpc.add %p, %ids : !ids, !ids -> !ids
  %x = tpc.embedding %w, %p : tensor<64x8xf32>, !ids -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
  %h = tpc.reshape %x : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> -> !heads
  %v = tpc.neg %h : !heads -> !heads
  %y = tpc.attention causal %h, %h, %v scale 1.0 window 3 : !heads, !heads, !heads -> !heads
  return %y : !heads
}
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!x = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!heads = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>

// Positions are a running sum of ones, or rows of a table. Layers that share keys share their
// cache.
// CHECK: tpc.cache @k0
// CHECK-NOT: tpc.cache
// CHECK: func.func @main
// CHECK: %[[SUM:.*]] = tpc.cumsum
// CHECK: tpc.add %[[SUM]], %{{.*}} : {{.*}}tensor<i64>
// CHECK: tpc.slice %{{.*}} dim 0 from past
// CHECK-COUNT-1: tpc.concat
// CHECK: %[[K:.*]] = tpc.transpose
// CHECK-COUNT-2: tpc.attention causal %{{.*}}, %[[K]], %[[K]]
module {
tpc.weight @table in "w" at 0 : tensor<64x4xf32>
func.func @main(%x: !x) -> !heads {
  %one = tpc.constant dense<1> : tensor<i64> : tensor<i64>
  %ones = tpc.expand %one : tensor<i64> -> !ids
  %p = tpc.cumsum %ones dim 1 : !ids -> !ids
  %w = tpc.parameter @table : tensor<64x4xf32>
  %a = tpc.embedding %w, %p : tensor<64x4xf32>, !ids -> !x
  %b = tpc.slice %w dim 0 from 0 : tensor<64x4xf32> -> tensor<?x4xf32, #tpc.dist<[s, 4]>>
  %c = tpc.add %a, %b : !x, tensor<?x4xf32, #tpc.dist<[s, 4]>> -> !x
  %d = tpc.add %c, %x : !x, !x -> !x
  %h = tpc.reshape %d : !x -> !heads
  %y = tpc.attention causal %h, %h, %h scale 1.0 : !heads, !heads, !heads -> !heads
  %z = tpc.attention causal %y, %h, %h scale 1.0 : !heads, !heads, !heads -> !heads
  return %z : !heads
}
}

// -----

// Programs that already have caches are unchanged.
!new = tensor<1x?x1x4xf32, #tpc.dist<[1, s, 1, 4]>>
!old = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!all = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + s", 4]>>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + s", 1, 4]>>
// CHECK: tpc.cache @c
// CHECK-NOT: tpc.cache
// CHECK: func.func @main
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<1x1x?x4xf32, #tpc.dist<[1, 1, capacity, 4]>>
func.func @main(%new: !new, %old: !old {tpc.cache = @c}) -> (!new, !all {tpc.cache = @c}) {
  %t = tpc.transpose %new [0, 2, 1, 3] : !new -> tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>>
  %c = tpc.concat %old, %t dim 2 : !old, tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>> -> !all
  %k = tpc.transpose %c [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %new, %k, %k scale 1.0 offset p : !new, !keys, !keys -> !new
  return %y, %c : !new, !all
}
}
