//===- InterpretOps.td - Op interfaces of the interpreter --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS
#define TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS

include "mlir/IR/OpBase.td"

def EvaluatedOpInterface : OpInterface<"EvaluatedOpInterface"> {
  let description = [{
    An op that each rank computes separately from its slices of the operands. A model defines its
    semantics for doubles and for elements of the field (Models.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Returns the result on a rank, in doubles.",
    "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<double>>", "evaluateDoubles",
    (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Doubles> &":$evaluation)>,
    InterfaceMethod<"Returns the result on a rank, over the field.",
    "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<uint64_t>>", "evaluateField",
    (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Field> &":$evaluation)>,
    InterfaceMethod<"Returns the approximate number of multiplications per element of the result. "
                    "`count` returns the size of a dimension.",
    "double", "countWork", (ins "::llvm::function_ref<double(::mlir::tpc::DimAttr)>":$count)>
  ];
}

def DomainOpInterface : OpInterface<"DomainOpInterface"> {
  let description = [{
    An op with a known domain of its operands, so that valid inputs can be drawn (Domains.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Restricts the domains of the operands to values for which the op is defined "
                    "and its result is in the result's domain.",
      "::llvm::LogicalResult", "narrowOperands",
      (ins "::mlir::tpc::interpret::Domains &":$domains)>
  ];
}

def RankOpInterface : OpInterface<"RankOpInterface"> {
  let description = [{
    An op that the interpreter runs on all ranks together: communication, calls, and program
    structure.
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Runs the op on the active ranks, in doubles.",
      "::llvm::LogicalResult", "runDoubles",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Doubles> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Doubles> &":$frame)>,
    InterfaceMethod<"Runs the op on the active ranks, over the field.",
      "::llvm::LogicalResult", "runField",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Field> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Field> &":$frame)>
  ];
}

#endif
