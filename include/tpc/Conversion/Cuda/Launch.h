//===- Launch.h - Launch parameters of GPU kernels --------------*- C++ -*-===//

#ifndef TPC_CONVERSION_CUDA_LAUNCH_H
#define TPC_CONVERSION_CUDA_LAUNCH_H

#include "tpc/Support/SymExpr.h"

#include <string>
#include <vector>

namespace mlir::tpc::cuda {

/// Threads of a block, except for attention kernels and for BlockPerRow, whose number of threads
/// depends on the length of a row.
inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kWarp = 32;
/// Registers of a multiprocessor, on each architecture.
inline constexpr unsigned kRegisters = 65536;

/// Assignment of work to threads, see lib/Conversion/Cuda/KernelLowering.h. Attention kernels have
/// other parameters, and their launch grid depends on the sizes of a call: see tpc/attention.h.
enum class Shape {
  Elements,
  WarpPerRow,
  BlockPerRow,
  RowByLength,
  Tiles,
  AttentionTiles,
  AttentionSplit
};

/// Limits on the resources of a kernel of one shape, on every architecture, so that enough of its
/// blocks fit on a multiprocessor to hide memory latency. tools/gpu_kernels.py checks them.
struct Ceiling {
  unsigned registers, sharedBytes;
};
Ceiling getCeiling(Shape shape);
inline constexpr Shape kShapes[] = {Shape::Elements,      Shape::WarpPerRow, Shape::BlockPerRow,
                                    Shape::RowByLength,   Shape::Tiles,      Shape::AttentionTiles,
                                    Shape::AttentionSplit};

/// Recommended launch parameters of a kernel. Results are correct for any number of blocks. Sizes
/// are expressions over the program's symbols and this rank's coordinates.
struct Launch {
  std::string name;
  unsigned operands = 0; // number of operands and results
  Shape shape = Shape::Elements;
  unsigned threads = kThreads;
  /// Number of rows. Not used for attention kernels (see tpc/attention.h), which also have no
  /// elements and extents.
  ::tpc::SymExpr rows = 1;
  /// Elements of a row that are distributed over threads; a thread processes `elementsPerThread` at
  /// a time.
  ::tpc::SymExpr elementsPerRow = 1;
  unsigned elementsPerThread = 1;
  /// Maximum number of a row's elements that a thread keeps in registers across passes; 0: each
  /// pass reads the row again.
  unsigned registerElements = 0;
  /// Shared memory: the kernel's static size, and the dynamic size that a launch must provide.
  unsigned sharedBytes = 0, dynamicSharedBytes = 0;
  /// Sizes that must be less than 2^31, because indices have 32 bits.
  std::vector<::tpc::SymExpr> extents;
};

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_LAUNCH_H
