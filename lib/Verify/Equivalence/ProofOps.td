//===- ProofOps.td - Op interfaces of the proof ------------*- tablegen -*-===//
//
// One interface for each property of ops that the verifiers use. Models.h attaches the models. They
// are derived from the ops' descriptions and do not use the sharding rules. A verifier rejects an
// op without a required model.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS
#define TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS

include "mlir/IR/OpBase.td"

def LemmaOpInterface : OpInterface<"LemmaOpInterface"> {
  let description = [{
    An op with a lemma: if each operand is the slice of a global value that its type declares, so is
    the result.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Checks the relation of result and operands; emits an error if it is violated.",
      "::llvm::LogicalResult", "checkRelation",
      (ins "::mlir::tpc::equivalence::RelationChecker &":$checker)>,
    InterfaceMethod<"Returns the lemma as an indexed formula; nothing if it has none.",
      "::std::optional<::mlir::tpc::equivalence::Lemma>", "getFormula", (ins), "",
      [{ return std::nullopt; }]>
  ];
}

def TermOpInterface : OpInterface<"TermOpInterface"> {
  let description = [{
    An op whose result can be expressed as a term over the terms of its operands.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Returns the term and the repetitions of the result.",
      "::mlir::FailureOr<::mlir::tpc::equivalence::RepeatedTerm>", "read",
      (ins "::mlir::tpc::equivalence::TermReader &":$reader,
           "::llvm::ArrayRef<::mlir::tpc::equivalence::RepeatedTerm>":$operands)>,
    InterfaceMethod<"Returns the term of the result, which has type `type`.",
      "::mlir::tpc::equivalence::TermId", "makeTerm",
      (ins "::mlir::tpc::equivalence::Terms &":$terms,
           "::llvm::ArrayRef<::mlir::tpc::equivalence::TermId>":$operands,
           "::mlir::Type":$type)>,
    StaticInterfaceMethod<"Normalizes a term in place, or returns an equal term; -1 if none.",
      "::mlir::tpc::equivalence::TermId", "normalize",
      (ins "const ::mlir::tpc::equivalence::Terms &":$terms,
           "::mlir::tpc::equivalence::Term &":$term), "",
      [{ return -1; }]>
  ];
}

def RepeatOpInterface : OpInterface<"RepeatOpInterface"> {
  let description = [{
    An op that supports operands with repeated dimensions (Repeats.h).
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Returns the repetition of the result if op(repeat(x)) = repeat(op(x)), else "
                    "nothing.",
      "::std::optional<::mlir::tpc::equivalence::Repeats>", "passRepeats",
      (ins "::llvm::ArrayRef<::mlir::tpc::equivalence::Repeats>":$operands)>
  ];
}

def SizesOpInterface : OpInterface<"SizesOpInterface"> {
  let description = [{
    An op that declares its constraints on sizes, which reduced sizes must satisfy.
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Declares the constraints. (Equal sizes always stay equal.)",
      "void", "collectSizes", (ins "::mlir::tpc::equivalence::SizeReduction &":$sizes)>
  ];
}

def BoundsOpInterface : OpInterface<"BoundsOpInterface"> {
  let description = [{
    An op with known trip counts of its loops. (Sizes of results are checked for all ops.)
  }];
  let cppNamespace = "::mlir::tpc::equivalence";
  let methods = [
    InterfaceMethod<"Checks that the op's trip counts fit in 64 bits.",
      "::llvm::LogicalResult", "checkBounds",
      (ins "::mlir::tpc::equivalence::BoundsChecker &":$checker)>
  ];
}

#endif
