// A value of an earlier token must not change when tokens are added. The error is at the op that
// violates this.
// RUN: tpc-opt %s --split-input-file --tpc-derive-caches --verify-diagnostics

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%x: !h) -> !h {
  // expected-error @unknown {{'mean' (tpc.reduce) does not compute each token independently}}
  %m = tpc.reduce mean %x [1] keep : !h -> tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> loc("mean")
  %k = tpc.sub %x, %m : !h, tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>> -> !h
  %y = tpc.attention causal %x, %k, %x scale 1.0 : !h, !h, !h -> !h
  return %y : !h
}

// -----

// A prefix that is visible to all tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!mask = tensor<1x1x?x?xi1, #tpc.dist<[1, 1, s, s]>>
func.func @main(%x: !h, %mask: !mask) -> !h {
  // expected-error @unknown {{'prefix' (tpc.attention) takes a mask of queries and keys as a tensor}}
  %y = tpc.attention causal %x, %x, %x mask %mask scale 1.0 : !h, !h, !h mask !mask -> !h loc("prefix")
  return %y : !h
}

// -----

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%x: !h) -> !h {
  // expected-error @unknown {{'encoder' (tpc.attention) is not causal}}
  %y = tpc.attention %x, %x, %x scale 1.0 : !h, !h, !h -> !h loc("encoder")
  return %y : !h
}

// -----

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!mask = tensor<?x?xi1, #tpc.dist<[b, s]>>
func.func @main(%x: !h, %mask: !mask) -> !h {
  // expected-error @unknown {{'padded' (tpc.attention) masks tokens by an input}}
  %y = tpc.attention causal %x, %x, %x key_mask %mask scale 1.0 : !h, !h, !h key_mask !mask -> !h loc("padded")
  return %y : !h
}

// -----

// Keys are scaled by the logarithm of the length.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%x: !h) -> !h {
  // expected-error @unknown {{'length' (tpc.size) uses the number of tokens as a value}}
  %n = tpc.size s : tensor<f32> loc("length")
  %l = tpc.log %n : tensor<f32> -> tensor<f32>
  %k = tpc.mul %x, %l : !h, tensor<f32> -> !h
  %y = tpc.attention causal %x, %k, %x scale 1.0 : !h, !h, !h -> !h
  return %y : !h
}

// -----

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%x: !h) -> !h {
  // expected-error @unknown {{'shift' (tpc.roll) does not compute each token independently}}
  %k = tpc.roll %x dim 1 from 1 every s : !h -> !h loc("shift")
  %y = tpc.attention causal %x, %k, %x scale 1.0 : !h, !h, !h -> !h
  return %y : !h
}

// -----

// A weighted sum over other tokens.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%x: !h) -> !h {
  // expected-error @unknown {{'weights' (tpc.softmax) does not compute each token independently}}
  %k = tpc.softmax %x dim 1 : !h -> !h loc("weights")
  %y = tpc.attention causal %x, %k, %x scale 1.0 : !h, !h, !h -> !h
  return %y : !h
}

// -----

// The last token, selected by its index.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!one = tensor<?x1x1x4xf32, #tpc.dist<[b, 1, 1, 4]>>
func.func @main(%x: !h) -> !one {
  %y = tpc.attention causal %x, %x, %x scale 1.0 : !h, !h, !h -> !h
  // expected-error @unknown {{'last' (tpc.slice) does not compute each token independently}}
  %z = tpc.slice %y dim 1 from "s - 1" : !h -> !one loc("last")
  return %z : !one
}

// -----

// A sum over tokens.
!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
func.func @main(%ids: !ids, %x: !h) -> (!h, !ids) {
  // expected-error @unknown {{'count' (tpc.cumsum) sums values that are not 1 for each token}}
  %p = tpc.cumsum %ids dim 1 : !ids -> !ids loc("count")
  %y = tpc.attention causal %x, %x, %x scale 1.0 : !h, !h, !h -> !h
  return %y, %p : !h, !ids
}

// -----

!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!m = tensor<?x?x1x4xf32, #tpc.dist<[b, t, 1, 4]>>
func.func @main(%x: !h, %m: !m) -> !h {
  // expected-error @unknown {{'cross' (tpc.attention) has s queries and t keys. Without a past, both numbers must be the same symbol}}
  %y = tpc.attention causal %x, %m, %m scale 1.0 : !h, !m, !m -> !h loc("cross")
  return %y : !h
}

// -----

!x = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
// expected-error @below {{has no attention: generation needs keys and values to cache}}
func.func @main(%x: !x) -> !x {
  %y = tpc.neg %x : !x -> !x
  return %y : !x
}

// -----

// A softmax over keys that is not attention: the error names the op between it and the matmul.
!h = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!t = tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
!s = tensor<?x?x?xf32, #tpc.dist<[b, s, s]>>
func.func @main(%x: !h) -> !h {
  %t = tpc.transpose %x [0, 2, 1] : !h -> !t
  %0 = tpc.matmul %x, %t : !h, !t -> !s
  %1 = tpc.sin %0 : !s -> !s loc("wave")
  // expected-error @unknown {{'weights' (tpc.softmax) is not part of a known form of attention, and the model has no other attention: 'wave' (tpc.sin) is between it and a matmul of queries and keys. Generation needs keys and values to cache}}
  %p = tpc.softmax %1 dim 2 : !s -> !s loc("weights")
  %y = tpc.matmul %p, %x : !s, !h -> !h
  return %y : !h
}

// -----

// The same, next to an attention that is recognized.
!h = tensor<?x?x1x4xf32, #tpc.dist<[b, s, 1, 4]>>
!f = tensor<?x?x4xf32, #tpc.dist<[b, s, 4]>>
!t = tensor<?x4x?xf32, #tpc.dist<[b, 4, s]>>
!s = tensor<?x?x?xf32, #tpc.dist<[b, s, s]>>
func.func @main(%h: !h, %x: !f) -> (!h, !s) {
  %y = tpc.attention causal %h, %h, %h scale 1.0 : !h, !h, !h -> !h
  %t = tpc.transpose %x [0, 2, 1] : !f -> !t
  %0 = tpc.matmul %x, %t : !f, !t -> !s
  // expected-error @unknown {{'mixed' (tpc.softmax) does not compute each token independently: its results for earlier tokens would change with each new token. It is not a known form of attention}}
  %p = tpc.softmax %0 dim 2 : !s -> !s loc("mixed")
  return %y, %p : !h, !s
}
