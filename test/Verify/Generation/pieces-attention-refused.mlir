// Attention whose visible keys depend on how tokens are divided into steps. The error is at the op
// that causes it.
// RUN: tpc-opt %s --split-input-file --tpc-verify-generation="reference=%S/Inputs/any.mlir interpret=false" --verify-diagnostics

// Attention that is not causal.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) is not causal: its results for earlier tokens would change with each new token}}
  %y = tpc.attention %x, %k, %k scale 1.0 : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// A prefix that is visible to all tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, "p + s"]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %yes = tpc.constant dense<true> : tensor<i1> : tensor<i1>
  %m2 = tpc.expand %yes : tensor<i1> -> !mask
  // expected-error @unknown {{'heads' (tpc.attention) takes a mask of queries and keys as a tensor (a prefix mask?): the visible past of a step is unknown}}
  %y = tpc.attention causal %x, %k, %k mask %m2 scale 1.0 offset p : !h, !keys, !keys mask !mask -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// Queries that do not come after the past.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) has queries at offset 0 from the first key: in a later step the offset must grow by the number of tokens in between}}
  %y = tpc.attention causal %x, %k, %k scale 1.0 : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// The offset of the queries is past + tokens - 1, which is correct for one new token only.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) has queries at offset p + s - 1 from the first key: in a later step}}
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset "p + s - 1" : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// Queries that see one key too many.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) has queries at offset p + 1 from the first key, which see tokens that a shorter step does not have}}
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset "p + 1" : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// A window that grows.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) has a window of p + s, which changes with the number of tokens}}
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p window "p + s" : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// Rows without visible keys are uniform over all keys, and the number of keys grows.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  // expected-error @unknown {{'heads' (tpc.attention) may have rows that see no key: they are uniform over all keys}}
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset "p - 1" {masked_row = 1 : i32} : !h, !keys, !keys -> !h loc("heads")
  return %y, %2 : !h, !all
}
}
