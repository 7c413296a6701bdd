//===- Experts.cpp - Mixture of experts on CPUs ---------------------------===//
//
// The rows of an expert's tokens are gathered without padding. Experts are computed together, in
// groups of bounded size: one parallel region computes the inner elements of all experts of a
// group, a second one their results, which are then added in ascending order of experts. So only
// selected experts cost time, and memory is bounded. Weights of 16 bits are widened as they are
// read.
//
//===----------------------------------------------------------------------===//

#include "core/Context.h"
#include "core/DType.h"
#include "cpu/CpuDevice.h"
#include "cpu/Kernels.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <cmath>
#include <cstring>

namespace tpc::rt {
namespace {

/// Maximum rows of a group. Larger groups read each weight less often, and need more memory.
constexpr int64_t maxGroupRows = 1024;

/// Rows that suffice for a parallel region: a group of as many has no further expert, so that its
/// inner elements stay in the cache.
constexpr int64_t sufficientRows = 64;

/// Whether the gate's activation is an epilogue of a matmul: one without alpha, beta and limit.
bool isPlain(const tpc_experts_args &a) {
  return !a.gate || (a.alpha == 1 && a.beta == 0 && a.limit == 0);
}

float activate(const tpc_experts_args &a, const KernelTable &kernel, float z) {
  if (a.activation == TPC_EPILOGUE_SILU)
    return z / (1 + std::exp(-a.alpha * z));
  float result;
  kernel.activate(&z, &result, 1, a.activation);
  return result;
}

/// Computes v = activation(min(v, limit)) * (clamp(u) + beta) for `count` elements.
void combine(const tpc_experts_args &a, const KernelTable &kernel, const float *u, float *v,
             int64_t count) {
  if (isPlain(a)) { // v is already activated
    for (int64_t i = 0; i < count; ++i)
      v[i] *= u[i];
    return;
  }
  for (int64_t i = 0; i < count; ++i) {
    float up = u[i], gate = v[i];
    if (a.limit != 0) { // NaN remains
      up = up > a.limit ? a.limit : up < -a.limit ? -a.limit : up;
      gate = gate > a.limit ? a.limit : gate;
    }
    v[i] = activate(a, kernel, gate) * (up + a.beta);
  }
}

/// Rows [begin, end) of a group, whose tokens select `expert`.
struct ExpertRows {
  int64_t expert, begin, end;
};

/// Matrices [experts, n, k] of tpc_experts. Of each matrix, the first `packedPanels` panels are
/// packed (CpuDevice::packExperts), and the other rows are dense.
struct ExpertMatrices {
  const std::byte *data;
  int64_t n, k, packedPanels;
  int32_t dtype;

  const void *matrixOf(int64_t expert) const { return data + expert * n * k * sizeOf(dtype); }
};

/// Tasks of a parallel region over panels, each of at most maxGemmPanels panels. Each thread should
/// have several tasks for load balance; `repeats` is the number of tasks with the same panels.
struct PanelTasks {
  int64_t panels, step, blocks;

  PanelTasks(const KernelTable &kernel, int64_t n, int64_t repeats, int threads)
      : panels(divideUp(n, kernel.panelWidth)),
        step(std::clamp<int64_t>(repeats * panels / (4 * threads), 1, maxGemmPanels)),
        blocks(divideUp(panels, step)) {}
};

/// Experts of a group: at most maxGroupRows pairs of a token and an expert.
class ExpertGroup {
public:
  ExpertGroup(tpc_context &ctx, const tpc_experts_args &a, const KernelTable &kernel)
      : ctx(ctx), a(a), kernel(kernel), up(matricesOf(a.up, a.inner, a.hidden)),
        gate(matricesOf(a.gate, a.inner, a.hidden)), down(matricesOf(a.down, a.outputs, a.inner)) {}

  bool isFullFor(int64_t expert) const {
    auto rows = static_cast<int64_t>(tokens.size());
    return rows == maxGroupRows || (rows >= sufficientRows && experts.back().expert != expert);
  }

  void add(int64_t expert, int64_t token) {
    auto row = static_cast<int64_t>(tokens.size());
    if (experts.empty() || experts.back().expert != expert)
      experts.push_back({expert, row, row});
    ++experts.back().end;
    tokens.push_back(token);
  }

