//===- Passes.td - From kernels of tensors to kernel IR ---------*- tablegen -*-===//

#ifndef TPC_CONVERSION_KERNELS_PASSES
#define TPC_CONVERSION_KERNELS_PASSES

include "mlir/Pass/PassBase.td"

def BuildKernels : Pass<"tpc-build-kernels", "::mlir::ModuleOp"> {
  let summary = "Writes what each kernel computes as loops over rows and elements, for any device";
  let description = [{
    For each function with `tpc.kernel`, a `tpc_kernel.func` of the same name in a nested module `@kernels`. Each op says how an
    element of its result is made of elements of its operands (`KernelOpInterface`), so fusion is substitution:

        func.func private @add_relu(%x, %b) {tpc.kernel = 1} {       tpc_kernel.func @add_relu(%x, %b) -> (%y) {
          %0 = tpc.add %x, %b                                          tpc_kernel.rows (%row) in ["batch*sequence"] {
          %1 = tpc.relu %0                                  ->           tpc_kernel.elements (%j) in [768] {
          return %1                                                        %v = memref.load %x[%row, %j]
        }                                                                  …
                                                                           memref.store %r, %y[%row, %j]

    The function of tensors stays: calls name it, and it says what the kernel means. Errors: an op that kernels cannot compute; a
    module that is there already.
  }];
  let dependentDialects = ["::mlir::tpc::TpcDialect", "::mlir::tpc::kernel::TpcKernelDialect"];
}

#endif
