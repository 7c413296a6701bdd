//===- PieceOps.td - Op interface of the proof of pieces ---*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_PIECEOPS
#define TPC_LIB_VERIFY_GENERATION_PIECEOPS

include "mlir/IR/OpBase.td"

def PieceOpInterface : OpInterface<"PieceOpInterface"> {
  let description = [{
    An op with one result and a stronger rule than its formula (`LemmaOpInterface`): it relates the
    result in two pieces of a step to the operands.
  }];
  let cppNamespace = "::mlir::tpc::generation";
  let methods = [
    InterfaceMethod<"Returns the relation of the result; an error if it is unknown.",
    "::mlir::FailureOr<::mlir::tpc::generation::PieceRelation>", "relate",
    (ins "::mlir::tpc::generation::PieceProver &":$prover,
    "::llvm::ArrayRef<::mlir::tpc::generation::PieceRelation>":$operands)>
  ];
}

#endif
