//===- PlannedOp.td - Op interface of buffer verification --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PLANNEDOP
#define TPC_LIB_VERIFY_BUFFERS_PLANNEDOP

include "mlir/IR/OpBase.td"

def PlannedOpInterface : OpInterface<"PlannedOpInterface"> {
  let description = [{
    An op of a staged program with known equivalent runtime calls.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Compares the op with the next buffer ops, and records their memory accesses.",
      "::llvm::LogicalResult", "checkPlan", (ins "::mlir::tpc::PlanChecker &":$checker)>
  ];
}

#endif
