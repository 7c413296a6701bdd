//===- NcclMemory.h - memory that NCCL knows ------------------------------===//
//
// Frames are what ranks communicate most: their memory is NCCL's (ncclMemAlloc), so that ranks of a
// node may reach it, and registered with all communicators, so that NCCL copies nothing through
// buffers of its own. It is deregistered before it is freed, and before communicators go. Where
// there is no NCCL, or one that has no such functions, it is the driver's.
//
// Registering is a call of one rank alone: ranks' frames grow at different times.
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
  /// `library`: null without NCCL. `drivers`: memory for where it has none.
  NcclMemory(Queue &queue, const nccl::Library *library, MemorySource &drivers);

  void *allocate(int64_t bytes) override;
  /// After the work that was called for before.
  void release(void *memory) override;
  /// Another number when some has gone.
  uint64_t moves() const { return numMoves; }

  /// A communicator has come.
  void add(nccl::Comm comm);
  /// They are about to go, all together.
  void deregister();
  /// They are aborted, by any thread: nothing is registered with them any more.
  void forget();

private:
  struct Piece {
    int64_t bytes;
    std::map<nccl::Comm, void *> registered;
  };
  void enroll(Address address, Piece &piece, nccl::Comm comm);
  void deregister(Piece &piece);

  Queue &queue;
  const nccl::Library *const library; ///< null: memory is the driver's
  MemorySource &drivers;
  uint64_t numMoves = 0;

  std::mutex mutex; // of what follows
  std::vector<nccl::Comm> comms;
  std::map<Address, Piece> pieces;
  bool isRefused = false; ///< registering: said once
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_NCCLMEMORY_H
