//===- InterpretOps.td - Op interfaces of the interpreter --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS
#define TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS

include "mlir/IR/OpBase.td"

def EvaluatedOpInterface : OpInterface<"EvaluatedOpInterface"> {
  let description = [{
    An op that each rank computes separately from its slices of the operands. Its semantics is
    written once, for numbers and for elements of the field (Models.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Returns the result on a rank, in numbers.",
    "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<double>>", "evaluateDoubles",
    (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Doubles> &":$evaluation)>,
    InterfaceMethod<"Returns the result on a rank, over the field.",
    "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<uint64_t>>", "evaluateField",
    (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Field> &":$evaluation)>,
    InterfaceMethod<"Returns the approximate number of multiplications per element of the result; "
    "`count` gives the elements of a dimension.",
    "double", "countWork", (ins "::llvm::function_ref<double(::mlir::tpc::DimAttr)>":$count)>
  ];
}

def DomainOpInterface : OpInterface<"DomainOpInterface"> {
  let description = [{
    An op with a rule for the numbers it is defined for, so that inputs can be drawn (Domains.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Restricts its operands to numbers it is defined for, and whose results are "
    "in the result's domain.",
      "::llvm::LogicalResult", "narrowOperands",
      (ins "::mlir::tpc::interpret::Domains &":$domains)>
  ];
}

def RankOpInterface : OpInterface<"RankOpInterface"> {
  let description = [{
    An op that ranks run together, or that runs others. The interpreter runs all ranks at once.
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Runs it on the ranks of a frame, with numbers.",
      "::llvm::LogicalResult", "runDoubles",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Doubles> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Doubles> &":$frame)>,
    InterfaceMethod<"Runs it on the ranks of a frame, over the field.",
      "::llvm::LogicalResult", "runField",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Field> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Field> &":$frame)>
  ];
}

#endif
