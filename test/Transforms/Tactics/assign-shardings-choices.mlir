// Choice of the factor class that tp splits.
// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp4 --split-input-file | FileCheck %s

// A single matmul is split by columns, which needs no communication.
// CHECK: splits = ["60 over tp 4: only (columns)"]
tpc.weight @w in "w" at 0 : tensor<60x60xf32>
func.func @main(%x: tensor<8x60xf32>) -> tensor<8x60xf32> {
  %w = tpc.parameter @w : tensor<60x60xf32>
  %y = tpc.matmul %x, %w : tensor<8x60xf32>, tensor<60x60xf32> -> tensor<8x60xf32> loc("only")
  return %y : tensor<8x60xf32>
}

// -----

// The norm needs the residual's whole width, so both matmuls are split along the inner width.
// CHECK: splits = ["64 over tp 4: up (columns), down (rows)"]
tpc.weight @u in "w" at 0 : tensor<60x64xf32>
tpc.weight @d in "w" at 0 : tensor<64x60xf32>
tpc.weight @s in "w" at 0 : tensor<60xf32>
func.func @main(%x: tensor<8x60xf32>) -> tensor<8x60xf32> {
  %s = tpc.parameter @s : tensor<60xf32>
  %u = tpc.parameter @u : tensor<60x64xf32>
  %d = tpc.parameter @d : tensor<64x60xf32>
  %n = tpc.rms_norm %x, %s epsilon 1.0e-5 : tensor<8x60xf32>, tensor<60xf32> -> tensor<8x60xf32>
  %h = tpc.matmul %n, %u : tensor<8x60xf32>, tensor<60x64xf32> -> tensor<8x64xf32> loc("up")
  %y = tpc.matmul %h, %d : tensor<8x64xf32>, tensor<64x60xf32> -> tensor<8x60xf32> loc("down")
  %r = tpc.add %x, %y : tensor<8x60xf32>, tensor<8x60xf32> -> tensor<8x60xf32>
  return %r : tensor<8x60xf32>
}

// -----

// Ops that cannot be split run on every rank, with a remark.
// CHECK: splits = ["64 over tp 4: last (columns)", "not split, on every rank: first"]
tpc.weight @a in "w" at 0 : tensor<60x60xf32>
tpc.weight @b in "w" at 0 : tensor<60x64xf32>
func.func @main(%x: tensor<8x60xf32>) -> tensor<8xf32> {
  %a = tpc.parameter @a : tensor<60x60xf32>
  %b = tpc.parameter @b : tensor<60x64xf32>
  %m = tpc.softmax %x dim 1 : tensor<8x60xf32> -> tensor<8x60xf32>
  %h = tpc.matmul %m, %a : tensor<8x60xf32>, tensor<60x60xf32> -> tensor<8x60xf32> loc("first")
  %n = tpc.softmax %h dim 1 : tensor<8x60xf32> -> tensor<8x60xf32>
  %y = tpc.matmul %n, %b : tensor<8x60xf32>, tensor<60x64xf32> -> tensor<8x64xf32> loc("last")
  %r = tpc.reduce max %y [1] : tensor<8x64xf32> -> tensor<8xf32>
  return %r : tensor<8xf32>
}

// -----

// Of two tables, the larger one is the vocabulary; the other is not split.
// CHECK: splits = ["50 over tp 4: words"]
// CHECK: tpc.parameter @p : tensor<12x8xf32>
tpc.weight @w in "w" at 0 : tensor<50x8xf32>
tpc.weight @p in "w" at 0 : tensor<12x8xf32>
func.func @main(%x: tensor<6xi64>, %y: tensor<6xi64>) -> tensor<6x8xf32> {
  %w = tpc.parameter @w : tensor<50x8xf32>
  %p = tpc.parameter @p : tensor<12x8xf32>
  %a = tpc.embedding %w, %x : tensor<50x8xf32>, tensor<6xi64> -> tensor<6x8xf32> loc("words")
  %b = tpc.embedding %p, %y : tensor<12x8xf32>, tensor<6xi64> -> tensor<6x8xf32> loc("places")
  %c = tpc.add %a, %b : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %n = tpc.softmax %c dim 1 : tensor<6x8xf32> -> tensor<6x8xf32>
  return %n : tensor<6x8xf32>
}

// -----

// In a parallel residual with biases, partial sums are added first and reduced once.
// CHECK: %[[A:.*]] = tpc.matmul {{.*}}#tpc.dim<8>, #tpc.dim<32{tp}>
// CHECK: %[[B:.*]] = tpc.matmul {{.*}}#tpc.dim<8>, #tpc.dim<64{tp}>
// CHECK: %[[S:.*]] = tpc.add %[[A]], %[[B]]
// CHECK: %[[T:.*]] = tpc.add %arg0, %[[S]]
// CHECK: %[[U:.*]] = tpc.add %{{.*}}, %[[T]]
// CHECK: %[[V:.*]] = tpc.add %{{.*}}, %[[U]]
// CHECK: tpc.softmax %[[V]]
tpc.weight @a in "w" at 0 : tensor<8x32xf32>
tpc.weight @b in "w" at 0 : tensor<32x8xf32>
tpc.weight @c in "w" at 0 : tensor<8x64xf32>
tpc.weight @d in "w" at 0 : tensor<64x8xf32>
tpc.weight @e in "w" at 0 : tensor<8xf32>
func.func @main(%x: tensor<6x8xf32>) -> tensor<6x8xf32> {
  %a = tpc.parameter @a : tensor<8x32xf32>
  %b = tpc.parameter @b : tensor<32x8xf32>
  %c = tpc.parameter @c : tensor<8x64xf32>
  %d = tpc.parameter @d : tensor<64x8xf32>
  %e = tpc.parameter @e : tensor<8xf32>
  %n = tpc.softmax %x dim 1 : tensor<6x8xf32> -> tensor<6x8xf32>
  %p = tpc.matmul %n, %a : tensor<6x8xf32>, tensor<8x32xf32> -> tensor<6x32xf32>
  %q = tpc.matmul %p, %b bias %e : tensor<6x32xf32>, tensor<32x8xf32> bias tensor<8xf32> -> tensor<6x8xf32>
  %r = tpc.matmul %n, %c : tensor<6x8xf32>, tensor<8x64xf32> -> tensor<6x64xf32>
  %s = tpc.matmul %r, %d bias %e : tensor<6x64xf32>, tensor<64x8xf32> bias tensor<8xf32> -> tensor<6x8xf32>
  %t = tpc.add %x, %q : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %u = tpc.add %t, %s : tensor<6x8xf32>, tensor<6x8xf32> -> tensor<6x8xf32>
  %v = tpc.softmax %u dim 1 : tensor<6x8xf32> -> tensor<6x8xf32>
  return %v : tensor<6x8xf32>
}
