//===- LateBackend.h - links between late devices ---------------------------===//
//
// For tests, of ranks that are threads. Calls that do not fit end the run; sums of floats are added
// in another order than that of ranks, and floats of 16 bits rounded after each addition, as
// libraries may.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_LATEBACKEND_H
#define TPC_RT_CONFORMANCE_LATEBACKEND_H

#include "core/CollectiveBackend.h"
#include <functional>
#include <memory>

namespace tpc::rt::conformance {

/// Does work that uses the pieces of memory at some addresses, behind what was called for before.
using DoOnDevice =
    std::function<void(const std::vector<const void *> &used, std::function<void()> work)>;

std::unique_ptr<CollectiveBackend> makeLateBackend(DoOnDevice onDevice);

/// From now on the links of this process say that this has happened to them; empty: nothing.
void breakLateBackend(const std::string &problem);

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_LATEBACKEND_H
