//===- Matmul.cpp - matrix products ---------------------------------------===//

#include "cpu/Compute.h"
#include "cpu/Kernels.h"
#include "cpu/Memory.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>
#include <string>
#include <vector>

namespace tpc::rt {
namespace {

struct ComputeState : RankState {
  std::vector<std::shared_ptr<PackedMatrix>> packed; ///< by parameter
};

ComputeState &stateOf(tpc_context &ctx) {
  if (!ctx.compute)
    ctx.compute = std::make_unique<ComputeState>();
  return static_cast<ComputeState &>(*ctx.compute);
}

int64_t divideUp(int64_t a, int64_t b) { return (a + b - 1) / b; }

/// How the [m, panels] of a product are cut into tasks.
struct GemmTasks {
  int64_t rowBlocks, panelBlocks;

  /// Large tasks are fastest; but every thread should have a few.
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
  /// Row blocks vary fastest: the panels stay in the cache.
  void run(const KernelTable &kernel, const GemmJob &job, int64_t panels, int64_t task) const {
    int64_t row = task % rowBlocks, panel = task / rowBlocks;
    kernel.gemm(job, job.m * row / rowBlocks, job.m * (row + 1) / rowBlocks,
                panels * panel / panelBlocks, panels * (panel + 1) / panelBlocks);
  }
};

/// Copies columns [column0, column0 + width) of rows to a panel, filled up with zeros.
void packPanel(const float *rows, int64_t rowStride, int64_t numRows, int64_t columns, int width,
               float *to) {
  for (int64_t k = 0; k < numRows; ++k, rows += rowStride, to += width) {
    std::memcpy(to, rows, columns * sizeof(float));
    std::memset(to + columns, 0, (width - columns) * sizeof(float));
  }
}

/// A product with the transpose of a dense [n, k]. A task of few rows reads the table as it is; of
/// many rows, it packs a few panels for all of them.
void multiplyTransposed(tpc_context &ctx, const KernelTable &kernel, const GemmJob &job,
                        const float *rows) {
  int width = kernel.panelWidth, threads = threadsFor(ctx, job.m, job.k, job.n);
  int64_t panels = divideUp(job.n, width), panelSize = std::max<int64_t>(job.k, 1) * width;
  if (job.m <= maxTransposedRows) {
    int64_t tasks = threads == 1 ? 1 : std::min<int64_t>(panels, 8 * threads);
    forEachTask(ctx, threads, tasks, [&](int64_t task, int) {
      kernel.gemmTransposed(job, rows, panels * task / tasks * width,
                            std::min(job.n, panels * (task + 1) / tasks * width));
    });
    return;
  }
  int64_t step = std::clamp<int64_t>(panels / (4 * threads), 1, maxGemmPanels);
  auto *scratch = static_cast<float *>(
      tpc_frame_push(&ctx, threads * step * panelSize * static_cast<int64_t>(sizeof(float))));
  forEachTask(ctx, threads, divideUp(panels, step), [&](int64_t task, int worker) {
    int64_t panel0 = task * step, panel1 = std::min(panels, panel0 + step);
    float *packed = scratch + worker * step * panelSize;
    for (int64_t panel = panel0; panel < panel1; ++panel)
      kernel.packTransposed(rows, job.k, job.n, panel * width,
                            packed + (panel - panel0) * job.k * width);
    // The same product, of these columns only.
    GemmJob part = job;
    int64_t column = panel0 * width;
    part.packed = packed;
    part.n = std::min(job.n, panel1 * width) - column;
    part.out += column;
    part.bias = job.bias ? job.bias + column : nullptr;
    part.residual = job.residual ? job.residual + column : nullptr;
    for (int64_t row = 0; row < job.m; row += maxGemmRows)
      kernel.gemm(part, row, std::min(job.m, row + maxGemmRows), 0, panel1 - panel0);
  });
  tpc_frame_pop(&ctx, scratch);
}

} // namespace

int threadsFor(const tpc_context &ctx, int64_t m, int64_t k, int64_t n) {
  double operations =
      2.0 * static_cast<double>(m) * static_cast<double>(k) * static_cast<double>(n);
  return static_cast<int>(std::min<double>(ctx.threadsPerRank, 1 + operations / 200000));
}

PackedMatrix::PackedMatrix(int64_t k, int64_t n) : numRows(k), numColumns(n) {
  panels.reset(static_cast<float *>(allocateTensor(static_cast<size_t>(bytesFor(k, n)))));
  if (!panels)
    throw std::bad_alloc();
}

void PackedMatrix::Free::operator()(float *p) const { std::free(p); }

int64_t PackedMatrix::bytesFor(int64_t k, int64_t n) {
  int width = kernels().panelWidth;
  return k * divideUp(n, width) * width * static_cast<int64_t>(sizeof(float));
}

void PackedMatrix::setRows(int64_t row0, int64_t row1, const float *rows) {
  int width = kernels().panelWidth;
  for (int64_t column = 0; column < numColumns; column += width)
    packPanel(rows + column, numColumns, row1 - row0, std::min<int64_t>(width, numColumns - column),
              width, panels.get() + column * numRows + row0 * width);
}

std::shared_ptr<PackedMatrix> PackedMatrix::transposeOf(const float *rows, int64_t k, int64_t n) {
  std::shared_ptr<PackedMatrix> matrix(new PackedMatrix());
  matrix->numRows = k;
  matrix->numColumns = n;
  matrix->dense = rows;
  return matrix;
}

std::shared_ptr<PackedMatrix> packedParameter(tpc_context &ctx, int32_t index) {
  auto &packed = stateOf(ctx).packed;
  return index >= 0 && static_cast<size_t>(index) < packed.size() ? packed[index] : nullptr;
}

void setPackedParameter(tpc_context &ctx, int32_t index, std::shared_ptr<PackedMatrix> matrix) {
  auto &packed = stateOf(ctx).packed;
  if (packed.size() <= static_cast<size_t>(index))
    packed.resize(index + 1);
  packed[index] = std::move(matrix);
}

} // namespace tpc::rt

