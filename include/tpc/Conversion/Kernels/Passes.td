//===- Passes.td - Conversion of kernel functions to kernel IR ------------===//

#ifndef TPC_CONVERSION_KERNELS_PASSES
#define TPC_CONVERSION_KERNELS_PASSES

include "mlir/Pass/PassBase.td"

def BuildKernels : Pass<"tpc-build-kernels", "::mlir::ModuleOp"> {
  let summary = "Convert kernel functions to device-independent loops over rows and elements";
  let description = [{
    For each function with `tpc.kernel`, creates a `tpc_kernel.func` of the same name in a nested
    module `@kernels`. Each op builds an element of its result from elements of its operands
    (`KernelOpInterface`), so fusion is substitution:

        func.func private @add_relu(%x, %b) {tpc.kernel = 1} {
          %0 = tpc.add %x, %b
          %1 = tpc.relu %0
          return %1
        }

    becomes

        tpc_kernel.func @add_relu(%x, %b) -> (%y) {
          tpc_kernel.rows (%row) in ["batch*sequence"] {
            tpc_kernel.elements (%j) in [768] {
              %v = memref.load %x[%row, %j]
              …
              memref.store %r, %y[%row, %j]

    The tensor function is kept: calls refer to it, and it defines the kernel's semantics. Errors:
    an op that kernels cannot compute; an existing module `@kernels`.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::kernel::TpcKernelDialect"];
}

#endif
