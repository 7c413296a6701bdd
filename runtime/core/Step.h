//===- Step.h - around a stage function -----------------------------------===//

#ifndef TPC_RT_CORE_STEP_H
#define TPC_RT_CORE_STEP_H

#include "core/Context.h"

namespace tpc::rt {

/// Runs the rank's function of `program` for a step: with these values of the symbols, then this
/// rank's coordinates. Fails if a kernel has met an index that is not there.
void runStage(tpc_context &ctx, const tpc_program &program, int stage,
              const std::vector<int64_t> &symbols);

} // namespace tpc::rt

#endif // TPC_RT_CORE_STEP_H
