//===- HostMemory.h - the host's memory for tensors --------------------------------------===//

#ifndef TPC_RT_CORE_HOSTMEMORY_H
#define TPC_RT_CORE_HOSTMEMORY_H

#include "core/Arena.h"
#include <cstddef>

namespace tpc::rt {

/// At least 64-byte aligned, never empty; for std::free. Null if there is none. What fills huge
/// pages gets them (products that stream weights are 2 to 4% faster so), and no more memory than
/// asked for.
void *allocateTensor(size_t bytes);

/// The same for arenas.
MemorySource &hostMemory();

} // namespace tpc::rt

#endif // TPC_RT_CORE_HOSTMEMORY_H
