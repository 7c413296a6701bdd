//===- Passes.td - From staged programs to LLVM -----------------*- tablegen -*-===//

#ifndef TPC_CONVERSION_PASSES
#define TPC_CONVERSION_PASSES

include "mlir/Pass/PassBase.td"

def WidenProducts : Pass<"tpc-widen-products", "::mlir::ModuleOp"> {
  let summary = "Lets products and attention of 16-bit floats compute in f32";
  let description = [{
    Libraries compute in f32. Operands are widened, and the result is rounded once, as the ONNX op's result is:

        %0 = tpc.matmul %x, %w : … f16             %2 = tpc.cast %x : … f16 -> … f32
                                           ->      %3 = tpc.cast %w {tpc.loaded} : … f16 -> … f32
                                                   %4 = tpc.matmul %2, %3 : … f32
                                                   %0 = tpc.cast %4 : … f32 -> … f16

    A parameter that products multiply by is widened when it is loaded (`tpc.loaded`). Other casts become part of the
    kernels around them.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def FuseEpilogues : Pass<"tpc-fuse-epilogues", "::mlir::ModuleOp"> {
  let summary = "Lets matrix products compute what follows them, and brings others into the library's form";
  let description = [{
    A product with a packed parameter also adds a bias, applies an activation and adds a residual, in this
    order, where the results before are used nowhere else. Such ops are marked with `tpc.fused = i`, i
    being the operand that continues the product:

        %0 = tpc.matmul %x, %w                  %0 = tpc.matmul %x, %w
        %1 = tpc.add %0, %bias          ->      %1 = tpc.add %0, %bias {tpc.fused = 0 : i32}
        %2 = tpc.gelu tanh %1                   %2 = tpc.gelu tanh %1 {tpc.fused = 0 : i32}

    Other products lose their bias (it is added behind them), and batch dimensions that broadcast on some but not all
    of their positions are expanded. Attention that is causal or has a window, of queries that are not in a row on a rank (those of `3 * 8{tp}` are not), gets a
    mask instead.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def MergeProducts : Pass<"tpc-merge-products", "::mlir::ModuleOp"> {
  let summary = "Lets products of one value with several parameters be done in one go";
  let description = [{
    Q, K and V, or gate and up: products with packed parameters that read the same left side, and whose results meet again before the next
    such product. They are marked with `tpc.merged = i`, one number for those that belong together, and become one call of the runtime on
    the packed parameters; each keeps its own bias, activation, residual and result (see `tpc-fuse-epilogues`), and sums are what they were:

        %q = tpc.matmul %x, %wq            %q = tpc.matmul %x, %wq {tpc.merged = 0 : i64}
        %k = tpc.matmul %x, %wk      ->    %k = tpc.matmul %x, %wk {tpc.merged = 0 : i64}
        %v = tpc.matmul %x, %wv            %v = tpc.matmul %x, %wv {tpc.merged = 0 : i64}

    Left alone: products whose results do not meet (experts that are computed one after the other would all have to be in memory at once), and
    those that add something which is computed behind the first of them.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def HoldCaches : Pass<"tpc-hold-caches", "::mlir::ModuleOp"> {
  let summary = "Marks what is not computed because caches are memory that is written in place";
  let description = [{
    A cache stays in a rank's memory from step to step, and `tpc.append` writes into it. So the movements from a cache's argument to the first append (this
    rank's part of the batch and of the heads, copies of kv heads) say what that memory holds, and are not computed: they are marked with
    `tpc.held`. What functions do of that, their callers do instead, so that functions are given what a rank holds:

        call @layer(%x, %k0)                       %1 = tpc.gather %k0, %0 dim 1 {tpc.held}     // %0: this rank's part of [0, 0, 1, 1]
                                              ->   call @layer(%x, %1)

    Marked are also transposes of a cache in front of the attention over it, and of new keys and values in front of an append, where no kernel
    computes them (else that writes them where they belong). The runtime sees these by strides:

        %1 = tpc.append %k0, %0 at %n              %1 = tpc.append %k0, %0 at %n
        %2 = tpc.transpose %1 {0, 2, 1, 3}   ->    %2 = tpc.transpose %1 {0, 2, 1, 3} {tpc.held}
        %3 = tpc.attention … %2 … lengths %n       %3 = tpc.attention … %2 … lengths %n

    Refused: a cache that is used otherwise (heads that are taken in another order than each as often as the others, one after the other, or by
    indices that are computed), whose old value is used beside its append, or that is held in another way before a step than after.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect"];
}

def OutlineKernels : Pass<"tpc-outline-kernels", "::mlir::ModuleOp"> {
  let summary = "Groups ops that no library computes into kernels, one function for each distinct group";
  let description = [{
    A group has results with the same leading dimensions, the rows, and each row of it can be computed by
    itself:

        %1 = tpc.add %0, %bias                             %2:2 = call @add_add_layer_norm(%0, %bias, %x, %scale)
        %2 = tpc.add %1, %x                       ->
        %3 = tpc.layer_norm %2, %scale ...                 func.func private @add_add_layer_norm(...) attributes {tpc.kernel = 1}

    `tpc.kernel` is the number of row dimensions. Values without operands (constants, iotas, sizes) and cheap functions of them
    are computed again in each kernel that uses them. Equal groups share one function.

    A group may end with a `tpc.append`, which writes what the group computes into its cache; rows are then those of the new tokens. An append of
    anything else stays a call.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def PlanBuffers : Pass<"tpc-plan-buffers", "::mlir::ModuleOp"> {
  let summary = "Plans memory: a function on buffers beside each function and stage of tensors";
  let description = [{
    What the runtime is to be called for, in which order and on which memory, as ops of `tpc_buffer`. Values that do not live at the same
    time share a slot of the function's frame; results lie in memory of the caller's:

        func.func private @layer(%x) {              tpc_buffer.func @layer_on_buffers of @layer(%x = value 0 : …) to (%y : …) {
          %0 = tpc.matmul %x, %w                      %frame = tpc_buffer.push "…"
          %1 = tpc.all_reduce %0 over ["tp"]   ->     %0 = tpc_buffer.slot %frame at 0 : "_8*n" x f32
          return %1                                   tpc_buffer.product %x m n k _6.tp by %parameter to %0 n _8
        }                                             tpc_buffer.all_reduce %0 to %y over ["tp"] sum count "_8*n"
                                                      tpc_buffer.pop %frame
                                                    }

    All parameters get a place in a table (`tpc_buffer.entry`). The functions of tensors stay: `tpc-verify-buffers` compares the two.
    Functions that no stage calls are left out. Errors: an op that is neither a call nor part of a kernel.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::buffer::BufferDialect"];
}

def LowerProgram : Pass<"tpc-lower-program", "::mlir::ModuleOp"> {
  let summary = "Turns ops on buffers into runtime calls, the pipeline into the program object";
  let description = [{
    Nothing of `tpc` and `tpc_buffer` is left. Each op on buffers becomes one call of the runtime. Kernels have been lowered (`tpc-lower-kernels`),
    and static sizes, which have names until then, their numbers. `tpc_program_v6` refers to the manifest and to one function for each stage.
    Needs `tpc-plan-buffers` before it.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [Option<"name", "name", "std::string", "\"\"", "name of the program in the manifest">,
    Option<"digestWeights", "digest-weights", "bool", "false", "read all weights and record a digest of each">];
}

#endif
