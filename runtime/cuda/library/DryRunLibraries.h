//===- DryRunLibraries.h - GPUs of which memory is only counted -------------------===//
//
// Tables of functions as the driver and the libraries have them, that do nothing. What a rank will
// hold of its GPU is found by going through its start and a step with these: it is what that very
// code asks for. Handles that they give are not null, numbers zero; what the host pins is memory
// of the host, of zeros.
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
  /// What `real` ones are asked about themselves is as they say.
  DryRunLibraries(const Driver &real, const blas::Library &realBlas);

  Driver driver;
  blas::Library library;
  nccl::Library nccl;
};

/// What devices of this thread hold, by DryRunLibraries. Drivers give memory in pages: of what is
/// large each piece is rounded up to them, of the rest the sum.
class DryRunMemory {
public:
  static DryRunMemory &ofThread();
  /// `inPages`: it shares pages with nothing, however small it is.
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
