// Masks that also hide early keys are windows.
// RUN: tpc-opt %s --tpc-raise-attention --canonicalize --split-input-file -verify-diagnostics | FileCheck %s

!q = tensor<?x?x3x4xf32, #tpc.dist<[b, s, 3, 4]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
!index = tensor<1x1x?x?xi64, #tpc.dist<[1, 1, s, s]>>
!masks = tensor<?x1x?x?xi1, #tpc.dist<[b, 1, s, s]>>

// i - j < 4 and j <= i: the last four keys, including the query's own. If there are two windows,
// the shorter one remains.
// CHECK-LABEL: @window
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} window 4 :
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} window 1 :
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} window 3 :
func.func @window(%q: !q) -> (!q, !q, !q) {
  %three = tpc.constant dense<3> : tensor<i64> : tensor<i64>
  %four = tpc.constant dense<4> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 2 : !index
  %j = tpc.iota dim 3 : !index
  %causal = tpc.cmp le %j, %i : !index, !index -> !mask
  %d = tpc.sub %i, %j : !index, !index -> !index
  %w4 = tpc.cmp lt %d, %four : !index, tensor<i64> -> !mask
  %m4 = tpc.and %causal, %w4 : !mask, !mask -> !mask
  %0 = tpc.attention %q, %q, %q mask %m4 scale 1.0 : !q, !q, !q mask !mask -> !q
  %own = tpc.cmp ge %j, %i : !index, !index -> !mask
  %m1 = tpc.and %causal, %own : !mask, !mask -> !mask
  %1 = tpc.attention %q, %q, %q mask %m1 scale 1.0 : !q, !q, !q mask !mask -> !q
  %w3 = tpc.cmp lt %d, %three : !index, tensor<i64> -> !mask
  %both = tpc.and %w3, %m4 : !mask, !mask -> !mask
  %2 = tpc.attention %q, %q, %q mask %both scale 1.0 : !q, !q, !q mask !mask -> !q
  return %0, %1, %2 : !q, !q, !q
}

// A window in both directions, as in encoders with local attention, and one that bounds only early
// keys.
// CHECK-LABEL: @around
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} offset 3 window 6 :
// CHECK: tpc.attention %arg0, %arg0, %arg0 scale {{[^ ]*}} window 3 :
func.func @around(%q: !q) -> (!q, !q) {
  %three = tpc.constant dense<3> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 2 : !index
  %j = tpc.iota dim 3 : !index
  %d = tpc.sub %i, %j : !index, !index -> !index
  %e = tpc.sub %j, %i : !index, !index -> !index
  %back = tpc.cmp lt %d, %three : !index, tensor<i64> -> !mask
  %ahead = tpc.cmp le %e, %three : !index, tensor<i64> -> !mask
  %m = tpc.and %back, %ahead : !mask, !mask -> !mask
  %0 = tpc.attention %q, %q, %q mask %m scale 1.0 : !q, !q, !q mask !mask -> !q
  %1 = tpc.attention %q, %q, %q mask %back scale 1.0 : !q, !q, !q mask !mask -> !q
  return %0, %1 : !q, !q
}

// With padding, there is also a key mask.
// CHECK-LABEL: @padded
// CHECK: %[[M:.*]] = tpc.cast %arg1
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 key_mask %[[M]] scale {{[^ ]*}} window 4 :
func.func @padded(%q: !q, %p: tensor<?x?xi64, #tpc.dist<[b, s]>>) -> !q {
  %four = tpc.constant dense<4> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 2 : !index
  %j = tpc.iota dim 3 : !index
  %causal = tpc.cmp le %j, %i : !index, !index -> !mask
  %from = tpc.sub %i, %four : !index, tensor<i64> -> !index
  %w = tpc.cmp gt %j, %from : !index, !index -> !mask
  %m = tpc.and %causal, %w : !mask, !mask -> !mask
  %k = tpc.cast %p : tensor<?x?xi64, #tpc.dist<[b, s]>> -> tensor<?x?xi1, #tpc.dist<[b, s]>>
  %keys = tpc.reshape %k : tensor<?x?xi1, #tpc.dist<[b, s]>> -> tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>>
  %all = tpc.and %m, %keys : !mask, tensor<?x1x1x?xi1, #tpc.dist<[b, 1, 1, s]>> -> !masks
  %0 = tpc.attention %q, %q, %q mask %all scale 1.0 : !q, !q, !q mask !masks -> !q
  return %0 : !q
}

