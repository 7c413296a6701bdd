//===- Repeats.h - Values with repeated slices ------------------*- C++ -*-===//
//
// With fewer KV heads than ranks, a program replicates each KV head (tpc-repeat-kv-heads): the
// views of its weights have a factor of stride 0. The term of such a value is the value without
// the repetition, and a Repeats record lists the dimensions that repeat:
//
//     x'[.., (a, t, b), ..] = x[.., (a, b), ..]     for all t < times
//
// A repetition starts at a weight and passes through ops that treat all indices of the dimension
// alike. It ends in attention: query head h uses the repeated kv head h / (group / times), which is
// the unrepeated head (h / (group / times)) / times = h / group.
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

/// Returns the type of the value without its repetitions; `whole` is its type with them.
Type removeRepeats(Type whole, const Repeats &repeats);

/// Returns the repetition that a lookup of 0, 0, 1, 1, .. makes in a dimension. The indices are a
/// constant, which may be split over ranks.
Repeats getRepeats(GatherOp gather);

/// Returns the repetition of a parameter, and removes the factors of stride 0 from `view`.
Repeats takeRepeats(ViewAttr &view);

/// Prints "0: 2 x 3 x 1" for each dimension.
std::string toText(const Repeats &repeats);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_REPEATS_H
