//===- BufferComputeOps.td - Computation on buffers --------*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFERCOMPUTEOPS
#define TPC_BUFFER_BUFFERCOMPUTEOPS

include "tpc/Buffer/BufferOpBase.td"
include "tpc/Dialect/ExpertEnums.td"

def Buffer_CopyOp : Buffer_Op<"copy"> {
  let summary = "Copies bytes between buffers that do not overlap. tpc_copy.";
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Tpc_SymExprAttr:$bytes);
  let assemblyFormat = "$from `to` $to `bytes` custom<SymExpr>($bytes) attr-dict";
}

def Buffer_LaunchOp : Buffer_Op<"launch", [AttrSizedOperandSegments]> {
  let summary = "Runs a generated kernel over rows. tpc_launch.";
  let description = [{
    `tpc_buffer.launch @kernel_add(%x, %y) to (%z) rows "batch*sequence" grain 1025`. `grain` is the
    minimum number of rows for a thread. Result buffers do not overlap any other buffer. A kernel
    that appends to a cache takes the cache as a result buffer and writes only the new tokens.
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Buffer_Reads:$reads, Buffer_Writes:$writes,
                       Tpc_SymExprAttr:$rows,
                       Tpc_SymExprAttr:$grain);
  let assemblyFormat = [{
    $kernel `(` $reads `)` `to` ` ` `(` $writes `)` `rows` custom<SymExpr>($rows)
    `grain` custom<SymExpr>($grain) attr-dict
  }];
}

def Buffer_CallOp
    : Buffer_Op<"call", [AttrSizedOperandSegments,
                         DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Calls another buffer function";
  let description = [{
    `tpc_buffer.call @layer_on_buffers(%x, %w) to (%y)`: buffers and parameter indices in the order
    of the callee's arguments, then buffers for its results.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
                       Arg<Variadic<AnyTypeOf<[Buffer_Buffer, Buffer_Parameter]>>, "",
                           [MemRead]>:$args,
                       Buffer_Writes:$writes);
  let hasCustomAssemblyFormat = 1;
}

def Buffer_ProductOp : Buffer_Op<"product", [AttrSizedOperandSegments]> {
  let summary = "List of matmuls of one LHS with packed parameters. tpc_products.";
  let description = [{
        tpc_buffer.product %x m n k _8 by %w bias %b epilogue silu residual %r to %0 n _6.tp,
            by %v to %1 n _4

    computes for each parameter

        to[m, n] = epilogue(x[m, k] * parameter[k, n] + bias[n]) + residual[m, n]

    All operands have the same element type, which the target's matmul library must support.
    Accumulation is in f32; results are rounded once. `to` may alias the `residual` of the same
    matmul, but no other operand. It may be columns of a buffer: if the columns of all matmuls are
    adjacent and in order, a library may compute them as one matmul.
  }];
  let arguments = (ins Buffer_Read:$x, Variadic<Buffer_Parameter>:$parameters, Buffer_Reads:$biases,
                       Buffer_Reads:$residuals, Buffer_Writes:$to, Tpc_SymExprAttr:$m,
                       Tpc_SymExprAttr:$k, Tpc_SymExprs:$widths, DenseI32ArrayAttr:$epilogues,
                       DenseBoolArrayAttr:$with_bias, DenseBoolArrayAttr:$with_residual);
  let assemblyFormat = [{
    $x `m` custom<SymExpr>($m) `k` custom<SymExpr>($k)
    custom<Products>($parameters, $biases, $residuals, $to, $widths, $epilogues, $with_bias,
                     $with_residual) attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    struct Matmul {
      Value parameter, bias, residual, to;
      SymExprAttr n;
      Epilogue epilogue;
    };
    SmallVector<Matmul> getMatmuls();
    void setMatmuls(ArrayRef<Matmul> parts);
    static ProductOp create(OpBuilder &builder, Location loc, Value x, SymExprAttr m, SymExprAttr k,
                            ArrayRef<Matmul> parts);
  }];
}

def Buffer_QuantizedProductOp : Buffer_Op<"quantized_product", [AttrSizedOperandSegments]> {
  let summary = "Matmul with a matrix of packed quantized parameters. tpc_quantized_product.";
  let description = [{
    `tpc_buffer.quantized_product %x m n k _64 by %q bits 4 zero 8 rows of "_4*_8" scale %s strides
    [_4, 1] block _16 to %y n _6.tp` is a matmul of `tpc_buffer.product` in f32 with matrix[i, j] =
    (q - zero) * scale. q is number i of row j of the packed bytes or, with `by_rows`, number j of
    row i. `rows of`: bytes from row to row. The index of a scale is j * strides[0] + i / block *
    strides[1]. Zero points are one number, floats, or packed numbers of `zero_bits` bits.
  }];
  let arguments = (ins Buffer_Read:$x, Buffer_Read:$packed, Buffer_Read:$scale,
                       Buffer_MaybeRead:$zeros, Buffer_MaybeRead:$bias, Buffer_MaybeRead:$residual,
                       Buffer_Write:$to, Tpc_SymExprAttr:$m, Tpc_SymExprAttr:$k, Tpc_SymExprAttr:$n,
                       I64Attr:$bits, DefaultValuedAttr<I64Attr, "0">:$zero_point,
                       Tpc_SymExprAttr:$row_bytes, UnitAttr:$by_rows, Tpc_SymExprs:$scale_strides,
                       Tpc_SymExprAttr:$block, DefaultValuedAttr<I64Attr, "0">:$zero_bits,
                       OptionalAttr<Tpc_SymExprs>:$zero_strides,
                       DefaultValuedAttr<Buffer_Epilogue, "Epilogue::None">:$epilogue);
  let assemblyFormat = [{
    $x `m` custom<SymExpr>($m) `k` custom<SymExpr>($k) `by` $packed `bits` $bits
    (`zero` $zero_point^)? `rows` `of` custom<SymExpr>($row_bytes) (`by_rows` $by_rows^)?
    `scale` $scale `strides` custom<SymExprs>($scale_strides) `block` custom<SymExpr>($block)
    (`zeros` $zeros^ `strides` custom<SymExprs>($zero_strides))? (`zero_bits` $zero_bits^)?
    (`bias` $bias^)? (`epilogue` $epilogue^)? (`residual` $residual^)? `to` $to
    `n` custom<SymExpr>($n) attr-dict
  }];
  let hasVerifier = 1;
}

def Buffer_FusedOp : Buffer_Op<"fused", [SingleBlock, NoTerminator, AttrSizedOperandSegments]> {
  let summary = "Matmuls with a norm before or an activation after them. tpc_fused_products.";
  let description = [{
        tpc_buffer.fused norm rms_norm %x scale %g epsilon 1.0E-6 activation silu gated to %y {
          tpc_buffer.launch @kernel_rms_norm(%x, %g) to (%n) rows m grain 1
          tpc_buffer.product %n m m k _8 by %w to %a n _4, by %v to %b n _4
          tpc_buffer.launch @kernel_silu_mul(%a, %b) to (%y) rows m grain 1
        }

    A device may run one kernel instead of the body. The op writes `%y` or, without an activation,
    the matmuls' results. Other results are undefined after it. `gated`: the second matmul
    multiplies the activation.
  }];
  let arguments = (ins Buffer_MaybeRead:$source, Buffer_MaybeRead:$scale, Buffer_MaybeRead:$shift,
                       Arg<Optional<Buffer_Buffer>, "", [MemWrite]>:$to,
                       DefaultValuedAttr<Buffer_Norm, "Norm::None">:$norm,
                       DefaultValuedAttr<F64Attr, "0.0">:$epsilon,
                       DefaultValuedAttr<Buffer_Epilogue, "Epilogue::None">:$activation,
                       UnitAttr:$gated);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    (`norm` $norm^)? ($source^ `scale` $scale)? (`shift` $shift^)? (`epsilon` $epsilon^)?
    (`activation` $activation^)? (`gated` $gated^)? (`to` $to^)? attr-dict-with-keyword $body
  }];
  let hasVerifier = 1;
  let extraClassDeclaration =
      "ProductOp getProduct(); LaunchOp getNormLaunch(), getActivationLaunch();";
}

