//===- Passes.td - From a model to a step of a generation -------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_GENERATE_PASSES
#define TPC_TRANSFORMS_GENERATE_PASSES

include "mlir/Pass/PassBase.td"

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

#endif
