// Positions and lengths that differ between steps for the same token. The error is at the op that
// causes it.
// RUN: tpc-opt %s --split-input-file --tpc-verify-generation="reference=%S/Inputs/any.mlir interpret=false" --verify-diagnostics

// Keys are scaled by the logarithm of the length, as in YaRN and dynamic NTK, so keys of old tokens
// would change.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %n = tpc.size "p + s" : tensor<i64>
  %g = tpc.cast %n : tensor<i64> -> tensor<f32>
  // expected-error @unknown {{'length' (tpc.log) takes values that depend on the number of tokens: for the same token they differ from step to step}}
  %l = tpc.log %g : tensor<f32> -> tensor<f32> loc("length")
  %0 = tpc.mul %x, %l : !h, tensor<f32> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Positions that do not begin after the past.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.weight @table in "w" at 0 : tensor<64x1x4xf32>
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %w = tpc.parameter @table : tensor<64x1x4xf32>
  %p = tpc.iota dim 1 : tensor<?x?xi64, #tpc.dist<[b, s]>>
  // expected-error @unknown {{'positions' (tpc.gather) takes values that depend on the number of tokens: for the same token they differ from step to step (positions without the offset of the past, or lengths)}}
  %e = tpc.gather %w, %p dim 0 : tensor<64x1x4xf32>, tensor<?x?xi64, #tpc.dist<[b, s]>> -> !h loc("positions")
  %0 = tpc.add %x, %e : !h, !h -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Positions that begin at the number of new tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.weight @table in "w" at 0 : tensor<64x1x4xf32>
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %w = tpc.parameter @table : tensor<64x1x4xf32>
  %p = tpc.iota dim 1 : tensor<?x?xi64, #tpc.dist<[b, s]>>
  %n = tpc.size s : tensor<i64>
  %q = tpc.add %p, %n : tensor<?x?xi64, #tpc.dist<[b, s]>>, tensor<i64> -> tensor<?x?xi64, #tpc.dist<[b, s]>>
  // expected-error @unknown {{'rows of positions' (tpc.gather) takes values that depend on the number of tokens}}
  %e = tpc.gather %w, %q dim 0 : tensor<64x1x4xf32>, tensor<?x?xi64, #tpc.dist<[b, s]>> -> !h loc("rows of positions")
  %0 = tpc.add %x, %e : !h, !h -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Table rows that begin at the same index in each step.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.weight @table in "w" at 0 : tensor<64x1x4xf32>
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %w = tpc.parameter @table : tensor<64x1x4xf32>
  // expected-error @unknown {{'rows' (tpc.slice) takes s of 64 elements from 0 on: their tokens differ from step to step}}
  %e = tpc.slice %w dim 0 from 0 : tensor<64x1x4xf32> -> tensor<?x1x4xf32, #tpc.dist<[s, 1, 4]>> loc("rows")
  %0 = tpc.add %x, %e : !h, tensor<?x1x4xf32, #tpc.dist<[s, 1, 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// A running sum of values that differ between tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  // expected-error @unknown {{'count' (tpc.cumsum) sums values that are not one constant for each token: the sum before a step is unknown}}
  %0 = tpc.cumsum %x dim 1 : !h -> !h loc("count")
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// An iota over batch and tokens together.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  // expected-error @unknown {{'count' (tpc.iota) counts b*s elements, which are neither the tokens of the step nor those of the past and the step}}
  %i = tpc.iota dim 0 : tensor<?x4xf32, #tpc.dist<["b * s", 4]>> loc("count")
  %r = tpc.reshape %i : tensor<?x4xf32, #tpc.dist<["b * s", 4]>> -> !h
  %0 = tpc.add %x, %r : !h, !h -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}
