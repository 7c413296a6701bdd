//===- PieceOps.td - What an op makes of tokens that come in pieces -*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_PIECEOPS
#define TPC_LIB_VERIFY_GENERATION_PIECEOPS

include "mlir/IR/OpBase.td"

def PieceOpInterface : OpInterface<"PieceOpInterface"> {
  let description = [{
    An op with one result, of which more is known than its formula says (`LemmaOpInterface`): what the result is in two pieces of a
    step, if it is known what the operands are.
  }];
  let cppNamespace = "::mlir::tpc::generation";
  let methods = [
    InterfaceMethod<"What the result is; an error where the op gives something else in pieces, or that is not known.",
      "::mlir::FailureOr<::mlir::tpc::generation::Part>", "relate",
      (ins "::mlir::tpc::generation::PieceProver &":$prover, "::llvm::ArrayRef<::mlir::tpc::generation::Part>":$operands)>
  ];
}

#endif
