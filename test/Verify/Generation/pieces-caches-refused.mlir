// Caches that are not the past followed by the step's tokens, and outputs that do not have one
// value for each token of the step. The error is at the op that causes it.
// RUN: tpc-opt %s --split-input-file --tpc-verify-generation="reference=%S/Inputs/any.mlir interpret=false" --verify-diagnostics

// The new tokens, without the past.
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
  // expected-error @unknown {{'heads' (tpc.attention) has s keys, which are not those of the past and then those of the step}}
  %y = tpc.attention causal %x, %x, %x scale 1.0 : !h, !h, !h -> !h loc("heads")
  return %y, %2 : !h, !all
}
}

// -----

// The past, without the new tokens.
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
  // expected-error @unknown {{'past' (tpc.transpose) uses cache @c before the step in another way than to append new tokens to it}}
  %k = tpc.transpose %c [0, 2, 1, 3] : !old -> tensor<?x?x1x4xf32, #tpc.dist<[b, p, 1, 4]>> loc("past")
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, tensor<?x?x1x4xf32, #tpc.dist<[b, p, 1, 4]>>, tensor<?x?x1x4xf32, #tpc.dist<[b, p, 1, 4]>> -> !h
  return %y, %2 : !h, !all
}
}

// -----

// The new tokens come before the old ones.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  // expected-error @unknown {{'front' (tpc.concat) concatenates tokens with other values than one cache followed by the tokens of the step}}
  %2 = tpc.concat %1, %c dim 2 : !t, !old -> !all loc("front")
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Caches that are swapped after the step.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
tpc.cache @d : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}, %d: !old {tpc.cache = @d}) -> (!h, !all {tpc.cache = @c}, !all {tpc.cache = @d}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %3 = tpc.neg %1 : !t -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all loc("keys")
  // expected-error @unknown {{'values' (tpc.concat) is cache @c after the step, but is not its contents before the step followed by the tokens of the step}}
  // expected-note @unknown {{it is the expected contents of cache @d}}
  %4 = tpc.concat %d, %3 dim 2 : !old, !t -> !all loc("values")
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %v = tpc.transpose %4 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %v scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %4, %2 : !h, !all, !all
}
}

// -----

// A cache whose contents differ from attention's operand.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %3 = tpc.neg %1 : !t -> !t
  // expected-error @unknown {{'seen' (tpc.concat) appends other tokens to cache @c than the cache has after the step}}
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all loc("seen")
  %4 = tpc.concat %c, %3 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %4 : !h, !all
}
}

// -----

// A cache that is changed after the new tokens were appended.
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
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  // expected-error @unknown {{'again' (tpc.neg) is cache @c after the step, but is not its contents before the step followed by the tokens of the step}}
  %4 = tpc.neg %2 : !all -> !all loc("again")
  return %y, %4 : !h, !all
}
}

// -----

// The last token alone, by its index.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  // expected-error @unknown {{'last' (tpc.slice) takes 1 of s elements from s - 1 on}}
  %z = tpc.slice %y dim 1 from "s - 1" : !h -> tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> loc("last")
  return %z, %2 : tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>, !all
}
}

// -----

// Positions as an output that begins at 0 in each step.
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
  // expected-error @unknown {{'places' (tpc.iota) returns values that depend on the number of tokens as output 0}}
  %y = tpc.iota dim 1 : !h loc("places")
  return %y, %2 : !h, !all
}
}

// -----

// Keys as an output.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!all, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  // expected-error @unknown {{'held' (tpc.concat) returns tokens of the past as output 0}}
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all loc("held")
  return %2, %2 : !all, !all
}
}

// -----

// A mask of the past as an input.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
// expected-error @below {{has no dimension of its own for tokens: dimension 1}}
func.func @main(%x: !h, %m: tensor<?x?xi1, #tpc.dist<[b, "p + s"]>>, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %1 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  return %x, %2 : !h, !all
}
}
