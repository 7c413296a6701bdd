//===- TermReader.h - Conversion of ops to terms ----------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H

#include "Terms.h"

namespace mlir::tpc::equivalence {

/// Returns the type of the whole value that `type` is a rank's slice of.
Type getWholeType(Type type);

/// Reads a program's ops as terms through TermOpInterface.
class TermReader {
public:
  TermReader(Terms &terms, bool staged) : terms(terms), staged(staged) {}

  Terms &getTerms() { return terms; }
  InFlightDiagnostic fail(Operation *op) const;

  /// Reads an op that computes. It propagates the repetitions of its operands, or else takes the
  /// operands with their repetitions.
  FailureOr<RepeatedTerm> readComputed(Operation *op, ArrayRef<RepeatedTerm> operands);
  /// Reads an op that moves slices between ranks and does not change the whole value, as
  /// RelationChecker proves.
  FailureOr<RepeatedTerm> readMoved(Operation *op, ArrayRef<RepeatedTerm> operands);

  /// Returns the term of a value with its repetitions.
  TermId complete(const RepeatedTerm &repeated, Value value, Operation *op);
  /// Splits a term into its repeated operand and the repetition. A repetition that passed through a
  /// concatenation, for example, repeats again when it is extracted.
  RepeatedTerm open(TermId term) const;

private:
  Terms &terms;
  bool staged; // stages have different values
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
