// Attention is recognized with operands and scales in any form. (raise-attention-masks.mlir has
// masks.)
// RUN: tpc-opt %s --tpc-raise-attention --canonicalize | FileCheck %s

!q = tensor<2x3x5x4xf32>
!k = tensor<2x3x4x5xf32>
!s = tensor<2x3x5x5xf32>

// The scores are divided by sqrt(d), here 2.
// CHECK-LABEL: @scale_on_scores
// CHECK-DAG: %[[Q:.*]] = tpc.transpose %arg0 [0, 2, 1, 3]
// CHECK-DAG: %[[K:.*]] = tpc.transpose %arg1 [0, 3, 1, 2]
// CHECK-DAG: %[[V:.*]] = tpc.transpose %arg2 [0, 2, 1, 3]
// CHECK: %[[A:.*]] = tpc.attention %[[Q]], %[[K]], %[[V]] scale 5.000000e-01 :
// CHECK: tpc.transpose %[[A]] [0, 2, 1, 3]
func.func @scale_on_scores(%q: !q, %k: !k, %v: !q) -> !q {
  %two = tpc.constant dense<2.0> : tensor<f32> : tensor<f32>
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.div %0, %two : !s, tensor<f32> -> !s
  %2 = tpc.softmax %1 dim 3 : !s -> !s
  %3 = tpc.matmul %2, %v : !s, !q -> !q
  return %3 : !q
}

