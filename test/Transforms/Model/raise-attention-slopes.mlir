// Biases that are a per-head factor times the key's index: slopes (ALiBi).
// RUN: tpc-opt %s --tpc-raise-attention --canonicalize --split-input-file -verify-diagnostics | FileCheck %s

!q = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
!k = tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!keys = tensor<1x1x1x?xf32, #tpc.dist<[1, 1, 1, s]>>
!index = tensor<1x1x1x?xi64, #tpc.dist<[1, 1, 1, s]>>
!bias = tensor<1x3x1x?xf32, #tpc.dist<[1, 3, 1, s]>>
!square = tensor<1x1x?x?xi64, #tpc.dist<[1, 1, s, s]>>

// The bias slope * key is scaled together with the scores, so the slopes are scaled.
// CHECK-LABEL: @scaled
// CHECK: %[[R:.*]] = tpc.reshape %arg3 : tensor<1x3x1x1xf32> -> tensor<3xf32>
// CHECK: %[[S:.*]] = tpc.mul %[[R]], %{{.*}} : tensor<3xf32>, tensor<f32>
// CHECK: tpc.attention %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %[[S]] scale 5.0{{[0e+-]*}}1 :
func.func @scaled(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %half = tpc.constant dense<0.5> : tensor<f32> : tensor<f32>
  %j = tpc.iota dim 3 : !index
  %f = tpc.cast %j : !index -> !keys
  %b = tpc.mul %f, %slopes : !keys, tensor<1x3x1x1xf32> -> !bias
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !bias -> !s
  %2 = tpc.mul %1, %half : !s, tensor<f32> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// The bias is slope * (key - query), and a causal mask adds the lowest float.
// CHECK-LABEL: @distance
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %arg3 scale
func.func @distance(%q: !q, %k: !k, %v: !q, %slopes: tensor<3xf32>) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %d = tpc.sub %j, %i : !square, !square -> !square
  %f = tpc.cast %d : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %column = tpc.reshape %slopes : tensor<3xf32> -> tensor<3x1x1xf32>
  %b = tpc.mul %column, %f : tensor<3x1x1xf32>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>>
  %c = tpc.cmp le %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %m = tpc.select %c, %zero, %lowest : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, tensor<f32>, tensor<f32> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>> -> !s
  %2 = tpc.add %1, %m : !s, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// The bias is -slope * |query - key|: for visible keys, slope * (key - query).
// CHECK-LABEL: @absolute_distance
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %arg3 scale
func.func @absolute_distance(%q: !q, %k: !k, %v: !q, %slopes: tensor<3xf32>) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %d = tpc.sub %i, %j : !square, !square -> !square
  %e = tpc.abs %d : !square -> !square
  %g = tpc.neg %e : !square -> !square
  %f = tpc.cast %g : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %column = tpc.reshape %slopes : tensor<3xf32> -> tensor<3x1x1xf32>
  %b = tpc.mul %column, %f : tensor<3x1x1xf32>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>>
  %c = tpc.cmp le %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %m = tpc.select %c, %zero, %lowest : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, tensor<f32>, tensor<f32> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>> -> !s
  %2 = tpc.add %1, %m : !s, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// BLOOM merges batch and heads into one dimension before it adds the bias.
// CHECK-LABEL: @regrouped
// CHECK: %[[R:.*]] = tpc.reshape %arg3 : tensor<3x1xf32> -> tensor<3xf32>
// CHECK: tpc.attention %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %[[R]] scale
func.func @regrouped(%q: !q, %k: !k, %v: !q, %slopes: tensor<3x1xf32>) -> !q {
  %j = tpc.iota dim 2 : tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>>
  %f = tpc.cast %j : tensor<?x1x?xi64, #tpc.dist<[b, 1, s]>> -> tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>>
  %b0 = tpc.mul %slopes, %f : tensor<3x1xf32>, tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>> -> tensor<?x3x?xf32, #tpc.dist<[b, 3, s]>>
  %b = tpc.reshape %b0 : tensor<?x3x?xf32, #tpc.dist<[b, 3, s]>> -> tensor<?x1x?xf32, #tpc.dist<[3*b, 1, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.reshape %0 : !s -> tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>>
  %2 = tpc.add %b, %1 : tensor<?x1x?xf32, #tpc.dist<[3*b, 1, s]>>, tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>> -> tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>>
  %3 = tpc.reshape %2 : tensor<?x?x?xf32, #tpc.dist<[3*b, s, s]>> -> !s
  %4 = tpc.softmax %3 dim 3 : !s -> !s
  %5 = tpc.matmul %4, %v : !s, !q -> !q
  return %5 : !q
}

// The bias is the last columns of a constant table of slope * key. A mask replaces hidden elements
// by the lowest float.
// CHECK-LABEL: @table
// CHECK: %[[C:.*]] = tpc.constant dense<{{.*}}> : tensor<1x3x1x4xf32>
// CHECK: %[[R:.*]] = tpc.slice %[[C]] dim 3 from 2
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %{{[0-9]+}} scale
func.func @table(%q: !q, %k: !k, %v: !q) -> !q {
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %c = tpc.constant dense<[[[[-1.5, -1.0, -0.5, 0.0]], [[-0.75, -0.5, -0.25, 0.0]], [[-3.0, -2.0, -1.0, 0.0]]]]> : tensor<1x3x1x4xf32> : tensor<1x3x1x4xf32>
  %b = tpc.slice %c dim 3 from "-s + 4" : tensor<1x3x1x4xf32> -> !bias
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %h = tpc.cmp gt %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %m = tpc.select %h, %lowest, %b : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, tensor<f32>, !bias -> tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %m : !s, tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// The bias is minus the distance of a key. -1e9 replaces hidden scores, and no distance is as
// large.
// CHECK-LABEL: @far_mask
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %{{[0-9]+}} scale
func.func @far_mask(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %low = tpc.constant dense<-1.0e9> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %d = tpc.sub %i, %j : !square, !square -> !square
  %f = tpc.cast %d : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %n = tpc.neg %f : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %b = tpc.mul %n, %slopes : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>, tensor<1x3x1x1xf32> -> tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>>
  %c = tpc.cmp le %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>> -> !s
  %2 = tpc.select %c, %1, %low : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, !s, tensor<f32> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// Positions and their products are rounded to 16 bits. The slopes are not.
// CHECK-LABEL: @rounded
// CHECK: %[[R:.*]] = tpc.reshape %arg3 : tensor<1x3x1x1xf32> -> tensor<3xf32>
// CHECK: tpc.attention %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %[[R]] scale
func.func @rounded(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %one = tpc.constant dense<1.0> : tensor<bf16> : tensor<bf16>
  %j = tpc.iota dim 3 : !index
  %rj = tpc.cast %j : !index -> tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>>
  %next = tpc.add %rj, %one : tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>>, tensor<bf16> -> tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>>
  %f = tpc.cast %next : tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>> -> !keys
  %b = tpc.mul %f, %slopes : !keys, tensor<1x3x1x1xf32> -> !bias
  %h = tpc.cast %b : !bias -> tensor<1x3x1x?xbf16, #tpc.dist<[1, 3, 1, s]>>
  %r = tpc.cast %h : tensor<1x3x1x?xbf16, #tpc.dist<[1, 3, 1, s]>> -> !bias
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %r : !s, !bias -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %4 = tpc.matmul %2, %v : !s, !q -> !q
  return %4 : !q
}

// The distance of floats is key - query.
// CHECK-LABEL: @absolute_distance_of_floats
// CHECK: tpc.attention causal %{{[0-9]+}}, %{{[0-9]+}}, %{{[0-9]+}} slopes %arg3 scale
func.func @absolute_distance_of_floats(%q: !q, %k: !k, %v: !q, %slopes: tensor<3xf32>) -> !q {
  %lowest = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !square
  %fi = tpc.cast %i : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %fj = tpc.cast %j : !square -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %d = tpc.sub %fj, %fi : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %e = tpc.abs %d : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %g = tpc.neg %e : tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %column = tpc.reshape %slopes : tensor<3xf32> -> tensor<3x1x1xf32>
  %b = tpc.mul %column, %g : tensor<3x1x1xf32>, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>>
  %c = tpc.cmp le %j, %i : !square, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, tensor<1x3x?x?xf32, #tpc.dist<[1, 3, s, s]>> -> !s
  %2 = tpc.select %c, %1, %lowest : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, !s, tensor<f32> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// -----

// Not slopes: a mask of -10000, because a bias may be lower; positions that are a running sum of
// the padding mask; a table with one wrong element; a mask of positions that are rounded to 16
// bits; a squared index; a soft-cap.
!q = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, s, 4]>>
!k = tensor<?x3x4x?xf32, #tpc.dist<[b, 3, 4, s]>>
!s = tensor<?x3x?x?xf32, #tpc.dist<[b, 3, s, s]>>
!keys = tensor<1x1x1x?xf32, #tpc.dist<[1, 1, 1, s]>>
!index = tensor<1x1x1x?xi64, #tpc.dist<[1, 1, 1, s]>>
!bias = tensor<1x3x1x?xf32, #tpc.dist<[1, 3, 1, s]>>
!square = tensor<1x1x?x?xi64, #tpc.dist<[1, 1, s, s]>>
!pad = tensor<?x?xf32, #tpc.dist<[b, s]>>
!biases = tensor<?x3x1x?xf32, #tpc.dist<[b, 3, 1, s]>>

// CHECK-LABEL: @low_mask
// CHECK: tpc.attention {{.*}} bias
func.func @low_mask(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-1.0e4> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !index
  %f = tpc.cast %j : !index -> !keys
  %b = tpc.mul %f, %slopes : !keys, tensor<1x3x1x1xf32> -> !bias
  %c = tpc.cmp le %j, %i : !index, !square -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %m = tpc.select %c, %zero, %low : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, tensor<f32>, tensor<f32> -> tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !bias -> !s
  %2 = tpc.add %1, %m : !s, tensor<1x1x?x?xf32, #tpc.dist<[1, 1, s, s]>> -> !s
  %3 = tpc.softmax %2 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// CHECK-LABEL: @padded
// CHECK: tpc.attention {{.*}} bias
func.func @padded(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>, %pad: !pad) -> !q {
  %at = tpc.cumsum %pad dim 1 : !pad -> !pad
  %f = tpc.reshape %at : !pad -> tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>>
  %b = tpc.mul %f, %slopes : tensor<?x1x1x?xf32, #tpc.dist<[b, 1, 1, s]>>, tensor<1x3x1x1xf32> -> !biases
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !biases -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// CHECK-LABEL: @other_table
// CHECK: tpc.attention {{.*}} bias
func.func @other_table(%q: !q, %k: !k, %v: !q) -> !q {
  %c = tpc.constant dense<[[[[-1.5, -1.0, -0.5, 0.0]], [[-0.75, -0.5, -0.25, 0.0]], [[-3.0, -2.0000002, -1.0, 0.0]]]]> : tensor<1x3x1x4xf32> : tensor<1x3x1x4xf32>
  %b = tpc.slice %c dim 3 from "-s + 4" : tensor<1x3x1x4xf32> -> !bias
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !bias -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// A mask of rounded positions: keys above 256 are not distinguished.
// CHECK-LABEL: @rounded_mask
// CHECK: tpc.attention %{{.*}} mask
func.func @rounded_mask(%q: !q, %k: !k, %v: !q) -> !q {
  %low = tpc.constant dense<0xFF800000> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 2 : !square
  %j = tpc.iota dim 3 : !index
  %ri = tpc.cast %i : !square -> tensor<1x1x?x?xbf16, #tpc.dist<[1, 1, s, s]>>
  %rj = tpc.cast %j : !index -> tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>>
  %c = tpc.cmp le %rj, %ri : tensor<1x1x1x?xbf16, #tpc.dist<[1, 1, 1, s]>>, tensor<1x1x?x?xbf16, #tpc.dist<[1, 1, s, s]>> -> tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.select %c, %0, %low : tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>, !s, tensor<f32> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %nan = tpc.is_nan %2 : !s -> tensor<?x3x?x?xi1, #tpc.dist<[b, 3, s, s]>>
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %3 = tpc.select %nan, %zero, %2 : tensor<?x3x?x?xi1, #tpc.dist<[b, 3, s, s]>>, tensor<f32>, !s -> !s
  // expected-remark @below {{attention keeps its mask as a tensor}}
  %4 = tpc.matmul %3, %v : !s, !q -> !q
  return %4 : !q
}

// CHECK-LABEL: @square
// CHECK: tpc.attention {{.*}} bias
func.func @square(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %j = tpc.iota dim 3 : !index
  %jj = tpc.mul %j, %j : !index, !index -> !index
  %f = tpc.cast %jj : !index -> !keys
  %b = tpc.mul %f, %slopes : !keys, tensor<1x3x1x1xf32> -> !bias
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !bias -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  // expected-remark @below {{attention keeps its bias as a tensor}}
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// CHECK-LABEL: @capped
// CHECK-NOT: tpc.attention
func.func @capped(%q: !q, %k: !k, %v: !q, %slopes: tensor<1x3x1x1xf32>) -> !q {
  %five = tpc.constant dense<5.0> : tensor<f32> : tensor<f32>
  %j = tpc.iota dim 3 : !index
  %f = tpc.cast %j : !index -> !keys
  %b = tpc.mul %f, %slopes : !keys, tensor<1x3x1x1xf32> -> !bias
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.add %0, %b : !s, !bias -> !s
  %2 = tpc.div %1, %five : !s, tensor<f32> -> !s
  %3 = tpc.tanh %2 : !s -> !s
  %4 = tpc.mul %3, %five : !s, tensor<f32> -> !s
  %5 = tpc.softmax %4 dim 3 : !s -> !s
  %6 = tpc.matmul %5, %v : !s, !q -> !q
  return %6 : !q
}
