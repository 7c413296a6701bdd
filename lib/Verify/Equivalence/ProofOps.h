//===- ProofOps.h - Op interfaces of the proof ------------------*- C++ -*-===//

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

/// Id of a term: an expression over inputs and weights. Equal terms have equal ids.
using TermId = int;

/// A value as a term and its repetitions.
struct RepeatedTerm {
  TermId term;
  Repeats repeats = {};
};

} // namespace mlir::tpc::equivalence

#include "ProofOps.h.inc"

#endif // TPC_LIB_VERIFY_EQUIVALENCE_PROOFOPS_H
