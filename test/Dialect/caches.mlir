// tpc.cache: round trip, and errors of its verifier.
// RUN: tpc-opt %s --split-input-file --verify-diagnostics | tpc-opt --split-input-file | FileCheck %s

!old = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>
// CHECK: tpc.step = #tpc.step<past = p, tokens = s>
// CHECK: tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
// CHECK: func.func @main(%{{.*}} {tpc.cache = @k}) -> ({{.*}} {tpc.cache = @k})
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
  func.func @main(%old: !old {tpc.cache = @k}) -> (!old {tpc.cache = @k}) {
    return %old : !old
  }
}

// -----

// CHECK: tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", last, window = 6, window_capacity = wc, window_lengths = "w">
module attributes {tpc.step = #tpc.step<window_lengths = "w", window = 6, window_capacity = wc, tokens = s, last, capacity = c, lengths = "l", counts = "n">} {
}

// -----

// A cache is valid in an incomplete program, without @main.
// CHECK: tpc.cache @k : tensor<1x1x?x4xf16
tpc.cache @k : tensor<1x1x?x4xf16, #tpc.dist<[1, 1, capacity, 4]>>

// -----

// expected-error @below {{type must be [batch, heads, a symbol for the capacity, size], not [b, 2, 64, 4]}}
tpc.cache @k : tensor<?x2x64x4xf32, #tpc.dist<[b, 2, 64, 4]>>

// -----

// expected-error @below {{type must be [batch, heads, a symbol for the capacity, size], not [b, capacity, 4]}}
tpc.cache @k : tensor<?x?x4xf32, #tpc.dist<[b, capacity, 4]>>

// -----

module attributes {tpc.mesh = #tpc.mesh<tp = 2>} {
  // expected-error @below {{must have an unsplit type}}
  tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2{tp}, capacity, 4]>>
}

// -----

!old = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>
// expected-error @below {{belongs to no result of @main}}
tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
func.func @main(%old: !old {tpc.cache = @k}) -> !old {
  return %old : !old
}

// -----

!old = tensor<?x2x?x4xf32, #tpc.dist<[b, 2, p, 4]>>
// expected-error @below {{belongs to several arguments of @main}}
tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
func.func @main(%old: !old {tpc.cache = @k}, %other: !old {tpc.cache = @k}) -> (!old {tpc.cache = @k}) {
  return %old : !old
}

// -----

!old = tensor<?x3x?x4xf32, #tpc.dist<[b, 3, p, 4]>>
// expected-error @below {{does not have the type of its argument of @main}}
tpc.cache @k : tensor<?x2x?x4xf32, #tpc.dist<[b, 2, capacity, 4]>>
func.func @main(%old: !old {tpc.cache = @k}) -> (!old {tpc.cache = @k}) {
  return %old : !old
}

// -----

!old = tensor<1x1x?x4xf32, #tpc.dist<[1, 1, p, 4]>>
!new = tensor<1x1x1x4xf32>
// expected-error @below {{has 1 tokens after a step and p before: a step must not drop tokens}}
tpc.cache @k : tensor<1x1x?x4xf32, #tpc.dist<[1, 1, capacity, 4]>>
func.func @main(%old: !old {tpc.cache = @k}) -> (!new {tpc.cache = @k}) {
  %0 = tpc.slice %old dim 2 from 0 : !old -> !new
  return %0 : !new
}

// -----

// expected-error @below {{argument 0: 'tpc.cache' names the unknown tpc.cache @k}}
func.func @main(%old: tensor<4xf32> {tpc.cache = @k}) {
  return
}

// -----

// expected-error @below {{'tpc.cache' must be a symbol, not 1}}
func.func @main(%old: tensor<4xf32> {tpc.cache = 1}) {
  return
}

// -----

// expected-error @below {{'tpc.step' must be a #tpc.step, not {past = #tpc.expr<p>, tokens = #tpc.expr<s>}}}
module attributes {tpc.step = {past = #tpc.expr<p>, tokens = #tpc.expr<s>}} {
}

// -----

// expected-error @below {{#tpc.step 'past' is the symbol p, which another field has}}
module attributes {tpc.step = #tpc.step<past = p, tokens = p>} {
}

// -----

// expected-error @below {{#tpc.step 'past' must be a symbol, not p + 1}}
module attributes {tpc.step = #tpc.step<past = "p + 1", tokens = s>} {
}

// -----

// expected-error @below {{#tpc.step must have 'tokens' and either 'past' or 'capacity'}}
module attributes {tpc.step = #tpc.step<tokens = s>} {
}

// -----

// expected-error @below {{#tpc.step must have 'lengths' and 'counts' with 'capacity', and only then}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "lengths">} {
}

// -----

// expected-error @below {{#tpc.step must have 'capacity' with 'last' or 'window'}}
module attributes {tpc.step = #tpc.step<past = p, tokens = s, last>} {
}

// -----

// expected-error @below {{#tpc.step must have a 'window' of at least 1, 'window_capacity' and 'window_lengths' together}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", window = 6, window_capacity = wc>} {
}

// -----

// expected-error @below {{#tpc.step must have a 'window' of at least 1, 'window_capacity' and 'window_lengths' together}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", window = 0, window_capacity = wc, window_lengths = "w">} {
}

// -----

// expected-error @below {{#tpc.step 'counts' is the input "l", which another field has}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "l">} {
}

// -----

// expected-error @below {{#tpc.step 'lengths' is the input "", which has no name}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "", counts = "l">} {
}

// -----

// expected-error @below {{'past' is given twice}}
module attributes {tpc.step = #tpc.step<past = p, past = q, tokens = s>} {
}

// -----

// expected-error @below {{a step has no field 'batch'}}
module attributes {tpc.step = #tpc.step<past = p, tokens = s, batch = b>} {
}

// -----

// Text of older versions: `room` is window_capacity.
// CHECK: module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", window = 6, window_capacity = wc, window_lengths = "w">}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", window = 6, room = wc, window_lengths = "w">} {}

// -----

// expected-error @below {{'window_capacity' is given twice}}
module attributes {tpc.step = #tpc.step<tokens = s, capacity = c, lengths = "l", counts = "n", window = 6, room = wc, window_capacity = wc, window_lengths = "w">} {}
