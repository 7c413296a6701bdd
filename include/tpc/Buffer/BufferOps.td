//===- BufferOps.td - Buffers and runtime calls on them ----*- tablegen -*-===//

#ifndef TPC_BUFFER_BUFFEROPS
#define TPC_BUFFER_BUFFEROPS

include "tpc/Buffer/BufferComputeOps.td"

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

        tpc_buffer.func @layer_on_buffers of @layer(%x = value 0 : "8*n" x f32, %w = packed 1)
            to (%y : "8*n" x f32) { ... }
        tpc_buffer.func @main_stage_0_on_buffers of @main stage 0 { ... }
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, FlatSymbolRefAttr:$of,
                       OptionalAttr<I64Attr>:$stage,
                       TypedArrayAttrBase<Buffer_ArgumentAttr, "arguments">:$args,
                       TypedArrayAttrBase<Buffer_ExtentAttr, "extents">:$result_extents);
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

def Buffer_MicroBatchesOp : Buffer_Op<"micro_batches", [SingleBlock, NoTerminator]> {
  let summary = "Repeats its body for each micro-batch";
  let description = [{
    `tpc_buffer.micro_batches 4 of "floordiv(batch - rank.mb + 3, 4)" { ... }`: four micro-batch
    iterations, in which `rank.mb` counts from 0. Iterations in which the size after `of` is 0 are
    skipped; without `of`, no iteration is skipped. Before each iteration the runtime sets the
    micro-batch index in `env`. `tpc_buffer.micro_batches 1 from 3` is one event of a schedule: the
    iteration of micro-batch 3 alone.
  }];
  let arguments = (ins Tpc_SymExprAttr:$count, OptionalAttr<I64Attr>:$first,
                       OptionalAttr<Tpc_SymExprAttr>:$size);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    custom<SymExpr>($count) (`from` $first^)? (`of` custom<SymExpr>($size)^)?
    attr-dict-with-keyword $body
  }];
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

// A summary ends with the name of the runtime function (tpc/runtime.h) that the op calls, if any.

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
class Buffer_BufferOp<string mnemonic, list<Trait> traits = []>
    : Buffer_Op<mnemonic,
                !listconcat([Pure, DeclareOpInterfaceMethods<InferTypeOpInterface>], traits)> {
  let results = (outs Buffer_Buffer:$buffer);
}