  /// Adds the results of the group to `out`, and empties it.
  void compute(Arena &arena) {
    auto rows = static_cast<int64_t>(tokens.size());
    if (rows == 0)
      return;
    int64_t copies = a.gate ? 2 : 1;
    int threads = threadsFor(ctx, rows, a.hidden, copies * a.inner);
    // Dense rows are packed for many rows of x, one panel at a time.
    bool packsRows = std::any_of(experts.begin(), experts.end(), [](const ExpertRows &e) {
      return e.end - e.begin > maxTransposedRows;
    });
    int64_t panelFloats = packsRows ? std::max(a.hidden, a.inner) * kernel.panelWidth : 0;
    Scratch memory(arena, rows * (a.hidden + copies * a.inner + a.outputs) +
                              ctx.threadsPerRank * panelFloats);
    x = memory.data;
    h = x + rows * a.hidden;
    u = h + rows * a.inner;
    y = h + rows * copies * a.inner;
    float *panels = y + rows * a.outputs;

    forEachTask(ctx, threadsFor(ctx, rows, a.hidden, 16), rows, [&](int64_t row, int) {
      std::memcpy(x + row * a.hidden, a.x + tokens[row] * a.hidden, a.hidden * sizeof(float));
    });
    // Each task computes columns of one expert.
    auto inColumns = [&](int64_t n, int maxThreads, auto compute) {
      auto count = static_cast<int64_t>(experts.size());
      PanelTasks tasks(kernel, n, count, maxThreads);
      forEachTask(ctx, maxThreads, count * tasks.blocks, [&](int64_t task, int worker) {
        int64_t panel = task % tasks.blocks * tasks.step;
        compute(experts[task / tasks.blocks], panel, std::min(tasks.panels, panel + tasks.step),
                panels + worker * panelFloats);
      });
    };
    inColumns(a.inner, threads,
              [&](const ExpertRows &e, int64_t panel0, int64_t panel1, float *panelMemory) {
                computeInner(e, panel0, panel1, panelMemory);
              });
    inColumns(a.outputs, threadsFor(ctx, rows, a.inner, a.outputs),
              [&](const ExpertRows &e, int64_t panel0, int64_t panel1, float *panelMemory) {
                GemmJob job = makeJob(h + e.begin * a.inner, down, nullptr, y + e.begin * a.outputs,
                                      e.end - e.begin, TPC_EPILOGUE_NONE);
                multiply(down, e.expert, job, panel0, panel1, panelMemory);
              });
    threads = threadsFor(ctx, rows, a.outputs, 4);
    forEachTask(ctx, threads, threads, [&](int64_t task, int) {
      addResults(a.outputs * task / threads, a.outputs * (task + 1) / threads);
    });
    experts.clear();
    tokens.clear();
  }

private:
  ExpertMatrices matricesOf(const void *data, int64_t n, int64_t k) const {
    int64_t packed = ctx.data.packedExperts.contains(data) ? n / kernel.panelWidth : 0;
    return {static_cast<const std::byte *>(data), n, k, packed, a.dtype};
  }

  /// Computes the columns of panels [panel0, panel1) of a matmul of all rows of an expert.
  /// `panelMemory` is for one panel.
  void multiply(const ExpertMatrices &matrices, int64_t expert, GemmJob job, int64_t panel0,
                int64_t panel1, float *panelMemory) const {
    int64_t width = kernel.panelWidth, packed = std::min(panel1, matrices.packedPanels);
    const void *matrix = matrices.matrixOf(expert);
    job.packed = matrix;
    if (panel0 < packed) {
      int64_t blocks = divideUp(job.m, maxGemmRows);
      for (int64_t block = 0; block < blocks; ++block)
        kernel.gemm(job, job.m * block / blocks, job.m * (block + 1) / blocks, panel0, packed);
    }
    int64_t dense = std::max(panel0, packed);
    if (dense >= panel1)
      return;
    if (job.m <= maxTransposedRows)
      return kernel.gemmTransposed(job, matrix, dense * width, std::min(job.n, panel1 * width));
    for (int64_t panel = dense; panel < panel1; ++panel) {
      kernel.packTransposed(matrix, job.weights, job.k, job.n, panel * width, panelMemory);
      multiplyPanels(kernel, job, panelMemory, panel, panel + 1);
    }
  }

  GemmJob makeJob(const float *from, const ExpertMatrices &matrices, const float *bias, float *to,
                  int64_t rows, int32_t epilogue) const {
    return {from,       matrices.k, nullptr,    bias,       nullptr,  to,
            matrices.n, rows,       matrices.k, matrices.n, epilogue, a.dtype};
  }

  /// Sets columns of h.
  void computeInner(const ExpertRows &e, int64_t panel0, int64_t panel1, float *panelMemory) const {
    int64_t rows = e.end - e.begin, begin = e.begin * a.inner;
    auto project = [&](const ExpertMatrices &matrices, const float *bias, float *to,
                       int32_t epilogue) {
      GemmJob job = makeJob(x + e.begin * a.hidden, matrices,
                            bias ? bias + e.expert * a.inner : nullptr, to + begin, rows, epilogue);
      multiply(matrices, e.expert, job, panel0, panel1, panelMemory);
    };
    auto forEachRow = [&](auto fn) {
      int64_t column = panel0 * kernel.panelWidth;
      int64_t count = std::min(a.inner, panel1 * kernel.panelWidth) - column;
      for (int64_t row = 0; row < rows; ++row)
        fn(begin + row * a.inner + column, count);
    };
    if (a.gate) {
      project(gate, a.gate_bias, h, isPlain(a) ? a.activation : TPC_EPILOGUE_NONE);
      project(up, a.up_bias, u, TPC_EPILOGUE_NONE);
      forEachRow([&](int64_t at, int64_t count) { combine(a, kernel, u + at, h + at, count); });
      return;
    }
    bool plainSilu = a.activation != TPC_EPILOGUE_SILU || a.alpha == 1;
    project(up, a.up_bias, h, plainSilu ? a.activation : TPC_EPILOGUE_NONE);
    if (!plainSilu)
      forEachRow([&](int64_t at, int64_t count) {
        for (int64_t i = at; i < at + count; ++i)
          h[i] = activate(a, kernel, h[i]);
      });
  }

