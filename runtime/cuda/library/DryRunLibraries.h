//===- DryRunLibraries.h - Dry-run CUDA libraries that count memory -------===//
//
// Function tables of the driver and the libraries whose functions do nothing. Running a rank's
// start and one step with them measures the rank's GPU memory with the code that allocates it.
// Handles are non-null dummies, and numbers are zero. Pinned memory is zeroed host memory.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_DRYRUNLIBRARIES_H
#define TPC_RT_CUDA_LIBRARY_DRYRUNLIBRARIES_H

#include "core/Device.h"
#include "cuda/library/CublasLt.h"
#include "cuda/library/Nccl.h"
#include <map>

namespace tpc::rt::cuda {

struct DryRunLibraries {
  /// Queries about the libraries themselves are forwarded to the `real` ones.
  DryRunLibraries(const Driver &real, const blas::Library &realBlas);

  Driver driver;
  blas::Library library;
  nccl::Library nccl;
};

/// GPU memory that this thread's devices have allocated in a dry run. Drivers allocate memory in
/// pages: each large block, and the sum of all small blocks, is rounded up to pages.
class DryRunMemory {
public:
  static DryRunMemory &ofThread();
  /// `inPages`: the block occupies separate pages even if it is small.
  Address allocate(size_t bytes, bool inPages = false);
  void release(Address address);
  MemoryUse use;

private:
  struct Piece {
    size_t bytes;
    bool inPages;
  };
  void add(const Piece &piece, int64_t sign);
  std::map<Address, Piece> pieces;
  int64_t large = 0, small = 0;
  Address next = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_DRYRUNLIBRARIES_H
