//===- Lemmas.h - Lemmas on slices of values, op by op ----------*- C++ -*-===//
//
// An op's lemma is an implication: if the operands have the required relations to global values,
// the result has the stated relation to the global result. Lemmas are derived from the descriptions
// of the ops, not from sharding rules.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H

#include "Relation.h"

namespace mlir::tpc::equivalence {

/// An op as an indexed formula: each dimension of an operand and of the result has a letter, as in
/// einsum. All dimensions of one letter must have the same layout.
struct Lemma {
  /// Role of a letter in the op.
  enum class Letter {
    Each, // independent indices: may be split
    All,  // cannot be split
    Sum,  // reduced by addition: over the letter's axes the result is a partial sum
    Max,  // like Sum
    Min   // like Sum
  };
  static constexpr int broadcast = -1; // broadcast dimension of size 1: cannot be split

  SmallVector<Letter> letters;
  SmallVector<SmallVector<int, 4>> operands;
  SmallVector<int, 4> result;

  /// f(x + x', y) = f(x, y) + f(x', y): if these operands are all partial sums, so is the result.
  /// `moves`: the op copies elements, so it also preserves partial maxima and minima.
  struct Linear {
    SmallVector<int, 2> operands;
    bool moves = false;
  };
  SmallVector<Linear> linear;
  /// Letters of attention's heads. Query heads are kv heads times heads per kv head, in that order.
  int kvHeads = broadcast, queryHeads = broadcast;

  int add(Letter kind = Letter::Each) {
    letters.push_back(kind);
    return letters.size() - 1;
  }
};

/// Checks that values that a stage computes outside of its micro-batch loops do not depend on the
/// micro-batch.
LogicalResult verifyOutsideOfMicroBatches(ModuleOp module);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H
