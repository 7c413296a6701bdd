//===- gemv.h - Launch interface of GPU matrix-vector kernels -------------===//
//
// Kernels for GEMMs with few rows: out[m, n] = x[m, k] w + residual[m, n] + bias[n] for m of 1 to
// kMaxRows, and w stored as [k, n] or, transposed, as [n, k]. One kernel for each Variant, with a
// one-dimensional grid of getGrid(...).blocks blocks of kThreads threads:
//   kernel(w, x, out, bias, residual, partials, counters, k, n, chunks, isWide, wRow, outRow)
// The first seven parameters are device addresses, the others 32-bit integers. bias and residual
// may be null; out may equal residual. isWide: out, bias and residual are f32, even though x and w
// are not. wRow, outRow: elements between rows of w, and of out and residual; at least their
// lengths.
//
// [k, n]: a block computes getColumns columns over a range of `chunks` chunks of kRowsOfChunk rows.
// If k is split over blocks, they store partial sums (getPartialBytes), and the last block of a
// range of columns adds them in order. Each range has a counter, which is 0 before and after the
// launch; the block that reads splits - 1 from it is the last.
// [n, k]: a warp computes getRowsOfWarp rows of w; partials, counters and chunks are unused.
//
// Kernels of a fused Variant normalize x and apply an activation, for w as [k, n] only:
//   kernel(w, x, out, bias, residual, partials, counters, scale, shift, k, n, chunks, isWide, wRow,
//          outRow, norm, isWideX, isWideScale, epsilon, activation, isGated)
// With a norm (tpc_norm), x is normalized, times scale, plus shift, which may be null, and rounded
// to the element type. isWideX: x is f32; isWideScale: scale and shift are f32. `epsilon` has the
// bits of an f32. `activation` (tpc_epilogue) is applied to the sum with the bias; there is no
// residual then. isGated: out[m, n / 2] is the activation of the first half of the columns times
// the second half. A block keeps its part of x in dynamic shared memory (getStagedBytes).
//
// A dependent launch (tpc/dependent_launch.h) reads w before its wait.
//
// Each element of the result is a sum in f32 whose order depends on the variant's type and layout,
// k, n and the number of multiprocessors, not on m: a row has the same bits alone as among others.
// Plain C++, shared by the compiler, the runtime and tests.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_GEMV_H
#define TPC_GEMV_H

#include "tpc/runtime.h"

