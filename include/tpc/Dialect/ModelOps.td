//===- ModelOps.td - Transformer ops -----------------------*- tablegen -*-===//

#ifndef TPC_DIALECT_MODELOPS
#define TPC_DIALECT_MODELOPS

include "tpc/Dialect/TpcBase.td"

def Tpc_MatmulOp : Tpc_CostedOp<"matmul"> {
  let summary = "Matrix product with optional bias";
  let description = [{
    lhs [batch.., m, k] (or [k]), rhs [k, n] or [batch.., k, n], bias [n] -> [batch.., m, n]. Batch
    dimensions broadcast as in ONNX.

    Rule: batch, m and n are parallel, k is a reduction (sum). Linear in lhs and in rhs if there is
    no bias. With a bias, k must not be split: `tpc-assign-shardings` replaces the bias by an add
    after the reduction. ONNX MatMul, Gemm (alpha and beta 1).
  }];
  let arguments = (ins Tpc_Tensor:$lhs, Tpc_Tensor:$rhs, Optional<Tpc_Tensor>:$bias);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $lhs `,` $rhs (`bias` $bias^)? attr-dict `:` type($lhs) `,` type($rhs)
    (`bias` type($bias)^)? `->` type($result)
  }];
}

def Tpc_MaskedRow : I32EnumAttr<"MaskedRow", "result of an attention row without visible keys", [
    I32EnumAttrCase<"Zero", 0, "zero">, I32EnumAttrCase<"Uniform", 1, "uniform">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_AttentionOp : Tpc_CostedOp<"attention", [AttrSizedOperandSegments]> {
  let summary = "Scaled dot-product attention with grouped heads";
  let description = [{
    q [b, sq, hq, d], k [b, sk, hkv, d], v [b, sk, hkv, dv] -> [b, sq, hq, dv].
    Computes softmax over sk of the scores, times v. Query head i uses kv head i / (hq / hkv).
    A score is x = scale q k^T, soft-capped to softcap * tanh(x / softcap) if `softcap` is not 0,
    plus `bias`, plus the ALiBi bias of `slopes`.

    Query i of sequence b has position p = i + causal_offset + lengths[b] among the keys. The offset
    is 0 unless `offset` is given. `lengths` [b] are the numbers of cached tokens, 0 if absent. A
    key j is visible to query i if all given conditions are true:

    * `causal`: j <= p;
    * `window`: j > p - window. With `causal`, these are the last `window` keys up to the query's
      own position; if window < 1, no key is visible;
    * `key_mask` [b, sk]: true at j;
    * `mask` [1 or b, 1 or hq, sq, sk]: true.

    `bias` is additive and has the shape of `mask`. The attribute `masked_row` defines rows without
    visible keys: zero (exporters that guard against NaN) or the mean of all values (exporters that
    add the lowest float to masked scores).

    `sinks` [hq] are additional scores, one for each row of a query head, whose value is zero: the
    sum by which softmax divides also contains exp(sinks[h]). A row without visible keys is zero.

    The ALiBi bias of `slopes` [hq] is slopes[h] * (j - p), which is 0 at the query's own position.
    Softmax is invariant to a constant added to a row, so slopes[h] * j, or any bias that differs
    from it by a constant per row, has the same result up to rounding. The product is rounded to at
    least f32 precision; its sum with the score is rounded once.

    Rule: b, sq, kv heads, query heads per kv head and dv are parallel; d and sk cannot be split.
    Slopes and sinks are split like query heads, lengths like b. Errors: hq must be a multiple of
    hkv; sinks with uniform rows. Source: Vaswani et al. 2017; ONNX Attention (opset 23);
    com.microsoft Attention; Beltagy et al. 2020 (windows); Press et al. 2022 (slopes); gpt-oss in
    transformers (sinks).
  }];
  let arguments = (ins Tpc_FloatTensor:$q, Tpc_FloatTensor:$k, Tpc_FloatTensor:$v,
                       Optional<Tpc_BoolTensor>:$key_mask, Optional<Tpc_BoolTensor>:$mask,
                       Optional<Tpc_FloatTensor>:$bias, Optional<Tpc_FloatTensor>:$slopes,
                       Optional<Tpc_FloatTensor>:$sinks,
                       Optional<Tpc_IntTensor>:$lengths, F64Attr:$scale, UnitAttr:$causal,
                       DefaultValuedAttr<Tpc_SymExpr, "::tpc::SymExpr(0)">:$causal_offset,
                       OptionalAttr<Tpc_SymExpr>:$window, DefaultValuedAttr<F64Attr,
                       "0.0">:$softcap,
                       DefaultValuedAttr<Tpc_MaskedRow, "MaskedRow::Zero">:$masked_row);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    (`causal` $causal^)? $q `,` $k `,` $v (`key_mask` $key_mask^)? (`mask` $mask^)?
    (`bias` $bias^)? (`slopes` $slopes^)?
    (`sinks` $sinks^)? (`lengths` $lengths^)? `scale` $scale
    (`offset` custom<SymExpr>($causal_offset)^)? (`window` custom<SymExpr>($window)^)? attr-dict `:`
    type($q) `,` type($k) `,` type($v) (`key_mask` type($key_mask)^)? (`mask` type($mask)^)?
    (`bias` type($bias)^)?
    (`slopes` type($slopes)^)? (`sinks` type($sinks)^)? (`lengths` type($lengths)^)?
    `->` type($result)
  }];
}

