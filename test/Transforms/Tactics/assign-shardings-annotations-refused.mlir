// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --split-input-file --verify-diagnostics
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=dp3,manual --split-input-file 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: warning: manual: no annotation splits anything over dp3, so all its ranks do the same work

// Every rank has the whole input.
// expected-error-re @below {{annotation [-, tp] of 'x' (a.txt:3:1): dimension 1 (16) cannot be split: '{{.*}}' (tpc.softmax) needs all of it, and inputs are whole on every rank; annotate the op that reads it}}
func.func @main(%x: tensor<4x16xf32> {tpc.name = "x", tpc.sharding = [#tpc.dim<4>, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:3:1"}) -> tensor<4x16xf32> {
  // expected-note @below {{needed unsplit here}}
  %n = tpc.softmax %x dim 1 : tensor<4x16xf32> -> tensor<4x16xf32>
  return %n : tensor<4x16xf32>
}

// -----

// The reshape divides 24 into 4 * 6, so there is no factor of 3.
func.func @main(%x: tensor<4x24xf32>) -> tensor<4x4x6xf32> {
  // expected-error-re @below {{annotation [?, 3{tp}*8] of {{.*}}: the model has no factor of 3 in dimension 1 (24) with these parts; the value is [4, 4 * 6]: split one of these factors, or the dimension without naming a factor}}
  %y = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<3{tp} * 8>]} : tensor<4x24xf32> -> tensor<4x24xf32>
  %z = tpc.reshape %y : tensor<4x24xf32> -> tensor<4x4x6xf32>
  return %z : tensor<4x4x6xf32>
}

// -----

// The parameter `first` is a third of a fused weight, and half of the weight does not divide it.
// expected-error @below {{annotation [-, 2{tp}*24] of 'w': the model has no factor of 2 in dimension 1 (48) with these parts; 'first' reads it as [16, 16]: split one of these factors}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16>, #tpc.dim<2{tp} * 24>]} : tensor<16x48xf32>
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  %w = tpc.parameter @w view <0 [[16 x 48], [16 x 1]]> : tensor<16x16xf32>
  %y = tpc.matmul %x, %w : tensor<4x16xf32>, tensor<16x16xf32> -> tensor<4x16xf32> loc("first")
  return %y : tensor<4x16xf32>
}

// -----

// expected-error @below {{uses axis 'tp' twice}}
func.func @main(%x: tensor<4x16xf32> {tpc.name = "x", tpc.sharding = [#tpc.dim<4{tp}>, #tpc.dim<16{tp}>]}) -> tensor<4x16xf32> {
  return %x : tensor<4x16xf32>
}

// -----

// expected-error @below {{the grid has no axis 'tq'; it has tp, cp, ep, dp, pp}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{tq}>, #tpc.dim<8>]} : tensor<16x8xf32>
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<16x8xf32>
  %y = tpc.matmul %x, %w : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// -----

// A `manual` axis without annotations is a warning.
// expected-warning @below {{manual: no annotation splits anything over tp2, so all its ranks do the same work}}
module {
  func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    return %x : tensor<4x16xf32>
  }
}
