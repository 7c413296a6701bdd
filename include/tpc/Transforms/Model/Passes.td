//===- Passes.td - Passes that normalize imported models ---*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_MODEL_PASSES
#define TPC_TRANSFORMS_MODEL_PASSES

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"tpc-simplify", "func::FuncOp"> {
  let summary = "Remove exporter artifacts";
  let description = [{
    * Chains of reshapes and transposes become at most a reshape, a transpose and a reshape.
    * Transposes, slices and reshapes of a `tpc.parameter` fold into its view.
    * Arithmetic on splat constants is folded. x * 1, x + 0, x / 1, powers of 2, 3 and 0.5, double
      negations and conversions, and selects with a constant condition are simplified. A broadcast
      that the consumer does implicitly is erased. x + 0 is kept if the sign of a zero may affect an
      output or a division (-0 + 0 is 0).
    * A gather of constant, evenly spaced indices becomes a slice.
    * A norm of each head on `[b, s * heads, d]` is computed on `[b, s, heads, d]`.
    * Numbers of past tokens that are equal for all sequences become the offset of attention.
    * A comparison with the number of a query's visible keys is folded if each query sees a key.
    * An add of a bias after a matmul becomes the matmul's bias operand.
    * Merged batch dimensions of matmuls (`[b*H, s, d]`) are separated, also in the ops after them.

    Results differ from the original at most by the order of two additions.

    ```mlir
    %0 = tpc.matmul %x, %w : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
    %1 = tpc.add %0, %b : tensor<8x64xf32>, tensor<64xf32> -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %1 = tpc.matmul %x, %w bias %b : ...
    ```
  }];
}

def RaiseNorms : Pass<"tpc-raise-norms", "func::FuncOp"> {
  let summary = "Recognize layer norm and RMS norm";
  let description = [{
    Layer norm is `(x - mean x) / sqrt(mean (x - mean x)^2 + e)` over the last dimension, scaled and
    shifted by vectors that do not depend on the input. Recognized variants: Pow or Mul for the
    square; Div, Reciprocal or Mul by a reciprocal root; one or two subtractions; variance as `mean
    x^2 - (mean x)^2`. RMS norm is the same without the mean.

    ```mlir
    %m = tpc.reduce mean %x [1] keep
    %d = tpc.sub %x, %m
    %q = tpc.mul %d, %d
    %v = tpc.reduce mean %q [1] keep
    %a = tpc.add %v, %eps
    %s = tpc.sqrt %a
    %n = tpc.div %d, %s
    %g = tpc.mul %n, %scale
    %r = tpc.add %g, %bias
    ```
    becomes
    ```mlir
    %r = tpc.layer_norm %x, %scale bias %bias epsilon 1.0e-05
    ```
  }];
}

def RaiseActivations : Pass<"tpc-raise-activations", "func::FuncOp"> {
  let summary = "Recognize decomposed GELU and SiLU";
  let description = [{
    Expressions are compared as polynomials in x and its erf, tanh or sigmoid. Thus the position of
    the constants 1/2, 0.044715 and sqrt(2/pi) is irrelevant, and x^3 may be a power or two
    multiplications. Constants may have a relative error of 1e-4: larger than the rounding of
    exporters, smaller than the difference between two activations.

    ```mlir
    %t = tpc.erf %y                      // y = x / sqrt 2
    %p = tpc.add %t, %one
    %h = tpc.mul %x, %half
    %r = tpc.mul %h, %p
    ```
    becomes
    ```mlir
    %r = tpc.gelu none %x
    ```
  }];
}

def RaiseRolls : Pass<"tpc-raise-rolls", "func::FuncOp"> {
  let summary = "Recognize cyclic shifts";
  let description = [{
    A cyclic shift is the concatenation of the end of a dimension with its beginning; `torch.roll`
    is exported in this form. Also erases concatenations with an empty operand.

    ```mlir
    %a = tpc.slice %x dim 1 from 2     // all from 2 on
    %b = tpc.slice %x dim 1 from 0     // the first two
    %r = tpc.concat %a, %b dim 1
    ```
    becomes
    ```mlir
    %r = tpc.roll %x dim 1 from 2 every sequence
    ```
  }];
}

