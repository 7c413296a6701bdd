// RUN: tpc-opt %s --split-input-file --tpc-recognize-caches --verify-diagnostics

!new = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>>
!past = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!both = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + s", 4]>>
!q = tensor<1x?x1x4xf32, #tpc.dist<[1, s, 1, 4]>>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + s", 1, 4]>>
func.func @main(%x: !new, %past: !past) -> (!q, !both) {
  // expected-error @unknown {{'sum' (tpc.reduce) uses past tokens of argument 1 in another way than as keys or values of attention}}
  %m = tpc.reduce sum %past [2] keep : !past -> tensor<1x1x1x4xf32> loc("sum")
  %n = tpc.add %x, %m : !new, tensor<1x1x1x4xf32> -> !new
  %c = tpc.concat %past, %n dim 2 : !past, !new -> !both
  %k = tpc.transpose %c [0, 2, 1, 3] : !both -> !keys
  %q = tpc.transpose %n [0, 2, 1, 3] : !new -> !q
  %y = tpc.attention causal %q, %k, %k scale 1.0 offset p : !q, !keys, !keys -> !q
  return %y, %c : !q, !both
}

// -----

!new = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>>
!past = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!both = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + s", 4]>>
!q = tensor<1x?x1x4xf32, #tpc.dist<[1, s, 1, 4]>>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + s", 1, 4]>>
func.func @main(%x: !new, %past: !past) -> (!q, !both) {
  %c = tpc.concat %past, %x dim 2 : !past, !new -> !both
  %k = tpc.transpose %c [0, 2, 1, 3] : !both -> !keys
  %q = tpc.transpose %x [0, 2, 1, 3] : !new -> !q
  // expected-error @unknown {{'start' (tpc.attention) has queries at offset 0 from the first key, not p}}
  %y = tpc.attention causal %q, %k, %k scale 1.0 : !q, !keys, !keys -> !q loc("start")
  return %y, %c : !q, !both
}

// -----

!new = tensor<1x1x1x4xf32>
!past = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!both = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + 1", 4]>>
!q = tensor<1x1x1x4xf32>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + 1", 1, 4]>>
func.func @main(%x: !new, %past: !past) -> (!q, !both) {
  %c = tpc.concat %past, %x dim 2 : !past, !new -> !both
  %k = tpc.transpose %c [0, 2, 1, 3] : !both -> !keys
  // expected-error @unknown {{'single' (tpc.attention) concatenates p past tokens with 1 new ones: both numbers must be distinct symbols}}
  %y = tpc.attention %x, %k, %k scale 1.0 : !q, !keys, !keys -> !q loc("single")
  return %y, %c : !q, !both
}

// -----

!new = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>>
!past = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!both = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + s", 4]>>
!q = tensor<1x?x1x4xf32, #tpc.dist<[1, s, 1, 4]>>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + s", 1, 4]>>
func.func @main(%x: !new, %past: !past) -> (!q, !both) {
  %c = tpc.concat %past, %x dim 2 : !past, !new -> !both
  %k = tpc.transpose %c [0, 2, 1, 3] : !both -> !keys
  %q = tpc.transpose %x [0, 2, 1, 3] : !new -> !q
  %y = tpc.attention causal %q, %k, %k scale 1.0 offset p : !q, !keys, !keys -> !q loc("with")
  // expected-error @unknown {{'without' (tpc.attention) has no past keys and values, but 'with' has}}
  %z = tpc.attention causal %y, %y, %y scale 1.0 : !q, !q, !q -> !q loc("without")
  return %z, %c : !q, !both
}

// -----

// Two layers share one past, but each appends other keys. After a step, the cache would have two
// different contents.
!new = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, s, 4]>>
!past = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!both = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, "p + s", 4]>>
!q = tensor<1x?x1x4xf32, #tpc.dist<[1, s, 1, 4]>>
!keys = tensor<1x?x1x4xf32, #tpc.dist<[1, "p + s", 1, 4]>>
func.func @main(%x: !new, %past: !past) -> (!q, !both, !both) {
  %y = tpc.neg %x : !new -> !new
  %c = tpc.concat %past, %x dim 2 : !past, !new -> !both loc("first")
  // expected-error @unknown {{'second' (tpc.concat) appends new tokens to a past that 'first' extends with others}}
  %d = tpc.concat %past, %y dim 2 : !past, !new -> !both loc("second")
  %k = tpc.transpose %c [0, 2, 1, 3] : !both -> !keys
  %v = tpc.transpose %d [0, 2, 1, 3] : !both -> !keys
  %q = tpc.transpose %x [0, 2, 1, 3] : !new -> !q
  %z = tpc.attention causal %q, %k, %v scale 1.0 offset p : !q, !keys, !keys -> !q
  return %z, %c, %d : !q, !both, !both
}
