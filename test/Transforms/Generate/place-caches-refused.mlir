// What is not known for sequences with pasts of their own: each by the op that does it.
// RUN: tpc-opt %s --split-input-file --tpc-place-caches --verify-diagnostics

!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
module attributes {tpc.step = {past = #tpc.expr<past>, tokens = #tpc.expr<s>}} {
  tpc.cache @k0 : !cache
  func.func @main(%x: tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>, %k0: !before {tpc.cache = @k0}) -> (!after {tpc.cache = @k0}, tensor<?xf32, #tpc.dist<[b]>>) {
    %all = tpc.concat %k0, %x dim 2 : !before, tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>> -> !after
    // expected-error @unknown {{'mean' (tpc.reduce) takes a cache otherwise than as keys or values of attention}}
    %m = tpc.reduce mean %all [1, 2, 3] : !after -> tensor<?xf32, #tpc.dist<[b]>> loc("mean")
    return %all, %m : !after, tensor<?xf32, #tpc.dist<[b]>>
  }
}

// -----

// Of 2 * past it is not known what it is about.
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = {past = #tpc.expr<past>, tokens = #tpc.expr<s>}} {
  tpc.cache @k0 : !cache
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!new, !after {tpc.cache = @k0}) {
    // expected-error @unknown {{'twice' (tpc.size) takes 2*past tokens: it is not known what that is where sequences have pasts}}
    %n = tpc.size "2 * past" : tensor<f32> loc("twice")
    %y = tpc.mul %x, %n : !new, tensor<f32> -> !new
    %all = tpc.concat %k0, %y dim 2 : !before, !new -> !after
    return %y, %all : !new, !after
  }
}

// -----

// Two sequences, by number: that dimension could be any.
!cache = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, capacity, 4]>>
!before = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, past, 4]>>
!after = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, "past + s", 4]>>
!new = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, s, 4]>>
module attributes {tpc.step = {past = #tpc.expr<past>, tokens = #tpc.expr<s>}} {
  tpc.cache @k0 : !cache
  // expected-error @+1 {{its caches are of 2 sequences: a batch must be a symbol, or one sequence}}
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %x dim 2 : !before, !new -> !after
    return %all : !after
  }
}

// -----

// A cache that is read as it was before the step.
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = {past = #tpc.expr<past>, tokens = #tpc.expr<s>}} {
  tpc.cache @k0 : !cache
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!before, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %x dim 2 : !before, !new -> !after
    // expected-error @unknown {{'old' (tpc.neg) uses cache @k0 otherwise than joined with new tokens behind it}}
    %old = tpc.neg %k0 : !before -> !before loc("old")
    return %old, %all : !before, !after
  }
}
