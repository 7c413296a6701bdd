// Whoever generates has ids of tokens, and nothing else.
// RUN: tpc-opt %s --split-input-file --tpc-keep-logits --tpc-check-tokens --verify-diagnostics

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!v = tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>>
// expected-error @below {{gives 'hidden', 'more' and 'scores' of each token, and it is not known which of them are logits}}
func.func @main(%ids: !ids, %x: !v) -> (!v {tpc.name = "hidden"}, !v {tpc.name = "more"}, !v {tpc.name = "scores"}) {
  return %x, %x, %x : !v, !v, !v
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{takes 'kinds', 'tensor<?x?xi64, #tpc.dist<[b, s]>>', and a generation gives token ids [batch, s] alone}}
  func.func @main(%ids: !ids {tpc.name = "ids"}, %kinds: !ids {tpc.name = "kinds"}) -> !ids {
    return %kinds : !ids
  }
}

// -----

!ids = tensor<1x?xi64, #tpc.dist<[1, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{takes 'ids' of 1 sequences: export the model with a batch that is a symbol}}
  func.func @main(%ids: !ids {tpc.name = "ids"}) -> !ids {
    return %ids : !ids
  }
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{gives 'next', 'tensor<?x?xi64, #tpc.dist<[b, s]>>', and tokens are chosen by logits, which are floats}}
  func.func @main(%ids: !ids {tpc.name = "ids"}) -> (!ids {tpc.name = "next"}) {
    return %ids : !ids
  }
}