  /// Adds columns [begin, end) of the results to `out`, in ascending order of experts.
  void addResults(int64_t begin, int64_t end) const {
    for (const ExpertRows &e : experts)
      for (int64_t row = e.begin; row < e.end; ++row) {
        float weight = a.routing[tokens[row] * a.all + a.first + e.expert];
        float *out = a.out + tokens[row] * a.outputs;
        for (int64_t o = begin; o < end; ++o)
          out[o] += weight * y[row * a.outputs + o];
      }
  }

  tpc_context &ctx;
  const tpc_experts_args &a;
  const KernelTable &kernel;
  const ExpertMatrices up, gate, down;
  std::vector<ExpertRows> experts;
  std::vector<int64_t> tokens; ///< of each row
  float *x = nullptr, *h = nullptr, *u = nullptr, *y = nullptr;
};

/// Moves the first panels of a dense [n, k] of 32-bit or 16-bit elements.
template <typename T> class ExpertPacker {
public:
  ExpertPacker(const KernelTable &kernel, int64_t n, int64_t k)
      : kernel(kernel), n(n), k(k), packed(k * kernel.panelWidth) {
    if (sizeof(T) == 2)
      pairs.resize(k * kernel.panelWidth);
  }

  /// Packs rows [panel * panelWidth, (panel + 1) * panelWidth), in place.
  void pack(T *rows, int64_t panel) {
    int64_t width = kernel.panelWidth, begin = panel * width;
    if constexpr (sizeof(T) == 4) {
      kernel.packTransposed(rows, TPC_F32, k, n, begin, packed.data());
    } else if (k % 2 == 0) {
      // Pairs of elements are transposed as numbers of 32 bits, and then split.
      kernel.packTransposed(rows, TPC_F32, k / 2, n, begin, pairs.data());
      for (int64_t step = 0; step < k / 2; ++step)
        for (int64_t i = 0; i < width; ++i) {
          T pair[2];
          std::memcpy(pair, &pairs[step * width + i], sizeof pair);
          packed[2 * step * width + i] = pair[0];
          packed[(2 * step + 1) * width + i] = pair[1];
        }
    } else {
      for (int64_t step = 0; step < k; ++step)
        for (int64_t i = 0; i < width; ++i)
          packed[step * width + i] = rows[(begin + i) * k + step];
    }
    std::memcpy(rows + begin * k, packed.data(), packed.size() * sizeof(T));
  }

private:
  const KernelTable &kernel;
  int64_t n, k;
  std::vector<T> packed;
  std::vector<float> pairs;
};

template <typename T>
void packAll(const tpc_context &ctx, T *matrices, int64_t experts, int64_t n, int64_t k) {
  const KernelTable &kernel = kernels();
  int64_t panels = n / kernel.panelWidth;
  int threads = threadsFor(ctx, experts, n, k);
  std::vector<ExpertPacker<T>> packers(threads, ExpertPacker<T>(kernel, n, k));
  forEachTask(ctx, threads, experts * panels, [&](int64_t task, int worker) {
    packers[worker].pack(matrices + task / panels * n * k, task % panels);
  });
}

} // namespace

bool CpuDevice::packExperts(void *matrices, int64_t experts, int64_t n, int64_t k, int32_t dtype) {
  if (k == 0)
    return true;
  if (sizeOf(dtype) == 2)
    packAll(ctx, static_cast<uint16_t *>(matrices), experts, n, k);
  else
    packAll(ctx, static_cast<float *>(matrices), experts, n, k);
  return true;
}

void CpuDevice::experts(const tpc_experts_args &a) {
  std::fill_n(a.out, a.tokens * a.outputs, 0.f);
  if (a.experts == 0 || a.inner == 0)
    return;
  ExpertGroup group(ctx, a, kernels());
  for (int64_t e = 0; e < a.experts; ++e)
    for (int64_t t = 0; t < a.tokens; ++t) {
      if (a.routing[t * a.all + a.first + e] == 0)
        continue;
      if (group.isFullFor(e))
        group.compute(scratch);
      group.add(e, t);
    }
  group.compute(scratch);
}

} // namespace tpc::rt
