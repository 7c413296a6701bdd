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
    of their positions are expanded. Causal attention of queries that are not in a row on a rank (those of `3 * 8{tp}` are not) gets a mask instead.
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
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::func::FuncDialect"];
}

def LowerProgram : Pass<"tpc-lower-program", "::mlir::ModuleOp"> {
  let summary = "Turns stages and layers into runtime calls, the pipeline into the program object";
  let description = [{
    Nothing of `tpc` is left. Kernels have been lowered (`tpc-lower-kernels`). Buffers are planned: one frame for each function call, shared by values that
    do not live at the same time. `tpc_program_v2` refers to the manifest and to one function for each stage.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect"];
  let options = [Option<"name", "name", "std::string", "\"\"", "name of the program in the manifest">,
    Option<"digestWeights", "digest-weights", "bool", "false", "read all weights and record a digest of each">];
}

#endif
