// The communication of a split is compared with the work that it saves on the worst-case rank.
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=tp4 --split-input-file 2>%t | FileCheck %s
// RUN: FileCheck %s --check-prefix=SAID --implicit-check-not=warning: <%t

// Five heads of size 16 over four ranks. Splitting the head size leaves the worst-case rank a
// quarter of the work; splitting heads leaves it two fifths. But with split head sizes, scores
// would be partial sums.
// CHECK: splits = ["5 over tp 4: q (columns), k (columns), v (columns), scores (columns), mix (columns), o (rows)"]
tpc.weight @q in "w" at 0 : tensor<60x80xf32>
tpc.weight @k in "w" at 0 : tensor<60x80xf32>
tpc.weight @v in "w" at 0 : tensor<60x80xf32>
tpc.weight @o in "w" at 0 : tensor<80x60xf32>
func.func @main(%x: tensor<?x60xf32, #tpc.dist<[s, 60]>>) -> tensor<?x60xf32, #tpc.dist<[s, 60]>> {
  %wq = tpc.parameter @q : tensor<60x80xf32>
  %wk = tpc.parameter @k : tensor<60x80xf32>
  %wv = tpc.parameter @v : tensor<60x80xf32>
  %wo = tpc.parameter @o : tensor<80x60xf32>
  %n = tpc.softmax %x dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  %q = tpc.matmul %n, %wq : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x80xf32> -> tensor<?x80xf32, #tpc.dist<[s, 80]>> loc("q")
  %qh = tpc.reshape %q : tensor<?x80xf32, #tpc.dist<[s, 80]>> -> tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>>
  %qt = tpc.transpose %qh [1, 0, 2] : tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>> -> tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>>
  %k = tpc.matmul %n, %wk : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x80xf32> -> tensor<?x80xf32, #tpc.dist<[s, 80]>> loc("k")
  %kh = tpc.reshape %k : tensor<?x80xf32, #tpc.dist<[s, 80]>> -> tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>>
  %kt = tpc.transpose %kh [1, 2, 0] : tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>> -> tensor<5x16x?xf32, #tpc.dist<[5, 16, s]>>
  %v = tpc.matmul %n, %wv : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x80xf32> -> tensor<?x80xf32, #tpc.dist<[s, 80]>> loc("v")
  %vh = tpc.reshape %v : tensor<?x80xf32, #tpc.dist<[s, 80]>> -> tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>>
  %vt = tpc.transpose %vh [1, 0, 2] : tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>> -> tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>>
  %s = tpc.matmul %qt, %kt : tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>>, tensor<5x16x?xf32, #tpc.dist<[5, 16, s]>> -> tensor<5x?x?xf32, #tpc.dist<[5, s, s]>> loc("scores")
  %p = tpc.softmax %s dim 2 : tensor<5x?x?xf32, #tpc.dist<[5, s, s]>> -> tensor<5x?x?xf32, #tpc.dist<[5, s, s]>>
  %a = tpc.matmul %p, %vt : tensor<5x?x?xf32, #tpc.dist<[5, s, s]>>, tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>> -> tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>> loc("mix")
  %at = tpc.transpose %a [1, 0, 2] : tensor<5x?x16xf32, #tpc.dist<[5, s, 16]>> -> tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>>
  %ar = tpc.reshape %at : tensor<?x5x16xf32, #tpc.dist<[s, 5, 16]>> -> tensor<?x80xf32, #tpc.dist<[s, 80]>>
  %y = tpc.matmul %ar, %wo : tensor<?x80xf32, #tpc.dist<[s, 80]>>, tensor<80x60xf32> -> tensor<?x60xf32, #tpc.dist<[s, 60]>> loc("o")
  %z = tpc.softmax %y dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  return %z : tensor<?x60xf32, #tpc.dist<[s, 60]>>
}

// -----