// PyTorch's dynamo exporter multiplies queries and keys by the fourth root of 1/d each. Operands
// are [b, s, h, d] already.
// CHECK-LABEL: @scale_on_both
// CHECK-NEXT: %[[A:.*]] = tpc.attention %arg0, %arg1, %arg2 scale 2.500000e-01 :
// CHECK-NEXT: return %[[A]]
func.func @scale_on_both(%q: tensor<2x5x3x4xf32>, %k: tensor<2x5x3x4xf32>, %v: tensor<2x5x3x4xf32>) -> tensor<2x5x3x4xf32> {
  %half = tpc.constant dense<0.5> : tensor<1xf32> : tensor<1xf32>
  %qt = tpc.transpose %q [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> !q
  %qs = tpc.mul %qt, %half : !q, tensor<1xf32> -> !q
  %kt = tpc.transpose %k [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> !q
  %k3 = tpc.reshape %kt : !q -> tensor<6x5x4xf32>
  %kt3 = tpc.transpose %k3 [0, 2, 1] : tensor<6x5x4xf32> -> tensor<6x4x5xf32>
  %k4 = tpc.reshape %kt3 : tensor<6x4x5xf32> -> !k
  %ks = tpc.mul %half, %k4 : tensor<1xf32>, !k -> !k
  %vt = tpc.transpose %v [0, 2, 1, 3] : tensor<2x5x3x4xf32> -> !q
  %0 = tpc.matmul %qs, %ks : !q, !k -> !s
  %1 = tpc.softmax %0 dim 3 : !s -> !s
  %2 = tpc.matmul %1, %vt : !s, !q -> !q
  %3 = tpc.transpose %2 [0, 2, 1, 3] : !q -> tensor<2x5x3x4xf32>
  return %3 : tensor<2x5x3x4xf32>
}

// Four query heads and two kv heads, which are repeated by expand and reshape.
// CHECK-LABEL: @grouped
// CHECK: tpc.attention %{{.*}}, %arg1, %arg2 scale 1.0{{.*}} : tensor<2x5x4x8xf32>, tensor<2x5x2x8xf32>, tensor<2x5x2x8xf32>
func.func @grouped(%q: tensor<2x4x5x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x5x2x8xf32>) -> tensor<2x4x5x8xf32> {
  %k0 = tpc.transpose %k [0, 2, 3, 1] : tensor<2x5x2x8xf32> -> tensor<2x2x8x5xf32>
  %k1 = tpc.reshape %k0 : tensor<2x2x8x5xf32> -> tensor<2x2x1x8x5xf32>
  %k2 = tpc.expand %k1 : tensor<2x2x1x8x5xf32> -> tensor<2x2x2x8x5xf32>
  %k3 = tpc.reshape %k2 : tensor<2x2x2x8x5xf32> -> tensor<2x4x8x5xf32>
  %v0 = tpc.transpose %v [0, 2, 1, 3] : tensor<2x5x2x8xf32> -> tensor<2x2x5x8xf32>
  %v1 = tpc.reshape %v0 : tensor<2x2x5x8xf32> -> tensor<2x2x1x5x8xf32>
  %v2 = tpc.expand %v1 : tensor<2x2x1x5x8xf32> -> tensor<2x2x2x5x8xf32>
  %v3 = tpc.reshape %v2 : tensor<2x2x2x5x8xf32> -> tensor<2x4x5x8xf32>
  %0 = tpc.matmul %q, %k3 : tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32> -> tensor<2x4x5x5xf32>
  %1 = tpc.softmax %0 dim 3 : tensor<2x4x5x5xf32> -> tensor<2x4x5x5xf32>
  %2 = tpc.matmul %1, %v3 : tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32> -> tensor<2x4x5x8xf32>
  return %2 : tensor<2x4x5x8xf32>
}

// kv heads repeated in the other order (0 1 0 1) are not adjacent groups, so they stay repeated.
// CHECK-LABEL: @tiled
// CHECK: tpc.attention {{.*}} : tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>, tensor<2x5x4x8xf32>
func.func @tiled(%q: tensor<2x4x5x8xf32>, %k: tensor<2x5x2x8xf32>, %v: tensor<2x4x5x8xf32>) -> tensor<2x4x5x8xf32> {
  %k0 = tpc.transpose %k [0, 2, 3, 1] : tensor<2x5x2x8xf32> -> tensor<2x2x8x5xf32>
  %k1 = tpc.reshape %k0 : tensor<2x2x8x5xf32> -> tensor<2x1x2x8x5xf32>
  %k2 = tpc.expand %k1 : tensor<2x1x2x8x5xf32> -> tensor<2x2x2x8x5xf32>
  %k3 = tpc.reshape %k2 : tensor<2x2x2x8x5xf32> -> tensor<2x4x8x5xf32>
  %0 = tpc.matmul %q, %k3 : tensor<2x4x5x8xf32>, tensor<2x4x8x5xf32> -> tensor<2x4x5x5xf32>
  %1 = tpc.softmax %0 dim 3 : tensor<2x4x5x5xf32> -> tensor<2x4x5x5xf32>
  %2 = tpc.matmul %1, %v : tensor<2x4x5x5xf32>, tensor<2x4x5x8xf32> -> tensor<2x4x5x8xf32>
  return %2 : tensor<2x4x5x8xf32>
}

// One head has no dimension for heads. Scores are soft-capped at 30.
// CHECK-LABEL: @one_head
// CHECK: tpc.attention {{.*}} scale 5.000000e-01 {softcap = 3.0{{.*}}} : tensor<2x5x1x4xf32>
func.func @one_head(%q: tensor<2x5x4xf32>, %k: tensor<2x4x7xf32>, %v: tensor<2x7x6xf32>) -> tensor<2x5x6xf32> {
  %half = tpc.constant dense<0.5> : tensor<f32> : tensor<f32>
  %cap = tpc.constant dense<30.0> : tensor<f32> : tensor<f32>
  %0 = tpc.matmul %q, %k : tensor<2x5x4xf32>, tensor<2x4x7xf32> -> tensor<2x5x7xf32>
  %1 = tpc.mul %0, %half : tensor<2x5x7xf32>, tensor<f32> -> tensor<2x5x7xf32>
  %2 = tpc.div %1, %cap : tensor<2x5x7xf32>, tensor<f32> -> tensor<2x5x7xf32>
  %3 = tpc.tanh %2 : tensor<2x5x7xf32> -> tensor<2x5x7xf32>
  %4 = tpc.mul %3, %cap : tensor<2x5x7xf32>, tensor<f32> -> tensor<2x5x7xf32>
  %5 = tpc.softmax %4 dim 2 : tensor<2x5x7xf32> -> tensor<2x5x7xf32>
  %6 = tpc.matmul %5, %v : tensor<2x5x7xf32>, tensor<2x7x6xf32> -> tensor<2x5x6xf32>
  return %6 : tensor<2x5x6xf32>
}

// Not attention: a softmax over queries, scores divided by a tensor, a matmul by another softmax.
// CHECK-LABEL: @not_attention
// CHECK-NOT: tpc.attention
func.func @not_attention(%q: !q, %k: !k, %v: !q, %m: !s) -> (!q, !q, !q) {
  %0 = tpc.matmul %q, %k : !q, !k -> !s
  %1 = tpc.softmax %0 dim 2 : !s -> !s
  %2 = tpc.matmul %1, %v : !s, !q -> !q
  %3 = tpc.div %0, %m : !s, !s -> !s
  %4 = tpc.softmax %3 dim 3 : !s -> !s
  %5 = tpc.matmul %4, %v : !s, !q -> !q
  %6 = tpc.softmax %m dim 3 : !s -> !s
  %7 = tpc.matmul %6, %v : !s, !q -> !q
  return %2, %5, %7 : !q, !q, !q
}

// Two kv heads are repeated for two query heads each, before a rotary embedding. Afterwards the
// rotary embedding has two heads.
// CHECK-LABEL: @repeated_before_rotary
// CHECK: %[[C:.*]] = tpc.mul {{.*}}, %arg3 : tensor<2x2x5x4xf32>
// CHECK-DAG: tpc.slice {{.*}} : tensor<2x2x5x4xf32> -> tensor<2x2x5x2xf32>
// CHECK-DAG: tpc.slice {{.*}} : tensor<2x2x5x4xf32> -> tensor<2x2x5x2xf32>
// CHECK-NOT: tpc.expand
// CHECK: tpc.attention {{.*}} : tensor<2x5x4x4xf32>, tensor<2x5x2x4xf32>, tensor<2x5x2x4xf32>
// If later ops make the keys of a group different, keys and values have four heads.
// CHECK-LABEL: @repeated_and_then_different
// CHECK: tpc.attention {{.*}} : tensor<2x5x4x4xf32>, tensor<2x5x4x4xf32>, tensor<2x5x4x4xf32>
// A shift moves heads between groups: its dimension is not parallel.
// CHECK-LABEL: @repeated_and_then_shifted
// CHECK: tpc.roll
// CHECK: tpc.attention {{.*}} : tensor<2x5x4x4xf32>, tensor<2x5x4x4xf32>, tensor<2x5x4x4xf32>
func.func @repeated_before_rotary(%q: tensor<2x4x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %cos: tensor<5x4xf32>, %sin: tensor<5x4xf32>) -> tensor<2x4x5x4xf32> {
  %k0 = tpc.reshape %k : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %k1 = tpc.expand %k0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %k2 = tpc.reshape %k1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %a = tpc.mul %k2, %cos : tensor<2x4x5x4xf32>, tensor<5x4xf32> -> tensor<2x4x5x4xf32>
  %lo = tpc.slice %k2 dim 3 from 0 : tensor<2x4x5x4xf32> -> tensor<2x4x5x2xf32>
  %hi = tpc.slice %k2 dim 3 from 2 : tensor<2x4x5x4xf32> -> tensor<2x4x5x2xf32>
  %neg = tpc.neg %hi : tensor<2x4x5x2xf32> -> tensor<2x4x5x2xf32>
  %r = tpc.concat %neg, %lo dim 3 : tensor<2x4x5x2xf32>, tensor<2x4x5x2xf32> -> tensor<2x4x5x4xf32>
  %b = tpc.mul %r, %sin : tensor<2x4x5x4xf32>, tensor<5x4xf32> -> tensor<2x4x5x4xf32>
  %k3 = tpc.add %a, %b : tensor<2x4x5x4xf32>, tensor<2x4x5x4xf32> -> tensor<2x4x5x4xf32>
  %kt = tpc.transpose %k3 [0, 1, 3, 2] : tensor<2x4x5x4xf32> -> tensor<2x4x4x5xf32>
  %v0 = tpc.reshape %v : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %v1 = tpc.expand %v0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %v2 = tpc.reshape %v1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %0 = tpc.matmul %q, %kt : tensor<2x4x5x4xf32>, tensor<2x4x4x5xf32> -> tensor<2x4x5x5xf32>
  %1 = tpc.softmax %0 dim 3 : tensor<2x4x5x5xf32> -> tensor<2x4x5x5xf32>
  %2 = tpc.matmul %1, %v2 : tensor<2x4x5x5xf32>, tensor<2x4x5x4xf32> -> tensor<2x4x5x4xf32>
  return %2 : tensor<2x4x5x4xf32>
}
func.func @repeated_and_then_different(%q: tensor<2x4x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>, %bias: tensor<4x1x1xf32>) -> tensor<2x4x5x4xf32> {
  %k0 = tpc.reshape %k : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %k1 = tpc.expand %k0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %k2 = tpc.reshape %k1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %k3 = tpc.add %k2, %bias : tensor<2x4x5x4xf32>, tensor<4x1x1xf32> -> tensor<2x4x5x4xf32>
  %kt = tpc.transpose %k3 [0, 1, 3, 2] : tensor<2x4x5x4xf32> -> tensor<2x4x4x5xf32>
  %v0 = tpc.reshape %v : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %v1 = tpc.expand %v0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %v2 = tpc.reshape %v1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %0 = tpc.matmul %q, %kt : tensor<2x4x5x4xf32>, tensor<2x4x4x5xf32> -> tensor<2x4x5x5xf32>
  %1 = tpc.softmax %0 dim 3 : tensor<2x4x5x5xf32> -> tensor<2x4x5x5xf32>
  %2 = tpc.matmul %1, %v2 : tensor<2x4x5x5xf32>, tensor<2x4x5x4xf32> -> tensor<2x4x5x4xf32>
  return %2 : tensor<2x4x5x4xf32>
}
func.func @repeated_and_then_shifted(%q: tensor<2x4x5x4xf32>, %k: tensor<2x2x5x4xf32>, %v: tensor<2x2x5x4xf32>) -> tensor<2x4x5x4xf32> {
  %k0 = tpc.reshape %k : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %k1 = tpc.expand %k0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %k2 = tpc.reshape %k1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %k3 = tpc.roll %k2 dim 1 from 1 every 4 : tensor<2x4x5x4xf32> -> tensor<2x4x5x4xf32>
  %kt = tpc.transpose %k3 [0, 1, 3, 2] : tensor<2x4x5x4xf32> -> tensor<2x4x4x5xf32>
  %v0 = tpc.reshape %v : tensor<2x2x5x4xf32> -> tensor<2x2x1x5x4xf32>
  %v1 = tpc.expand %v0 : tensor<2x2x1x5x4xf32> -> tensor<2x2x2x5x4xf32>
  %v2 = tpc.reshape %v1 : tensor<2x2x2x5x4xf32> -> tensor<2x4x5x4xf32>
  %0 = tpc.matmul %q, %kt : tensor<2x4x5x4xf32>, tensor<2x4x4x5xf32> -> tensor<2x4x5x5xf32>
  %1 = tpc.softmax %0 dim 3 : tensor<2x4x5x5xf32> -> tensor<2x4x5x5xf32>
  %2 = tpc.matmul %1, %v2 : tensor<2x4x5x5xf32>, tensor<2x4x5x4xf32> -> tensor<2x4x5x4xf32>
  return %2 : tensor<2x4x5x4xf32>
}

// -----

// GPT-J in 16 bits: queries and keys are widened, and the softmax is in f32. The caches are 16-bit.
// CHECK-LABEL: @softmax_in_f32
// CHECK-NOT: tpc.cast
// CHECK: tpc.attention causal %{{.*}}, %{{.*}}, %{{.*}} scale 5.000000e-01 : tensor<?x?x2x4xf16
// CHECK-NOT: tpc.cast
// CHECK: return
func.func @softmax_in_f32(%q: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>, %k: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>, %v: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>) -> tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> {
  %two = tpc.constant dense<2.0> : tensor<f32> : tensor<f32>
  %low = tpc.constant dense<-3.40282347E+38> : tensor<f32> : tensor<f32>
  %i = tpc.iota dim 0 : tensor<?x1xi64, #tpc.dist<[s, 1]>>
  %j = tpc.iota dim 1 : tensor<1x?xi64, #tpc.dist<[1, s]>>
  %seen = tpc.cmp le %j, %i : tensor<1x?xi64, #tpc.dist<[1, s]>>, tensor<?x1xi64, #tpc.dist<[s, 1]>> -> tensor<?x?xi1, #tpc.dist<[s, s]>>
  %q32 = tpc.cast %q : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  %k32 = tpc.cast %k : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  %kt = tpc.transpose %k32 [0, 1, 3, 2] : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, s]>>
  %0 = tpc.matmul %q32, %kt : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>, tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, s]>> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %1 = tpc.select %seen, %0, %low : tensor<?x?xi1, #tpc.dist<[s, s]>>, tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>, tensor<f32> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %2 = tpc.div %1, %two : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>, tensor<f32> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %3 = tpc.softmax %2 dim 3 : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %4 = tpc.cast %3 : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>
  %5 = tpc.matmul %4, %v : tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>, tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>
  return %5 : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>
}

