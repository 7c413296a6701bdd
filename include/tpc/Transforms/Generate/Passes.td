//===- Passes.td - From a model to a step of a generation -------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_GENERATE_PASSES
#define TPC_TRANSFORMS_GENERATE_PASSES

include "mlir/Pass/PassBase.td"

def KeepLogits : Pass<"tpc-keep-logits", "::mlir::ModuleOp"> {
  let summary = "Of the outputs of a model of tokens, leaves the logits";
  let description = [{
    A generation needs no other: what files give beside them (hidden states, keys and values that nobody takes, means over tokens) is
    neither computed nor proved. Logits are the output of that name; else the one output of numbers of each token of each sequence,
    `[batch, tokens, vocabulary]` in any order. Outputs of past tokens stay, for `tpc-recognize-caches`. Errors: several such outputs, of
    which none is called `logits`. Programs without token ids, and outputs that are all of another form, are left alone.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def CheckTokens : Pass<"tpc-check-tokens", "::mlir::ModuleOp"> {
  let summary = "A step takes ids of tokens, and caches";
  let description = [{
    Whoever generates has nothing else to give: one input of integers, `[batch, tokens]`, both of which are symbols. Errors: other inputs
    (types of tokens, an encoder's states, positions under a name that says nothing); ids of a number of sequences that is fixed; logits that are no floats.
  }];
}

def FixInputs : Pass<"tpc-fix-inputs", "::mlir::ModuleOp"> {
  let summary = "Inputs that may be left out become what they are then";
  let description = [{
    A generation has no masks and no positions from outside: each token is seen, and stands behind those before it. Inputs with
    `tpc.default` are computed, and gone. Comes first of all passes, so that what follows knows the masks.

    ```mlir
    func.func @main(%ids: [batch, sequence], %mask: [batch, past + sequence] {tpc.default = #tpc.default<ones>},
                    %positions: [batch, sequence] {tpc.default = #tpc.default<positions of "attention_mask">}, %k: [batch, 2, past, 4])
    ```
    becomes
    ```mlir
    func.func @main(%ids: [batch, sequence], %k: [batch, 2, past, 4]) {
      %one = tpc.constant dense<1> : tensor<i64>     %mask = tpc.expand %one
      %0 = tpc.iota dim 1     %1 = tpc.size past     %positions = tpc.add %0, %1
    ```
    Inputs without a default are left alone. Errors: positions of a mask that the program does not have.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def RecognizeCaches : Pass<"tpc-recognize-caches", "::mlir::ModuleOp"> {
  let summary = "Finds the caches of a file that takes past keys and values";
  let description = [{
    An argument that holds past tokens, joined with those of new ones, as keys or values of attention and nothing else, is a cache;
    what joins them and is a result is its next contents. Names differ between exporters and are not looked at. Movements on
    the way do not matter: an argument may hold keys and values of a layer in one tensor, or keys with tokens last. Each
    becomes a `tpc.cache` of its own with tokens in its third dimension. Past and new tokens are symbols (`tpc.step`).

    ```mlir
    func.func @main(%ids, %past: [2, b, 2, p, 4]) -> (logits, [2, b, 2, p + s, 4]) {
      %0 = tpc.slice %past dim 0 from 0    %1 = tpc.reshape %0    %2 = tpc.concat %1, %new dim 2
    ```
    becomes
    ```mlir
    tpc.cache @k0 : [b, 2, capacity, 4]
    func.func @main(%ids, %k0: [b, 2, p, 4] {tpc.cache = @k0}, …) -> (logits, [b, 2, p + s, 4] {tpc.cache = @k0}, …) {
      %2 = tpc.concat %k0, %new dim 2
    ```
    Programs without a past are left alone. What it does is checked by `tpc-verify-generation`.
    Errors, with the ONNX node: past tokens that are taken in another way; attention that has a past and is not causal behind it, or
    takes masks or biases as tensors; a past in some attention only; as many new tokens as a number says.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def DeriveCaches : Pass<"tpc-derive-caches", "::mlir::ModuleOp"> {
  let summary = "Gives a model that takes all tokens at once caches of the past";
  let description = [{
    If everything but causal attention is done for each token by itself, keys and values of old tokens do not change when new ones
    come. Then a step can take them from caches: keys and values become those of the past with the new ones behind them, queries
    stand behind the past, and so do positions, which come from `tpc.iota` (or the running sum of ones, or a slice
    of a table) alone. The symbol for tokens keeps its name, `past` is new.

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
    Constraints on `sequence` are constraints on `past + sequence`. Programs that have caches are left alone. What it does is checked by
    `tpc-verify-generation`: nobody trusts this pass.

    Errors, with the ONNX node: an op that takes tokens together (means, softmax or sums over them, slices and joins along them), attention
    that is not causal or takes a mask or a bias as a tensor (prefix masks), numbers made of how many tokens there are
    (scaling by the logarithm of the length); no attention at all.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def PlaceCaches : Pass<"tpc-place-caches", "::mlir::ModuleOp"> {
  let summary = "A step takes whole caches, at lengths that are data";
  let description = [{
    A step of `past` tokens becomes one for all of them: caches have their whole capacity, new tokens are put behind those of
    each sequence, and how many these are is an input. So the sizes of a step do not change as a sequence grows, sequences of
    different lengths are one batch, and a cache can be written in place.

    ```mlir
    func.func @main(%ids: [batch, sequence], %k0: [batch, 2, past, 4] {tpc.cache = @k0}) -> (…, [batch, 2, past + sequence, 4] {tpc.cache = @k0}) {
      %n = tpc.size past     %p = tpc.add %iota, %n : [sequence]
      %1 = tpc.concat %k0, %new dim 2
      %o = tpc.attention causal %q, %k, %v offset past
    ```
    becomes
    ```mlir
    func.func @main(%ids: [batch, sequence], %lengths: [batch], %counts: [batch], %k0: [batch, 2, capacity, 4] {tpc.cache = @k0})
        -> (…, [batch, 2, capacity, 4] {tpc.cache = @k0}) {
      %n = tpc.reshape %lengths : [batch, 1]     %p = tpc.add %iota, %n : [batch, sequence]
      %1 = tpc.append %k0, %new at %lengths
      %o = tpc.attention causal %q, %k, %v lengths %lengths
    ```
    Of the step's tokens of a sequence the first `counts` are real. The others, on their right, are computed, and what they leave in the cache is
    written over in the next step. Whoever runs it sees to it that lengths + counts is at most the capacity.

    What is made of `past` gets the batch in front, up to the op where it meets values of the batch. Positions are not more than the
    last that a cache has room for, so that tokens that do not count find rows in tables too. Constraints on past and new tokens, and the
    sizes of these tables, become constraints on the capacity. Afterwards there is no `past`.

    Comes behind `tpc-verify-generation` of the step, which then compares what this pass made with it, and before
    `tpc-outline-layers`. Programs that are no step, or are placed, are left alone.

    Errors, with the ONNX node: a cache that is used otherwise; numbers of the past that no sequence has by itself
    (2 past); ops of which it is not known how they do the same for each sequence; a batch that is a number other than 1.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def WindowCaches : Pass<"tpc-window-caches", "::mlir::ModuleOp"> {
  let summary = "Caches of attention with a window keep what it shows";
  let description = [{
    Of a placed step (`tpc-place-caches`) a cache that only attention with a window reads needs no room for all tokens. Attention compares places of
    queries with those of keys, and it does not matter from which token on both are counted, if no query sees one before it. So these caches get
    a capacity of their own, `room`, and another input says how many tokens they hold of each sequence. `tpc.step` names both, and the
    largest of the windows.

    ```mlir
    %1 = tpc.append %k0, %new at %lengths : [batch, 2, capacity, 4]
    %o = tpc.attention causal %q, %k, %v lengths %lengths window 8
    ```
    becomes
    ```mlir
    %1 = tpc.append %k0, %new at %window_lengths : [batch, 2, room, 4]
    %o = tpc.attention causal %q, %k, %v lengths %window_lengths window 8
    ```
    Positions are made of `lengths` as before. Whoever runs a step sees to it that window_lengths + counts is at most the room, and that these caches hold the
    last window_lengths tokens, at least min(lengths, window - 1) of them.

    Caches that are read otherwise as well are left alone, and so are other programs. `tpc-verify-generation` checks what this pass made.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def TakeLast : Pass<"tpc-take-last", "::mlir::ModuleOp"> {
  let summary = "Outputs of a placed step are of each sequence's last token alone";
  let description = [{
    To choose the next token takes the logits of the last one. Of a placed step (`tpc-place-caches`) all outputs that have tokens are computed for
    token counts - 1 of each sequence, and what only they need is too: the head, the last norm, the last layer but for its keys and values. `tpc.step`
    says `last`.

    ```mlir
    %o = tpc.attention causal %q, %k, %v lengths %lengths : [batch, sequence, 12, 64], …
    %y = tpc.add %x, %p : [batch * sequence, 768]     %l = tpc.matmul %y, %head : [batch * sequence, 50257]
    ```
    becomes
    ```mlir
    %last = tpc.sub %counts, 1
    %q1 = …, of tpc.gather_nd %h, %last batch 1       %n = tpc.add %lengths, %last
    %o = tpc.attention causal %q1, %k, %v lengths %n : [batch, 1, 12, 64], …
    %x1 = tpc.gather_nd %x, %last batch 1
    %y = tpc.add %x1, %p : [batch, 768]               %l = tpc.matmul %y, %head : [batch, 50257]
    ```
    Of a sequence that has no token in the step the output is that of any. Other programs are left alone.

    Errors, with the ONNX node: an op above an output that takes tokens together; values of which tokens cannot be looked up.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
