//===- Passes.td - Passes that derive gradients ------------*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_BACKWARD_PASSES
#define TPC_TRANSFORMS_BACKWARD_PASSES

include "mlir/Pass/PassBase.td"

def CastMatmuls : Pass<"tpc-cast-matmuls", "::mlir::func::FuncOp"> {
  let summary = "Compute f32 matmuls in a 16-bit type";
  let description = [{
    Operands of f32 matmuls are rounded to `type`, and their results are widened to f32:

    ```mlir
    %y = tpc.matmul %x, %w : [m, k], [k, n] -> [m, n]          // f32
    ```
    becomes, with `type=bf16`,
    ```mlir
    %0 = tpc.cast %x : [m, k] -> bf16
    %1 = tpc.cast %w : [k, n] -> bf16
    %2 = tpc.matmul %0, %1 : bf16
    %y = tpc.cast %2 : [m, n] -> f32
    ```
    Weights, biases, norms, attention and the residual stay in f32. Before tpc-derive-backward, this
    makes the matmuls of gradients 16-bit too, as `torch.autocast` does; gradients of weights are
    f32.
  }];
  let options = [Option<"type", "type", "std::string", "\"bf16\"", "bf16 or f16">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def DeriveBackward : Pass<"tpc-derive-backward", "::mlir::ModuleOp"> {
  let summary = "Add a loss and the gradients of all weights to a model";
  let description = [{
    The model's logits become a loss, the mean cross-entropy of a new input `labels`, and its
    gradients. `labels[i]` is the id after token `i`; negative labels are ignored. The mean is over
    all other labels of the batch. With `label-smoothing`, each label has the probability
    `1 - label-smoothing`, and all classes share the rest. With `z-loss`, the loss of a label has
    the term `z-loss * log(sum(exp(logits)))^2`, which keeps logits small.

    With `scale-loss`, a new input `loss_scale` multiplies the cotangent of the loss, and gradients
    of weights are divided by it, so that cotangents of f16 matmuls do not underflow.

    ```mlir
    func.func @main(%ids: [b, s]) -> ([b, s, 1000] {tpc.name = "logits"})
    ```
    becomes
    ```mlir
    func.func @main(%ids: [b, s], %labels: [b, s] {tpc.name = "labels"})
        -> (tensor<f32> {tpc.name = "loss"}, [1000, 32] {tpc.name = "grad.wte"}, …)
    ```
    Results are ordered like the weights. A weight that is read through several disjoint views (a
    fused projection) has one result for each, `grad.<weight>.at<offset>`. A view and its transpose
    (a tied head) have one result, the sum of both gradients. Weights that are not f32, position
    tables of rotary embeddings, and slopes of ALiBi have no gradient.

    Each layer function gets results for saved activations, and a second function,
    `@layer_backward`, computes the gradients of its arguments. Ops without matmuls, attention or
    lookups are recomputed there if their operands are available.

    Attention has the gradient `tpc.attention_grad`. If its bias has a gradient, and with
    `decompose-attention`, the gradients are computed from matrices of probabilities, whose memory
    is quadratic in the sequence.

    The backward ops are ops of the dialect. Tactics, verifiers and lowering process them like the
    model's ops.

    Errors, with the ONNX node: an op without a gradient; 16-bit or quantized weights; overlapping
    views of a weight; a model without logits `[.., vocabulary]`.
  }];
  let options = [
    Option<"labelSmoothing", "label-smoothing", "double", "0",
           "Fraction of each target distribution that is uniform over all classes, below 1">,
    Option<"zLoss", "z-loss", "double", "0",
           "Coefficient of logsumexp(logits)^2 in the loss">,
    Option<"scaleLoss", "scale-loss", "bool", "false",
           "Multiply the cotangent of the loss by an input, and divide gradients of weights by it">,
    Option<"decomposeAttention", "decompose-attention", "bool", "false",
           "Compute gradients of attention without tpc.attention_grad">];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

#endif