// -----

// Attention stays in f32 if queries exist only in f32 (CodeGen), or if scores are widened after
// their matmul.
// CHECK-LABEL: @queries_of_f32
// CHECK: %[[V:.*]] = tpc.cast %{{.*}} -> tensor<?x?x2x4xf32
// CHECK: tpc.attention %{{.*}}, %{{.*}}, %[[V]] scale 1.000000e+00 : tensor<?x?x2x4xf32
// CHECK: tpc.cast %{{.*}} -> tensor<?x2x?x4xf16
func.func @queries_of_f32(%q: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>, %k: tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, s]>>, %v: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>) -> tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> {
  %0 = tpc.matmul %q, %k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>, tensor<?x2x4x?xf32, #tpc.dist<[b, 2, 4, s]>> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %1 = tpc.softmax %0 dim 3 : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %2 = tpc.cast %1 : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>
  %3 = tpc.matmul %2, %v : tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>, tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>
  return %3 : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>
}

// -----

// A 16-bit softmax followed by a matmul in f32 is unchanged: the op would round values.
// CHECK-LABEL: @softmax_in_16_bits
// CHECK: tpc.softmax
// CHECK-NOT: tpc.attention
func.func @softmax_in_16_bits(%q: tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>, %k: tensor<?x2x4x?xf16, #tpc.dist<[b, 2, 4, s]>>, %v: tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>) -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>> {
  %0 = tpc.matmul %q, %k : tensor<?x2x?x4xf16, #tpc.dist<[b, 2, s, 4]>>, tensor<?x2x4x?xf16, #tpc.dist<[b, 2, 4, s]>> -> tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>
  %1 = tpc.softmax %0 dim 3 : tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>>
  %2 = tpc.cast %1 : tensor<?x2x?x?xf16, #tpc.dist<[b, 2, s, s]>> -> tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>
  %3 = tpc.matmul %2, %v : tensor<?x2x?x?xf32, #tpc.dist<[b, 2, s, s]>>, tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>> -> tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
  return %3 : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, s, 4]>>
}