// The result is the same if the file has a static sequence length.
// CHECK: splits = ["5 over tp 4: q (columns), k (columns), v (columns), scores (columns), mix (columns), o (rows)"]
tpc.weight @q in "w" at 0 : tensor<60x80xf32>
tpc.weight @k in "w" at 0 : tensor<60x80xf32>
tpc.weight @v in "w" at 0 : tensor<60x80xf32>
tpc.weight @o in "w" at 0 : tensor<80x60xf32>
func.func @main(%x: tensor<128x60xf32>) -> tensor<128x60xf32> {
  %wq = tpc.parameter @q : tensor<60x80xf32>
  %wk = tpc.parameter @k : tensor<60x80xf32>
  %wv = tpc.parameter @v : tensor<60x80xf32>
  %wo = tpc.parameter @o : tensor<80x60xf32>
  %n = tpc.softmax %x dim 1 : tensor<128x60xf32> -> tensor<128x60xf32>
  %q = tpc.matmul %n, %wq : tensor<128x60xf32>, tensor<60x80xf32> -> tensor<128x80xf32> loc("q")
  %qh = tpc.reshape %q : tensor<128x80xf32> -> tensor<128x5x16xf32>
  %qt = tpc.transpose %qh [1, 0, 2] : tensor<128x5x16xf32> -> tensor<5x128x16xf32>
  %k = tpc.matmul %n, %wk : tensor<128x60xf32>, tensor<60x80xf32> -> tensor<128x80xf32> loc("k")
  %kh = tpc.reshape %k : tensor<128x80xf32> -> tensor<128x5x16xf32>
  %kt = tpc.transpose %kh [1, 2, 0] : tensor<128x5x16xf32> -> tensor<5x16x128xf32>
  %v = tpc.matmul %n, %wv : tensor<128x60xf32>, tensor<60x80xf32> -> tensor<128x80xf32> loc("v")
  %vh = tpc.reshape %v : tensor<128x80xf32> -> tensor<128x5x16xf32>
  %vt = tpc.transpose %vh [1, 0, 2] : tensor<128x5x16xf32> -> tensor<5x128x16xf32>
  %s = tpc.matmul %qt, %kt : tensor<5x128x16xf32>, tensor<5x16x128xf32> -> tensor<5x128x128xf32> loc("scores")
  %p = tpc.softmax %s dim 2 : tensor<5x128x128xf32> -> tensor<5x128x128xf32>
  %a = tpc.matmul %p, %vt : tensor<5x128x128xf32>, tensor<5x128x16xf32> -> tensor<5x128x16xf32> loc("mix")
  %at = tpc.transpose %a [1, 0, 2] : tensor<5x128x16xf32> -> tensor<128x5x16xf32>
  %ar = tpc.reshape %at : tensor<128x5x16xf32> -> tensor<128x80xf32>
  %y = tpc.matmul %ar, %wo : tensor<128x80xf32>, tensor<80x60xf32> -> tensor<128x60xf32> loc("o")
  %z = tpc.softmax %y dim 1 : tensor<128x60xf32> -> tensor<128x60xf32>
  return %z : tensor<128x60xf32>
}

// -----

// With one head, queries and keys have no other dimension that can be split.
// SAID: warning: tp4: 16 of 'q' is not split, and its matrices are whole on every rank: 'scores' (tpc.matmul) would be summed over the ranks, and its result grows faster than the number of tokens; annotations of q (columns), k (columns), scores (rows) can request it
// CHECK: splits = ["16 over tp 4: v (columns), mix (columns), o (rows)", "not split, on every rank: q", "not split, on every rank: k"]
tpc.weight @q in "w" at 0 : tensor<60x16xf32>
tpc.weight @k in "w" at 0 : tensor<60x16xf32>
tpc.weight @v in "w" at 0 : tensor<60x16xf32>
tpc.weight @o in "w" at 0 : tensor<16x60xf32>
func.func @main(%x: tensor<?x60xf32, #tpc.dist<[s, 60]>>) -> tensor<?x60xf32, #tpc.dist<[s, 60]>> {
  %wq = tpc.parameter @q : tensor<60x16xf32>
  %wk = tpc.parameter @k : tensor<60x16xf32>
  %wv = tpc.parameter @v : tensor<60x16xf32>
  %wo = tpc.parameter @o : tensor<16x60xf32>
  %n = tpc.softmax %x dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  %q = tpc.matmul %n, %wq : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x16xf32> -> tensor<?x16xf32, #tpc.dist<[s, 16]>> loc("q")
  %qh = tpc.reshape %q : tensor<?x16xf32, #tpc.dist<[s, 16]>> -> tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>>
  %qt = tpc.transpose %qh [1, 0, 2] : tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>> -> tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>>
  %k = tpc.matmul %n, %wk : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x16xf32> -> tensor<?x16xf32, #tpc.dist<[s, 16]>> loc("k")
  %kh = tpc.reshape %k : tensor<?x16xf32, #tpc.dist<[s, 16]>> -> tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>>
  %kt = tpc.transpose %kh [1, 2, 0] : tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>> -> tensor<1x16x?xf32, #tpc.dist<[1, 16, s]>>
  %v = tpc.matmul %n, %wv : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x16xf32> -> tensor<?x16xf32, #tpc.dist<[s, 16]>> loc("v")
  %vh = tpc.reshape %v : tensor<?x16xf32, #tpc.dist<[s, 16]>> -> tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>>
  %vt = tpc.transpose %vh [1, 0, 2] : tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>> -> tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>>
  %s = tpc.matmul %qt, %kt : tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>>, tensor<1x16x?xf32, #tpc.dist<[1, 16, s]>> -> tensor<1x?x?xf32, #tpc.dist<[1, s, s]>> loc("scores")
  %p = tpc.softmax %s dim 2 : tensor<1x?x?xf32, #tpc.dist<[1, s, s]>> -> tensor<1x?x?xf32, #tpc.dist<[1, s, s]>>
  %a = tpc.matmul %p, %vt : tensor<1x?x?xf32, #tpc.dist<[1, s, s]>>, tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>> -> tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>> loc("mix")
  %at = tpc.transpose %a [1, 0, 2] : tensor<1x?x16xf32, #tpc.dist<[1, s, 16]>> -> tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>>
  %ar = tpc.reshape %at : tensor<?x1x16xf32, #tpc.dist<[s, 1, 16]>> -> tensor<?x16xf32, #tpc.dist<[s, 16]>>
  %y = tpc.matmul %ar, %wo : tensor<?x16xf32, #tpc.dist<[s, 16]>>, tensor<16x60xf32> -> tensor<?x60xf32, #tpc.dist<[s, 60]>> loc("o")
  %z = tpc.softmax %y dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  return %z : tensor<?x60xf32, #tpc.dist<[s, 60]>>
}