def Buffer_SlotOp : Buffer_BufferOp<"slot"> {
  let summary = "Buffer at a byte offset in a frame";
  let description = [{
    `%0 = tpc_buffer.slot %frame at "64*n" : "3*n" x f32`. Slots may overlap: values that are not
    live at the same time share memory.
  }];
  let arguments = (ins Buffer_Frame:$frame, Tpc_SymExprAttr:$offset, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$frame `at` custom<SymExpr>($offset) `:` custom<Extent>($extent) attr-dict";
}

def Buffer_InputOp : Buffer_BufferOp<"input"> {
  let summary = "Input of the model: the global tensor, replicated on every rank. tpc_input.";
  let arguments = (ins I64Attr:$index, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$index `:` custom<Extent>($extent) attr-dict";
}

def Buffer_StateOp : Buffer_BufferOp<"state"> {
  let summary = "This rank's shard of a cache, which persists from step to step. tpc_state.";
  let description = [{
    `%0 = tpc_buffer.state @k0 : "12*batch*64*capacity" x f32`: the cache of this step's sequences.
    At the beginning of a step it contains the rank's shard of the argument with this `tpc.cache`;
    at the end, the shard of the result.
  }];
  let arguments = (ins FlatSymbolRefAttr:$cache, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$cache `:` custom<Extent>($extent) attr-dict";
}

def Buffer_ConstantOp : Buffer_BufferOp<"constant"> {
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

def Buffer_DenseOp : Buffer_BufferOp<"dense"> {
  let summary = "This rank's shard of a parameter, dense and row-major. tpc_parameter.";
  let arguments = (ins Buffer_Parameter:$index, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$index `:` custom<Extent>($extent) attr-dict";
}

def Buffer_PartOp : Buffer_BufferOp<"part"> {
  let summary = "Subrange of a buffer, at an element offset";
  let arguments = (ins Buffer_Buffer:$whole, Tpc_SymExprAttr:$from, Buffer_ExtentAttr:$extent);
  let assemblyFormat = "$whole `from` custom<SymExpr>($from) `:` custom<Extent>($extent) attr-dict";
}

def Buffer_ColumnsOp : Buffer_BufferOp<"columns"> {
  let summary = "Adjacent columns of a buffer of rows";
  let description = [{
    `%k = tpc_buffer.columns %0 from _6.tp n _2.tp of "_6.tp + _2.tp" : "_2.tp*n" x f32`: of a
    buffer with rows of `_6.tp + _2.tp` elements, the `_2.tp` columns from column `_6.tp` on. The
    results of a `tpc_buffer.product` may be columns of one buffer. Only ops that take the distance
    between rows may read them: `tpc_buffer.launch` (the kernel's operand has a `stride`),
    `tpc_buffer.attention` (q, k and v) and `tpc_buffer.append`.
  }];
  let arguments = (ins Buffer_Buffer:$whole, Tpc_SymExprAttr:$from, Tpc_SymExprAttr:$width,
                       Tpc_SymExprAttr:$stride, Buffer_ExtentAttr:$extent);
  let assemblyFormat = [{
    $whole `from` custom<SymExpr>($from) `n` custom<SymExpr>($width) `of` custom<SymExpr>($stride)
    `:` custom<Extent>($extent) attr-dict
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
    The dimension consists of `blocks` blocks of n * unit elements. Element i of a block of the
    result is element (first + i) mod (n * unit) of the same block of the operand. `splits` has four
    lists of axes, two for the operand and two for the result: the axes that split n, and the axes
    that split the product blocks * n * unit. BlockMove.h has examples.
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

def Buffer_DispatchOp : Buffer_Op<"dispatch"> {
  let summary = "Gathers rows from [own shard of n, inner] to [n, inner]. tpc_dispatch.";
  let description = [{
    Each of the n entries has inner / width rows of `width` elements. Elements `column` to
    `column` + `experts` - 1 of a row are its routing weights. The axes of `split` split the
    experts, in order. In `to`, weights of other ranks' experts are 0, and rows in which no expert
    of this rank has a nonzero weight are all zeros.
  }];
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes, Tpc_SymExprAttr:$n,
                       Tpc_SymExprAttr:$inner, Tpc_SymExprAttr:$width, Tpc_SymExprAttr:$column,
                       Tpc_SymExprAttr:$experts, Buffer_Axes:$split);
  let assemblyFormat = [{
    $from `to` $to `over` $axes `n` custom<SymExpr>($n) `inner` custom<SymExpr>($inner)
    `width` custom<SymExpr>($width) `column` custom<SymExpr>($column)
    `experts` custom<SymExpr>($experts) `split` $split attr-dict
  }];
}

def Buffer_CombineOp : Buffer_Op<"combine"> {
  let summary = "Sums [n, inner] to [own shard of n, inner]; rows of `width` zeros are not sent. "
                "tpc_combine.";
  let arguments = (ins Buffer_Read:$from, Buffer_Write:$to, Buffer_Axes:$axes, Tpc_SymExprAttr:$n,
                       Tpc_SymExprAttr:$inner, Tpc_SymExprAttr:$width);
  let assemblyFormat = [{
    $from `to` $to `over` $axes `n` custom<SymExpr>($n) `inner` custom<SymExpr>($inner)
    `width` custom<SymExpr>($width) attr-dict
  }];
}

def Buffer_BroadcastOp : Buffer_Op<"broadcast"> {
  let summary = "Copies the buffer of `root` to every rank of the group. tpc_broadcast.";
  let arguments = (ins Arg<Buffer_Buffer, "", [MemRead, MemWrite]>:$data, Buffer_Axes:$axes,
                       Tpc_SymExprAttr:$count, I64Attr:$root);
  let assemblyFormat = "$data `over` $axes `count` custom<SymExpr>($count) `root` $root attr-dict";
}

def Buffer_SendOp : Buffer_Op<"send"> {
  let summary = "Sends to stage `to`, to the rank with the same other coordinates; on return the "
                "buffer may be overwritten. tpc_send.";
  let arguments = (ins Buffer_Read:$data, Tpc_SymExprAttr:$count, I64Attr:$to);
  let assemblyFormat = "$data `count` custom<SymExpr>($count) `to` $to attr-dict";
}

def Buffer_RecvOp : Buffer_Op<"recv"> {
  let summary = "Receives from stage `from`, from the rank with the same other coordinates. "
                "tpc_recv.";
  let arguments = (ins Buffer_Write:$data, Tpc_SymExprAttr:$count, I64Attr:$from);
  let assemblyFormat = "$data `count` custom<SymExpr>($count) `from` $from attr-dict";
}

def Buffer_UpdateOp : Buffer_Op<"update"> {
  let summary = "Replaces the elements of this rank's shard of a dense parameter, at the end of a "
                "step. tpc_copy.";
  let description = [{
    `tpc_buffer.update %w from %new bytes "4*_6.tp*_768"` implements the output whose `tpc.update`
    names the parameter. Only updates, outputs and ends of frames follow in the function, so no op
    reads a parameter that is partly updated.
  }];
  let arguments = (ins Buffer_Parameter:$index, Buffer_Read:$from, Tpc_SymExprAttr:$bytes);
  let assemblyFormat = "$index `from` $from `bytes` custom<SymExpr>($bytes) attr-dict";
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
