//===- Passes.td - Passes that create generation steps -----*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_GENERATE_PASSES
#define TPC_TRANSFORMS_GENERATE_PASSES

include "mlir/Pass/PassBase.td"

def KeepLogits : Pass<"tpc-keep-logits", "::mlir::ModuleOp"> {
  let summary = "Remove all outputs of a token model but the logits";
  let description = [{
    Generation needs only the logits. Other outputs (hidden states, unused keys and values, means
    over tokens) are neither computed nor proved. The logits are the output of that name; else the
    only numeric output for each token of each sequence, `[batch, tokens, vocabulary]` in any order.
    Outputs of past tokens are kept, for `tpc-recognize-caches`. Errors: several such outputs, none
    of which is called `logits`. Programs without token ids, and programs without an output of that
    form, are not changed.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def CheckTokens : Pass<"tpc-check-tokens", "::mlir::ModuleOp"> {
  let summary = "Check that a step takes only token ids and caches";
  let description = [{
    The inputs of a generation step are one integer input `[batch, tokens]`, with symbols for both
    sizes, and caches. Errors: other inputs (token types, an encoder's states, positions under an
    unrecognized name); token ids with a constant number of sequences; logits that are not floats.
  }];
}

def FixInputs : Pass<"tpc-fix-inputs", "::mlir::ModuleOp"> {
  let summary = "Replace optional inputs by their defaults";
  let description = [{
    Generation has no external masks or positions: each token is visible, and its position follows
    the tokens before it. The pass replaces inputs with `tpc.default` by computations. It is the
    first pass, so that later passes can analyze the masks.

    ```mlir
    func.func @main(%ids: [batch, sequence],
                    %mask: [batch, past + sequence] {tpc.default = #tpc.default<ones>},
                    %positions: [batch, sequence]
                        {tpc.default = #tpc.default<positions of "attention_mask">},
                    %k: [batch, 2, past, 4])
    becomes
    ```mlir
    func.func @main(%ids: [batch, sequence], %k: [batch, 2, past, 4]) {
      %one = tpc.constant dense<1> : tensor<i64>     %mask = tpc.expand %one
      %0 = tpc.iota dim 1     %1 = tpc.size past     %positions = tpc.add %0, %1
    ```
    Inputs without a default are kept. Errors: positions derived from a mask that the program does
    not have.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RecognizeCaches : Pass<"tpc-recognize-caches", "::mlir::ModuleOp"> {
  let summary = "Recognize the caches of a file that takes past keys and values";
  let description = [{
    An argument with past tokens that is concatenated with new ones and used only as keys or values
    of attention is a cache; the concatenation, which is a result, is its next contents. Names
    differ between exporters and are ignored. Movements in between are allowed: an argument may
    contain keys and values of a layer in one tensor, or keys with tokens last. Each becomes a
    `tpc.cache` of its own with tokens in its third dimension. Past and new tokens are symbols
    (`tpc.step`).

    ```mlir
    func.func @main(%ids, %past: [2, b, 2, p, 4]) -> (logits, [2, b, 2, p + s, 4]) {
      %0 = tpc.slice %past dim 0 from 0    %1 = tpc.reshape %0    %2 = tpc.concat %1, %new dim 2
    ```
    becomes
    ```mlir
    tpc.cache @k0 : [b, 2, capacity, 4]
    func.func @main(%ids, %k0: [b, 2, p, 4] {tpc.cache = @k0}, …)
        -> (logits, [b, 2, p + s, 4] {tpc.cache = @k0}, …) {
      %2 = tpc.concat %k0, %new dim 2
    ```
    Programs without a past are not changed. `tpc-verify-generation` checks the result. Errors, with
    the ONNX node: other uses of past tokens; attention with a past that is not causal after it, or
    that takes masks or biases as tensors; a past in only some attention ops; a constant number of
    new tokens.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def DeriveCaches : Pass<"tpc-derive-caches", "::mlir::ModuleOp"> {
  let summary = "Derive caches for a model that takes all tokens at once";
  let description = [{
    If all computation but causal attention is independent for each token, keys and values of old
    tokens do not change when new ones arrive. Then a step can read them from caches: keys and
    values become the past ones followed by the new ones; queries and positions are offset by the
    past. Positions must come from `tpc.iota`, the running sum of ones, or a slice of a table. The
    symbol of the tokens keeps its name; `past` is a new symbol.

    ```mlir
    %p = tpc.iota dim 0 : [sequence]
    %o = tpc.attention causal %q, %k, %v
    ```
    becomes
    ```mlir
    %i = tpc.iota dim 0 : [sequence]     %n = tpc.size past     %p = tpc.add %i, %n
    %kc = tpc.concat %k0, %kt dim 2      // %kt: %k as [batch, heads, sequence, size]
    %o = tpc.attention causal %q, %k', %v' offset past
    ```
    Constraints on `sequence` become constraints on `past + sequence`. Programs with caches are not
    changed. `tpc-verify-generation` proves the result independently of this pass.

    Errors, with the ONNX node: an op that combines tokens (means, softmax or sums over them, slices
    and concatenations along them); attention that is not causal or takes a mask or a bias as a
    tensor (prefix masks); numbers that depend on the number of tokens (scaling by the logarithm of
    the length); a model without attention.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PreallocateCaches : Pass<"tpc-preallocate-caches", "::mlir::ModuleOp"> {
  let summary = "Convert a step to preallocated caches, with sequence lengths as data";
  let description = [{
    A step for a number of `past` tokens becomes one for all: caches have their full capacity, new
    tokens are written after those of each sequence, and the lengths are an input. So the sizes of a
    step do not change as a sequence grows, sequences of different lengths form one batch, and a
    cache can be written in place.

    ```mlir
    func.func @main(%ids: [batch, sequence], %k0: [batch, 2, past, 4] {tpc.cache = @k0})
        -> (…, [batch, 2, past + sequence, 4] {tpc.cache = @k0}) {
      %n = tpc.size past     %p = tpc.add %iota, %n : [sequence]
      %1 = tpc.concat %k0, %new dim 2
      %o = tpc.attention causal %q, %k, %v offset past
    ```
    becomes
    ```mlir
    func.func @main(%ids: [batch, sequence], %lengths: [batch], %counts: [batch],
                    %k0: [batch, 2, capacity, 4] {tpc.cache = @k0})
        -> (…, [batch, 2, capacity, 4] {tpc.cache = @k0}) {
      %n = tpc.reshape %lengths : [batch, 1]     %p = tpc.add %iota, %n : [batch, sequence]
      %1 = tpc.append %k0, %new at %lengths
      %o = tpc.attention causal %q, %k, %v lengths %lengths
    ```
    The first `counts` tokens of each sequence in the step are valid. The padding to their right is
    computed too; its cache entries are overwritten by the next step. The caller ensures that
    lengths + counts is at most the capacity.

    Values that depend on `past` get a leading batch dimension, up to the op where they meet values
    of the batch. Positions are clamped to the last one of the cache, so that padding is in the
    bounds of tables too. Constraints on past and new tokens, and the sizes of these tables, become
    constraints on the capacity. The result has no symbol `past`.

    The pass runs after `tpc-verify-generation` of the original step, which is then compared with
    the result of this pass, and before `tpc-outline-layers`. Programs that are no step, or are
    already converted, are not changed.

    Errors, with the ONNX node: other uses of a cache; expressions of the past that have no value
    per sequence (2 past); ops without a known per-sequence form; a constant batch size other than
    1.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def WindowCaches : Pass<"tpc-window-caches", "::mlir::ModuleOp"> {
  let summary = "Shrink the caches of sliding-window attention to the window";
  let description = [{
    In a step on preallocated caches (`tpc-preallocate-caches`), a cache that only sliding-window
    attention reads does not need capacity for all tokens. Attention compares positions of queries
    with those of keys, and both may be counted from any token, as long as no query sees an earlier
    one. So these caches get a capacity of their own, `room`, and another input with their number of
    tokens for each sequence. `tpc.step` names both, and the largest window.

    ```mlir
    %1 = tpc.append %k0, %new at %lengths : [batch, 2, capacity, 4]
    %o = tpc.attention causal %q, %k, %v lengths %lengths window 8
    ```
    becomes
    ```mlir
    %1 = tpc.append %k0, %new at %window_lengths : [batch, 2, room, 4]
    %o = tpc.attention causal %q, %k, %v lengths %window_lengths window 8
    ```
    Positions are still computed from `lengths`. The caller ensures that window_lengths + counts is
    at most the room, and that these caches contain the last window_lengths tokens, at least
    min(lengths, window - 1).

    Caches with other uses are not changed, and neither are other programs. `tpc-verify-generation`
    checks the result.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def KeepLastToken : Pass<"tpc-keep-last-token", "::mlir::ModuleOp"> {
  let summary = "Restrict the outputs of a step to each sequence's last token";
  let description = [{
    Sampling the next token needs only the logits of the last one. In a step on preallocated caches
    (`tpc-preallocate-caches`), all outputs with tokens are computed only for token counts - 1 of
    each sequence, and so are values that only they need: the head, the last norm, and the last
    layer except for its keys and values. `tpc.step` gets `last`.

    ```mlir
    %o = tpc.attention causal %q, %k, %v lengths %lengths : [batch, sequence, 12, 64], …
    %y = tpc.add %x, %p : [batch * sequence, 768]
    %l = tpc.matmul %y, %head : [batch * sequence, 50257]
    ```
    becomes
    ```mlir
    %last = tpc.sub %counts, 1
    %q1 = …, of tpc.gather_nd %h, %last batch 1       %n = tpc.add %lengths, %last
    %o = tpc.attention causal %q1, %k, %v lengths %n : [batch, 1, 12, 64], …
    %x1 = tpc.gather_nd %x, %last batch 1
    %y = tpc.add %x1, %p : [batch, 768]               %l = tpc.matmul %y, %head : [batch, 50257]
    ```
    For a sequence without a token in the step, the output is that of an arbitrary token. Other
    programs are not changed.

    Errors, with the ONNX node: an op before an output that combines tokens; values from which
    tokens cannot be gathered.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
