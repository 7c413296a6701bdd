//===- ScatterBlock.h - Copy of a block into a tensor ---------------------===//

#ifndef TPC_RT_PROGRAM_SCATTERBLOCK_H
#define TPC_RT_PROGRAM_SCATTERBLOCK_H

#include <cstddef>
#include <cstdint>

namespace tpc::rt {

/// Maximum number of threads that copy, and minimum number of bytes for each.
struct CopyThreads {
  int count = 1;
  int64_t minBytes = 1 << 20;
};

/// Copies the dense block `from` of `size`, at most 16 dimensions, to `offset` in the dense tensor
/// `to` of `global`. `from` may be the contiguous destination itself.
void scatterBlock(std::byte *to, const std::byte *from, int32_t rank, const int64_t *global,
                  const int64_t *offset, const int64_t *size, int64_t elementBytes,
                  CopyThreads threads);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_SCATTERBLOCK_H
