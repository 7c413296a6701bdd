//===- LateBackend.h - Collective backend between late devices ------------===//
//
// Collective backend of tests whose ranks are threads. Mismatching calls end the run. As in vendor
// libraries, float sums need not add in rank order, and 16-bit floats are rounded after each
// addition.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CONFORMANCE_LATEBACKEND_H
#define TPC_RT_CONFORMANCE_LATEBACKEND_H

#include "core/CollectiveBackend.h"
#include <functional>
#include <memory>

namespace tpc::rt::conformance {

/// Enqueues work that accesses the memory blocks at some addresses, after all earlier work.
using DoOnDevice =
    std::function<void(const std::vector<const void *> &used, std::function<void()> work)>;

std::unique_ptr<CollectiveBackend> makeLateBackend(DoOnDevice onDevice);

/// Makes all backends of this process report this error from now on; empty: no error.
void breakLateBackend(const std::string &problem);

} // namespace tpc::rt::conformance

#endif // TPC_RT_CONFORMANCE_LATEBACKEND_H
