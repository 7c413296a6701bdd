//===- Repeats.h - Values with repeated slices ------------------*- C++ -*-===//
//
// If there are fewer KV heads than ranks, tpc-repeat-kv-heads replicates each KV head: the views of
// its weights have a factor of stride 0. A replicated value x' is represented by the term of the
// value x without replication, and by a Repeats record that lists the replicated dimensions:
//
//     x'[.., (a, t, b), ..] = x[.., (a, b), ..]     for all t < times
//
// A repetition originates at a weight, and is propagated through ops that treat all indices of the
// dimension alike. Attention eliminates it: query head h uses the repeated kv head h / (group /
// times), which is the original head (h / (group / times)) / times = h / group.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::equivalence {

/// Repetition of one dimension: (major, times, minor).
struct Repeat {
  int64_t major, times, minor;
  bool operator==(const Repeat &o) const {
    return major == o.major && times == o.times && minor == o.minor;
  }
};
using Repeats = std::map<unsigned, Repeat>; // by dimension

/// Returns the type of a value without its repetitions; `whole` is the type with repetitions.
Type removeRepeats(Type whole, const Repeats &repeats);

/// Returns the repetition of a dimension by a gather with the indices 0, 0, 1, 1, .. The indices
/// must be a constant, which may be split over ranks.
Repeats getRepeats(GatherOp gather);

/// Returns the repetition of a parameter, and removes the factors of stride 0 from `view`.
Repeats takeRepeats(ViewAttr &view);

/// Prints "0: 2 x 3 x 1" for each dimension.
std::string toText(const Repeats &repeats);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H