using namespace tpc::rt;

extern "C" void tpc_matmul(tpc_context *ctx, int32_t parameter, const float *x, const float *bias,
                           const float *residual, float *out, int64_t m, int64_t k, int64_t n,
                           int32_t epilogue) {
  if (m <= 0 || n <= 0)
    return;
  std::shared_ptr<PackedMatrix> matrix = packedParameter(*ctx, parameter);
  if (!matrix)
    fail(*ctx,
         "internal error: parameter " + std::to_string(parameter) + " was not packed for products");
  if (matrix->k() != k || matrix->n() != n)
    fail(*ctx, "internal error: parameter " + std::to_string(parameter) + " is [" +
                   std::to_string(matrix->k()) + ", " + std::to_string(matrix->n()) +
                   "], but a product takes it as [" + std::to_string(k) + ", " + std::to_string(n) +
                   "]");
  const KernelTable &kernel = kernels();
  GemmJob job{x, k, matrix->data(), bias, residual, out, n, m, k, n, epilogue};
  if (matrix->transposed())
    return multiplyTransposed(*ctx, kernel, job, matrix->transposed());
  int64_t panels = divideUp(n, kernel.panelWidth);
  int threads = threadsFor(*ctx, m, k, n);
  GemmTasks tasks(kernel, m, panels, threads);
  forEachTask(*ctx, threads, tasks.count(),
              [&](int64_t task, int) { tasks.run(kernel, job, panels, task); });
}

extern "C" void tpc_batch_matmul(tpc_context *ctx, const float *a, const float *b, float *out,
                                 int64_t batch, int64_t m, int64_t k, int64_t n,
                                 int64_t aBatchStride, int64_t bBatchStride) {
  if (batch <= 0 || m <= 0 || n <= 0)
    return;
  const KernelTable &kernel = kernels();
  int width = kernel.panelWidth, threads = threadsFor(*ctx, batch * m, k, n);
  // A task packs one panel of b and multiplies all rows of a matrix with it.
  int64_t panels = divideUp(n, width), panelSize = std::max<int64_t>(k, 1) * width;
  float *scratch = static_cast<float *>(tpc_frame_push(ctx, threads * panelSize * sizeof(float)));
  forEachTask(*ctx, threads, batch * panels, [&](int64_t task, int worker) {
    int64_t matrix = task / panels, column = task % panels * width;
    int64_t columns = std::min<int64_t>(width, n - column);
    float *panel = scratch + worker * panelSize;
    packPanel(b + matrix * bBatchStride + column, n, k, columns, width, panel);
    GemmJob job{a + matrix * aBatchStride,
                k,
                panel,
                nullptr,
                nullptr,
                out + matrix * m * n + column,
                n,
                m,
                k,
                columns,
                TPC_EPILOGUE_NONE};
    for (int64_t row = 0; row < m; row += maxGemmRows)
      kernel.gemm(job, row, std::min(m, row + maxGemmRows), 0, 1);
  });
  tpc_frame_pop(ctx, scratch);
}
