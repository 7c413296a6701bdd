//===- ProofOps.h - What the proof knows of an op ---------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS_H

#include "Lemmas.h"
#include "Repeats.h"

namespace mlir::tpc::equivalence {

class BoundsChecker;
class RelationChecker;
class SizeReduction;
struct Term;
class TermReader;
class Terms;

/// A number of an expression; equal expressions have equal numbers.
using TermId = int;

/// What a value is: a term's value, with repetitions.
struct Meaning {
  TermId term;
  Repeats repeats = {};
};

} // namespace mlir::tpc::equivalence

#include "ProofOps.h.inc"

#endif // TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS_H