// -----

// The file has an attention op, whose keys and values are repeated for each group of query heads.
// The repeats are dropped.
// CHECK-LABEL: @repeated_before_the_op
// CHECK-NOT: tpc.expand
// CHECK: tpc.attention %arg0, %{{.*}}, %{{.*}} scale 1.000000e+00 : tensor<?x?x4x8xf32, {{.*}}>, tensor<?x?x2x8xf32, #tpc.dist<[b, t, 2, 8]>>, tensor<?x?x2x8xf32, #tpc.dist<[b, t, 2, 8]>>
func.func @repeated_before_the_op(%q: tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>, %k: tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>>, %v: tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>>) -> tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>> {
  %0 = tpc.reshape %k : tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>> -> tensor<?x2x1x?x8xf32, #tpc.dist<[b, 2, 1, t, 8]>>
  %1 = tpc.expand %0 : tensor<?x2x1x?x8xf32, #tpc.dist<[b, 2, 1, t, 8]>> -> tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>>
  %2 = tpc.reshape %1 : tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>> -> tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>>
  %3 = tpc.transpose %2 [0, 2, 1, 3] : tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>> -> tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>>
  %4 = tpc.reshape %v : tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>> -> tensor<?x2x1x?x8xf32, #tpc.dist<[b, 2, 1, t, 8]>>
  %5 = tpc.expand %4 : tensor<?x2x1x?x8xf32, #tpc.dist<[b, 2, 1, t, 8]>> -> tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>>
  %6 = tpc.reshape %5 : tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>> -> tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>>
  %7 = tpc.transpose %6 [0, 2, 1, 3] : tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>> -> tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>>
  %8 = tpc.attention %q, %3, %7 scale 1.0 : tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>, tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>>, tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>> -> tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>
  return %8 : tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>
}

