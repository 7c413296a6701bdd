//===- NcclMemory.h - NCCL-allocated and registered memory ----------------===//
//
// Most communicated tensors are in frames. NCCL allocates the memory of frames (ncclMemAlloc), so
// that ranks of a node can map it. The memory is registered with all communicators, so that NCCL
// copies directly instead of through its own buffers. It is deregistered before it is freed and
// before communicators are destroyed. Without NCCL, or if the library lacks these functions, the
// driver allocates the memory.
//
// Registration is a local call, because frames of different ranks grow at different times.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_NCCLMEMORY_H
#define TPC_RT_CUDA_LIBRARY_NCCLMEMORY_H

#include "core/Arena.h"
#include "cuda/library/Nccl.h"
#include "cuda/library/Queue.h"
#include <map>
#include <mutex>

namespace tpc::rt::cuda {

class NcclMemory final : public MemorySource {
public:
  /// `library`: null without NCCL. `drivers`: memory source if NCCL cannot allocate.
  NcclMemory(Queue &queue, const nccl::Library *library, MemorySource &drivers);

  void *allocate(int64_t bytes) override;
  /// Frees the memory after all work enqueued before.
  void release(void *memory) override;
  /// A number that changes when memory is freed.
  uint64_t moves() const { return numFrees; }

  /// Registers all memory with a new communicator.
  void add(nccl::Comm comm);
  /// Deregisters all memory; call this before the communicators are destroyed.
  void deregister();
  /// Drops all registrations because the communicators were aborted. Any thread may call it.
  void dropRegistrations();

private:
  struct Piece {
    int64_t bytes;
    std::map<nccl::Comm, void *> registered;
  };
  void registerWith(Address address, Piece &piece, nccl::Comm comm);
  void deregister(Piece &piece);

  Queue &queue;
  const nccl::Library *const library; ///< null: the driver allocates
  MemorySource &drivers;
  uint64_t numFrees = 0;

  std::mutex mutex; // guards the members below
  std::vector<nccl::Comm> comms;
  std::map<Address, Piece> pieces;
  bool hasFailed = false; ///< registration failed; reported once
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_NCCLMEMORY_H
