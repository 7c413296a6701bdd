//===- Matmul.cpp - Matrix multiplication ---------------------------------===//

#include "core/Context.h"
#include "core/DType.h"
#include "core/HostMemory.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <vector>

namespace tpc::rt {
namespace {

/// Maximum rows of a panel that `batchProduct` packs at a time.
constexpr int64_t maxPackedDepth = 3072;

/// Partition of a matmul's [m, panels] into tasks.
struct GemmTasks {
  int64_t rowBlocks, panelBlocks;

  /// Large tasks are fastest, but each thread should have several for load balance.
  GemmTasks(const KernelTable &kernel, int64_t m, int64_t panels, int threads) {
    rowBlocks = divideUp(m, maxGemmRows);
    panelBlocks = divideUp(panels, maxGemmPanels);
    int64_t wanted = threads == 1 ? 1 : 4 * threads;
    if (rowBlocks * panelBlocks < wanted)
      panelBlocks = std::min(panels, divideUp(wanted, rowBlocks));
    if (rowBlocks * panelBlocks < wanted)
      rowBlocks = std::min(divideUp(m, kernel.rowStep), divideUp(wanted, panelBlocks));
  }
  int64_t count() const { return rowBlocks * panelBlocks; }
};

/// Matmuls of the same rows, whose panels are numbered consecutively.
struct GemmJobs {
  struct Entry {
    GemmJob job;
    int64_t panel0, panel1;
  };
  std::vector<Entry> entries;
  int64_t panels = 0, columns = 0;