def Buffer_BatchProductOp : Buffer_Op<"batch_product"> {
  let summary = "Batched matmuls of computed values. tpc_batch_matmul.";
  let description = [{
    `to[b, m, n] = a[b, m, k] * b[b, k, n]`, with element types as in `tpc_buffer.product`, for
    `batch` matrices at distances of `a_stride` and `b_stride` elements; stride 0 uses one matrix
    for all.
  }];
  let arguments = (ins Buffer_Read:$a, Buffer_Read:$b, Buffer_Write:$to, Tpc_SymExprAttr:$batch,
                       Tpc_SymExprAttr:$m, Tpc_SymExprAttr:$k, Tpc_SymExprAttr:$n,
                       Tpc_SymExprAttr:$a_stride, Tpc_SymExprAttr:$b_stride);
  let assemblyFormat = [{
    $a `by` $b `to` $to `batch` custom<SymExpr>($batch) `m` custom<SymExpr>($m)
    `k` custom<SymExpr>($k) `n` custom<SymExpr>($n)
    `strides` custom<SymExpr>($a_stride) `,` custom<SymExpr>($b_stride) attr-dict
  }];
}

def Buffer_AttentionOp : Buffer_Op<"attention", [AttrSizedOperandSegments]> {
  let summary = "Scaled dot-product attention. tpc_attention.";
  let description = [{
    q `[batch, queries, heads, size]`, k `[batch, keys, kv_heads, size]`, v `[batch, keys, kv_heads,
    value_size]`, of an element type that the target's attention library supports; computed in f32.
    heads / kv_heads consecutive query heads share a KV head. `strides` are the distances in
    elements between tokens of q, k, v and the result. The masks and the bias are as in
    `tpc.attention`; their `strides` are those of batch and heads, 0 for a broadcast dimension. With
    `causal c`, key j is visible to query i only if j <= i + c; with `after a`, only if j > i + a.
    `slopes [heads]` with `at s` add slopes[h] * (j - i - s) to the score. `sinks [heads]` add
    exp(sinks[h]) to the sum that softmax divides by. A row without visible keys is zero or, with
    `uniform_rows`, the mean of all values.

    `lengths [batch]` are added to c, a and s for each sequence; keys that are not visible to any
    query are not read. With `lengths`, k and v have the layout of a cache, and the strides after
    `lengths` are the distances in elements between sequences and between heads, for k and then for
    v.
  }];
  let arguments = (ins Buffer_Read:$q, Buffer_Read:$k, Buffer_Read:$v, Buffer_MaybeRead:$key_mask,
                       Buffer_MaybeRead:$mask, Buffer_MaybeRead:$bias, Buffer_MaybeRead:$slopes,
                       Buffer_MaybeRead:$sinks, Buffer_MaybeRead:$lengths, Buffer_Write:$to,
                       Tpc_SymExprAttr:$batch, Tpc_SymExprAttr:$queries, Tpc_SymExprAttr:$keys,
                       Tpc_SymExprAttr:$heads,
                       Tpc_SymExprAttr:$kv_heads, Tpc_SymExprAttr:$head_size,
                       Tpc_SymExprAttr:$value_size, Tpc_SymExprs:$strides,
                       OptionalAttr<Tpc_SymExprs>:$mask_strides,
                       OptionalAttr<Tpc_SymExprs>:$bias_strides,
                       OptionalAttr<Tpc_SymExprAttr>:$slopes_at,
                       OptionalAttr<Tpc_SymExprs>:$cache_strides,
                       OptionalAttr<Tpc_SymExprAttr>:$causal,
                       OptionalAttr<Tpc_SymExprAttr>:$after, F64Attr:$scale,
                       DefaultValuedAttr<F64Attr, "0.0">:$softcap, UnitAttr:$uniform_rows);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`key_mask` $key_mask^)?
    (`mask` $mask^ `strides` custom<SymExprs>($mask_strides))?
    (`bias` $bias^ `strides` custom<SymExprs>($bias_strides))?
    (`slopes` $slopes^ `at` custom<SymExpr>($slopes_at))? (`sinks` $sinks^)?
    (`lengths` $lengths^ `strides` custom<SymExprs>($cache_strides))? `to` $to
    `batch` custom<SymExpr>($batch) `queries` custom<SymExpr>($queries)
    `keys` custom<SymExpr>($keys) `heads` custom<SymExpr>($heads) `of` custom<SymExpr>($head_size)
    `kv_heads` custom<SymExpr>($kv_heads) `of` custom<SymExpr>($value_size)
    `strides` custom<SymExprs>($strides) (`causal` custom<SymExpr>($causal)^)?
    (`after` custom<SymExpr>($after)^)? `scale` $scale (`softcap` $softcap^)?
    (`uniform_rows` $uniform_rows^)? attr-dict
  }];
}

