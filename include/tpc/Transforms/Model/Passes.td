//===- Passes.td - From imported ops to the model's normal form -*- tablegen -*-===//

#ifndef TPC_TRANSFORMS_MODEL_PASSES
#define TPC_TRANSFORMS_MODEL_PASSES

include "mlir/Pass/PassBase.td"

def Simplify : Pass<"tpc-simplify", "func::FuncOp"> {
  let summary = "Removes what exporters leave behind, so that later passes see data flow";
  let description = [{
    * Chains of reshapes and transposes become at most a reshape, a transpose and
      a reshape.
    * Transposes, slices and reshapes of a `tpc.parameter` fold into its view.
    * Arithmetic on splat constants is done; x * 1, x + 0, x / 1, powers of 2, 3
      and 0.5, double negations and conversions, selects with a constant
      condition go away. A broadcast that its consumer does anyway goes away.
      -0 + 0 is 0: such a sum stays where an output, or a division, may show it.
    * A gather of constant, evenly spaced indices is a slice.
    * The bias that is added to a product becomes the product's.
    * Products whose batch dimensions were merged (`[b*H, s, d]`) get them back,
      and so does what follows them.

    Nothing here changes a value by more than the order of two additions.

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
  let summary = "Finds layer norm and RMS norm";
  let description = [{
    Layer norm is whatever computes `(x - mean x) / sqrt(mean (x - mean x)^2 + e)`
    over the last dimension, scaled and shifted by vectors that do not depend on
    the input: with Pow or Mul for the square, Div, Reciprocal or Mul by a
    reciprocal root, one or two subtractions, variance as `mean x^2 - (mean x)^2`.
    RMS norm is the same without the mean.

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
  let summary = "Finds GELU in its decompositions, and SiLU";
  let description = [{
    Products are taken apart into factors, so that the place of the one half, of
    0.044715 and of the square root of 2/pi does not matter, nor whether the cube
    is a power or two products. Constants may be off by a relative 1e-4, which is
    more than any exporter rounds and less than any two activations differ.

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
  let summary = "Finds cyclic shifts";
  let description = [{
    The end of a dimension in front of its beginning, as `torch.roll` is exported. A concatenation with something
    empty is what is left, and goes as well.

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
  let summary = "Makes each slice of a product with a parameter a product of its own";
  let description = [{
    A slice (split, gather of constant indices) of the columns of a product is
    pushed back through reshapes, transposes and ops on single elements (a cast, a clip) onto the
    parameter, whose view it becomes. How the columns of a fused weight belong to queries, keys and
    values differs in every family; here it is derived from the data flow.

    ```mlir
    %p = tpc.matmul %x, %w : tensor<8x64xf32>, tensor<64x192xf32> -> tensor<8x192xf32>
    %k = tpc.slice %p dim 1 from 64 : tensor<8x192xf32> -> tensor<8x64xf32>
    ```
    becomes
    ```mlir
    %wk = tpc.parameter @w view #tpc.view<64 [[64 x 192], [64 x 1]]> : tensor<64x64xf32>
    %k = tpc.matmul %x, %wk : tensor<8x64xf32>, tensor<64x64xf32> -> tensor<8x64xf32>
    ```
    A product is split only if slices are all that it is used by: otherwise it
    would be computed twice. So halves of a head, for a rotary embedding, stay slices where the whole
    head is used as well; slices whose columns another one has as well, as of an embedding that rotates
    a part of each head, become slices of that one's product. Slices that are concatenated again and
    used for nothing else stay as well, as of a cyclic shift.
  }];
}

def RaiseAttention : Pass<"tpc-raise-attention", "func::FuncOp"> {
  let summary = "Finds softmax(q k^T + mask) v, and proves what its mask is";
  let description = [{
    A product of a softmax over keys with values becomes `tpc.attention`. Scales
    on queries, keys and scores are collected; heads and grouped kv heads are
    found from how the operands were rearranged, in any way. Masks become, by
    `IndexAnalysis`:
    * `causal`, with an offset, where the mask is proved to be `j <= i + offset`;
    * `window`, where it has a lower bound as well, `j > i + offset - window`;
    * `key_mask` where it is a function of batch and key alone;
    * `mask` where it is a boolean tensor about which nothing is known;
    * `slopes` where what is added is proved to be a number of each head, times the key's index, plus what is the same for
      all keys of a row: `slopes[h] * (j - i)`, or `slopes[h] * j`. If scores are masked too, the mask must add or put -1e8 or less: slopes
      may go below a mask of -10000. Where products of numbers and indices are stored as a table, they must come out to the bit.
      Positions that follow a padding mask (its running sum) are no index, and stay a bias;
    * `bias` where it is added and not known to be any of these.
    Where values have 16 bits the softmax may be in f32, of scores that are widened or are a product of widened queries and keys: attention is
    in 16 bits if all three operands are there in them, and there is neither a bias nor slopes, and else in f32.
    Masks of attention ops that the importer made are analyzed in the same way.

    What a row without visible keys gives:
    * -inf added or put in place, and NaN after the softmax replaced by zero: zero.
    * a finite number put in place of scores: all are equal, so uniform.
    * the lowest float added (anything below -1e30): scores are absorbed, so uniform.
    * -inf and no guard gives NaN, and another finite number (-10000, -1e9) added
      keeps the differences of scores: the mask is taken for one only if every row is
      proved to have a visible key; otherwise it stays a `bias`.
    A finite number put in place of scores, or added, counts as masking if it is
    -10000 or less. This is exact as long as no score of a row lies
    more than about 9,900 below its largest: then exp underflows to zero in f32. Frameworks that
    wrote such masks rely on the same.

    A remark says where a mask stayed one.
  }];
}

def NormalizeTokens : Pass<"tpc-normalize-tokens", "func::FuncOp"> {
  let summary = "Brings token-wise ops to [tokens, hidden]";
  let description = [{
    Products with parameters, norms, embeddings and what is element-wise between
    them work on rank-2 values whose rows are batch times sequence. Reshapes between
    [b, s, h] and [b*s, h] move towards attention and the results of the model,
    where they cancel or stay. A gather of rows of a floating-point table
    is an embedding; ids that are broadcast over the batch are broadcast before the
    table is read, so that nothing of shape [1, s, h] remains.

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
  let summary = "Writes a softmax over the vocabulary as reductions";
  let description = [{
    A softmax needs its dimension whole. One that ends a model, over the columns of a product
    with a weight, becomes

    ```mlir
    %m = tpc.reduce max %x [1] keep
    %d = tpc.sub %x, %m
    %e = tpc.exp %d
    %s = tpc.reduce sum %e [1] keep
    %r = tpc.div %e, %s
    ```
    which are two reductions of a number per token, so that the vocabulary may be split. Log-softmax is
    imported in this form. Every other softmax stays.
  }];
}

def WidenResidual : Pass<"tpc-widen-residual", "func::FuncOp"> {
  let summary = "Keeps the residual of 16-bit models in f32";
  let description = [{
    Sums of rows that meet and that a norm reads are f32, and what is added to them is not rounded before: products with parameters give
    their sums as they are, the rest is cast. Norms read f32 and give 16 bits; what else reads such a sum reads it rounded.

    ```mlir
    %p = tpc.matmul %a, %w bias %b : tensor<8x64xf16>, tensor<64x64xf16> bias tensor<64xf16> -> tensor<8x64xf16>
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
    All communication of such sums is in f32 with them. Left alone: additions that no norm reads, and models of other types.
  }];
}

def OutlineLayers : Pass<"tpc-outline-layers", "ModuleOp"> {
  let summary = "Makes one function of what repeats";
  let description = [{
    `@main` is cut where one activation is all that is live; equal stretches that
    repeat become one private function with the attribute `tpc.layer`, called with
    each repetition's weights. What depends on inputs, shapes and constants alone
    (masks, positions) is computed in `@main` and passed. Stretches that
    differ in anything but their weights are not merged; what does not repeat stays in
    `@main`.

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
  let summary = "Says which parts of attention, norms and activations were not recognized";
  let description = [{
    A remark for each softmax, erf, tanh and for each reduction over
    the last dimension of an activation that is left, naming its ONNX node. Such ops are correct and are
    partitioned, but not as well.
  }];
}

#endif