// A PyTorch buffer (GPT-Neo): a slice of a constant band.
// CHECK-LABEL: @stored
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} window 2 :
func.func @stored(%q: tensor<2x4x3x4xf32>) -> tensor<2x4x3x4xf32> {
  %band = tpc.constant dense<[[[[true, false, false, false, false], [true, true, false, false, false],
      [false, true, true, false, false], [false, false, true, true, false],
      [false, false, false, true, true]]]]> : tensor<1x1x5x5xi1> : tensor<1x1x5x5xi1>
  %rows = tpc.slice %band dim 2 from 0 : tensor<1x1x5x5xi1> -> tensor<1x1x4x5xi1>
  %m = tpc.slice %rows dim 3 from 0 : tensor<1x1x4x5xi1> -> tensor<1x1x4x4xi1>
  %0 = tpc.attention %q, %q, %q mask %m scale 1.0 : tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32>, tensor<2x4x3x4xf32> mask tensor<1x1x4x4xi1> -> tensor<2x4x3x4xf32>
  return %0 : tensor<2x4x3x4xf32>
}

// A window longer than any sequence hides nothing. It is removed if the maximum length is known.
// CHECK-LABEL: @wide
// CHECK: tpc.attention causal %arg0, %arg0, %arg0 scale {{[^ ]*}} :
func.func @wide(%q: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %five = tpc.constant dense<5> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 2 : tensor<1x1x5x5xi64>
  %j = tpc.iota dim 3 : tensor<1x1x5x5xi64>
  %causal = tpc.cmp le %j, %i : tensor<1x1x5x5xi64>, tensor<1x1x5x5xi64> -> tensor<1x1x5x5xi1>
  %d = tpc.sub %i, %j : tensor<1x1x5x5xi64>, tensor<1x1x5x5xi64> -> tensor<1x1x5x5xi64>
  %w = tpc.cmp lt %d, %five : tensor<1x1x5x5xi64>, tensor<i64> -> tensor<1x1x5x5xi1>
  %m = tpc.and %causal, %w : tensor<1x1x5x5xi1>, tensor<1x1x5x5xi1> -> tensor<1x1x5x5xi1>
  %0 = tpc.attention %q, %q, %q mask %m scale 1.0 : tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32>, tensor<2x5x3x4xf32> mask tensor<1x1x5x5xi1> -> tensor<2x5x3x4xf32>
  return %0 : tensor<2x5x3x4xf32>
}

