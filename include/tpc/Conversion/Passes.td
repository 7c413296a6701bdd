//===- Passes.td - Lowering of staged programs to LLVM -----*- tablegen -*-===//

#ifndef TPC_CONVERSION_PASSES
#define TPC_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def WidenMatmuls : Pass<"tpc-widen-matmuls", "::mlir::ModuleOp"> {
  let summary = "Compute matmuls and attention of 16-bit floats in f32";
  let description = [{
    The matmul library computes in f32. The pass widens operands and rounds the result once, like
    the ONNX op:

        %0 = tpc.matmul %x, %w : … f16             %2 = tpc.cast %x : … f16 -> … f32
                                           ->      %3 = tpc.cast %w {tpc.loaded} : … f16 -> … f32
                                                   %4 = tpc.matmul %2, %3 : … f32
                                                   %0 = tpc.cast %4 : … f32 -> … f16

    A parameter operand of a matmul is widened at load time (`tpc.loaded`). Other casts are fused
    into adjacent kernels. Matrices of experts remain in 16 bits if the target reads them so.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def FuseDequantize : Pass<"tpc-fuse-dequantize", "::mlir::ModuleOp"> {
  let summary = "Fuse the dequantization of parameters into the matmuls that multiply by them";
  let description = [{
    For targets whose library multiplies by quantized parameters. `tpc.dequantize` and the movement
    ops after it are moved into the functions that multiply by their result, so that functions
    receive the packed parameters. Ops between the parameters and a matmul are marked with
    `tpc.quantized`: the matmul's call computes them, and no matrix is stored.

        %1 = tpc.dequantize %q, %s bits 4 zero 8       call @layer(%x, %q, %s)
        %2 = tpc.transpose %1 [1, 2, 3, 0]         ->  in @layer:
        %3 = tpc.reshape %2                            %1 = tpc.dequantize … {tpc.quantized}
        call @layer(%x, %3)                            %2 = tpc.transpose %1 … {tpc.quantized}
                                                       %3 = tpc.reshape %2 {tpc.quantized}
                                                       %4 = tpc.matmul %x, %3

    Matrices in 16 bits are fused with their cast to f32, and then not rounded to 16 bits.

    Kernels compute the matrices that are not fused:
    * of matmuls that are not in f32;
    * with packed bytes that are contiguous neither along rows nor along columns;
    * with scales that vary within a block of rows;
    * with zero points or scales that are not parameters.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def FuseEpilogues : Pass<"tpc-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Fuse bias, activation and residual into matmuls with parameters; legalize other "
                "matmuls";
  let description = [{
    The library call of a matmul with a packed parameter can also add a bias, apply an activation
    and add a residual, in this order. Such ops after a matmul are marked with `tpc.fused = i` if
    the intermediate results have no other uses. Operand i is the result of the preceding fused op:

        %0 = tpc.matmul %x, %w                  %0 = tpc.matmul %x, %w
        %1 = tpc.add %0, %bias          ->      %1 = tpc.add %0, %bias {tpc.fused = 0 : i32}
        %2 = tpc.gelu tanh %1                   %2 = tpc.gelu tanh %1 {tpc.fused = 0 : i32}

    For other matmuls the bias becomes a separate add after the matmul, and batch dimensions that
    broadcast only partially are expanded. An f32 matmul over a dimension of size 1 becomes a
    `tpc.mul` of expanded operands. Attention that is causal or has a window gets an explicit mask
    if the queries of a rank are not contiguous (`3 * 8{tp}`).
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def MergeMatmuls : Pass<"tpc-merge-matmuls", "::mlir::ModuleOp"> {
  let summary = "Merge matmuls of the same LHS with several parameters into one GEMM";
  let description = [{
    Merges matmuls with packed parameters that have the same LHS if an op depends on all of them
    without another such matmul in between: Q, K and V, or gate and up. They are marked with
    `tpc.merged = i`, one number per group, and become one runtime call on the packed parameters.
    Each keeps its own bias, activation, residual and result (see `tpc-fuse-epilogues`), and its
    result is bit-identical:

        %q = tpc.matmul %x, %wq            %q = tpc.matmul %x, %wq {tpc.merged = 0 : i64}
        %k = tpc.matmul %x, %wk      ->    %k = tpc.matmul %x, %wk {tpc.merged = 0 : i64}
        %v = tpc.matmul %x, %wv            %v = tpc.matmul %x, %wv {tpc.merged = 0 : i64}

    Not merged: matmuls without a common dependent op, and matmuls whose bias or residual is
    computed after the first matmul of the group. The up projections of experts, for example, have
    no common dependent op. Merging them would keep the results of all experts live at once.

    For targets that compute the group as one matmul (`cuda`), the results are columns of one
    buffer. So all users of a result must read it by rows: kernels, attention and `tpc.append`, also
    through reshapes that keep rows whole. Not merged there: results that are returned, sent, or an
    operand of a collective or a matmul; matmuls with a residual; groups in which only some matmuls
    have a bias; parameters with other uses.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def AliasCaches : Pass<"tpc-alias-caches", "::mlir::ModuleOp"> {
  let summary = "Mark slices and transposes of caches that alias memory and need no code";
  let description = [{
    A cache stays in a rank's memory from step to step, and `tpc.append` updates it in place.
    Movement ops between a cache's argument and the first append select the rank's shard of the
    batch and of the heads, or replicate KV heads. They describe the layout of the cache's memory
    and need no code, so the pass marks them with `tpc.aliased`. Such ops are hoisted from functions
    into their callers, so that functions receive the rank's shard:

        call @layer(%x, %k0)                       // %0: this rank's shard of [0, 0, 1, 1]
                                                   %1 = tpc.gather %k0, %0 dim 1 {tpc.aliased}
                                              ->   call @layer(%x, %1)

    The pass also marks two kinds of transposes, whose operands runtime calls read by strides:
    * between a cache and its attention op;
    * of new keys or values before an append, unless a kernel writes directly to the cache: a kernel
      that computes the new keys or values or, on targets that merge the kernels of attention
      operands (`cuda`), the merged kernel.

    For example:

        %1 = tpc.append %k0, %0 at %n              %1 = tpc.append %k0, %0 at %n
        %2 = tpc.transpose %1 {0, 2, 1, 3}   ->    %2 = tpc.transpose %1 {0, 2, 1, 3} {tpc.aliased}
        %3 = tpc.attention … %2 … lengths %n       %3 = tpc.attention … %2 … lengths %n

    Errors: a cache with other uses (a gather of heads by computed indices, or a gather that does
    not replicate each head equally often and in order); a cache whose old value is used after its
    append; a layout that differs before and after the step.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def InlineUpdates : Pass<"tpc-inline-updates", "::mlir::ModuleOp"> {
  let summary = "Inline the functions that compute gradients and updates into their stage";
  let description = [{
    In a training step, a stage calls a function that computes terms of sums over micro-batches, and
    one that computes new elements of parameters. Both are inlined, so that the plan of memory knows
    in which order parameters are read and updated, and when a gradient is no longer used:

        tpc.micro_batches of <4{mb}> {               tpc.micro_batches of <4{mb}> {
          %0:2 = call @stage_0(%ids)                   %0 = call @layer_backward(%ids)
          tpc.accumulate 0, %0#0               ->      tpc.accumulate 0, %0
          tpc.accumulate 1, %0#1                       %1 = tpc.reduce %2 sum
        }                                              tpc.accumulate 1, %1
                                                     }

    Functions with other calls are kept. A `tpc.accumulate` is moved to the definition of its
    operand, because the order of additions to different sums has no effect.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def OutlineKernels : Pass<"tpc-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Outline groups of ops without a library call as kernel functions";
  let description = [{
    All results of a group have the same leading dimensions, the rows, and each row can be computed
    independently:

        %1 = tpc.add %0, %bias
        %2 = tpc.add %1, %x
        %3 = tpc.layer_norm %2, %scale ...

    becomes

        %2:2 = call @add_add_layer_norm(%0, %bias, %x, %scale)

        func.func private @add_add_layer_norm(...) attributes {tpc.kernel = 1}

    `tpc.kernel` is the number of row dimensions. Values without operands (constants, iotas, sizes)
    and cheap functions of them are rematerialized in each kernel that uses them. Equal groups share
    one function.

    A group may end with a `tpc.append`, which writes the group's result into the cache; its rows
    are then the rows of the new tokens. An append of any other value remains a runtime call. For
    targets with expensive launches (`cuda`), the groups of queries, keys and values of an attention
    op over caches are merged: one kernel computes rotary embeddings and appends to both caches. Its
    rows are the sequences of the batch, or the new tokens if these are the rows of all groups.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def PlanBuffers : Pass<"tpc-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "Plan memory: create a buffer function for each stage and each function it calls";
  let description = [{
    Creates the runtime calls as ops of `tpc_buffer`, in program order, with planned memory. Values
    with disjoint lifetimes share a slot of the function's frame. Results are written to the
    caller's memory:

        func.func private @layer(%x) {
          %0 = tpc.matmul %x, %w
          %1 = tpc.all_reduce %0 over ["tp"]
          return %1
        }

    becomes

        tpc_buffer.func @layer_on_buffers of @layer(%x = value 0 : …) to (%y : …) {
          %frame = tpc_buffer.push "…"
          %0 = tpc_buffer.slot %frame at 0 : "_8*n" x f32
          tpc_buffer.product %x m n k _6.tp by %parameter to %0 n _8
          tpc_buffer.all_reduce %0 to %y over ["tp"] sum count "_8*n"
          tpc_buffer.pop %frame
        }

    All parameters get an entry in a table (`tpc_buffer.entry`). The tensor functions are kept;
    `tpc-verify-buffers` compares them with the buffer functions. Functions that no stage calls are
    skipped. Errors: an op that is neither a call nor part of a kernel.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::buffer::BufferDialect"];
}

def LowerProgram : Pass<"tpc-lower-program", "::mlir::ModuleOp"> {
  let summary = "Convert buffer ops to runtime calls, and the pipeline to the program object";
  let description = [{
    Converts all ops of `tpc` and `tpc_buffer`. Each op on buffers becomes one runtime call. Kernels
    must have been lowered (`tpc-lower-kernels`). Named symbols of static sizes are replaced by
    their numbers. `tpc_program_v7` refers to the manifest and to one function for each stage.
    Requires `tpc-plan-buffers`.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [
    Option<"name", "name", "std::string", "\"\"", "name of the program in the manifest">,
    Option<"digestWeights", "digest-weights", "bool", "false",
           "read all weights and record a digest of each">];
}

#endif