def RaiseExperts : Pass<"tpc-raise-experts", "func::FuncOp"> {
  let summary = "Recognize mixtures of experts";
  let description = [{
    Exporters write the experts of a token as matmuls with gathered weights, which copy k matrices
    for each token. With the routing weights and ids of k experts, this is `tpc.moe`, which computes
    the same without copies. Biases, gated activations with limits, and both orders of a matrix's
    dimensions are recognized; ids must be selections of an iota, so that they are in bounds.

    Other exports compute all experts for each token, and weight the results by a matrix that is 0
    for experts that are not selected. These become `tpc.moe` too, which computes only experts with
    a weight. Llama 4 weights the operands: this is the same only if a token has at most one expert
    and there are no biases; other such experts are left alone.

    A loop over the experts is exported as a sum of layers with weights of their own, each times a
    column of gates. This becomes `tpc.moe` of concatenated weights; see `tpc-stack-weights`. If one
    weight cannot have all of them, a warning names the sum.

    Matrices of 16 bits that are cast to f32 are sliced and transposed before the cast.

    ```mlir
    %w = tpc.gather_nd %up, %ids     // [tokens * k, inner, hidden]
    %h = tpc.matmul %w, %rows        // x, repeated k times
    ...
    %r = tpc.reduce sum %y [1]       // over the k experts of a token
    ```
    becomes
    ```mlir
    %r = tpc.moe silu %x, %routing, %up, %down gate %gate top_k 2
    ```
  }];
}

def StackWeights : Pass<"tpc-stack-weights", "ModuleOp"> {
  let summary = "Replace concatenated weights by one weight";
  let description = [{
    Replaces a concatenation of parameters along a first dimension of size 1 by one parameter: a
    view, if they are at equal distances of one weight, or else a new weight with `tpc.parts`, the
    offsets of the old weights in the file. No elements are copied.

    ```mlir
    tpc.weight @a in "m.onnx" at 64 : tensor<8x4xf32>
    tpc.weight @b in "m.onnx" at 300 : tensor<8x4xf32>
    %a = tpc.parameter @a view <0 [[1 x 1], [8 x 4], [4 x 1]]> : tensor<1x8x4xf32>
    ...
    %c = tpc.concat %a, %b dim 0 : ...
    ```
    becomes
    ```mlir
    tpc.weight @a.stacked in "m.onnx" at 64 {tpc.parts = array<i64: 64, 300>} : tensor<2x8x4xf32>
    %c = tpc.parameter @a.stacked view <0 [[2 x 32], [8 x 4], [4 x 1]]> : ...
    ```
  }];
}

def LimitExperts : Pass<"tpc-limit-experts", "func::FuncOp"> {
  let summary = "Limit the tokens of a sample that an expert computes";
  let description = [{
    An expert computes at most ceil(capacity * top_k * sequence / experts) tokens of each sample:
    those with the lowest positions. The routing weights of others become 0, and are not
    normalized again. A sample is a group of the model, so every grid drops the same tokens.

    ```mlir
    %w = tpc.reshape %routing : [batch * sequence, experts] -> [batch, sequence, experts]
    %n = tpc.cumsum (%w != 0) dim 1
    %r = tpc.select (%n <= limit), %w, 0
    ```
    Errors: no mixture of experts; tokens that are not [batch, sequence] of an input.
  }];
  let options = [Option<"capacity", "capacity", "std::string", "\"1\"",
                        "Factor of the mean number of tokens of an expert">];
}

def QuantizeWeights : Pass<"tpc-quantize-weights", "ModuleOp"> {
  let summary = "Quantize the weights of matmuls";
  let description = [{
    Reads the float weights of matmuls, writes packed integers and scales to a file, and replaces
    each matrix by `tpc.dequantize`. The number with the largest magnitude of a block becomes
    -2^(bits - 1), and its block has one scale. Blocks are columns of a matrix, or parts of one.
    Numbers of a column are adjacent, so that columns and whole blocks can be split. A weight that
    other ops read as well, such as a tied embedding, is kept for these.

    Runs on the import level, before the model of the proof is recorded: the program is proved equal
    to the quantized model.

    ```mlir
    %w = tpc.parameter @w : tensor<64x192xf32>
    %r = tpc.matmul %x, %w
    ```
    becomes, for `type=int4` (blocks of 32)
    ```mlir
    %q = tpc.parameter @w.int4 : tensor<192x2x16xi8>
    %s = tpc.parameter @w.scale : tensor<192x2x1x1xf32>
    %d = tpc.dequantize %q, %s bits 4 : tensor<192x2x16x2xf32>
    %t = tpc.transpose %d [1, 2, 3, 0]
    %m = tpc.reshape %t : tensor<64x192xf32>
    %r = tpc.matmul %x, %m
    ```
    `type=fp8` rounds to E4M3 (Float8.h): weights with a scale for each column, and activations
    when the program runs, with a scale for each row. The matmul itself is in f32:

    ```mlir
    %a = tpc.abs %x
    %m = tpc.reduce max %a [1] keep : tensor<3x64xf32> -> tensor<3x1xf32>
    %s = tpc.div %m, 448                       // 1 for a row of zeros
    %y = tpc.matmul round(%x / %s), decode(@w.fp8)
    %r = tpc.mul (tpc.mul %y, @w.scale), %s
    ```

    Errors: no matmul has a float weight; a weight that cannot be read, or has a number that is not
    finite.
  }];
  let options = [Option<"type", "type", "std::string", "\"int8\"",
                        "int8 or int4, also with a block size, as int4:64; or fp8">,
                 Option<"file", "file", "std::string", "\"quantized.weights\"", "The new file">,
                 Option<"writes", "writes", "bool", "true",
                        "Write the file; otherwise only its layout is determined">];
  let dependentDialects = ["mlir::tpc::TpcDialect"];
}