  void add(const GemmJob &job, int width) {
    int64_t end = panels + divideUp(job.n, width);
    entries.push_back({job, panels, end});
    panels = end;
    columns += job.n;
  }
  /// Runs a task. Consecutive tasks differ in rows first, so that panels stay in the cache.
  void run(const KernelTable &kernel, const GemmTasks &tasks, int64_t task) const {
    int64_t row = task % tasks.rowBlocks, block = task / tasks.rowBlocks;
    int64_t begin = panels * block / tasks.panelBlocks, m = entries.front().job.m;
    int64_t end = panels * (block + 1) / tasks.panelBlocks;
    for (const Entry &entry : entries) {
      int64_t from = std::max(begin, entry.panel0), to = std::min(end, entry.panel1);
      if (from < to)
        kernel.gemm(entry.job, m * row / tasks.rowBlocks, m * (row + 1) / tasks.rowBlocks,
                    from - entry.panel0, to - entry.panel0);
    }
  }
};

/// Copies `columns` columns of rows to a panel of `width` columns, padded with zeros.
template <typename T>
void packPanel(const T *rows, int64_t rowStride, int64_t numRows, int64_t columns, int width,
               T *to) {
  for (int64_t k = 0; k < numRows; ++k, rows += rowStride, to += width) {
    std::memcpy(to, rows, columns * sizeof(T));
    std::memset(to + columns, 0, (width - columns) * sizeof(T));
  }
}

/// Matmul whose panels are made by pack(column, panel), a few at a time for all rows.
template <typename Pack>
void multiplyInPanels(tpc_context &ctx, Arena &arena, const KernelTable &kernel, const GemmJob &job,
                      const Pack &pack) {
  int width = kernel.panelWidth, threads = threadsFor(ctx, job.m, job.k, job.n);
  int64_t panels = divideUp(job.n, width), panelSize = std::max<int64_t>(job.k, 1) * width;
  int64_t step = std::clamp<int64_t>(panels / (4 * threads), 1, maxGemmPanels);
  Scratch scratch(arena, threads * step * panelSize);
  forEachTask(ctx, threads, divideUp(panels, step), [&](int64_t task, int worker) {
    int64_t panel0 = task * step, panel1 = std::min(panels, panel0 + step);
    float *packed = scratch.data + worker * step * panelSize;
    for (int64_t panel = panel0; panel < panel1; ++panel)
      pack(panel * width, packed + (panel - panel0) * job.k * width);
    multiplyPanels(kernel, job, packed, panel0, panel1);
  });
}

/// Matmul with the transpose of a dense [n, k]. A task of few rows reads the table in place; a task
/// of many rows packs a few panels for all of them.
void multiplyTransposed(tpc_context &ctx, Arena &arena, const KernelTable &kernel,
                        const GemmJob &job, const void *rows) {
  int width = kernel.panelWidth, threads = threadsFor(ctx, job.m, job.k, job.n);
  int64_t panels = divideUp(job.n, width);
  if (job.m <= maxTransposedRows) {
    int64_t tasks = threads == 1 ? 1 : std::min<int64_t>(panels, 8 * threads);
    forEachTask(ctx, threads, tasks, [&](int64_t task, int) {
      kernel.gemmTransposed(job, rows, panels * task / tasks * width,
                            std::min(job.n, panels * (task + 1) / tasks * width));
    });
    return;
  }
  multiplyInPanels(ctx, arena, kernel, job, [&](int64_t column, float *panel) {
    kernel.packTransposed(rows, job.weights, job.k, job.n, column, panel);
  });
}

} // namespace

void multiplyPanels(const KernelTable &kernel, const GemmJob &job, const float *packed,
                    int64_t panel0, int64_t panel1) {
  // The same matmul, restricted to these columns.
  GemmJob part = job;
  int64_t column = panel0 * kernel.panelWidth;
  part.packed = packed;
  part.weights = TPC_F32;
  part.n = std::min(job.n, panel1 * kernel.panelWidth) - column;
  part.out += column;
  part.bias = job.bias ? job.bias + column : nullptr;
  part.residual = job.residual ? job.residual + column : nullptr;
  for (int64_t row = 0; row < job.m; row += maxGemmRows)
    kernel.gemm(part, row, std::min(job.m, row + maxGemmRows), 0, panel1 - panel0);
}

int threadsFor(const tpc_context &ctx, int64_t m, int64_t k, int64_t n) {
  double operations =
      2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  return static_cast<int>(std::min<double>(ctx.threadsPerRank, 1 + operations / 200000));
}

std::shared_ptr<std::byte> PackedMatrix::allocate(int64_t bytes) {
  auto *memory = static_cast<std::byte *>(allocateTensor(static_cast<size_t>(bytes)));
  if (!memory)
    throw std::bad_alloc();
  return {memory, [](std::byte *p) { std::free(p); }};
}

int32_t PackedMatrix::storedType(int32_t dtype, int32_t sourceDtype) {
  bool isHalf = sourceDtype == TPC_F16 || sourceDtype == TPC_BF16;
  return dtype == TPC_F32 && isHalf ? sourceDtype : dtype;
}

int64_t PackedMatrix::bytesFor(int64_t k, int64_t n, int32_t stored) {
  int width = kernels().panelWidth;
  return k * divideUp(n, width) * width * sizeOf(stored);
}

template <typename T> void PackedMatrix::pack(int64_t row0, int64_t row1, const void *rows) {
  int width = kernels().panelWidth;
  const T *from = static_cast<const T *>(rows);
  T *to = reinterpret_cast<T *>(panels.get());
  for (int64_t column = 0; column < n; column += width)
    packPanel(from + column, n, row1 - row0, std::min<int64_t>(width, n - column), width,
              to + column * k + row0 * width);
}

void PackedMatrix::setRows(int64_t row0, int64_t row1, const void *rows) {
  if (sizeOf(stored) == 2)
    pack<uint16_t>(row0, row1, rows);
  else
    pack<float>(row0, row1, rows);
}

std::vector<std::shared_ptr<Matrix>>
CpuDevice::makeMatrices(int64_t k, std::span<const int64_t> widths, int32_t dtype) {
  int64_t bytes = 0;
  for (int64_t n : widths)
    bytes += PackedMatrix::bytesFor(k, n, dtype);
  std::shared_ptr<std::byte> block = PackedMatrix::allocate(bytes);
  std::vector<std::shared_ptr<Matrix>> matrices;
  std::byte *at = block.get();
  for (int64_t n : widths) {
    matrices.push_back(
        std::make_shared<PackedMatrix>(k, n, dtype, std::shared_ptr<std::byte>(block, at)));
    at += PackedMatrix::bytesFor(k, n, dtype);
  }
  return matrices;
}

void CpuDevice::setRows(Matrix &matrix, int64_t row0, int64_t row1, const void *rows) {
  static_cast<PackedMatrix &>(matrix).setRows(row0, row1, rows);
}

std::shared_ptr<Matrix> CpuDevice::transposeOf(const void *rows, int64_t k, int64_t n,
                                               int32_t dtype) {
  return std::make_shared<PackedMatrix>(rows, k, n, dtype);
}

void CpuDevice::multiply(const Products &p) {
  const KernelTable &kernel = kernels();
  GemmJobs jobs;
  for (const Product &product : p.list) {
    auto &matrix = static_cast<const PackedMatrix &>(*product.matrix);
    int64_t n = matrix.n;
    GemmJob job{p.x, p.k, matrix.data(),    product.bias, product.residual, product.out, n, p.m,
                p.k, n,   product.epilogue, matrix.stored};
    if (matrix.transposed)
      multiplyTransposed(ctx, scratch, kernel, job, matrix.transposed);
    else
      jobs.add(job, kernel.panelWidth);
  }
  if (jobs.entries.empty())
    return;
  int threads = threadsFor(ctx, p.m, p.k, jobs.columns);
  GemmTasks tasks(kernel, p.m, jobs.panels, threads);
  forEachTask(ctx, threads, tasks.count(),
              [&](int64_t task, int) { jobs.run(kernel, tasks, task); });
}

void CpuDevice::quantizedProduct(const tpc_quantized_args &a) {
  const KernelTable &kernel = kernels();
  bool isFew = a.m <= maxTransposedRows;
  auto inColumns = [&](auto compute) {
    int threads = threadsFor(ctx, a.m, a.k, a.n), width = 2 * kernel.panelWidth;
    int64_t parts = divideUp(a.n, width);
    int64_t tasks = threads == 1 ? 1 : std::min<int64_t>(parts, 8 * threads);
    forEachTask(ctx, threads, tasks, [&](int64_t task, int) {
      compute(parts * task / tasks * width, std::min(a.n, parts * (task + 1) / tasks * width));
    });
  };
  if (int64_t floats = isFew ? kernel.digitFloats(a) : 0) {
    Scratch digits(scratch, floats);
    if (kernel.splitDigits(a, digits.data))
      return inColumns([&](int64_t column0, int64_t column1) {
        kernel.gemmIntegers(a, digits.data, column0, column1);
      });
  }
  if (isFew && kernel.readsQuantized(a))
    return inColumns(
        [&](int64_t column0, int64_t column1) { kernel.gemmQuantized(a, column0, column1); });
  GemmJob job{a.x, a.k, nullptr, a.bias, a.residual, a.out, a.n, a.m, a.k, a.n, a.epilogue};
  multiplyInPanels(ctx, scratch, kernel, job,
                   [&](int64_t column, float *panel) { kernel.dequantize(a, column, panel); });
}

void CpuDevice::batchProduct(const BatchProduct &p) {
  const KernelTable &kernel = kernels();
  int64_t m = p.m, k = p.k, n = p.n;
  int width = kernel.panelWidth, threads = threadsFor(ctx, p.batch * m, k, n);
  // A task packs a few panels of b and multiplies all rows of a matrix by them, one block of k
  // after the other.
  int64_t panels = divideUp(n, width), depth = std::clamp<int64_t>(k, 1, maxPackedDepth);
  int64_t step = std::clamp<int64_t>(p.batch * panels / (4 * threads), 1, maxGemmPanels);
  int64_t blocks = divideUp(panels, step);
  Scratch memory(scratch, threads * step * depth * width);
  forEachTask(ctx, threads, p.batch * blocks, [&](int64_t task, int worker) {
    int64_t matrix = task / blocks, column0 = task % blocks * step * width;
    int64_t columns = std::min(n - column0, step * width), count = divideUp(columns, width);
    float *packed = memory.data + worker * step * depth * width;
    const float *a = p.a + matrix * p.aStride, *b = p.b + matrix * p.bStride;
    float *out = p.out + matrix * m * n + column0;
    for (int64_t k0 = 0; k0 == 0 || k0 < k; k0 += depth) {
      int64_t depthHere = std::min(depth, k - k0);
      for (int64_t panel = 0; panel < count; ++panel) {
        int64_t column = column0 + panel * width;
        float *to = packed + panel * depthHere * width;
        packPanel(b + k0 * n + column, n, depthHere, std::min<int64_t>(width, n - column), width,
                  to);
      }
      GemmJob job{a + k0, k, packed,    nullptr, k0 ? out : nullptr, out,
                  n,      m, depthHere, columns, TPC_EPILOGUE_NONE};
      for (int64_t row = 0; row < m; row += maxGemmRows)
        kernel.gemm(job, row, std::min(m, row + maxGemmRows), 0, count);
    }
  });
}

} // namespace tpc::rt