def Buffer_ExpertsOp : Buffer_Op<"experts", [AttrSizedOperandSegments]> {
  let summary = "Mixture of experts on this rank's experts. tpc_experts.";
  let description = [{
    x `[tokens, hidden]`, routing `[tokens, all]`, up and gate `[experts, inner, hidden]`, down
    `[experts, outputs, inner]`, biases `[experts, inner]`, to `[tokens, outputs]`, as in `tpc.moe`.
    `all` counts the experts of all ranks, `experts` those of this rank. Expert e has the column
    first + e of routing. It does not read or compute the rows of x whose element in this column is
    0. Without experts, `to` is zero.
  }];
  let arguments = (ins Buffer_Read:$x, Buffer_Read:$routing, Buffer_Read:$up, Buffer_Read:$down,
                       Buffer_MaybeRead:$gate, Buffer_MaybeRead:$up_bias,
                       Buffer_MaybeRead:$gate_bias, Buffer_Write:$to, Tpc_SymExprAttr:$tokens,
                       Tpc_SymExprAttr:$hidden, Tpc_SymExprAttr:$experts, Tpc_SymExprAttr:$all,
                       Tpc_SymExprAttr:$first, Tpc_SymExprAttr:$inner, Tpc_SymExprAttr:$outputs,
                       Tpc_ExpertActivation:$activation, F64Attr:$alpha, F64Attr:$beta,
                       F64Attr:$limit);
  let assemblyFormat = [{
    $activation $x `routing` $routing `up` $up `down` $down (`gate` $gate^)?
    (`up_bias` $up_bias^)? (`gate_bias` $gate_bias^)? `to` $to `tokens` custom<SymExpr>($tokens)
    `of` custom<SymExpr>($hidden) `experts` custom<SymExpr>($experts) `of` custom<SymExpr>($all)
    `from` custom<SymExpr>($first) `inner` custom<SymExpr>($inner)
    `outputs` custom<SymExpr>($outputs) `alpha` $alpha `beta` $beta `limit` $limit attr-dict
  }];
}

def Buffer_AppendOp : Buffer_Op<"append"> {
  let summary = "Writes keys or values of new tokens after the cached ones. tpc_append.";
  let description = [{
    cache[b, h, lengths[b] + i, :] = from[b, h, i, :] for all i in [0, tokens) within the capacity.
    The cache is `[batch, heads, capacity, size]`; `strides` are the distances in elements between
    sequences, heads and tokens of `from`.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Read:$lengths,
                       Arg<Buffer_Buffer, "", [MemRead, MemWrite]>:$cache, Tpc_SymExprAttr:$batch,
                       Tpc_SymExprAttr:$heads, Tpc_SymExprAttr:$tokens, Tpc_SymExprAttr:$capacity,
                       Tpc_SymExprAttr:$size, Tpc_SymExprs:$strides);
  let assemblyFormat = [{
    $from `at` $lengths `to` $cache `batch` custom<SymExpr>($batch) `heads` custom<SymExpr>($heads)
    `tokens` custom<SymExpr>($tokens) `capacity` custom<SymExpr>($capacity)
    `of` custom<SymExpr>($size) `strides` custom<SymExprs>($strides) attr-dict
  }];
}

#endif
