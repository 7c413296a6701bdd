//===- Experts.cpp - Mixture of experts on CPUs ---------------------------===//
//
// The rows of an expert's tokens are gathered without padding, and multiplied in chunks of bounded
// size. So only selected experts cost time, and memory is bounded. The results of experts are added
// in ascending order. Weights of 16 bits are widened as they are read.
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

/// Maximum rows of a matmul. Larger chunks pack each weight less often, and need more memory.
constexpr int64_t maxChunkRows = 1024;

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

} // namespace

void CpuDevice::experts(const tpc_experts_args &a) {
  const KernelTable &kernel = kernels();
  std::fill_n(a.out, a.tokens * a.outputs, 0.f);
  if (a.experts == 0 || a.inner == 0)
    return;
  std::vector<int64_t> rows;
  for (int64_t e = 0; e < a.experts; ++e) {
    rows.clear();
    const float *routing = a.routing + a.first + e;
    for (int64_t t = 0; t < a.tokens; ++t)
      if (routing[t * a.all] != 0)
        rows.push_back(t);
    for (size_t begin = 0; begin < rows.size(); begin += maxChunkRows) {
      std::span<const int64_t> chunk(rows.data() + begin,
                                     std::min<size_t>(maxChunkRows, rows.size() - begin));
      computeExpert(a, kernel, e, chunk);
    }
  }
}

void CpuDevice::computeExpert(const tpc_experts_args &a, const KernelTable &kernel, int64_t e,
                              std::span<const int64_t> tokens) {
  auto m = static_cast<int64_t>(tokens.size());
  int64_t matrix = a.inner * a.hidden;
  Scratch memory(scratch, m * (a.hidden + (a.gate ? 2 : 1) * a.inner + a.outputs));
  float *x = memory.data, *h = x + m * a.hidden, *y = h + m * a.inner, *u = y + m * a.outputs;
  for (int64_t i = 0; i < m; ++i)
    std::memcpy(x + i * a.hidden, a.x + tokens[i] * a.hidden, a.hidden * sizeof(float));
  auto multiply = [&](const float *from, int64_t k, const void *weights, const float *bias,
                      int64_t n, float *to, int32_t epilogue) {
    GemmJob job{from, k, nullptr, bias, nullptr, to, n, m, k, n, epilogue, a.dtype};
    multiplyTransposed(ctx, scratch, kernel, job, weights);
  };
  auto advance = [&](const void *weights, int64_t elements) {
    return static_cast<const std::byte *>(weights) + elements * sizeOf(a.dtype);
  };
  auto biasOf = [&](const float *bias) { return bias ? bias + e * a.inner : nullptr; };
  bool plainSilu = a.activation != TPC_EPILOGUE_SILU || a.alpha == 1;
  if (a.gate) {
    multiply(x, a.hidden, advance(a.gate, e * matrix), biasOf(a.gate_bias), a.inner, h,
             isPlain(a) ? a.activation : TPC_EPILOGUE_NONE);
    multiply(x, a.hidden, advance(a.up, e * matrix), biasOf(a.up_bias), a.inner, u,
             TPC_EPILOGUE_NONE);
    forEachTask(ctx, threadsFor(ctx, m, a.inner, 16), m, [&](int64_t row, int) {
      combine(a, kernel, u + row * a.inner, h + row * a.inner, a.inner);
    });
  } else {
    multiply(x, a.hidden, advance(a.up, e * matrix), biasOf(a.up_bias), a.inner, h,
             plainSilu ? a.activation : TPC_EPILOGUE_NONE);
    if (!plainSilu)
      for (int64_t i = 0; i < m * a.inner; ++i)
        h[i] = activate(a, kernel, h[i]);
  }
  multiply(h, a.inner, advance(a.down, e * a.outputs * a.inner), nullptr, a.outputs, y,
           TPC_EPILOGUE_NONE);
  for (int64_t i = 0; i < m; ++i) {
    float weight = a.routing[tokens[i] * a.all + a.first + e];
    float *out = a.out + tokens[i] * a.outputs;
    for (int64_t o = 0; o < a.outputs; ++o)
      out[o] += weight * y[i * a.outputs + o];
  }
}

} // namespace tpc::rt
