//===- TensorTerms.h - Expressions of functions of tensors ------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H
#define TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H

#include "tpc/Dialect/Dist.h"

#include <unordered_map>

namespace mlir::tpc::lowered {

using TermId = int;

/// An op of terms, or a value that has none: an argument, something received.
struct Term {
  StringRef name;
  DictionaryAttr attributes;
  Type type;
  int64_t index = 0; // of the result, or of what has no op
  SmallVector<TermId, 3> operands;
  Operation *op = nullptr; // where it was first seen
};

class Terms {
public:
  const Term &operator[](TermId id) const { return terms[id]; }
  /// The number of a term; equal terms have one number.
  TermId intern(Term term);

private:
  std::vector<Term> terms;
  std::unordered_map<std::string, TermId> known;
};

/// Something that others see: communication, an output, a result; in the order of the program.
struct Effect {
  TermId term;
  Operation *op;
};
using Effects = std::vector<Effect>;

/// An error at the first op at which two expressions differ.
LogicalResult reportDifference(const Terms &terms, Effect actual, Effect expected);

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_TENSORTERMS_H
