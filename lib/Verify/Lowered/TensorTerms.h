//===- TensorTerms.h - Expressions of tensor functions ----------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H
#define TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H

#include "tpc/Dialect/Dist.h"

#include <unordered_map>

namespace mlir::tpc::lowered {

using TermId = int;

/// The term of an op's result, or of a value without operands: an argument or a received value.
struct Term {
  StringRef name;
  DictionaryAttr attributes;
  Type type;
  int64_t index = 0; // of the result, or of a value without an op
  SmallVector<TermId, 3> operands;
  Operation *op = nullptr; // first op with this term
};

class Terms {
public:
  const Term &operator[](TermId id) const { return terms[id]; }
  /// Returns the id of a term. Equal terms have equal ids.
  TermId intern(Term term);

private:
  std::vector<Term> terms;
  std::unordered_map<std::string, TermId> known;
};

/// An observable effect, in program order: communication, an output, a result.
struct Effect {
  TermId term;
  Operation *op;
};
using Effects = std::vector<Effect>;

/// Reports the first op at which two expressions differ.
LogicalResult reportDifference(const Terms &terms, Effect actual, Effect expected);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H
