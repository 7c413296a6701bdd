// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --split-input-file --verify-diagnostics
// RUN: not tpc-opt %s --tpc-assign-shardings=shard=dp3,manual --split-input-file 2>&1 | FileCheck %s --check-prefix=NOTHING
// NOTHING: warning: manual: no annotation splits anything over dp3, so that all its ranks do the same

// Every rank has all of an input.
// expected-error-re @below {{annotation [-, tp] of 'x' (a.txt:3:1): dimension 1 (16) cannot be split: '{{.*}}' (tpc.softmax) needs all of it, and inputs are whole on every rank; annotate what reads the input}}
func.func @main(%x: tensor<4x16xf32> {tpc.name = "x", tpc.sharding = [#tpc.dim<4>, #tpc.dim<16{tp}>], tpc.sharding_source = "a.txt:3:1"}) -> tensor<4x16xf32> {
  // expected-note @below {{needed whole here}}
  %n = tpc.softmax %x dim 1 : tensor<4x16xf32> -> tensor<4x16xf32>
  return %n : tensor<4x16xf32>
}

// -----

func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
  // expected-error @below {{the model has no factor of 2 in dimension 1 (16)}}
  %y = tpc.gelu tanh %x {tpc.sharding = [unit, #tpc.dim<2{tp} * 8>]} : tensor<4x16xf32> -> tensor<4x16xf32>
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

// Nothing is annotated.
// expected-warning @below {{manual: no annotation splits anything over tp2, so that all its ranks do the same}}
module {
  func.func @main(%x: tensor<4x16xf32>) -> tensor<4x16xf32> {
    return %x : tensor<4x16xf32>
  }
}