namespace tpc::gemv {

/// Maximum number of rows of x. cuBLASLt is faster from 8 rows on.
inline constexpr int64_t kMaxRows = 4;
inline constexpr int64_t kThreads = 256, kWarp = 32, kWarps = kThreads / kWarp;
/// Bytes of one access to x and w.
inline constexpr int64_t kAccessBytes = 16;
/// Accesses to w that a thread computes with at a time, while as many are in flight.
inline constexpr int64_t kLoads = 8;

/// Parameters that point to memory that no kernel of a step writes.
inline constexpr unsigned kConstants[] = {0};

/// Compile-time parameters of a kernel.
struct Variant {
  int32_t element = TPC_F32; // tpc_dtype of x and w: f32, f16 or bf16
  bool transposed = false;   // w is [n, k]
  int64_t m = 1;             // 1 to kMaxRows
  bool fused = false;        // with a norm and an activation; not transposed
  bool operator==(const Variant &) const = default;
};

constexpr int64_t getBytes(int32_t element) { return element == TPC_F32 ? 4 : 2; }
/// Elements of one access.
constexpr int64_t getVector(int32_t element) { return kAccessBytes / getBytes(element); }

//===--- [k, n] --------------------------------------------------------------===//

/// Threads that read adjacent columns of a row; the others read other rows.
inline constexpr int64_t kThreadsOfRow = 8, kRowsAtOnce = kThreads / kThreadsOfRow;
/// Adjacent rows that a thread reads at a time.
inline constexpr int64_t kRowsOfChunk = kLoads;
/// Columns of a block.
constexpr int64_t getColumns(int32_t element) { return kThreadsOfRow * getVector(element); }

//===--- [n, k] --------------------------------------------------------------===//

/// Rows of w that a warp computes, which share their loads of x.
constexpr int64_t getRowsOfWarp(int64_t m) { return m == 1 ? 1 : 2; }

//===--- launches ------------------------------------------------------------===//

/// Whether sizes permit accesses of 16 bytes; pointers to x and w must be aligned to them as well.
/// `wRow`: elements between rows of w.
constexpr bool supports(int32_t element, bool transposed, int64_t m, int64_t k, int64_t n,
                        int64_t wRow) {
  constexpr int64_t end = int64_t(1) << 31;
  int64_t vector = getVector(element);
  return (element == TPC_F32 || element == TPC_F16 || element == TPC_BF16) && m >= 1 &&
         m <= kMaxRows && k >= 1 && n >= 1 && k < end - kThreads * kLoads && n < end - kThreads &&
         wRow >= (transposed ? k : n) && wRow < end && wRow % vector == 0 &&
         (transposed ? k % vector == 0 : k % kRowsOfChunk == 0 && n % vector == 0);
}

struct Grid {
  int64_t blocks = 0;
  int64_t ranges = 0; // ranges of columns; if transposed, of rows of w
  int64_t splits = 1; // parts of k
  int64_t chunks = 0; // maximum number of chunks of a part
};

/// Splits k so that about two blocks run on each multiprocessor. Each thread of a part has at least
/// one chunk; in all parts but the last, threads have equally many.
constexpr Grid getGrid(const Variant &variant, int64_t k, int64_t n, int64_t multiprocessors) {
  constexpr int64_t blocksOfMultiprocessor = 2, maxSplits = 16;
  auto ceilDiv = [](int64_t x, int64_t y) { return (x + y - 1) / y; };
  Grid grid;
  if (variant.transposed) {
    grid.ranges = ceilDiv(n, kWarps * getRowsOfWarp(variant.m));
    grid.blocks = grid.ranges;
    return grid;
  }
  grid.ranges = ceilDiv(n, getColumns(variant.element));
  // Chunks per thread if k is not split.
  int64_t turns = ceilDiv(k / kRowsOfChunk, kRowsAtOnce);
  int64_t wanted = blocksOfMultiprocessor * multiprocessors / grid.ranges;
  wanted = wanted < 1 ? 1 : wanted > maxSplits ? maxSplits : wanted;
  int64_t turnsOfSplit = ceilDiv(turns, wanted);
  grid.splits = ceilDiv(turns, turnsOfSplit);
  grid.chunks = turnsOfSplit * kRowsAtOnce;
  grid.blocks = grid.ranges * grid.splits;
  return grid;
}

/// Workspace of partial sums, aligned to 16 bytes.
constexpr int64_t getPartialBytes(const Variant &variant, const Grid &grid) {
  return grid.splits > 1 ? grid.blocks * variant.m * getColumns(variant.element) * 4 : 0;
}

//===--- fused kernels -------------------------------------------------------===//

/// Maximum bytes of dynamic shared memory. With static shared memory, a block has at most 48 KiB.
inline constexpr int64_t kMaxStagedBytes = 32 << 10;
/// Maximum number of blocks per multiprocessor: each block reads and normalizes all of x.
inline constexpr int64_t kMaxFusedBlocks = 4;

/// Dynamic shared memory of a fused kernel: its part of m rows of x.
constexpr int64_t getStagedBytes(const Variant &variant, const Grid &grid, int64_t k) {
  int64_t rows = grid.chunks * kRowsOfChunk;
  return variant.m * (rows < k ? rows : k) * getBytes(variant.element);
}

/// Whether fused kernels compute these sizes. The rule does not depend on the number of rows, so a
/// row has the same bits alone as among others. Pointers to x, scale and shift must be aligned to
/// 16 bytes.
constexpr bool supportsFused(int32_t element, int64_t k, int64_t n, int64_t wRow, bool isGated,
                             int64_t multiprocessors) {
  const Variant largest{element, false, kMaxRows, true};
  if (!supports(element, false, kMaxRows, k, n, wRow) || (isGated && n % (2 * getVector(element))))
    return false;
  Grid grid = getGrid(largest, k, n, multiprocessors);
  return getStagedBytes(largest, grid, k) <= kMaxStagedBytes &&
         grid.blocks <= kMaxFusedBlocks * multiprocessors;
}

} // namespace tpc::gemv

#endif // TPC_GEMV_H
