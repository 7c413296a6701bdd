// Forms of masks that are recognized, and results of rows without visible keys.
// RUN: tpc-opt %s --tpc-raise-attention --canonicalize --split-input-file -verify-diagnostics | FileCheck %s

!q = tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!row = tensor<?xi64, #tpc.dist<[s]>>
!column = tensor<?x1xi64, #tpc.dist<[s, 1]>>
!square = tensor<?x?xi1, #tpc.dist<[s, s]>>

// The mask compares two ranges, and -10000 replaces hidden scores. Each query sees itself.
// CHECK-LABEL: @causal
// CHECK: tpc.attention causal %arg0, %arg1, %arg2 scale 1.0{{[0e+]*}} :
func.func @causal(%q: !q, %k: !q, %v: !q) -> tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>> {
  %j = tpc.iota dim 0 : !row
  %i = tpc.reshape %j : !row -> !column
  %c = tpc.cmp le %j, %i : !row, !column -> !square
  %low = tpc.constant dense<-1.0e4> : tensor<f32> : tensor<f32>
  %qt = tpc.transpose %q [0, 2, 1, 3] : !q -> tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
  %kt = tpc.transpose %k [0, 2, 3, 1] : !q -> tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
  %vt = tpc.transpose %v [0, 2, 1, 3] : !q -> tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
  %0 = tpc.matmul %qt, %kt : tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>, tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>> -> !s
  %1 = tpc.select %c, %0, %low : !square, !s, tensor<f32> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %vt : !s, tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>> -> tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
  return %3 : tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
}

// -----

// The other cases start from attention ops, whose masks are analyzed in the same way.

!q = tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>>
!square = tensor<?x?xi1, #tpc.dist<[s, s]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
!masks = tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>

// A lower triangle of ones, and a slice of a constant triangle.
// CHECK-LABEL: @triangles
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} offset -1 :
func.func @triangles(%q: !q) -> (!q, !q, !q) {
  %true = tpc.constant dense<true> : tensor<i1> : tensor<i1>
  %all = tpc.expand %true : tensor<i1> -> !mask
  %m0 = tpc.trilu %all : !mask -> !mask
  %c = tpc.constant dense<[[1, 0, 0], [1, 1, 0], [1, 1, 1]]> : tensor<3x3xui8> : tensor<3x3xui8>
  %c0 = tpc.slice %c dim 0 from 0 : tensor<3x3xui8> -> tensor<?x3xui8, #tpc.dist<[s, 3]>>
  %c1 = tpc.slice %c0 dim 1 from 0 : tensor<?x3xui8, #tpc.dist<[s, 3]>> -> tensor<?x?xui8, #tpc.dist<[s, s]>>
  %c2 = tpc.cast %c1 : tensor<?x?xui8, #tpc.dist<[s, s]>> -> !square
  %m1 = tpc.reshape %c2 : !square -> !mask
  %m2 = tpc.trilu %all k -1 : !mask -> !mask
  %0 = tpc.attention %q, %q, %q mask %m0 scale 1.0 : !q, !q, !q mask !mask -> !q
  %1 = tpc.attention %q, %q, %q mask %m1 scale 1.0 : !q, !q, !q mask !mask -> !q
  %2 = tpc.attention %q, %q, %q mask %m2 scale 1.0 : !q, !q, !q mask !mask -> !q
  return %0, %1, %2 : !q, !q, !q
}

