//===- ChunkOps.td - Op interface of the proof on chunks ---*- tablegen -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_CHUNKOPS
#define TPC_LIB_VERIFY_GENERATION_CHUNKOPS

include "mlir/IR/OpBase.td"

def ChunkOpInterface : OpInterface<"ChunkOpInterface"> {
  let description = [{
    An op with a lemma on chunks that is stronger than its formula (`LemmaOpInterface`): it relates
    the result in two consecutive chunks to the result in the combined step.
  }];
  let cppNamespace = "::mlir::tpc::generation";
  let methods = [
    InterfaceMethod<"Returns the relation of the result; an error if it is unknown.",
    "::mlir::FailureOr<::mlir::tpc::generation::ChunkRelation>", "relate",
    (ins "::mlir::tpc::generation::ChunkProver &":$prover,
    "::llvm::ArrayRef<::mlir::tpc::generation::ChunkRelation>":$operands)>
  ];
}

#endif
