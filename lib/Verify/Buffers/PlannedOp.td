//===- PlannedOp.td - What an op must have become on buffers ----*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PLANNEDOP
#define TPC_LIB_VERIFY_BUFFERS_PLANNEDOP

include "mlir/IR/OpBase.td"

def PlannedOpInterface : OpInterface<"PlannedOpInterface"> {
  let description = [{
    An op of a staged program of which it is known which runtime calls mean the same.
  }];
  let cppNamespace = "::mlir::tpc";
  let methods = [
    InterfaceMethod<"Compares the op with the next ops on buffers, and says what they read and write.",
      "::llvm::LogicalResult", "checkPlan", (ins "::mlir::tpc::PlanChecker &":$checker)>
  ];
}

#endif
