//===- TermReader.h - Conversion of ops to terms ----------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H

#include "Terms.h"

namespace mlir::tpc::equivalence {

/// Returns the type of the global value for a local type.
Type getWholeType(Type type);

/// Reads a program's ops as terms through TermOpInterface.
class TermReader {
public:
  TermReader(Terms &terms, bool staged) : terms(terms), staged(staged) {}

  Terms &getTerms() { return terms; }
  InFlightDiagnostic fail(Operation *op) const;

  /// Reads a compute op. The repetitions of operands are propagated to the result if the op's model
  /// allows it; otherwise they become part of the operands' terms.
  FailureOr<RepeatedTerm> readComputed(Operation *op, ArrayRef<RepeatedTerm> operands);
  /// Reads an op that moves slices between ranks and, as RelationChecker proves, does not change
  /// the global value.
  FailureOr<RepeatedTerm> readMoved(Operation *op, ArrayRef<RepeatedTerm> operands);

  /// Returns the term of a value with its repetitions.
  TermId complete(const RepeatedTerm &repeated, Value value, Operation *op);
  /// Splits a term that includes a repetition into the repeated operand and the repetition. Such a
  /// term is, for example, a concatenation's operand that a slice extracts.
  RepeatedTerm splitRepetition(TermId term) const;

private:
  Terms &terms;
  bool staged; // whether the program has pipeline stages
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