// -----

// A class with two reductions is split if this saves enough work, with a warning.
// SAID: warning: tp4: the matmuls 'down', 'other' are each summed over the ranks where 64 of 'up' is split (2 sums in a step); if annotations keep it whole, 61 of 'other' instead, 0 are left, and the worst-case rank stores {{[0-9]+}} more bytes of weights
// CHECK: splits = ["64 over tp 4: up (columns), down (rows), other (rows)"]
tpc.weight @u in "w" at 0 : tensor<60x64xf32>
tpc.weight @d in "w" at 0 : tensor<64x60xf32>
tpc.weight @e in "w" at 0 : tensor<64x61xf32>
func.func @main(%x: tensor<?x60xf32, #tpc.dist<[s, 60]>>) -> (tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<?xf32, #tpc.dist<[s]>>) {
  %u = tpc.parameter @u : tensor<60x64xf32>
  %d = tpc.parameter @d : tensor<64x60xf32>
  %e = tpc.parameter @e : tensor<64x61xf32>
  %n = tpc.softmax %x dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  %h = tpc.matmul %n, %u : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x64xf32> -> tensor<?x64xf32, #tpc.dist<[s, 64]>> loc("up")
  %y = tpc.matmul %h, %d : tensor<?x64xf32, #tpc.dist<[s, 64]>>, tensor<64x60xf32> -> tensor<?x60xf32, #tpc.dist<[s, 60]>> loc("down")
  %z = tpc.matmul %h, %e : tensor<?x64xf32, #tpc.dist<[s, 64]>>, tensor<64x61xf32> -> tensor<?x61xf32, #tpc.dist<[s, 61]>> loc("other")
  %r = tpc.softmax %y dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  %t = tpc.reduce max %z [1] : tensor<?x61xf32, #tpc.dist<[s, 61]>> -> tensor<?xf32, #tpc.dist<[s]>>
  return %r, %t : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<?xf32, #tpc.dist<[s]>>
}

// -----

// If no class can be split at all, this is an error.
// SAID: error: tp4: no weight of the model can be split
// SAID: note: {{.*}}'scores' (tpc.matmul) would be summed over the ranks
tpc.weight @q in "w" at 0 : tensor<60x16xf32>
tpc.weight @k in "w" at 0 : tensor<60x16xf32>
func.func @main(%x: tensor<?x60xf32, #tpc.dist<[s, 60]>>) -> tensor<?x?xf32, #tpc.dist<[s, s]>> {
  %wq = tpc.parameter @q : tensor<60x16xf32>
  %wk = tpc.parameter @k : tensor<60x16xf32>
  %n = tpc.softmax %x dim 1 : tensor<?x60xf32, #tpc.dist<[s, 60]>> -> tensor<?x60xf32, #tpc.dist<[s, 60]>>
  %q = tpc.matmul %n, %wq : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x16xf32> -> tensor<?x16xf32, #tpc.dist<[s, 16]>> loc("q")
  %k = tpc.matmul %n, %wk : tensor<?x60xf32, #tpc.dist<[s, 60]>>, tensor<60x16xf32> -> tensor<?x16xf32, #tpc.dist<[s, 16]>> loc("k")
  %t = tpc.transpose %k [1, 0] : tensor<?x16xf32, #tpc.dist<[s, 16]>> -> tensor<16x?xf32, #tpc.dist<[16, s]>>
  %s = tpc.matmul %q, %t : tensor<?x16xf32, #tpc.dist<[s, 16]>>, tensor<16x?xf32, #tpc.dist<[16, s]>> -> tensor<?x?xf32, #tpc.dist<[s, s]>> loc("scores")
  return %s : tensor<?x?xf32, #tpc.dist<[s, s]>>
}