// -----

// Unchanged: repeats in another order. Query head 1 reads kv head 1, not kv head 0.
// CHECK-LABEL: @tiled_before_the_op
// CHECK: tpc.expand
// CHECK: tpc.attention %arg0, %{{.*}}, %{{.*}} scale 1.000000e+00 : tensor<?x?x4x8xf32, {{.*}}>, tensor<?x?x4x8xf32
func.func @tiled_before_the_op(%q: tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>, %k: tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>>) -> tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>> {
  %0 = tpc.reshape %k : tensor<?x2x?x8xf32, #tpc.dist<[b, 2, t, 8]>> -> tensor<?x1x2x?x8xf32, #tpc.dist<[b, 1, 2, t, 8]>>
  %1 = tpc.expand %0 : tensor<?x1x2x?x8xf32, #tpc.dist<[b, 1, 2, t, 8]>> -> tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>>
  %2 = tpc.reshape %1 : tensor<?x2x2x?x8xf32, #tpc.dist<[b, 2, 2, t, 8]>> -> tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>>
  %3 = tpc.transpose %2 [0, 2, 1, 3] : tensor<?x4x?x8xf32, #tpc.dist<[b, 4, t, 8]>> -> tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>>
  %8 = tpc.attention %q, %3, %3 scale 1.0 : tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>, tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>>, tensor<?x?x4x8xf32, #tpc.dist<[b, t, 4, 8]>> -> tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>
  return %8 : tensor<?x?x4x8xf32, #tpc.dist<[b, s, 4, 8]>>
}
