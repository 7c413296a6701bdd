// Values of a token that depend on other tokens, or that cannot be proved not to. The error is at
// the op that causes it.
// RUN: tpc-opt %s --split-input-file --tpc-verify-generation="reference=%S/Inputs/any.mlir interpret=false" --verify-diagnostics

// A mean over tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  // expected-error @unknown {{'mean' (tpc.reduce) does not compute each token independently (dimension 1 of operand 0): its results for earlier tokens would change with each new token}}
  %m = tpc.reduce mean %x [1] keep : !h -> tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> loc("mean")
  %0 = tpc.sub %x, %m : !h, tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// A maximum over a dimension that merges tokens and batch.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %f = tpc.reshape %x : !h -> tensor<?x4xf32, #tpc.dist<["b * s", 4]>>
  // expected-error @unknown {{'norm' (tpc.reduce) takes the maximum over tokens (dimension 0 of operand 0): its results for earlier tokens would change with each new token}}
  %m = tpc.reduce max %f [0] keep : tensor<?x4xf32, #tpc.dist<["b * s", 4]>> -> tensor<1x4xf32> loc("norm")
  %g = tpc.sub %f, %m : tensor<?x4xf32, #tpc.dist<["b * s", 4]>>, tensor<1x4xf32> -> tensor<?x4xf32, #tpc.dist<["b * s", 4]>>
  %0 = tpc.reshape %g : tensor<?x4xf32, #tpc.dist<["b * s", 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// A weighted sum over other tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  // expected-error @unknown {{'weights' (tpc.softmax) does not compute each token independently (dimension 1 of operand 0): its results for earlier tokens would change with each new token}}
  %0 = tpc.softmax %x dim 1 : !h -> !h loc("weights")
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Each token uses a value of the previous token, as in a convolution.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  // expected-error @unknown {{'shift' (tpc.roll) shifts tokens: its result for a token is another token's}}
  %0 = tpc.roll %x dim 1 from -1 every s : !h -> !h loc("shift")
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// The same shift with a zero before the first token. But the token before the step is not zero.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %zero = tpc.constant dense<0.0> : tensor<f32> : tensor<f32>
  %z = tpc.expand %zero : tensor<f32> -> tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>
  // expected-error @unknown {{'before' (tpc.slice) takes s - 1 of s elements from 0 on: their tokens differ from step to step}}
  %b = tpc.slice %x dim 1 from 0 : !h -> tensor<?x?x1x4xf32, #tpc.dist<[b, "s - 1", 1, 4]>> loc("before")
  %0 = tpc.concat %z, %b dim 1 : tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>, tensor<?x?x1x4xf32, #tpc.dist<[b, "s - 1", 1, 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// A matmul that sums over tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
!t4 = tensor<?x1x4x?xf32, #tpc.dist<[b, 1, 4, s]>>
!h2 = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %f = tpc.transpose %x [0, 2, 3, 1] : !h -> !t4
  %x2 = tpc.transpose %x [0, 2, 1, 3] : !h -> !h2
  // expected-error @unknown {{'mix' (tpc.matmul) sums over tokens (dimension 3 of operand 0): its results for earlier tokens would change with each new token}}
  %q = tpc.matmul %f, %x2 : !t4, !h2 -> tensor<?x1x4x4xf32, #tpc.dist<[b, 1, 4, 4]>> loc("mix")
  %r = tpc.reduce sum %q [2] keep : tensor<?x1x4x4xf32, #tpc.dist<[b, 1, 4, 4]>> -> tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>
  %0 = tpc.sub %x, %r : !h, tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Scores of a softmax that is not attention.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %f = tpc.transpose %x [0, 2, 3, 1] : !h -> tensor<?x1x4x?xf32, #tpc.dist<[b, 1, 4, s]>>
  %x2 = tpc.transpose %x [0, 2, 1, 3] : !h -> !t
  // expected-error @unknown {{'scores' (tpc.matmul) takes tokens in two dimensions, or in different orders}}
  %q = tpc.matmul %x2, %f : !t, tensor<?x1x4x?xf32, #tpc.dist<[b, 1, 4, s]>> -> tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>> loc("scores")
  %r = tpc.reduce sum %q [3] : tensor<?x1x?x?xf32, #tpc.dist<[b, 1, s, s]>> -> tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>>
  %w = tpc.reshape %r : tensor<?x1x?xf32, #tpc.dist<[b, 1, s]>> -> tensor<?x?x1x1xf32, #tpc.dist<[b, s, 1, 1]>>
  %0 = tpc.sub %x, %w : !h, tensor<?x?x1x1xf32, #tpc.dist<[b, s, 1, 1]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// Tokens come before the batch in one operand and after it in the other.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %f = tpc.transpose %x [1, 0, 2, 3] : !h -> tensor<?x?x1x4xf32, #tpc.dist<[s, b, 1, 4]>>
  %g = tpc.reshape %f : tensor<?x?x1x4xf32, #tpc.dist<[s, b, 1, 4]>> -> tensor<?x4xf32, #tpc.dist<["b * s", 4]>>
  %i = tpc.reshape %x : !h -> tensor<?x4xf32, #tpc.dist<["b * s", 4]>>
  // expected-error @unknown {{'orders' (tpc.add) takes tokens in two dimensions, or in different orders}}
  %a = tpc.add %g, %i : tensor<?x4xf32, #tpc.dist<["b * s", 4]>>, tensor<?x4xf32, #tpc.dist<["b * s", 4]>> -> tensor<?x4xf32, #tpc.dist<["b * s", 4]>> loc("orders")
  %0 = tpc.reshape %a : tensor<?x4xf32, #tpc.dist<["b * s", 4]>> -> !h
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}

// -----

// A reshape that splits the dimension of tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!t = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!old = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, p, 4]>>
!all = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "p + s", 4]>>
!keys = tensor<?x?x1x4xf32, #tpc.dist<[b, "p + s", 1, 4]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
tpc.cache @c : tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
func.func @main(%x: !h, %c: !old {tpc.cache = @c}) -> (!h, !all {tpc.cache = @c}) {
  %f = tpc.transpose %x [1, 0, 2, 3] : !h -> tensor<?x?x1x4xf32, #tpc.dist<[s, b, 1, 4]>>
  // expected-error @unknown {{'apart' (tpc.reshape) splits tokens}}
  %0 = tpc.reshape %f : tensor<?x?x1x4xf32, #tpc.dist<[s, b, 1, 4]>> -> !h loc("apart")
  %1 = tpc.transpose %0 [0, 2, 1, 3] : !h -> !t
  %2 = tpc.concat %c, %1 dim 2 : !old, !t -> !all
  %k = tpc.transpose %2 [0, 2, 1, 3] : !all -> !keys
  %y = tpc.attention causal %x, %k, %k scale 1.0 offset p : !h, !keys, !keys -> !h
  return %y, %2 : !h, !all
}
}
