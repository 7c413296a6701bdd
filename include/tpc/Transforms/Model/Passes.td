//===- Passes.td - Passes that normalize imported models ---*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_MODEL_PASSES
#define TPC_TRANSFORMS_MODEL_PASSES

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"tpc-simplify", "func::FuncOp"> {
  let summary = "Remove exporter artifacts, so that later passes see plain data flow";
  let description = [{
    * Chains of reshapes and transposes become at most a reshape, a transpose and a reshape.
    * Transposes, slices and reshapes of a `tpc.parameter` fold into its view.
    * Arithmetic on splat constants is folded. x * 1, x + 0, x / 1, powers of 2, 3 and 0.5, double
      negations and conversions, and selects with a constant condition are simplified. A broadcast
      that its consumer does implicitly is erased. -0 + 0 is 0: such a sum is kept if an output or a
      division may show the difference.
    * A gather of constant, evenly spaced indices becomes a slice.
    * A bias that is added to a matmul becomes the matmul's.
    * Merged batch dimensions of matmuls (`[b*H, s, d]`) are separated again, also in the ops after
      them.

    Results change by at most the order of two additions.

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
    Layer norm is any computation of `(x - mean x) / sqrt(mean (x - mean x)^2 + e)` over the last
    dimension, scaled and shifted by vectors that do not depend on the input: with Pow or Mul for
    the square, Div, Reciprocal or Mul by a reciprocal root, one or two subtractions, variance as
    `mean x^2 - (mean x)^2`. RMS norm is the same without the mean.

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
  let summary = "Recognize GELU in its decompositions, and SiLU";
  let description = [{
    Products are decomposed into factors, so the position of the one half, of 0.044715 and of the
    square root of 2/pi is irrelevant, and so is whether the cube is a power or two products.
    Constants may have a relative error of 1e-4, which is more than any exporter's rounding and less
    than the difference between any two activations.

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
    The end of a dimension concatenated with its beginning, as `torch.roll` is exported. A
    concatenation with an empty operand is erased too.

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

def SplitFusedProjections : Pass<"tpc-split-fused-projections", "func::FuncOp"> {
  let summary = "Split a matmul with a parameter into one for each slice of its result";
  let description = [{
    A slice (split, gather of constant indices) of the columns of a matmul is propagated back
    through reshapes, transposes and ops on single elements (a cast, a clip) into the parameter,
    whose view it becomes. The assignment of columns of a fused weight to queries, keys and values
    differs between model families; this pass derives it from the data flow.

    ```mlir
    %p = tpc.matmul %x, %w : tensor<8x64xf32>, tensor<64x192xf32> -> tensor<8x192xf32>
    %k = tpc.slice %p dim 1 from 64 : tensor<8x192xf32> -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %wk = tpc.parameter @w view #tpc.view<64 [[64 x 192], [64 x 1]]> : tensor<64x64xf32>
    %k = tpc.matmul %x, %wk : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
    ```
    A matmul is split only if slices are its only uses: otherwise it would be computed twice. So
    halves of a head, for a rotary embedding, remain slices if the whole head is used too. Slices
    whose columns are contained in another slice, as in an embedding that rotates a fraction of each
    head, become slices of that slice's matmul. Slices that are only concatenated again, as in a
    cyclic shift, are kept too.
  }];
}

def RaiseAttention : Pass<"tpc-raise-attention", "func::FuncOp"> {
  let summary = "Recognize softmax(q k^T + mask) v, and classify its mask by proof";
  let description = [{
    A matmul of a softmax over keys with values becomes `tpc.attention`. Scales on queries, keys and
    scores are collected. Heads and grouped KV heads are derived from the movements of the operands,
    which are arbitrary. `IndexAnalysis` classifies masks:
    * `causal`, with an offset, where the mask is proved to be `j <= i + offset`;
    * `window`, where it has a lower bound as well, `j > i + offset - window`;
    * `key_mask` where it is a function of batch and key alone;
    * `mask` where it is any other boolean tensor;
    * `slopes` where the added term is proved to be a number per head times the key's index, plus a
      term that is equal for all keys of a row: `slopes[h] * (j - i)`, or `slopes[h] * j`. If scores
      are masked too, the mask must add or set -1e8 or less, as slopes may exceed a mask of -10000.
      If products of numbers and indices are stored as a table, they must be exact to the bit.
      Positions derived from a padding mask (its running sum) are no index; such a term is a `bias`;
    * `bias` where any other term is added.

    For 16-bit values the softmax may be in f32, of scores that are widened or computed from widened
    queries and keys. Attention is in 16 bits if all three operands are available in 16 bits and
    there is neither a bias nor slopes, and else in f32. Masks of attention ops that the importer
    created are classified in the same way.
    Result of a row without visible keys:
    * -inf added or set, and NaN after the softmax replaced by zero: zero.
    * a finite number set in place of scores: all scores are equal, so uniform.
    * the lowest float added (anything below -1e30): scores are absorbed, so uniform.
    * -inf without guard gives NaN, and any other finite number (-10000, -1e9) added preserves the
      differences of scores: the term is treated as a mask only if every row is proved to have a
      visible key; otherwise it is a `bias`.

    A finite number that is set in place of scores, or added, counts as masking if it is -10000 or
    less. This is exact as long as no score of a row is more than about 9,900 below its largest:
    then exp underflows to zero in f32. Frameworks that emit such masks rely on the same.

    A remark reports masks that could not be classified.
  }];
}

def NormalizeTokens : Pass<"tpc-normalize-tokens", "func::FuncOp"> {
  let summary = "Convert token-wise ops to [tokens, hidden]";
  let description = [{
    Matmuls with parameters, norms, embeddings and element-wise ops between them are converted to
    rank-2 values whose rows are batch times sequence. Reshapes between [b, s, h] and [b*s, h] move
    towards attention and the results of the model, where they cancel or stay. A gather of rows of a
    floating-point table becomes an embedding. Ids that are broadcast over the batch are broadcast
    before the lookup, so that no value of shape [1, s, h] remains.

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
    A softmax needs its dimension whole. A softmax at the end of a model, over the columns of a
    matmul with a weight, becomes

    ```mlir
    %m = tpc.reduce max %x [1] keep
    %d = tpc.sub %x, %m
    %e = tpc.exp %d
    %s = tpc.reduce sum %e [1] keep
    %r = tpc.div %e, %s
    ```
    The two reductions of one number per token allow the vocabulary to be split. Log-softmax is
    imported in this form. Every other softmax is kept.
  }];
}

def WidenResidual : Pass<"tpc-widen-residual", "func::FuncOp"> {
  let summary = "Keep the residual of 16-bit models in f32";
  let description = [{
    The pass converts sums on the residual (sums of rows that a norm reads) to f32. Added terms are
    not rounded before: matmuls with parameters return f32 sums, other terms are cast. Norms read
    f32 and return 16 bits; other uses read the rounded sum.

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
    All communication of such sums is in f32. Not changed: additions that no norm reads, and models
    of other types.
  }];
}

def OutlineLayers : Pass<"tpc-outline-layers", "ModuleOp"> {
  let summary = "Outline repeated layers as one function";
  let description = [{
    Cuts `@main` where exactly one activation is live. Equal sections that repeat become one private
    function with the attribute `tpc.layer`, called with each repetition's weights. Values that
    depend only on inputs, shapes and constants (masks, positions) are computed in `@main` and
    passed. Sections that differ in anything but their weights are not merged; code that does not
    repeat stays in `@main`.

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
  let summary = "Report attention, norms and activations that were not recognized";
  let description = [{
    Emits a remark for each remaining softmax, erf and tanh, and for each reduction over the last
    dimension of an activation, with its ONNX node. Such ops are correct and are partitioned, but
    less efficiently.
  }];
}

#endif
