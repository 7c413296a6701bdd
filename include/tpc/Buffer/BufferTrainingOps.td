//===- BufferTrainingOps.td - Backward ops on buffers ------*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFERTRAININGOPS
#define TPC_BUFFER_BUFFERTRAININGOPS

include "tpc/Buffer/BufferOpBase.td"

def Buffer_AttentionGradOp : Buffer_Op<"attention_grad", [AttrSizedOperandSegments]> {
  let summary = "Gradients of attention. tpc_attention_grad.";
  let description = [{
    Cotangents of q, k and v from `cotangent [batch, queries, heads, value_size]`, that of the
    result. Other operands and attributes are as in `tpc_buffer.attention`, without lengths and
    sinks. `strides` are the distances in elements between tokens of q, k and v; `cotangent` and
    the results are dense. `to` has a buffer for each number in `of`: 0 for q, 1 for k, 2 for v,
    in ascending order.
  }];
  let arguments = (ins Buffer_Read:$q, Buffer_Read:$k, Buffer_Read:$v, Buffer_Read:$cotangent,
                       Buffer_MaybeRead:$key_mask, Buffer_MaybeRead:$mask, Buffer_MaybeRead:$bias,
                       Buffer_MaybeRead:$slopes, Buffer_Writes:$to, DenseI64ArrayAttr:$of,
                       Tpc_SymExprAttr:$batch, Tpc_SymExprAttr:$queries, Tpc_SymExprAttr:$keys,
                       Tpc_SymExprAttr:$heads, Tpc_SymExprAttr:$kv_heads,
                       Tpc_SymExprAttr:$head_size, Tpc_SymExprAttr:$value_size,
                       Tpc_SymExprs:$strides, OptionalAttr<Tpc_SymExprs>:$mask_strides,
                       OptionalAttr<Tpc_SymExprs>:$bias_strides,
                       OptionalAttr<Tpc_SymExprAttr>:$slopes_at,
                       OptionalAttr<Tpc_SymExprAttr>:$causal,
                       OptionalAttr<Tpc_SymExprAttr>:$after, F64Attr:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap, UnitAttr:$uniform_rows);
  let hasVerifier = 1;
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $cotangent (`key_mask` $key_mask^)?
    (`mask` $mask^ `strides` custom<SymExprs>($mask_strides))?
    (`bias` $bias^ `strides` custom<SymExprs>($bias_strides))?
    (`slopes` $slopes^ `at` custom<SymExpr>($slopes_at))? `to` $to `of` $of
    `batch` custom<SymExpr>($batch) `queries` custom<SymExpr>($queries)
    `keys` custom<SymExpr>($keys) `heads` custom<SymExpr>($heads) `size` custom<SymExpr>($head_size)
    `kv_heads` custom<SymExpr>($kv_heads) `size` custom<SymExpr>($value_size)
    `strides` custom<SymExprs>($strides) (`causal` custom<SymExpr>($causal)^)?
    (`after` custom<SymExpr>($after)^)? `scale` $scale (`softcap` $softcap^)?
    (`uniform_rows` $uniform_rows^)? attr-dict
  }];
}

#endif
