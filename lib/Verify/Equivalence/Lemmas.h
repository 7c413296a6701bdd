//===- Lemmas.h - What each op does to parts of values ----------*- C++ -*-===//
//
// One lemma for each op: if its operands are related to whole values in the way that the lemma
// asks for, then its result is related to the whole result in the way that the lemma says. All of
// them are written down from the meaning of the ops (their descriptions) and nothing else;
// sharding rules are not looked at.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H

#include "Relation.h"

namespace mlir::tpc::equivalence {

/// An op as an indexed formula: each dimension of an operand and of the result has a letter, as in
/// einsum. A letter's dimensions must be laid out alike.
struct Lemma {
  /// What the op does along a letter.
  enum class Letter {
    Each, // computes each index by itself: any layout
    All,  // needs all indices together: whole
    Sum,  // adds over it: over its axes the result is a part of a sum
    Max,  // as Sum
    Min   // as Sum
  };
  static constexpr int broadcast = -1; // size 1, the same for all indices of the result: whole

  SmallVector<Letter> letters;
  SmallVector<SmallVector<int, 4>> operands;
  SmallVector<int, 4> result;

  /// f(x + x', y) = f(x, y) + f(x', y): parts of a sum may come in as these operands together, and
  /// then the result is a part of a sum. `moves`: the op copies elements, so that maxima and
  /// minima may as well.
  struct Linear {
    SmallVector<int, 2> operands;
    bool moves = false;
  };
  SmallVector<Linear> linear;
  /// Query heads are kv heads times heads per kv head, in that order (attention).
  int kvHeads = broadcast, queryHeads = broadcast;

  int add(Letter kind = Letter::Each) {
    letters.push_back(kind);
    return letters.size() - 1;
  }
};

/// What a stage computes outside of its rounds is no micro-batch's.
LogicalResult verifyRounds(ModuleOp module);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_LEMMAS_H