// A padding mask is gathered from its flattened form at b * s + j.
// CHECK-LABEL: @padding
// CHECK: %[[M:.*]] = tpc.cast %arg1 : {{.*}} -> tensor<?x?xi1, #tpc.dist<[b, s]>>
// CHECK: tpc.attention %arg0, %arg0, %arg0 key_mask %[[M]] scale
func.func @padding(%q: !q, %p: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> !q {
  %flat = tpc.reshape %p : tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?xi64, #tpc.dist<[b*s]>>
  %b = tpc.iota dim 0 : tensor<?x1x1x1xi64, #tpc.dist<[b, 1, 1, 1]>>
  %j = tpc.iota dim 3 : tensor<1x1x1x?xi64, #tpc.dist<[1, 1, 1, s]>>
  %s = tpc.size s : tensor<i64>
  %bs = tpc.mul %b, %s : tensor<?x1x1x1xi64, #tpc.dist<[b, 1, 1, 1]>>, tensor<i64> -> tensor<?x1x1x1xi64, #tpc.dist<[b, 1, 1, 1]>>
  %at = tpc.add %bs, %j : tensor<?x1x1x1xi64, #tpc.dist<[b, 1, 1, 1]>>, tensor<1x1x1x?xi64, #tpc.dist<[1, 1, 1, s]>> -> tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>>
  %g = tpc.gather %flat, %at dim 0 : tensor<?xi64, #tpc.dist<[b*s]>>, tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>>
  %c = tpc.cast %g : tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>>
  %m = tpc.expand %c : tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>> -> !masks
  %0 = tpc.attention %q, %q, %q mask %m scale 1.0 : !q, !q, !q mask !masks -> !q
  return %0 : !q
}

// The mask is causal only where the batch index is even. No form expresses this, so the mask stays.
// CHECK-LABEL: @stays
// CHECK: tpc.attention %arg0, %arg0, %arg0 mask
func.func @stays(%q: !q) -> !q {
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %zero = tpc.constant dense<0> : tensor<i64> : tensor<i64>
  %b = tpc.iota dim 0 : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>
  %i = tpc.iota dim 2 : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>
  %j = tpc.iota dim 3 : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>
  %c = tpc.cmp le %j, %i : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>, tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>> -> !masks
  %r = tpc.mod %b, %two : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>, tensor<i64> -> tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>
  %e = tpc.cmp eq %r, %zero : tensor<?x1x?x?xi64, #tpc.dist<[b, 1, s, s]>>, tensor<i64> -> !masks
  %odd = tpc.not %e : !masks -> !masks
  %m0 = tpc.or %c, %odd : !masks, !masks -> !masks
  // expected-remark @below {{attention keeps its mask as a tensor}}
  %0 = tpc.attention %q, %q, %q mask %m0 scale 1.0 : !q, !q, !q mask !masks -> !q
  return %0 : !q
}

// -----

// Additive masks; %p may hide all keys of a row.
!q = tensor<2x3x5x4xf32>
!k = tensor<2x3x4x5xf32>
!s = tensor<2x3x5x5xf32>
!p = tensor<2x1x1x5xi1>

// -inf hides keys, and NaN is replaced by 0: fully hidden rows are zero.
// CHECK-LABEL: @guarded
// CHECK: tpc.attention {{.*}} key_mask %{{.*}} scale 1.0{{[0e+]*}} :
func.func @guarded(%q: !q, %k: !k, %v: !q, %p: !p) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %m = tpc.select %p, %zero, %low : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %m : !s, tensor<2x1x1x5xf32> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %nan = tpc.is_nan %2 : !s -> tensor<2x3x5x5xi1>
  %3 = tpc.select %nan, %zero, %2 : tensor<2x3x5x5xi1>, tensor<f32>, !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// The lowest float absorbs scores: fully hidden rows are uniform.
// CHECK-LABEL: @lowest
// CHECK: tpc.attention {{.*}} key_mask %{{.*}} scale {{.*}} {masked_row = 1
func.func @lowest(%q: !q, %k: !k, %v: !q, %p: !p) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %m = tpc.select %p, %zero, %low : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %m, %0 : tensor<2x1x1x5xf32>, !s -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// -10000 replaces scores: fully hidden rows are uniform. (Here the condition is true for hidden
// keys.)
// CHECK-LABEL: @replaced
// CHECK: %[[N:.*]] = tpc.not
// CHECK: tpc.attention {{.*}} key_mask %[[N]] scale {{.*}} {masked_row = 1
func.func @replaced(%q: !q, %k: !k, %v: !q, %p: !p) -> !q {
  %low = tpc.constant dense<-1.0e4> : tensor<f32> : tensor<f32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.select %p, %low, %0 : !p, tensor<f32>, !s -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// If -10000 is added, a fully hidden row keeps the differences between its scores. So it stays a
// bias. -inf without a replacement of NaN also stays a bias.
// CHECK-LABEL: @kept
// CHECK: tpc.attention {{.*}} bias
// CHECK: tpc.attention {{.*}} bias
func.func @kept(%q: !q, %k: !k, %v: !q, %p: !p) -> (!q, !q) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-1.0e4> : tensor<f32> : tensor<f32>
  %inf = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %m = tpc.select %p, %zero, %low : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %1 = tpc.add %0, %m : !s, tensor<2x1x1x5xf32> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  %mi = tpc.select %p, %zero, %inf : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %4 = tpc.add %0, %mi : !s, tensor<2x1x1x5xf32> -> !s
  %5 = tpc.softmax %4 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %6 = tpc.matmul %5, %v : !s, !q -> !q
  return %3, %6 : !q, !q
}

// The lowest float added twice is -inf. So if one mask hides a row fully and the other partly, the
// row is uniform over keys that only one hides. The op has no such form.
// CHECK-LABEL: @twice
// CHECK: tpc.attention {{.*}} bias
func.func @twice(%q: !q, %k: !k, %v: !q, %p: !p, %r: !p) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %m = tpc.select %p, %zero, %low : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %n = tpc.select %r, %zero, %low : !p, tensor<f32>, tensor<f32> -> tensor<2x1x1x5xf32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %m : !s, tensor<2x1x1x5xf32> -> !s
  %2 = tpc.add %1, %n : !s, tensor<2x1x1x5xf32> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// An unknown bias may itself contain the lowest float, so that a mask by the lowest float is
// ambiguous. A mask by -inf is not.
// CHECK-LABEL: @with_bias
// CHECK: %[[B:.*]] = tpc.select %{{.*}}, %arg4, %
// CHECK: tpc.attention {{.*}}, %{{[0-9]+}} bias %[[B]] scale
// CHECK: tpc.attention {{.*}} key_mask %{{.*}} bias %arg4 scale
func.func @with_bias(%q: !q, %k: !k, %v: !q, %p: !p, %a: tensor<1x3x5x5xf32>) -> (!q, !q) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %inf = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %a : !s, tensor<1x3x5x5xf32> -> !s
  %2 = tpc.select %p, %1, %low : !p, !s, tensor<f32> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  %5 = tpc.select %p, %1, %inf : !p, !s, tensor<f32> -> !s
  %6 = tpc.softmax %5 dim 3 : !s -> !s
  %nan = tpc.is_nan %6 : !s -> tensor<2x3x5x5xi1>
  %7 = tpc.select %nan, %zero, %6 : tensor<2x3x5x5xi1>, tensor<f32>, !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %8 = tpc.matmul %7, %v : !s, !q -> !q
  return %4, %8 : !q, !q
}

