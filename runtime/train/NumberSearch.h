//===- NumberSearch.h - First op with numbers that are not finite ---------===//

#ifndef TPC_RT_TRAIN_NUMBERSEARCH_H
#define TPC_RT_TRAIN_NUMBERSEARCH_H

#include "program/Execution.h"
#include "tpc/runtime.h"
#include <string>

namespace tpc::rt {

/// Returns the index of the first element that is NaN, infinite, or, with `hasMasks`, NaN or
/// positive infinity; -1 if there is none. Types other than floats have none.
int64_t findNonFinite(const void *from, int64_t count, int32_t dtype, bool hasMasks = false);

/// Collective. Repeats a step that has changed no parameter, and checks the result of each op.
/// Returns a sentence with the first op whose result is not finite on any rank, in rank 0's
/// process; empty if there is none.
std::string findFirstNonFinite(Execution &execution, const Inputs &inputs);

} // namespace tpc::rt

#endif // TPC_RT_TRAIN_NUMBERSEARCH_H
