//===- ProofOps.td - What the proof knows of an op --------------*- tablegen -*-===//
//
// One interface for each thing that the verifiers must know of an op. They are attached to ops here
// (Models.h), each model written from the op's description: the proof shares nothing with the rules
// by which programs are split. An op that lacks a model is refused by name where it is needed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS
#define TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS

include "mlir/IR/OpBase.td"

def LemmaOpInterface : OpInterface<"LemmaOpInterface"> {
  let description = [{
    An op of which it can be checked that its result is of the whole value what its type says, if its
    operands are.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Checks it; what is wrong is an error.",
      "::llvm::LogicalResult", "checkRelation", (ins "::mlir::tpc::equivalence::RelationChecker &":$checker)>,
    InterfaceMethod<"The lemma as an indexed formula; nothing if it is none.",
      "::std::optional<::mlir::tpc::equivalence::Lemma>", "getFormula", (ins), "", [{ return std::nullopt; }]>
  ];
}

def TermOpInterface : OpInterface<"TermOpInterface"> {
  let description = [{
    An op with one result, of which it is known what the result is, as an expression of what the operands are.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"What the result means.",
      "::mlir::FailureOr<::mlir::tpc::equivalence::Meaning>", "read",
      (ins "::mlir::tpc::equivalence::TermReader &":$reader,
           "::llvm::ArrayRef<::mlir::tpc::equivalence::Meaning>":$operands)>,
    InterfaceMethod<"The term of the result, which is of type `type`.", "::mlir::tpc::equivalence::TermId", "makeTerm",
      (ins "::mlir::tpc::equivalence::Terms &":$terms, "::llvm::ArrayRef<::mlir::tpc::equivalence::TermId>":$operands,
           "::mlir::Type":$type)>,
    StaticInterfaceMethod<"A term of such an op, brought into its normal form; or another one that is equal, -1 if there is none.",
      "::mlir::tpc::equivalence::TermId", "normalize",
      (ins "const ::mlir::tpc::equivalence::Terms &":$terms, "::mlir::tpc::equivalence::Term &":$term), "",
      [{ return -1; }]>
  ];
}

def RepeatOpInterface : OpInterface<"RepeatOpInterface"> {
  let description = [{
    An op of which it is known what it makes of operands whose dimensions repeat (Repeats.h).
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"How the result repeats, if op(x') = op(x)' for operands x' that repeat as said; nothing if that does not hold.",
      "::std::optional<::mlir::tpc::equivalence::Repeats>", "passRepeats",
      (ins "::llvm::ArrayRef<::mlir::tpc::equivalence::Repeats>":$operands)>
  ];
}

def SizesOpInterface : OpInterface<"SizesOpInterface"> {
  let description = [{
    An op of which it is known what it needs of sizes, so that small ones can stand for them.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Says what must hold for small sizes as well, beyond that equal sizes stay equal.",
      "void", "collectSizes", (ins "::mlir::tpc::equivalence::SizeReduction &":$sizes)>
  ];
}

def BoundsOpInterface : OpInterface<"BoundsOpInterface"> {
  let description = [{
    An op of which it is known how often its loops run. That its results are not too large is checked for all ops.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Checks that what the op counts fits 64 bits.",
      "::llvm::LogicalResult", "checkBounds", (ins "::mlir::tpc::equivalence::BoundsChecker &":$checker)>
  ];
}

#endif