// -----

// OPT adds the padding input to the lowest float where causality hides a key, and hides keys where
// the sum is zero as well. The mask can be separated from the bias only after attention is
// recognized. So there is no remark.
!q = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
!k = tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!m = tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>>
!square = tensor<?x?xf32, #tpc.dist<[s, s]>>
// CHECK-LABEL: @least_number
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} key_mask %{{.*}} scale 1.0{{.*}} {masked_row = 1 : i32}
func.func @least_number(%q: !q, %k: !k, %v: !q, %mask: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %j = tpc.iota dim 0 : tensor<?xi64, #tpc.dist<[s]>>
  %i = tpc.reshape %j : tensor<?xi64, #tpc.dist<[s]>> -> tensor<?x1xi64, #tpc.dist<[s, 1]>>
  %0 = tpc.expand %low : tensor<f32> -> !square
  %1 = tpc.trilu upper %0 k 1 : !square -> !square
  %2 = tpc.cmp gt %j, %i : tensor<?xi64, #tpc.dist<[s]>>, tensor<?x1xi64, #tpc.dist<[s, 1]>> -> tensor<?x?xi1, #tpc.dist<[s, s]>>
  %3 = tpc.cast %2 : tensor<?x?xi1, #tpc.dist<[s, s]>> -> !square
  %4 = tpc.mul %1, %3 : !square, !square -> !square
  %5 = tpc.reshape %4 : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %6 = tpc.reshape %mask : tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>>
  %7 = tpc.cast %6 : tensor<?x1x1x?xi64, #tpc.dist<[b, 1, 1, s]>> -> tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>>
  %8 = tpc.add %5, %7 : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>, tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>> -> !m
  %9 = tpc.cmp eq %8, %zero : !m, tensor<f32> -> tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>
  %10 = tpc.select %9, %low, %5 : tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>, tensor<f32>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> !m
  %11 = tpc.matmul %q, %k : !q, !k -> !s
  %12 = tpc.add %11, %10 : !s, !m -> !s
  %13 = tpc.softmax %12 dim 3 : !s -> !s
  %14 = tpc.matmul %13, %v : !s, !q -> !q
  return %14 : !q
}
