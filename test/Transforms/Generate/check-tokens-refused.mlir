// Generation supplies only token ids, so it rejects models with other inputs.
// RUN: tpc-opt %s --split-input-file --tpc-keep-logits --tpc-check-tokens --verify-diagnostics

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
!v = tensor<?x?x9xf32, #tpc.dist<[b, s, 9]>>
// expected-error @below {{has outputs 'hidden', 'more' and 'scores' per token, and it is unknown which of them are the logits}}
func.func @main(%ids: !ids, %x: !v) -> (!v {tpc.name = "hidden"}, !v {tpc.name = "more"}, !v {tpc.name = "scores"}) {
  return %x, %x, %x : !v, !v, !v
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{takes 'kinds', 'tensor<?x?xi64, #tpc.dist<[b, s]>>', but generation supplies only token ids [batch, s]}}
  func.func @main(%ids: !ids {tpc.name = "ids"}, %kinds: !ids {tpc.name = "kinds"}) -> !ids {
    return %kinds : !ids
  }
}

// -----

!ids = tensor<1x?xi64, #tpc.dist<[1, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{takes 'ids' of 1 sequences: export the model with a symbolic batch}}
  func.func @main(%ids: !ids {tpc.name = "ids"}) -> !ids {
    return %ids : !ids
  }
}

// -----

!ids = tensor<?x?xi64, #tpc.dist<[b, s]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{has output 'next', 'tensor<?x?xi64, #tpc.dist<[b, s]>>', but tokens are sampled from logits, which are floats}}
  func.func @main(%ids: !ids {tpc.name = "ids"}) -> (!ids {tpc.name = "next"}) {
    return %ids : !ids
  }
}

// -----

!x = tensor<?x?x8xf32, #tpc.dist<[b, s, 8]>>
module attributes {tpc.step = #tpc.step<past = p, tokens = s>} {
  // expected-error @below {{takes 'inputs_embeds', embedded tokens of 8 numbers, but generation supplies token ids: export the model with its embedding}}
  func.func @main(%x: !x {tpc.name = "inputs_embeds"}) -> !x {
    return %x : !x
  }
}
