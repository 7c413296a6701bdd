//===- Passes.td - Passes that create generation steps -----*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_GENERATE_PASSES
#define TPC_TRANSFORMS_GENERATE_PASSES

include "mlir/Pass/PassBase.td"

def ExtendLogits : Pass<"tpc-extend-logits", "::mlir::ModuleOp"> {
  let summary = "Compute the logits of all tokens, not only of the last one";
  let description = [{
    Files for generation may give the logits of the last token alone, `[batch, 1, vocabulary]` or
    `[batch, vocabulary]`, or the id of the largest logit (`ArgMax`). The pass replaces this output
    by the logits of all tokens: an `ArgMax` is replaced by its operand, and the slice of the last
    token by all tokens. Rows of the batch must be independent between the slice and the output;
    each op there is cloned for `batch * tokens` rows.

    ```mlir
    %last = tpc.slice %hidden dim 1 from "s - 1" : [b, s, 64] -> [b, 1, 64]
    %logits = tpc.matmul %last, %head : [b, 1, 64], [64, 1000] -> [b, 1, 1000]
    ```
    becomes
    ```mlir
    %rows = tpc.reshape %hidden : [b, s, 64] -> [b * s, 1, 64]
    %0 = tpc.matmul %rows, %head : [b * s, 1, 64], [64, 1000] -> [b * s, 1, 1000]
    %logits = tpc.reshape %0 : [b * s, 1, 1000] -> [b, s, 1000]
    ```
    Not changed: programs that already have the logits of all tokens; programs without token ids;
    programs with several such outputs of which none is named `logits`. `tpc-keep-last-token`
    removes the additional work.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def KeepLogits : Pass<"tpc-keep-logits", "::mlir::ModuleOp"> {
  let summary = "Remove all outputs of a token model except the logits";
  let description = [{
    Generation needs only the logits. Other outputs (hidden states, unused keys and values, means
    over tokens) are neither computed nor verified. The logits are the output named `logits`;
    otherwise the only numeric output with the dimensions batch, tokens and vocabulary, in any
    order. Outputs that contain past tokens are kept for `tpc-recognize-caches`. Errors: several
    candidates, none of them named `logits`. Programs without token ids and programs without a
    candidate are not changed.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def CheckTokens : Pass<"tpc-check-tokens", "::mlir::ModuleOp"> {
  let summary = "Check that the inputs of a generation step are token ids and caches";
  let description = [{
    The inputs of a generation step are one integer input `[batch, tokens]`, with symbols for both
    sizes, caches, and sources of cross-attention, `[batch, source, …]`. Errors: other inputs (token
    types, encoder states of fixed size, positions under an unrecognized name); token ids with a
    constant batch size; logits that are not floats.
  }];
}

def FixInputs : Pass<"tpc-fix-inputs", "::mlir::ModuleOp"> {
  let summary = "Replace optional inputs by their defaults";
  let description = [{
    Generation needs no masks or positions as inputs: all tokens are visible, and a token's position
    is the number of tokens before it. The pass replaces inputs with `tpc.default` by ops that
    compute the default. Unused inputs with a dimension of size 0 (caches of a file that is valid
    only for an empty past) and unused `past_key_values` are removed. The pass runs first, so that
    later passes can analyze the masks.

    ```mlir
    func.func @main(%ids: [batch, sequence],
                    %mask: [batch, past + sequence] {tpc.default = #tpc.default<ones>},
                    %positions: [batch, sequence]
                        {tpc.default = #tpc.default<positions of "attention_mask">},
                    %k: [batch, 2, past, 4])
    ```
    becomes
    ```mlir
    func.func @main(%ids: [batch, sequence], %k: [batch, 2, past, 4]) {
      %one = tpc.constant dense<1> : tensor<i64>     %mask = tpc.expand %one
      %0 = tpc.iota dim 1     %1 = tpc.size past     %positions = tpc.add %0, %1
    ```
    Inputs without a default are kept. Errors: positions derived from a mask that is not an input.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RecognizeCaches : Pass<"tpc-recognize-caches", "::mlir::ModuleOp"> {
  let summary = "Recognize KV caches in a model with past keys and values as inputs";
  let description = [{
    A cache is an argument with past tokens that is concatenated with new tokens and then used only
    as keys or values of attention. The concatenation must be a result: the updated contents. Names
    differ between exporters and are ignored. Movement ops before and after the concatenation are
    allowed: an argument may contain the keys and values of a layer in one tensor, or keys with
    tokens as the last dimension. Keys and values become separate `tpc.cache` ops with tokens in the
    third dimension. The numbers of past and new tokens are symbols (`tpc.step`). Casts of floats
    before and after the concatenation are allowed: the cache has the type of the concatenation.

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
    Programs without past tokens are not changed. `tpc-verify-generation` checks the result. Errors,
    with the ONNX node: other uses of past tokens; attention over past tokens that is not causal
    with the past as offset, or that has a mask or bias tensor; past tokens in only some attention
    ops; a constant number of new tokens.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def DeriveCaches : Pass<"tpc-derive-caches", "::mlir::ModuleOp"> {
  let summary = "Add KV caches to a model without past keys and values";
  let description = [{
    If all ops except causal attention are independent for each token, keys and values of past
    tokens do not depend on later tokens, so a step can read them from caches. Keys and values
    become the cached tokens followed by the new tokens; query indices and positions are offset by
    the number of past tokens. Positions must be a `tpc.iota`, a cumulative sum of ones, or a slice
    of a table. The symbol of the tokens keeps its name; `past` is a new symbol.

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
    A bias of causal attention that is computed from positions (T5's relative positions) gets keys
    of the past: ops between the `tpc.iota` of keys and the attention are recomputed with
    `past + sequence` instead of `sequence` in the dimension of keys.

    Constraints on `sequence` become constraints on `past + sequence`. Attention to other tokens
    (cross-attention), and of other tokens (an encoder), is not changed, nor are programs with
    caches. `tpc-verify-generation` proves the result independently of this pass.

    Errors, with the ONNX node: an op that combines tokens (means, softmax or sums over them, slices
    and concatenations along them); attention that is not causal, has a mask tensor (prefix masks),
    or has a bias that is computed by ops other than movements, lookups and element-wise ops; values
    that depend on the number of tokens (scaling by the logarithm of the length); a model without
    attention.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PreallocateCaches : Pass<"tpc-preallocate-caches", "::mlir::ModuleOp"> {
  let summary = "Convert a step to preallocated caches, with sequence lengths as an input";
  let description = [{
    The original step has the number of past tokens, `past`, in its sizes. In the converted step,
    caches have their full capacity, the number of cached tokens of each sequence is an input, and
    new tokens are written after them. The sizes of a step thus do not change as a sequence grows,
    sequences of different lengths can form one batch, and caches can be updated in place.

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
    The first `counts` tokens of each sequence are valid. The padding after them is computed too;
    the next step overwrites its cache entries. The caller ensures that lengths + counts is at most
    the capacity.

    Values that depend on `past` get a leading batch dimension, up to the first op that has another
    operand with a batch dimension. Positions are clamped to the last position of the cache, so that
    padding stays in the bounds of position tables. Constraints on past and new tokens, and the
    sizes of these tables, become constraints on the capacity. The result has no symbol `past`.

    The pass runs after `tpc-verify-generation` of the original step and before
    `tpc-outline-layers`. A second `tpc-verify-generation` compares its result with the original
    step. Programs that are not a step or are already converted are not changed.

    Errors, with the ONNX node: other uses of a cache; expressions of `past` without a per-sequence
    form (2 past); ops without a known per-sequence form; a constant batch size other than 1.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def WindowCaches : Pass<"tpc-window-caches", "::mlir::ModuleOp"> {
  let summary = "Shrink the caches of sliding-window attention to the window";
  let description = [{
    In a step on preallocated caches (`tpc-preallocate-caches`), a cache that only sliding-window
    attention reads does not need capacity for all tokens. Attention depends only on differences
    between query and key positions, so tokens before the window can be dropped. These caches get
    their own capacity, `window_capacity`, and their own input with the number of cached tokens of
    each sequence. `tpc.step` names both, and the maximum window.

    ```mlir
    %1 = tpc.append %k0, %new at %lengths : [batch, 2, capacity, 4]
    %o = tpc.attention causal %q, %k, %v lengths %lengths window 8
    ```
    becomes
    ```mlir
    %1 = tpc.append %k0, %new at %window_lengths : [batch, 2, window_capacity, 4]
    %o = tpc.attention causal %q, %k, %v lengths %window_lengths window 8
    ```
    Positions are still computed from `lengths`. The caller ensures that window_lengths + counts is
    at most `window_capacity`, that these caches contain the last window_lengths tokens, and that
    window_lengths is at least min(lengths, window - 1).

    Not changed: caches with other uses, and programs that are not a step on preallocated caches.
    `tpc-verify-generation` checks the result.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def CacheSources : Pass<"tpc-cache-sources", "::mlir::ModuleOp"> {
  let summary = "Compute the keys and values of cross-attention once for each sequence";
  let description = [{
    In an encoder-decoder, tokens attend to a source: the states of an encoder, `[batch, source,
    hidden]`, or what an encoder computes from ids, `[batch, source]`. In a step on preallocated
    caches (`tpc-preallocate-caches`), keys and values of the source become caches. The first step
    of a sequence brings all tokens of its source, whose keys and values are appended. Later steps
    bring none: `source` is 0, so nothing of the source is computed. The tokens of a query head
    become query heads of a single query at the position of the last source token, so that attention
    does not read unused capacity. `tpc.source_caches` names the two symbols and the input.

    ```mlir
    func.func @main(%ids: [batch, sequence], %states: [batch, source, 64], …) {
      %o = tpc.attention %q, %k, %v : [batch, sequence, 4, 16], [batch, source, 4, 16], …
    ```
    becomes
    ```mlir
    func.func @main(%ids, %states, %lengths, %counts, %source_lengths: [batch], …,
                    %source_k0: [batch, 4, source_capacity, 16] {tpc.cache = @source_k0}, …) {
      %1 = tpc.append %source_k0, %k' at %source_lengths     %k'' = tpc.transpose %1
      %q' = tpc.reshape (tpc.transpose %q)    // [batch, 1, 4 * sequence, 16]
      %o' = tpc.attention causal %q', %k'', %v'' lengths %source_lengths offset "source - 1"
    ```
    The caller ensures that source_lengths plus `source` is at most `source_capacity`. A step that
    brings a source may also contain other sequences, whose output is arbitrary in this step.

    If all sources have the same number of tokens (Whisper), the symbol is instead the number of
    sources that a sequence brings, 1 or 0, and `tpc.source_caches` has the number of tokens:

    ```mlir
    func.func @main(%ids, %states: [batch * sources, 1500, 64], …) {
      %k' = tpc.reshape %k : [batch * sources, 1500, 4, 16] -> [batch, 1500 * sources, 4, 16]
    ```

    Not changed: programs without cross-attention. `tpc-verify-generation` checks the result.
    Errors, with the ONNX node: sources of different lengths; a mask or bias of source tokens;
    sources that depend on tokens of the step.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def KeepLastToken : Pass<"tpc-keep-last-token", "::mlir::ModuleOp"> {
  let summary = "Restrict the outputs of a step to each sequence's last token";
  let description = [{
    Sampling needs only the logits of a sequence's last token. In a step on preallocated caches
    (`tpc-preallocate-caches`), outputs with a token dimension are computed only for token `counts -
    1` of each sequence. The same applies to values that only these outputs need: the head, the last
    norm, and the last layer except for its keys and values. Sets `last` in `tpc.step`.

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
    For a sequence with counts = 0, the output is that of an arbitrary token. Other programs are not
    changed.

    Errors, with the ONNX node: an op between the last attention and an output that combines tokens;
    a value without a token dimension to gather from.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
