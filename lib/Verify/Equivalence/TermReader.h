//===- TermReader.h - What ops need to be read as terms ---------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
#define TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H

#include "Terms.h"

namespace mlir::tpc::equivalence {

/// The type of the value of which a rank has a part.
Type getWholeType(Type type);

/// Reads a program's ops as terms, each as its TermOpInterface says.
class TermReader {
public:
  TermReader(Terms &terms, bool staged) : terms(terms), staged(staged) {}

  Terms &getTerms() { return terms; }
  InFlightDiagnostic fail(Operation *op) const;

  /// An op that computes: it passes repetitions of its operands on, or takes the operands with
  /// their repetitions.
  FailureOr<Meaning> readComputed(Operation *op, ArrayRef<Meaning> operands);
  /// What moves parts between ranks, and leaves the whole value as it is: RelationChecker shows
  /// that it does.
  FailureOr<Meaning> readMoved(Operation *op, ArrayRef<Meaning> operands);

  /// The term of a value with its repetitions.
  TermId complete(const Meaning &meaning, Value value, Operation *op);
  /// What a term means. A repetition that went through a concatenation, say, repeats again when it
  /// is taken out.
  Meaning open(TermId term) const;

private:
  Terms &terms;
  bool staged; // stages have different values
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_TERMREADER_H
