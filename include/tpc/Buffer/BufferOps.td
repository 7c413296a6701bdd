//===- BufferOps.td - Buffers and runtime calls on them ----*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFEROPS
#define TPC_BUFFER_BUFFEROPS

include "tpc/Buffer/BufferAttrs.td"
include "tpc/Dialect/ExpertEnums.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Buffer_BuildableType<TypeDef type, string cppName, string summary>
    : Type<type.predicate, summary, "::mlir::tpc::buffer::" # cppName # "Type">,
      BuildableType<"::mlir::tpc::buffer::" # cppName # "Type::get($_builder.getContext())">;

def Buffer_Place : Buffer_BuildableType<Buffer_PlaceType, "Place", "place">;
def Buffer_Parameter : Buffer_BuildableType<Buffer_ParameterType, "Parameter", "parameter">;
def Buffer_Frame : Buffer_BuildableType<Buffer_FrameType, "Frame", "frame">;

def Buffer_Axes : TypedArrayAttrBase<StrAttr, "grid axes">;

def Buffer_Read : Arg<Buffer_Place, "", [MemRead]>;
def Buffer_Reads : Arg<Variadic<Buffer_Place>, "", [MemRead]>;
def Buffer_MaybeRead : Arg<Optional<Buffer_Place>, "", [MemRead]>;
def Buffer_Write : Arg<Buffer_Place, "", [MemWrite]>;
def Buffer_Writes : Arg<Variadic<Buffer_Place>, "", [MemWrite]>;

class Buffer_Op<string mnemonic, list<Trait> traits = []> : Op<Buffer_Dialect, mnemonic, traits>;

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

def Buffer_EntryOp : Buffer_Op<"entry", [Symbol]> {
  let summary = "Entry of the parameter table, which is part of the manifest";
  let description = [{
    `tpc_buffer.entry @parameter_0 stage 0 packed @w : tensor<8x3xf32, …>`: a parameter that the
    ranks of a stage load before the first step, in the layout of its use: `packed` for matmuls,
    `dense` for row-major. The index of an entry is its position among the module's entries.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, I64Attr:$stage, Buffer_LoadAttr:$load);
  let assemblyFormat = "$sym_name `stage` $stage custom<Load>($load) attr-dict";
}

def Buffer_FuncOp : Buffer_Op<"func", [Symbol, IsolatedFromAbove, SingleBlock, NoTerminator]> {
  let summary = "Function on buffers that implements a layer or a stage";
  let description = [{
    `of` names the tensor function that the op implements or, with `stage`, the pipeline.
    `#tpc_buffer.argument` defines the contents of each argument. `to` lists the caller's buffers
    for the results, in order; results that alias an argument (`value 1 becomes 2`) are not in the
    list. Result buffers do not overlap other buffers. The function of a stage has no arguments.

        tpc_buffer.func @on_buffers_layer of @layer(%x = value 0 : "8*n" x f32, %w = packed 1)
            to (%y : "8*n" x f32) { ... }
        tpc_buffer.func @on_buffers_stage_0 of @main stage 0 { ... }
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$of,
                       OptionalAttr<I64Attr>:$stage,
                       TypedArrayAttrBase<Buffer_ArgumentAttr, "arguments">:$args,
                       TypedArrayAttrBase<Buffer_ExtentAttr, "places">:$results_places);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the buffers for results.
    Block::BlockArgListType getResultBuffers() {
      return getBody().getArguments().drop_front(getArgs().size());
    }
  }];
}

def Buffer_RoundsOp : Buffer_Op<"rounds", [SingleBlock, NoTerminator]> {
  let summary = "Repeats its body for each micro-batch";
  let description = [{
    `tpc_buffer.rounds 4 of "(batch + 3 - rank.mb) floordiv 4" { ... }`: four micro-batch
    iterations, in which `rank.mb` counts from 0. Iterations in which the size after `of` is 0 are
    skipped; without `of`, no iteration is skipped. Before each iteration the runtime sets the
    micro-batch index in `env`.
  }];
  let arguments = (ins Tpc_SymExprAttr:$count, OptionalAttr<Tpc_SymExprAttr>:$size);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<SymExpr>($count) (`of` custom<SymExpr>($size)^)? attr-dict-with-keyword $body
  }];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

def Buffer_PushOp : Buffer_Op<"push", [MemoryEffects<[MemAlloc]>,
                                       DeclareOpInterfaceMethods<InferTypeOpInterface>]> {
  let summary = "Allocates a frame of `bytes` bytes on top of the runtime's stack. tpc_frame_push.";
  let arguments = (ins Tpc_SymExprAttr:$bytes);
  let results = (outs Buffer_Frame:$frame);
  let assemblyFormat = "custom<SymExpr>($bytes) attr-dict";
}

