// Fewer kv heads than tp ranks: each is replicated for the ranks that need it.
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp4 --tpc-assign-shardings=shard=tp4 --tpc-insert-reshards --split-input-file | FileCheck %s
// RUN: tpc-opt %s --tpc-repeat-kv-heads=shard=tp3 --tpc-assign-shardings=shard=tp3 --tpc-insert-reshards --split-input-file | FileCheck %s --check-prefix=UNEVEN

// A layer has two kv heads for four query heads each. The views of the weights repeat each kv head
// twice.
// CHECK: splits = ["4 groups of heads (2 kv heads, each repeated 2 times: 544 more bytes of weights; at most 2 query heads and 6 matrices of a head per rank, without repetition 2 query heads and 8 matrices of a head) over tp 4: q (columns), k (columns), v (columns), attn, o (rows)"]
// CHECK-LABEL: @main
// CHECK: tpc.parameter @k view <0 {{\[\[}}8 x 8], [2 x 4, 2 x 0, 4 x 1{{\]\]}}> : tensor<8x16xf32, #tpc.dist<[8, 4{tp}*4]>>
// CHECK: tpc.parameter @vb view <0 {{\[\[}}2 x 4, 2 x 0, 4 x 1{{\]\]}}> : tensor<16xf32, #tpc.dist<[4{tp}*4]>>
// CHECK-LABEL: @layer
// CHECK: tpc.rotary {{.*}}#tpc.dist<[b, s, 4{tp}, 4]>
// CHECK: tpc.attention {{.*}}tensor<?x?x8x4xf32, #tpc.dist<[b, s, 4{tp}*2, 4]>>, tensor<?x?x4x4xf32, #tpc.dist<[b, s, 4{tp}, 4]>>
// CHECK-NOT: tpc.reshard
// CHECK: tpc.matmul {{.*}} sum{tp}
// Three ranks have 3, 3 and 2 of the eight query heads. Each rank computes both kv heads, and
// selects one for each query head.
// UNEVEN: splits = ["8 heads (2 kv heads, all on every rank, each used 4 times; at most 3 query heads and 10 matrices of a head per rank, without repetition 4 query heads and 10 matrices of a head) over tp 3: q (columns), attn, o (rows)", "not split, on every rank: k", "not split, on every rank: v"]
// UNEVEN-LABEL: @layer
// UNEVEN: %[[K:.*]] = tpc.gather %{{.*}}, %{{.*}} dim 2 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<8xi64, #tpc.dist<[8{tp}]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8{tp}, 4]>>
// UNEVEN: %[[V:.*]] = tpc.gather {{.*}} -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8{tp}, 4]>>
// UNEVEN: tpc.attention causal %{{.*}}, %[[K]], %[[V]]
// UNEVEN-NOT: tpc.reshard
// UNEVEN: tpc.matmul {{.*}} sum{tp}
tpc.weight @q in "w" at 0 : tensor<8x32xf32>
tpc.weight @k in "w" at 0 : tensor<8x8xf32>
tpc.weight @v in "w" at 0 : tensor<8x8xf32>
tpc.weight @vb in "w" at 0 : tensor<8xf32>
tpc.weight @o in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, %c: tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> {
  %q = tpc.parameter @q : tensor<8x32xf32>
  %k = tpc.parameter @k : tensor<8x8xf32>
  %v = tpc.parameter @v : tensor<8x8xf32>
  %vb = tpc.parameter @vb : tensor<8xf32>
  %o = tpc.parameter @o : tensor<32x8xf32>
  %y = call @layer(%x, %c, %q, %k, %v, %vb, %o) : (tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, tensor<8x32xf32>, tensor<8x8xf32>, tensor<8x8xf32>, tensor<8xf32>, tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
  return %y : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
}
func.func private @layer(%x: tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, %c: tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, %wq: tensor<8x32xf32>, %wk: tensor<8x8xf32>, %wv: tensor<8x8xf32>, %vb: tensor<8xf32>, %wo: tensor<32x8xf32>) -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> {
  %q = tpc.matmul %x, %wq : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x32xf32> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>> loc("q")
  %k = tpc.matmul %x, %wk : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("k")
  %v = tpc.matmul %x, %wv bias %vb : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>, tensor<8x8xf32> bias tensor<8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("v")
  %q4 = tpc.reshape %q : tensor<?x32xf32, #tpc.dist<[b*s, 32]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>
  %k4 = tpc.reshape %k : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %v4 = tpc.reshape %v : tensor<?x8xf32, #tpc.dist<[b*s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %kr = tpc.rotary %k4, %c, %c : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>>, tensor<1x?x2xf32, #tpc.dist<[1, s, 2]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %a = tpc.attention causal %q4, %kr, %v4 scale 0.5 : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> loc("attn")
  %a2 = tpc.reshape %a : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> -> tensor<?x32xf32, #tpc.dist<[b*s, 32]>>
  %y = tpc.matmul %a2, %wo : tensor<?x32xf32, #tpc.dist<[b*s, 32]>>, tensor<32x8xf32> -> tensor<?x8xf32, #tpc.dist<[b*s, 8]>> loc("o")
  return %y : tensor<?x8xf32, #tpc.dist<[b*s, 8]>>
}

// -----

// Keys that are computed from an input are replicated. Each rank selects the heads that it needs.
// CHECK: splits = ["4 groups of heads (2 kv heads, each repeated 2 times: 256 more bytes of weights; {{.*}}) over tp 4: q (columns), v (columns), attn, o (rows)"]
// CHECK: %[[K:.*]] = tpc.gather %{{.*}}, %{{.*}} dim 2 : tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<4xi64, #tpc.dist<[4{tp}]>>
// CHECK: tpc.attention %{{.*}}, %[[K]], %{{.*}} : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 4{tp}*2, 4]>>, tensor<?x?x4x4xf32, #tpc.dist<[b, s, 4{tp}, 4]>>
tpc.weight @q in "w" at 0 : tensor<8x32xf32>
tpc.weight @v in "w" at 0 : tensor<8x8xf32>
tpc.weight @o in "w" at 0 : tensor<32x8xf32>
func.func @main(%x: tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, %k: tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>) -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> {
  %wq = tpc.parameter @q : tensor<8x32xf32>
  %wv = tpc.parameter @v : tensor<8x8xf32>
  %wo = tpc.parameter @o : tensor<32x8xf32>
  %q = tpc.matmul %x, %wq : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, tensor<8x32xf32> -> tensor<?x?x32xf32, #tpc.dist<[b, s, 32]>> loc("q")
  %v = tpc.matmul %x, %wv : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, tensor<8x8xf32> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> loc("v")
  %q4 = tpc.reshape %q : tensor<?x?x32xf32, #tpc.dist<[b, s, 32]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>
  %v4 = tpc.reshape %v : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> -> tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>
  %a = tpc.attention %q4, %k, %v4 scale 0.5 : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>>, tensor<?x?x2x4xf32, #tpc.dist<[b, s, 2, 4]>> -> tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> loc("attn")
  %a2 = tpc.reshape %a : tensor<?x?x8x4xf32, #tpc.dist<[b, s, 8, 4]>> -> tensor<?x?x32xf32, #tpc.dist<[b, s, 32]>>
  %y = tpc.matmul %a2, %wo : tensor<?x?x32xf32, #tpc.dist<[b, s, 32]>>, tensor<32x8xf32> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>> loc("o")
  return %y : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
}
