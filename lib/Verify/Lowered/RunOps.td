//===- RunOps.td - Op interface of the buffer interpreter --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNOPS
#define TPC_LIB_VERIFY_LOWERED_RUNOPS

include "mlir/IR/OpBase.td"

def RunOpInterface : OpInterface<"RunOpInterface"> {
  let description = [{
    A buffer op that the interpreter of tpc-verify-lowered supports. All active ranks run an op
    before the next op.
  }];
  let cppNamespace = "::mlir::tpc::lowered";
  let methods = [
    InterfaceMethod<"Runs the op on the active ranks. Errors: accesses out of bounds of a buffer, "
                    "reads of unwritten elements.",
    "::llvm::LogicalResult", "runOnBuffers",
    (ins "::mlir::tpc::lowered::BufferMachine &":$machine,
    "::mlir::tpc::lowered::Frame &":$frame)>
  ];
}

#endif
