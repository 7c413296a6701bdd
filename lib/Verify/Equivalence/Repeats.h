//===- Repeats.h - Values that are there several times ----------*- C++ -*-===//
//
// With fewer kv heads than ranks, a program has each kv head several times (tpc-repeat-kv-heads):
// the views of its weights have a factor of stride 0. Such a value is, as an expression, the value
// without the repetition, and beside it is known which dimension repeats:
//
//     x'[.., (a, t, b), ..] = x[.., (a, b), ..]     for all t < times
//
// This begins at a weight, passes through ops that do the same to all indices of the dimension,
// and ends in attention: query head h uses kv head h / (group / times) of those that are repeated,
// which is (h / (group / times)) / times = h / group of those that are not.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::equivalence {

/// How one dimension repeats: (major, times, minor).
struct Repeat {
  int64_t major, times, minor;
  bool operator==(const Repeat &o) const {
    return major == o.major && times == o.times && minor == o.minor;
  }
};
using Repeats = std::map<unsigned, Repeat>; // by dimension

/// The type of the value without its repetitions; `whole` is the type of the value with them.
Type removeRepeats(Type whole, const Repeats &repeats);

/// What a lookup repeats: one of 0, 0, 1, 1, .. in a dimension, a constant of which a rank may have
/// a part.
Repeats getRepeats(GatherOp gather);

/// What a parameter repeats. Takes the factors of stride 0 out of `view`.
Repeats takeRepeats(ViewAttr &view);

/// "0: 2 x 3 x 1", for all dimensions.
std::string toText(const Repeats &repeats);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H