def Tpc_LayerNormOp : Tpc_CostedOp<"layer_norm", [NormOpInterface]> {
  let summary = "Layer normalization over the last dimension";
  let description = [{
    x [.., h], scale [h], bias [h] (optional) -> (x - mean) / sqrt(variance + epsilon) * scale +
    bias.
    Rule: leading dimensions are parallel; h cannot be split. Ba et al. 2016; ONNX
    LayerNormalization (axis = -1).
  }];
  let arguments = (ins Tpc_FloatTensor:$x, Tpc_FloatTensor:$scale, Optional<Tpc_FloatTensor>:$bias,
                       F64Attr:$epsilon);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $x `,` $scale (`bias` $bias^)? `epsilon` $epsilon attr-dict `:` type($x) `,` type($scale)
    (`bias` type($bias)^)? `->` type($result)
  }];
}

def Tpc_RmsNormOp : Tpc_CostedOp<"rms_norm", [NormOpInterface]> {
  let summary = "Root-mean-square normalization over the last dimension";
  let description = [{
    x [.., h], scale [h] -> x / sqrt(mean(x^2) + epsilon) * scale. Rule: leading dimensions are
    parallel; h cannot be split. Zhang and Sennrich 2019; ONNX RMSNormalization (opset 23),
    SimplifiedLayerNormalization.
  }];
  let arguments = (ins Tpc_FloatTensor:$x, Tpc_FloatTensor:$scale, F64Attr:$epsilon);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $x `,` $scale `epsilon` $epsilon attr-dict `:` type($x) `,` type($scale) `->` type($result)
  }];
}

def Tpc_SoftmaxOp : Tpc_CostedOp<"softmax"> {
  let summary = "Softmax along one dimension, which cannot be split. ONNX Softmax (opset 13).";
  let arguments = (ins Tpc_FloatTensor:$operand, I64Attr:$dim);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = "$operand `dim` $dim attr-dict `:` type($operand) `->` type($result)";
}

def Tpc_EmbeddingOp : Tpc_CostedOp<"embedding", [DeclareOpInterfaceMethods<LookupOpInterface>]> {
  let summary = "Looks up rows of a table by id";
  let description = [{
    table [v, h], ids [i..] -> [i.., h]. Ids range from -v to v-1; a negative id counts from the end
    (ONNX Gather).
    Rule: i and h are parallel; v is a reduction factor (sum) that occurs only in the table: a rank
    with a shard of the rows returns zero for ids in other shards, as in Megatron's
    VocabParallelEmbedding.
  }];
  let arguments = (ins Tpc_FloatTensor:$table, Tpc_IntTensor:$ids);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $table `,` $ids attr-dict `:` type($table) `,` type($ids) `->` type($result)
  }];
}

def Tpc_RotaryOp : Tpc_InferredOp<"rotary"> {
  let summary = "Rotary position embedding";
  let description = [{
    x [b, s, heads, d], cos and sin [1 or b, s, r/2] -> shape of x. Rotates the first r <= d
    elements of each head. Pairs are (i, i + r/2), or (2i, 2i + 1) if `interleaved`.
    Rule: b, s and heads are parallel; d and r/2 cannot be split. Linear in x. Su et al. 2021; ONNX
    RotaryEmbedding (opset 23).
  }];
  let arguments = (ins Tpc_FloatTensor:$x, Tpc_FloatTensor:$cos, Tpc_FloatTensor:$sin,
                       UnitAttr:$interleaved);
  let results = (outs Tpc_FloatTensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    (`interleaved` $interleaved^)? $x `,` $cos `,` $sin attr-dict `:` type($x) `,` type($cos) `,`
    type($sin) `->` type($result)
  }];
}

def Tpc_ReduceFunction : I32EnumAttr<"ReduceFunction", "reduction function", [
    I32EnumAttrCase<"Sum", 0, "sum">, I32EnumAttrCase<"Mean", 1, "mean">,
    I32EnumAttrCase<"Max", 2, "max">,
    I32EnumAttrCase<"Min", 3, "min">]> {
  let cppNamespace = "::mlir::tpc";
}

def Tpc_ReduceOp : Tpc_InferredOp<"reduce"> {
  let summary = "Sum, mean, maximum or minimum over dimensions";
  let description = [{
    Rule: reduced dimensions are reduction factors for sum, max and min, and cannot be split for
    mean; all others are parallel. ONNX ReduceSum, ReduceMean, ReduceMax, ReduceMin.
  }];
  let arguments = (ins Tpc_ReduceFunction:$function, Tpc_Tensor:$operand, DenseI64ArrayAttr:$dims,
                       UnitAttr:$keep_dims);
  let results = (outs Tpc_Tensor:$result);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $function $operand $dims (`keep` $keep_dims^)? attr-dict `:` type($operand) `->` type($result)
  }];
}

#endif