def Buffer_PopOp : Buffer_Op<"pop", [MemoryEffects<[MemFree]>]> {
  let summary = "Frees the frame on top of the stack. tpc_frame_pop.";
  let arguments = (ins Buffer_Frame:$frame);
  let assemblyFormat = "$frame attr-dict";
}

/// An op that defines a buffer.
class Buffer_PlaceOp<string mnemonic, list<Trait> traits = []>
    : Buffer_Op<mnemonic,
                !listconcat([Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  let results = (outs Buffer_Place:$place);
}

def Buffer_SlotOp : Buffer_PlaceOp<"slot"> {
  let summary = "Buffer at a byte offset in a frame";
  let description = [{
    `%0 = tpc_buffer.slot %frame at "64*n" : "3*n" x f32`. Slots may overlap: values that are not
    live at the same time share memory.
  }];
  let arguments = (ins Buffer_Frame:$frame, Tpc_SymExprAttr:$offset, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$frame `at` custom<SymExpr>($offset) `:` custom<Extent>($extent) attr-dict";
}

def Buffer_InputOp : Buffer_PlaceOp<"input"> {
  let summary = "Input of the model: the global tensor, replicated on every rank. tpc_input.";
  let arguments = (ins I64Attr:$index, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$index `:` custom<Extent>($extent) attr-dict";
}

def Buffer_StateOp : Buffer_PlaceOp<"state"> {
  let summary = "This rank's shard of a cache, which persists from step to step. tpc_state.";
  let description = [{
    `%0 = tpc_buffer.state @k0 : "12*batch*64*capacity" x f32`: the cache of this step's sequences.
    At the beginning of a step it contains the rank's shard of the argument with this `tpc.cache`;
    at the end, the shard of the result.
  }];
  let arguments = (ins FlatSymbolRefAttr:$cache, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$cache `:` custom<Extent>($extent) attr-dict";
}

def Buffer_ConstantOp : Buffer_PlaceOp<"constant"> {
  let summary = "Buffer with constant data of the program. tpc_constant.";
  let arguments = (ins ElementsAttr:$value, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$value `:` custom<Extent>($extent) attr-dict";
}

def Buffer_ParameterOp
    : Buffer_Op<"parameter", [Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>,
                              DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Index of an entry of the parameter table";
  let arguments = (ins FlatSymbolRefAttr:$entry);
  let results = (outs Buffer_Parameter:$index);
  let assemblyFormat = "$entry attr-dict";
}

def Buffer_DenseOp : Buffer_PlaceOp<"dense"> {
  let summary = "This rank's shard of a parameter, dense and row-major. tpc_parameter.";
  let arguments = (ins Buffer_Parameter:$index, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$index `:` custom<Extent>($extent) attr-dict";
}

def Buffer_PartOp : Buffer_PlaceOp<"part"> {
  let summary = "Subrange of a buffer, at an element offset";
  let arguments = (ins Buffer_Place:$whole, Tpc_SymExprAttr:$from, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$whole `from` custom<SymExpr>($from) `:` custom<Extent>($extent) attr-dict";
}

def Buffer_ColumnsOp : Buffer_PlaceOp<"columns"> {
  let summary = "Adjacent columns of a buffer of rows";
  let description = [{
    `%k = tpc_buffer.columns %0 from _6.tp n _2.tp of "_6.tp + _2.tp" : "_2.tp*n" x f32`: of a
    buffer with rows of `_6.tp + _2.tp` elements, the `_2.tp` columns from column `_6.tp` on. The
    results of a `tpc_buffer.product` may be columns of one buffer. Only ops that take the distance
    between rows may read them: `tpc_buffer.launch` (the kernel's operand has a `stride`),
    `tpc_buffer.attention` (q, k and v) and `tpc_buffer.append`.
  }];
  let arguments = (ins Buffer_Place:$whole, Tpc_SymExprAttr:$from, Tpc_SymExprAttr:$width,
                       Tpc_SymExprAttr:$stride, Buffer_ExtentAttr:$extent);
  let assemblyFormat = [{
    $whole `from` custom<SymExpr>($from) `n` custom<SymExpr>($width) `of` custom<SymExpr>($stride)
    `:` custom<Extent>($extent) attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

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
    `tpc_buffer.call @on_buffers_layer(%x, %w) to (%y)`: buffers and parameter indices in the order
    of the callee's arguments, then buffers for its results.
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee,
                       Arg<Variadic<AnyTypeOf<[Buffer_Place, Buffer_Parameter]>>, "",
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
    row i; rows are at distances in bytes. The index of a scale is j * strides[0] + i / block *
    strides[1]. Zero points are one number, or floats, or packed numbers of `zero_bits`.
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

    A device may run one kernel instead of the body. It writes `%y` or, without an activation, the
    matmuls' results; other results are undefined in both cases. `gated`: times the second matmul.
  }];
  let arguments = (ins Buffer_MaybeRead:$source, Buffer_MaybeRead:$scale, Buffer_MaybeRead:$shift,
                       Arg<Optional<Buffer_Place>, "", [MemWrite]>:$to,
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
    `slopes [heads]` with `at s` add slopes[h] * (j - i - s) to the score. A row without visible
    keys is zero or, with `uniform_rows`, the mean of all values.

    `lengths [batch]` are added to c, a and s for each sequence; keys that are not visible to any
    query are not read. With `lengths`, k and v have the layout of a cache, and the strides after
    `lengths` are the distances in elements between sequences and between heads, for k and then for
    v.
  }];
  let arguments = (ins Buffer_Read:$q, Buffer_Read:$k, Buffer_Read:$v, Buffer_MaybeRead:$key_mask,
                       Buffer_MaybeRead:$mask, Buffer_MaybeRead:$bias, Buffer_MaybeRead:$slopes,
                       Buffer_MaybeRead:$lengths, Buffer_Write:$to, Tpc_SymExprAttr:$batch,
                       Tpc_SymExprAttr:$queries, Tpc_SymExprAttr:$keys, Tpc_SymExprAttr:$heads,
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
    (`slopes` $slopes^ `at` custom<SymExpr>($slopes_at))?
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
    Expert e has the column first + e of routing. Rows whose element is 0 are neither read nor
    computed for that expert. Without experts, `to` is zero.
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
                       Arg<Buffer_Place, "", [MemRead, MemWrite]>:$cache, Tpc_SymExprAttr:$batch,
                       Tpc_SymExprAttr:$heads, Tpc_SymExprAttr:$tokens, Tpc_SymExprAttr:$capacity,
                       Tpc_SymExprAttr:$size, Tpc_SymExprs:$strides);
  let assemblyFormat = [{
    $from `at` $lengths `to` $cache `batch` custom<SymExpr>($batch) `heads` custom<SymExpr>($heads)
    `tokens` custom<SymExpr>($tokens) `capacity` custom<SymExpr>($capacity)
    `of` custom<SymExpr>($size) `strides` custom<SymExprs>($strides) attr-dict
  }];
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

// Tensors are viewed as [outer, n, inner], with n split over one axis. Run-time errors name the
// ONNX node in the op's location.

def Buffer_AllReduceOp : Buffer_Op<"all_reduce"> {
  let summary = "Reduces the buffers of a group; every rank receives the result. `to` may be the "
                "same buffer as `from`. tpc_all_reduce.";
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes,
                       Tpc_ReductionKind:$kind, Tpc_SymExprAttr:$count);
  let assemblyFormat = [{
    $from `to` $to `over` $axes $kind `count` custom<SymExpr>($count) attr-dict
  }];
}

def Buffer_AllGatherOp : Buffer_Op<"all_gather"> {
  let summary = "Gathers [outer, own shard of n, inner] to [outer, n, inner]. tpc_all_gather.";
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes,
                       Tpc_SymExprAttr:$outer, Tpc_SymExprAttr:$n, Tpc_SymExprAttr:$inner);
  let assemblyFormat = [{
    $from `to` $to `over` $axes `outer` custom<SymExpr>($outer) `n` custom<SymExpr>($n)
    `inner` custom<SymExpr>($inner) attr-dict
  }];
}

def Buffer_ReduceScatterOp : Buffer_Op<"reduce_scatter"> {
  let summary = "Reduces [outer, n, inner] to [outer, own shard of n, inner]. tpc_reduce_scatter.";
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes,
                       Tpc_ReductionKind:$kind, Tpc_SymExprAttr:$outer, Tpc_SymExprAttr:$n,
                       Tpc_SymExprAttr:$inner);
  let assemblyFormat = [{
    $from `to` $to `over` $axes $kind `outer` custom<SymExpr>($outer) `n` custom<SymExpr>($n)
    `inner` custom<SymExpr>($inner) attr-dict
  }];
}

def Buffer_AllToAllOp : Buffer_Op<"all_to_all"> {
  let summary = "Moves a split between two dimensions of [outer, a, middle, b, inner]. "
                "tpc_all_to_all.";
  let description = [{
    With `splits_first`, b is split in the operand and a in the result; without it, a is split in
    the operand and b in the result.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes,
                       Tpc_SymExprAttr:$outer, Tpc_SymExprAttr:$a, Tpc_SymExprAttr:$middle,
                       Tpc_SymExprAttr:$b, Tpc_SymExprAttr:$inner, UnitAttr:$splits_first);
  let assemblyFormat = [{
    $from `to` $to `over` $axes `outer` custom<SymExpr>($outer) `a` custom<SymExpr>($a)
    `middle` custom<SymExpr>($middle) `b` custom<SymExpr>($b) `inner` custom<SymExpr>($inner)
    (`splits_first` $splits_first^)? attr-dict
  }];
}

def Buffer_CollectivePermuteOp : Buffer_Op<"collective_permute"> {
  let summary = "Redistributes [outer, blocks, n, unit, inner] by messages between pairs of ranks. "
                "tpc_collective_permute.";
  let description = [{
    `splits` has four lists of axes. The first two are for the operand: the axes that split n, and
    the axes that split blocks * n * unit. The last two are the same for the result. BlockMove.h has
    examples. Element i of a result block is element `first` + i of the operand's block, cyclically.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, ArrayAttr:$splits,
                       Tpc_SymExprAttr:$outer, Tpc_SymExprAttr:$blocks,
                       Tpc_SymExprAttr:$n, Tpc_SymExprAttr:$unit,
                       Tpc_SymExprAttr:$inner, Tpc_SymExprAttr:$first);
  let assemblyFormat = [{
    $from `to` $to `splits` $splits `outer` custom<SymExpr>($outer)
    `blocks` custom<SymExpr>($blocks) `n` custom<SymExpr>($n) `unit` custom<SymExpr>($unit)
    `inner` custom<SymExpr>($inner) `first` custom<SymExpr>($first) attr-dict
  }];
  let hasVerifier = 1;
}

def Buffer_ExchangeOp : Buffer_Op<"exchange"> {
  let summary = "Changes the distribution of a value by one exchange. tpc_exchange.";
  let description = [{
    For each dimension, `layout` has pairs of lists of axes (operand, result): one pair for each
    factor, and one for the product of the local factors. `sizes` are the sizes of all factors, in
    order.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, ArrayAttr:$layout, Tpc_SymExprs:$sizes);
  let assemblyFormat = "$from `to` $to `layout` $layout `sizes` custom<SymExprs>($sizes) attr-dict";
  let hasVerifier = 1;
}

def Buffer_BroadcastOp : Buffer_Op<"broadcast"> {
  let summary = "Copies the buffer of `root` to every rank of the group. tpc_broadcast.";
  let arguments = (ins Arg<Buffer_Place, "", [MemRead, MemWrite]>:$data, Buffer_Axes:$axes,
                       Tpc_SymExprAttr:$count, I64Attr:$root);
  let assemblyFormat = "$data `over` $axes `count` custom<SymExpr>($count) `root` $root attr-dict";
}

def Buffer_SendOp : Buffer_Op<"send"> {
  let summary = "Sends to the rank of another stage; on return the buffer may be "
                "overwritten. tpc_send.";
  let arguments = (ins Buffer_Read:$data, Tpc_SymExprAttr:$count, I64Attr:$to);
  let assemblyFormat = "$data `count` custom<SymExpr>($count) `to` $to attr-dict";
}

def Buffer_RecvOp : Buffer_Op<"recv"> {
  let summary = "Receives from the rank of another stage. tpc_recv.";
  let arguments = (ins Buffer_Write:$data, Tpc_SymExprAttr:$count, I64Attr:$from);
  let assemblyFormat = "$data `count` custom<SymExpr>($count) `from` $from attr-dict";
}

def Buffer_OutputOp : Buffer_Op<"output"> {
  let summary = "Delivers a rectangular block of an output. tpc_output, tpc_output_every.";
  let description = [{
    `shape` is the output's shape with one dimension per factor; `offset` and `size` locate the
    block in it. Only ranks with coordinate 0 on all axes of `first` deliver; the other ranks have
    the same data. With `every d`, `data` has `held` entries in dimension d, and every `step`-th of
    them from `begin` on is delivered: `every 1 held "4" begin "0" step 2` delivers entries 0 and 2
    of dimension 1.
  }];
  let arguments = (ins I64Attr:$index, Buffer_Read:$data, Tpc_SymExprs:$shape, Tpc_SymExprs:$offset,
                       Tpc_SymExprs:$size, Buffer_Axes:$first, OptionalAttr<I64Attr>:$every,
                       OptionalAttr<Tpc_SymExprAttr>:$held, OptionalAttr<Tpc_SymExprAttr>:$begin,
                       OptionalAttr<I64Attr>:$step);
  let assemblyFormat = [{
    $index `,` $data `shape` custom<SymExprs>($shape) `offset` custom<SymExprs>($offset)
    `size` custom<SymExprs>($size) `first` $first
    (`every` $every^ `held` custom<SymExpr>($held) `begin` custom<SymExpr>($begin) `step` $step)?
    attr-dict
  }];
  let hasVerifier = 1;
}

#endif
