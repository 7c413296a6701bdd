//===- RunOps.td - What runtime ops do, for the check of buffers -*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNOPS
#define TPC_LIB_VERIFY_LOWERED_RUNOPS

include "mlir/IR/OpBase.td"

def RunOpInterface : OpInterface<"RunOpInterface"> {
  let description = [{
    An op on buffers. All ranks of a frame run it before any of them goes on: the machine is asked for all at once.
  }];
  let cppNamespace = "::mlir::tpc::lowered";
  let methods = [
    InterfaceMethod<"Runs it on the ranks of a frame. Errors: what reads or writes outside of a place, or reads what nobody has written.",
                    "::llvm::LogicalResult", "runOnBuffers",
                    (ins "::mlir::tpc::lowered::BufferMachine &":$machine, "::mlir::tpc::lowered::Frame &":$frame)>
  ];
}

#endif
