// RUN: tpc-opt %s --tpc-assign-shardings=shard=tp2,manual --split-input-file --verify-diagnostics

// expected-error-re @below {{annotation [tp, -] of 'w' (a.txt:3:1): dimension 0 (16) cannot be split: '{{.*}}' (tpc.softmax) needs all of it}}
tpc.weight @w in "w" at 0 {tpc.sharding = [#tpc.dim<16{tp}>, #tpc.dim<8>], tpc.sharding_source = "a.txt:3:1"} : tensor<16x8xf32>
func.func @main(%x: tensor<4x16xf32>) -> tensor<4x8xf32> {
  %w = tpc.parameter @w : tensor<16x8xf32>
  // expected-note @below {{needed whole here}}
  %n = tpc.softmax %x dim 1 : tensor<4x16xf32> -> tensor<4x16xf32>
  %y = tpc.matmul %n, %w : tensor<4x16xf32>, tensor<16x8xf32> -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
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
