// A program is rejected if one of its values is undefined when each sequence has its own past. The
// error is at the op that computes the value.
// RUN: tpc-opt %s --split-input-file --tpc-preallocate-caches --verify-diagnostics

!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%x: tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>, %k0: !before {tpc.cache = @k0}) -> (!after {tpc.cache = @k0}, tensor<?xf32, #tpc.dist<[b]>>) {
    %all = tpc.concat %k0, %x dim 2 : !before, tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>> -> !after
    // expected-error @unknown {{'mean' (tpc.reduce) uses a cache in another way than as keys or values of attention}}
    %m = tpc.reduce mean %all [1, 2, 3] : !after -> tensor<?xf32, #tpc.dist<[b]>> loc("mean")
    return %all, %m : !after, tensor<?xf32, #tpc.dist<[b]>>
  }
}

// -----

// The meaning of 2 * past is unknown.
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!new, !after {tpc.cache = @k0}) {
    // expected-error @unknown {{'twice' (tpc.size) takes 2*past tokens, which is not supported for sequences with different past}}
    %n = tpc.size "2 * past" : tensor<f32> loc("twice")
    %y = tpc.mul %x, %n : !new, tensor<f32> -> !new
    %all = tpc.concat %k0, %y dim 2 : !before, !new -> !after
    return %y, %all : !new, !after
  }
}

// -----

// A constant batch of two: any dimension of size 2 could be the batch.
!cache = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, capacity, 4]>>
!before = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, past, 4]>>
!after = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, "past + s", 4]>>
!new = tensor<2x1x?x4xf32, #tpc.dist<[2, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  // expected-error @+1 {{the caches have a batch of 2: the batch must be a symbol or 1}}
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %x dim 2 : !before, !new -> !after
    return %all : !after
  }
}

// -----

// The cache's state before the step is read.
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%x: !new, %k0: !before {tpc.cache = @k0}) -> (!before, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %x dim 2 : !before, !new -> !after
    // expected-error @unknown {{'old' (tpc.neg) uses cache @k0 in another way than to append new tokens to it}}
    %old = tpc.neg %k0 : !before -> !before loc("old")
    return %old, %all : !before, !after
  }
}

// -----

// Positions are squared, so it is unknown for how many tokens the table has rows.
#ids = #tpc.dist<[b, s]>
#positions = #tpc.dist<[s]>
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.weight @wpe in "w" at 0 : tensor<32x8xf32>
  tpc.cache @k0 : !cache
  func.func @main(%new: !new, %k0: !before {tpc.cache = @k0}, %ids: tensor<?x?xi64, #ids>) -> (tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    %i = tpc.iota dim 0 : tensor<?xi64, #positions>
    %n = tpc.size past : tensor<i64>
    %p = tpc.add %i, %n : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    %q = tpc.mul %p, %p : tensor<?xi64, #positions>, tensor<?xi64, #positions> -> tensor<?xi64, #positions>
    %w = tpc.parameter @wpe : tensor<32x8xf32>
    // expected-error @unknown {{'squares' (tpc.embedding) looks up rows by indices computed from positions, but their maximum is unknown}}
    %r = tpc.embedding %w, %q : tensor<32x8xf32>, tensor<?xi64, #positions> -> tensor<?x8xf32, #tpc.dist<[s, 8]>> loc("squares")
    %x = tpc.expand %r : tensor<?x8xf32, #tpc.dist<[s, 8]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
    return %x, %all : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, !after
  }
}

// -----

// A table with a dynamic number of rows.
#ids = #tpc.dist<[b, s]>
#positions = #tpc.dist<[s]>
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%new: !new, %k0: !before {tpc.cache = @k0}, %ids: tensor<?x?xi64, #ids>, %w: tensor<?x8xf32, #tpc.dist<[t, 8]>>) -> (tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    %i = tpc.iota dim 0 : tensor<?xi64, #positions>
    %n = tpc.size past : tensor<i64>
    %p = tpc.add %i, %n : tensor<?xi64, #positions>, tensor<i64> -> tensor<?xi64, #positions>
    // expected-error @unknown {{'table' (tpc.embedding) looks up rows of a table of t rows, up to row past + s - 1: no limit of the capacity is known that keeps this row in the table}}
    %r = tpc.embedding %w, %p : tensor<?x8xf32, #tpc.dist<[t, 8]>>, tensor<?xi64, #positions> -> tensor<?x8xf32, #tpc.dist<[s, 8]>> loc("table")
    %x = tpc.expand %r : tensor<?x8xf32, #tpc.dist<[s, 8]>> -> tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
    return %x, %all : tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>, !after
  }
}

// -----

// A softmax over positions has no form in which each sequence has its own position.
#positions = #tpc.dist<[s]>
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!p = tensor<?xf32, #positions>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%new: !new, %k0: !before {tpc.cache = @k0}) -> (!p, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    %i = tpc.iota dim 0 : !p
    %n = tpc.size past : tensor<f32>
    %p = tpc.add %i, %n : !p, tensor<f32> -> !p
    // expected-error @unknown {{'weights' (tpc.softmax) takes a value that depends on the past, which is not supported per sequence}}
    %y = tpc.softmax %p dim 0 : !p -> !p loc("weights")
    return %y, %all : !p, !after
  }
}

// -----

// A matmul sums over positions, which are the same for all sequences here.
#positions = #tpc.dist<[s]>
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!p = tensor<?xf32, #positions>
!column = tensor<?x1xf32, #tpc.dist<[s, 1]>>
!x = tensor<?x?xf32, #tpc.dist<[b, s]>>
!y = tensor<?x1xf32, #tpc.dist<[b, 1]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%new: !new, %k0: !before {tpc.cache = @k0}, %x: !x) -> (!y, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    %i = tpc.iota dim 0 : !p
    %n = tpc.size past : tensor<f32>
    %p = tpc.add %i, %n : !p, tensor<f32> -> !p
    %c = tpc.reshape %p : !p -> !column
    // expected-error @unknown {{'weighted' (tpc.matmul) multiplies positions in a way that is not supported per sequence}}
    %y = tpc.matmul %x, %c : !x, !column -> !y loc("weighted")
    return %y, %all : !y, !after
  }
}

// -----

// Positions are added to a value whose leading dimension is not the batch.
#positions = #tpc.dist<[s]>
!cache = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, capacity, 4]>>
!before = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, past, 4]>>
!after = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, "past + s", 4]>>
!new = tensor<?x1x?x4xf32, #tpc.dist<[b, 1, s, 4]>>
!p = tensor<?xf32, #positions>
!column = tensor<?x1xf32, #tpc.dist<[s, 1]>>
!x = tensor<?x?xf32, #tpc.dist<[s, b]>>
module attributes {tpc.step = #tpc.step<past = past, tokens = s>} {
  tpc.cache @k0 : !cache
  func.func @main(%new: !new, %k0: !before {tpc.cache = @k0}, %x: !x) -> (!x, !after {tpc.cache = @k0}) {
    %all = tpc.concat %k0, %new dim 2 : !before, !new -> !after
    %i = tpc.iota dim 0 : !p
    %n = tpc.size past : tensor<f32>
    %p = tpc.add %i, %n : !p, tensor<f32> -> !p
    %c = tpc.reshape %p : !p -> !column
    // expected-error @unknown {{'transposed' (tpc.add) combines per-sequence positions with values whose batch is not the leading dimension, which is not supported}}
    %y = tpc.add %x, %c : !x, !column -> !x loc("transposed")
    return %y, %all : !x, !after
  }
}
