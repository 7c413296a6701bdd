//===- OutputMemory.h - Reused memory of outputs, pinned for a device -----===//
//
// A device copies to pinned memory at the speed of its link, but pinning takes longer than a copy.
// So memory of a size is pinned from its second request on, and is reused after its owner has
// destroyed the buffer.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_OUTPUTMEMORY_H
#define TPC_RT_PROGRAM_OUTPUTMEMORY_H

#include "program/Tensor.h"
#include <functional>
#include <memory>
#include <set>

namespace tpc::rt {

class OutputMemory {
public:
  using Pin = std::function<bool(void *host, int64_t bytes)>;
  using Unpin = std::function<void(void *host)>;
  /// The functions of a device (core/Device.h).
  OutputMemory(Pin pin, Unpin unpin);
  OutputMemory(const OutputMemory &) = delete;
  OutputMemory &operator=(const OutputMemory &) = delete;

  /// Smaller outputs are copied by the host.
  static constexpr int64_t minBytes = 1 << 20;
  /// Number of pinned buffers of a size that the caller may keep; further ones are not pinned.
  static constexpr int64_t maxLent = 4;
  /// Returns memory for an output. Throws UserError if out of memory.
  Buffer allocate(int64_t bytes);
  bool isPinned(const Buffer &buffer) const;
  /// Ends the use of the device, before it is destroyed. Buffers stay valid. `unpins`: false if the
  /// device has failed, and may not return from calls.
  void close(bool unpins);

private:
  struct Pool;
  std::shared_ptr<Pool> pool; ///< shared with the buffers, which any thread may destroy
  std::set<int64_t> requested;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_OUTPUTMEMORY_H