// No form expresses a bound that moves twice as fast as the query, or a disjunction of which only
// one half is a window.
// CHECK-LABEL: @stays
// CHECK: tpc.attention %arg0, %arg0, %arg0 mask
// CHECK: tpc.attention %arg0, %arg0, %arg0 mask
func.func @stays(%q: !q) -> (!q, !q) {
  %two = tpc.constant dense<2> : tensor<i64> : tensor<i64>
  %four = tpc.constant dense<4> : tensor<i64> : tensor<i64>
  %i = tpc.iota dim 2 : !index
  %j = tpc.iota dim 3 : !index
  %causal = tpc.cmp le %j, %i : !index, !index -> !mask
  %twice = tpc.mul %i, %two : !index, tensor<i64> -> !index
  %d = tpc.sub %twice, %j : !index, !index -> !index
  %w = tpc.cmp lt %d, %four : !index, tensor<i64> -> !mask
  %m0 = tpc.and %causal, %w : !mask, !mask -> !mask
  // expected-remark @below {{attention keeps its mask as a tensor: it was not recognized as causal, a window, or a mask of keys}}
  %0 = tpc.attention %q, %q, %q mask %m0 scale 1.0 : !q, !q, !q mask !mask -> !q
  %e = tpc.sub %i, %j : !index, !index -> !index
  %v = tpc.cmp lt %e, %four : !index, tensor<i64> -> !mask
  %first = tpc.cmp lt %j, %two : !index, tensor<i64> -> !mask
  %or = tpc.or %v, %first : !mask, !mask -> !mask
  %m1 = tpc.and %causal, %or : !mask, !mask -> !mask
  // expected-remark @below {{attention keeps its mask as a tensor}}
  %1 = tpc.attention %q, %q, %q mask %m1 scale 1.0 : !q, !q, !q mask !mask -> !q
  return %0, %1 : !q, !q
}

// -----

// After a past, positions are past + i. Rows without keys are handled as for other masks. Here the
// lowest float is added, each query sees itself, and rows that padding hides are uniform.
!q = tensor<2x3x?x4xf32, #tpc.dist<[2, 3, s, 4]>>
!k = tensor<2x3x4x?xf32, #tpc.dist<[2, 3, 4, "p + s"]>>
!v = tensor<2x3x?x4xf32, #tpc.dist<[2, 3, "p + s", 4]>>
!s = tensor<2x3x?x?xf32, #tpc.dist<[2, 3, s, "p + s"]>>
!rows = tensor<1x1x?x1xi64, #tpc.dist<[1, 1, s, 1]>>
!columns = tensor<1x1x1x?xi64, #tpc.dist<[1, 1, 1, "p + s"]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, "p + s"]>>
!low = tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, "p + s"]>>

// CHECK-LABEL: @past
// CHECK: tpc.attention causal {{.*}} scale {{[^ ]*}} offset p window 6 :
func.func @past(%q: !q, %k: !k, %v: !v) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %p = tpc.size "p" : tensor<i64>
  %six = tpc.constant dense<6> : tensor<i64> : tensor<i64>
  %i0 = tpc.iota dim 2 : !rows
  %i = tpc.add %i0, %p : !rows, tensor<i64> -> !rows
  %j = tpc.iota dim 3 : !columns
  %from = tpc.sub %i, %six : !rows, tensor<i64> -> !rows
  %c = tpc.cmp le %j, %i : !columns, !rows -> !mask
  %w = tpc.cmp gt %j, %from : !columns, !rows -> !mask
  %m = tpc.and %c, %w : !mask, !mask -> !mask
  %b = tpc.select %m, %zero, %lowest : !mask, tensor<f32>, tensor<f32> -> !low
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !low -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %v : !s, !v -> !q
  return %3 : !q
}

// The window hides all keys of a row. -inf gives NaN there, but the op does not, so the mask stays.
// CHECK-LABEL: @after_all_keys
// CHECK: tpc.attention {{.*}} bias
func.func @after_all_keys(%q: !q, %k: !k, %v: !v) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %p = tpc.size "2*p + s" : tensor<i64>
  %six = tpc.constant dense<6> : tensor<i64> : tensor<i64>
  %i0 = tpc.iota dim 2 : !rows
  %i = tpc.add %i0, %p : !rows, tensor<i64> -> !rows
  %j = tpc.iota dim 3 : !columns
  %from = tpc.sub %i, %six : !rows, tensor<i64> -> !rows
  %w = tpc.cmp gt %j, %from : !columns, !rows -> !mask
  %b = tpc.select %w, %zero, %lowest : !mask, tensor<f32>, tensor<f32> -> !low
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !low -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor: it was not recognized as causal, a window, slopes of heads, or a mask of keys}}
  %3 = tpc.matmul %2, %v : !s, !v -> !q
  return %3 : !q
}
