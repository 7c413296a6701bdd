//===- Launch.h - How a kernel is launched on a GPU -------------*- C++ -*-===//

#ifndef TPC_CONVERSION_CUDA_LAUNCH_H
#define TPC_CONVERSION_CUDA_LAUNCH_H

#include "tpc/Support/SymExpr.h"

#include <string>
#include <vector>

namespace mlir::tpc::cuda {

/// Threads of a block, but for rows that are a block's, which have as many as their length needs,
/// and attention.
inline constexpr unsigned kThreads = 256;
inline constexpr unsigned kWarp = 32;
/// Of a multiprocessor, on each architecture.
inline constexpr unsigned kRegisters = 65536;

/// Who does what: see lib/Conversion/Cuda/KernelLowering.h. Kernels of attention take other
/// parameters, and their grid depends on a call's sizes: see tpc/attention.h.
enum class Shape {
  Elements,
  WarpPerRow,
  BlockPerRow,
  RowByLength,
  Tiles,
  AttentionTiles,
  AttentionSplit,
  AttentionCombine
};

/// What a kernel of a shape may need on any architecture, so that enough of its blocks fit on a
/// multiprocessor to hide what memory takes. tools/gpu_kernels.py compares.
struct Ceiling {
  unsigned registers, sharedBytes;
};
Ceiling getCeiling(Shape shape);
inline constexpr Shape kShapes[] = {
    Shape::Elements, Shape::WarpPerRow,     Shape::BlockPerRow,    Shape::RowByLength,
    Shape::Tiles,    Shape::AttentionTiles, Shape::AttentionSplit, Shape::AttentionCombine};

/// A kernel is right for any grid; this says what is a good one. Sizes are expressions over the
/// program's symbols and this rank's coordinates.
struct Launch {
  std::string name;
  unsigned operands = 0; // and results
  Shape shape = Shape::Elements;
  unsigned threads = kThreads;
  /// Of a program's kernel; one of attention has those of tpc/attention.h, and neither elements nor
  /// extents.
  ::tpc::SymExpr rows = 1;
  /// Of a row, as far as threads share them; a thread does `elementsPerThread` at a time.
  ::tpc::SymExpr elementsPerRow = 1;
  unsigned elementsPerThread = 1;
  /// Of a row, at most, that a thread keeps in registers from its first pass to its last one; 0:
  /// each pass reads the row.
  unsigned heldElements = 0;
  /// Of shared memory: what a kernel has, and what its launch has to give it.
  unsigned sharedBytes = 0, dynamicSharedBytes = 0;
  /// Each must be less than 2^31: indices are 32 bits.
  std::vector<::tpc::SymExpr> extents;
};

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_LAUNCH_H