def SplitFusedProjections : Pass<"tpc-split-fused-projections", "func::FuncOp"> {
  let summary = "Split a matmul with a fused parameter into one matmul for each slice of its "
                "result";
  let description = [{
    A slice (split, gather of constant indices) of the columns of a matmul's result is propagated
    back through reshapes, transposes and element-wise ops (a cast, a clip) and becomes a view of
    the parameter. The order of queries, keys and values in the columns of a fused weight differs
    between model families; this pass derives it from the data flow.

    ```mlir
    %p = tpc.matmul %x, %w : tensor<8x64xf32>, tensor<64x192xf32> -> tensor<8x192xf32>
    %k = tpc.slice %p dim 1 from 64 : tensor<8x192xf32> -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %wk = tpc.parameter @w view <64 [[64 x 192], [64 x 1]]> : tensor<64x64xf32>
    %k = tpc.matmul %x, %wk : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
    ```
    A matmul is split only if slices are its only uses; otherwise it would be computed twice. For
    example, the halves of a head in a rotary embedding remain slices if the entire head is used
    too. A slice whose columns are a subset of another slice (partial rotary embeddings) becomes a
    slice of that slice's matmul. Slices that are only concatenated again (cyclic shifts) are kept.
  }];
}

def RaiseAttention : Pass<"tpc-raise-attention", "func::FuncOp"> {
  let summary = "Recognize softmax(q k^T + mask) v, and classify its mask by symbolic analysis";
  let description = [{
    A matmul of a softmax over keys with values becomes `tpc.attention`. Scales of queries, keys and
    scores are multiplied into one. Heads and grouped KV heads are derived from the movement ops of
    the operands, which may be arbitrary. `IndexAnalysis` classifies masks:
    * `causal`, with an offset: the mask is proved to be `j <= i + offset`;
    * `window`: the mask also has the lower bound `j > i + offset - window`;
    * `key_mask`: the mask depends only on batch and key;
    * `mask`: any other boolean tensor;
    * `slopes`: the added term is proved to be a number per head times the key's index, plus a term
      that is equal for all keys of a row: `slopes[h] * (j - i)`, or `slopes[h] * j`. If scores are
      masked too, the mask must add or set -1e8 or less, because slopes may exceed a mask of -10000.
      A stored table of these products must be bit-exact. Positions that are the cumulative sum of a
      padding mask are not indices; a term with them is a `bias`;
    * `bias`: any other added term.

    In 16-bit models the softmax may be in f32, with widened scores or widened queries and keys. The
    attention op is in 16 bits if all three operands are available in 16 bits and there is neither a
    bias nor slopes; otherwise it is in f32. Masks of attention ops that the importer created are
    classified in the same way. The mask determines the result of a row without visible keys:
    * -inf is added or set, and NaN is replaced by zero after the softmax: `zero`.
    * a finite number replaces the scores: `uniform`, because all scores are equal.
    * the lowest float (any number below -1e30) is added: `uniform`, because rounding absorbs the
      scores.
    * any other finite number is added (-10000, -1e9), which preserves the differences between
      scores, or -inf is added without a NaN guard, so that the result is NaN. The term is then a
      mask only if every row is proved to have a visible key; otherwise it is a `bias`.

    A finite number that is added to scores, or replaces them, counts as masking if it is -10000 or
    less. This is exact if all scores of a row are within about 9,900 of the row's maximum, because
    exp then underflows to zero in f32. Frameworks that emit such masks make the same assumption.

    A remark is emitted for each mask that cannot be classified.
  }];
}

