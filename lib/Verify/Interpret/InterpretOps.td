//===- InterpretOps.td - What ops compute, for the interpreter --*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS
#define TPC_LIB_VERIFY_INTERPRET_INTERPRETOPS

include "mlir/IR/OpBase.td"

def EvaluatedOpInterface : OpInterface<"EvaluatedOpInterface"> {
  let description = [{
    An op that each rank computes by itself, of its parts of the operands. Its meaning is stated once, for numbers and for
    elements of the field (Models.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"The result on a rank, in numbers.", "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<double>>",
      "evaluateDoubles", (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Doubles> &":$evaluation)>,
    InterfaceMethod<"The result on a rank, over the field.", "::mlir::FailureOr<::mlir::tpc::interpret::Tensor<uint64_t>>",
      "evaluateField", (ins "::mlir::tpc::interpret::Evaluation<::mlir::tpc::interpret::Field> &":$evaluation)>,
    InterfaceMethod<"Multiplications that an element of the result takes, about; `count` gives the elements of a dimension.",
      "double", "countWork", (ins "::llvm::function_ref<double(::mlir::tpc::DimAttr)>":$count)>
  ];
}

def DomainOpInterface : OpInterface<"DomainOpInterface"> {
  let description = [{
    An op of which it is known with which numbers it can be run, so that inputs can be drawn (Domains.h).
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Narrows the domains of its operands: to what it can be run with, and to what gives results in their domains.",
      "::llvm::LogicalResult", "narrowOperands", (ins "::mlir::tpc::interpret::Domains &":$domains)>
  ];
}

def RankOpInterface : OpInterface<"RankOpInterface"> {
  let description = [{
    An op that ranks run together, or that runs others: the machine is asked for all ranks at once.
  }];
  let cppNamespace = "::mlir::tpc::interpret";
  let methods = [
    InterfaceMethod<"Runs it on the ranks of a frame, with numbers.", "::llvm::LogicalResult", "runDoubles",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Doubles> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Doubles> &":$frame)>,
    InterfaceMethod<"Runs it on the ranks of a frame, over the field.", "::llvm::LogicalResult", "runField",
      (ins "::mlir::tpc::interpret::Machine<::mlir::tpc::interpret::Field> &":$machine,
           "::mlir::tpc::interpret::Frame<::mlir::tpc::interpret::Field> &":$frame)>
  ];
}

#endif
