//===- RunOps.td - Op interface of the buffer interpreter --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNOPS
#define TPC_LIB_VERIFY_LOWERED_RUNOPS

include "mlir/IR/OpBase.td"

def RunOpInterface : OpInterface<"RunOpInterface"> {
  let description = [{
    An op on buffers. All ranks of a frame run it before the next op.
  }];
  let cppNamespace = "::mlir::tpc::lowered";
  let methods = [
    InterfaceMethod<"Runs the op on the ranks of a frame. Errors: accesses outside of a "
    "buffer, reads of elements that are not written.",
    "::llvm::LogicalResult", "runOnBuffers",
    (ins "::mlir::tpc::lowered::BufferMachine &":$machine,
    "::mlir::tpc::lowered::Frame &":$frame)>
  ];
}

#endif