def NormalizeTokens : Pass<"tpc-normalize-tokens", "func::FuncOp"> {
  let summary = "Convert token-wise ops to [tokens, hidden]";
  let description = [{
    Matmuls with parameters, norms, embeddings and element-wise ops between them are converted to
    rank-2 values whose rows are batch times sequence. Reshapes between [b, s, h] and [b*s, h] move
    towards attention ops and model outputs, where they cancel or remain. A gather of rows of a
    floating-point table becomes an embedding. A broadcast over the batch after a lookup moves
    before it, to the ids, so that no value of shape [1, s, h] remains.

    ```mlir
    %y = tpc.matmul %x, %w : tensor<2x8x64xf32>, tensor<64x32xf32> -> tensor<2x8x32xf32>
    ```
    becomes
    ```mlir
    %0 = tpc.reshape %x : tensor<2x8x64xf32> -> tensor<16x64xf32>
    %1 = tpc.matmul %0, %w : tensor<16x64xf32>, tensor<64x32xf32> -> tensor<16x32xf32>
    %y = tpc.reshape %1 : tensor<16x32xf32> -> tensor<2x8x32xf32>
    ```
  }];
}

def DivideSoftmax : Pass<"tpc-divide-softmax", "func::FuncOp"> {
  let summary = "Decompose a softmax over the vocabulary into reductions";
  let description = [{
    The dimension of a `tpc.softmax` cannot be split. A softmax at the end of a model, over the
    columns of a matmul with a weight, becomes

    ```mlir
    %m = tpc.reduce max %x [1] keep
    %d = tpc.sub %x, %m
    %e = tpc.exp %d
    %s = tpc.reduce sum %e [1] keep
    %r = tpc.div %e, %s
    ```
    In this form the vocabulary can be split: each of the two reductions communicates one number per
    token. Log-softmax is imported in this form. Every other softmax is kept.
  }];
}

def WidenResidual : Pass<"tpc-widen-residual", "func::FuncOp"> {
  let summary = "Compute the residual of 16-bit models in f32";
  let description = [{
    The pass converts adds on the residual (adds whose result is the operand of a norm) to f32.
    Their operands are not rounded to 16 bits: matmuls with parameters return f32, other operands
    are cast. Norms read f32 and return 16 bits; other uses read the rounded sum.

    ```mlir
    %p = tpc.matmul %a, %w bias %b : tensor<8x64xf16>, tensor<64x64xf16> bias tensor<64xf16>
                                     -> tensor<8x64xf16>
    %y = tpc.add %x, %p : tensor<8x64xf16>, tensor<8x64xf16> -> tensor<8x64xf16>
    %n = tpc.rms_norm %y, %s epsilon 1.0e-5 : tensor<8x64xf16>, tensor<64xf16> -> tensor<8x64xf16>
    ```
    becomes
    ```mlir
    %0 = tpc.matmul %a, %w : tensor<8x64xf16>, tensor<64x64xf16> -> tensor<8x64xf32>
    %p = tpc.add %0, %b32 : tensor<8x64xf32>, tensor<64xf32> -> tensor<8x64xf32>
    %y = tpc.add %x32, %p : tensor<8x64xf32>, tensor<8x64xf32> -> tensor<8x64xf32>
    %n = tpc.rms_norm %y, %s epsilon 1.0e-5 : tensor<8x64xf32>, tensor<64xf16> -> tensor<8x64xf16>
    ```
    All communication of these sums is in f32. Not changed: adds that are not read by a norm, and
    models of other element types.
  }];
}

def OutlineLayers : Pass<"tpc-outline-layers", "ModuleOp"> {
  let summary = "Outline repeated layers as one function";
  let description = [{
    Cuts `@main` at points with exactly one live activation. Repeated equal sections become one
    private function with the attribute `tpc.layer`, which is called with the weights of each
    repetition. Values that depend only on inputs, shapes and constants (masks, positions) are
    computed in `@main` and passed as arguments. Sections with any difference except their weights
    are not merged; other code stays in `@main`.

    ```mlir
    func.func @main(%ids) {
      ...
      %h1 = call @layer(%h0, %w0, %b0) ...
      %h2 = call @layer(%h1, %w1, %b1) ...
    ```
  }];
  let dependentDialects = ["::mlir::func::FuncDialect"];
}

def ReportUnraised : Pass<"tpc-report-unraised", "func::FuncOp"> {
  let summary = "Report attention, norms, activations and experts that were not recognized";
  let description = [{
    Emits a remark for each remaining softmax, erf, tanh and mean of floats, and a warning for each
    lookup that copies a matrix for each row and each matmul of all experts, with the ONNX node.
    Such ops are compiled correctly and partitioned, but less efficiently.
  }];
}

#endif
