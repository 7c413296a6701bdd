//===- Gemm.cpp - GEMM ----------------------------------------------------===//
//
// Operands are converted to dense f32, the left one with contiguous rows. Sums run over chunks of
// k, whose size depends on the algorithm. So the last bits of results depend on the algorithm, but
// are the same in every run of it.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Halves.h"
#include "Matmul.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace sim::lt {

unsigned bytesOf(DataType type) { return type == F32 ? 4 : 2; }

static float toFloat(const uint8_t *from, DataType type) {
  if (type == F32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return type == Bf16 ? fromBf16(bits) : fromF16(bits);
}

static void fromFloat(uint8_t *to, DataType type, float value) {
  if (type == F32) {
    std::memcpy(to, &value, 4);
    return;
  }
  uint16_t bits = type == F16 ? toF16(value) : toBf16(value);
  std::memcpy(to, &bits, 2);
}

/// Rounds an f32 operand to the precision of a faster compute type.
static float reduce(float value, ComputeType compute) {
  switch (compute) {
  case Compute32FFastTf32: {
    auto bits = std::bit_cast<uint32_t>(value);
    return std::isfinite(value) ? std::bit_cast<float>((bits + 0x1000) & ~0x1fffu) : value;
  }
  case Compute32FFast16F:
    return float(_Float16(value));
  case Compute32FFast16Bf: {
    uint8_t bits[2];
    fromFloat(bits, Bf16, value);
    return toFloat(bits, Bf16);
  }
  case Compute32F:
  case Compute32FPedantic:
    break;
  }
  return value;
}

namespace {

class Matmul final : public Work {
public:
  Matmul(const Problem &problem, const Operands &operands, const AlgorithmChoice &choice,
         bool tanhGelu)
      : Work("matmul " + std::to_string(problem.m) + "x" + std::to_string(problem.n) + "x" +
             std::to_string(problem.k)),
        problem(problem), operands(operands), choice(choice), tanhGelu(tanhGelu) {}

  Progress step(Execution &execution) override {
    float alpha = operands.alpha, beta = operands.beta;
    if (operands.alphaAddress)
      std::memcpy(&alpha, execution.read(operands.alphaAddress, 4, "alpha"), 4);
    if (operands.betaAddress)
      std::memcpy(&beta, execution.read(operands.betaAddress, 4, "beta"), 4);
    // The kernel may write all of the workspace; the simulator writes its first and last bytes.
    if (uint64_t bytes = choice.workspace) {
      uint8_t *scratch = execution.write(operands.workspace, bytes, "the workspace");
      uint64_t some = std::min<uint64_t>(bytes, 65536);
      std::memset(scratch, 0xff, some);
      std::memset(scratch + bytes - some, 0xff, some);
    }
    for (int64_t batch = 0; batch < problem.layouts[3].batches; ++batch)
      run(execution, batch, alpha, beta);
    // Durations differ between calls and devices.
    double flops = 2 * double(problem.m) * double(problem.n) * double(problem.k) *
                   double(problem.layouts[3].batches);
    double noise = 1 + double(execution.random() % 1000) / 4000;
    execution.addDuration((0.005 + flops / 1e10) * choice.pace * noise);
    return Progress::Done;
  }

private:
  void run(Execution &execution, int64_t batch, float alpha, float beta) {
    uint64_t m = problem.m, n = problem.n;
    // [m, k] and [n, k]: elements along k are contiguous.
    std::vector<float> left = load(execution, 0, batch, problem.desc.transA == OpN, "A");
    std::vector<float> right = load(execution, 1, batch, problem.desc.transB == OpN, "B");
    std::vector<float> out(m * n); // [n, m]
    multiply(left.data(), right.data(), out.data());
    std::vector<float> bias(m);
    if (problem.desc.epilogue & Bias) {
      DataType type =
          problem.desc.biasType < 0 ? problem.layouts[3].type : DataType(problem.desc.biasType);
      unsigned bytes = bytesOf(type);
      uint64_t from = problem.desc.bias + uint64_t(batch * problem.desc.biasBatchStride) * bytes;
      const uint8_t *data = execution.read(from, m * bytes, "the bias");
      for (uint64_t i = 0; i < m; ++i)
        bias[i] = toFloat(data + i * bytes, type);
    }
    std::vector<float> c;
    if (beta != 0)
      c = load(execution, 2, batch, true, "C");
    for (uint64_t j = 0; j < n; ++j)
      for (uint64_t i = 0; i < m; ++i) {
        float value = alpha * out[j * m + i];
        if (beta != 0)
          value += beta * c[j * m + i];
        out[j * m + i] = finish(value + bias[i]);
      }
    store(execution, batch, out);
  }

  float finish(float value) const {
    if (problem.desc.epilogue & Relu)
      return std::max(value, 0.0f);
    if (!(problem.desc.epilogue & Gelu))
      return value;
    return tanhGelu
               ? 0.5f * value *
                     (1 + std::tanh(0.7978845608f * (value + 0.044715f * value * value * value)))
               : 0.5f * value * (1 + std::erf(value * 0.70710678f));
  }

  /// Packs one batch of an operand densely. With `plain`, columns of the operand become contiguous,
  /// otherwise its rows. C has the layout of the result, whose columns are contiguous.
  std::vector<float> load(Execution &execution, unsigned which, int64_t batch, bool plain,
                          const char *name) {
    const Layout &layout = problem.layouts[which];
    unsigned bytes = bytesOf(layout.type);
    bool byColumn = layout.order == Col;
    uint64_t lines = byColumn ? layout.cols : layout.rows,
             length = byColumn ? layout.rows : layout.cols;
    // Whether the dimension to pack is already contiguous in memory.
    bool straight = plain == byColumn;
    std::vector<float> result(lines * length);
    uint64_t base = operands.addresses[which] + uint64_t(batch * layout.stride) * bytes;
    bool dense = uint64_t(layout.ld) == length;
    const uint8_t *all = dense ? execution.read(base, lines * length * bytes, name) : nullptr;
    for (uint64_t line = 0; line < lines; ++line) {
      const uint8_t *from =
          dense ? all + line * length * bytes
                : execution.read(base + line * uint64_t(layout.ld) * bytes, length * bytes, name);
      for (uint64_t i = 0; i < length; ++i) {
        float value = toFloat(from + i * bytes, layout.type);
        if (which < 2 && layout.type == F32)
          value = reduce(value, problem.desc.compute);
        result[straight ? line * length + i : i * lines + line] = value;
      }
    }
    return result;
  }

  void store(Execution &execution, int64_t batch, const std::vector<float> &out) {
    const Layout &layout = problem.layouts[3];
    unsigned bytes = bytesOf(layout.type);
    bool byColumn = layout.order == Col;
    uint64_t lines = byColumn ? layout.cols : layout.rows,
             length = byColumn ? layout.rows : layout.cols;
    uint64_t base = operands.addresses[3] + uint64_t(batch * layout.stride) * bytes;
    for (uint64_t line = 0; line < lines; ++line) {
      uint8_t *to = execution.write(base + line * uint64_t(layout.ld) * bytes, length * bytes, "D");
      for (uint64_t i = 0; i < length; ++i)
        fromFloat(to + i * bytes, layout.type,
                  out[byColumn ? line * problem.m + i : i * problem.m + line]);
    }
  }

  void multiply(const float *left, const float *right, float *out) const {
    uint64_t m = problem.m, n = problem.n, k = problem.k;
    constexpr uint64_t width = 64;
    std::vector<float> block(k * width);
    for (uint64_t i0 = 0; i0 < m; i0 += width) {
      uint64_t count = std::min(width, m - i0);
      for (uint64_t kk = 0; kk < k; ++kk)
        std::memcpy(&block[kk * width], left + kk * m + i0, count * 4);
      for (uint64_t j = 0; j < n; ++j) {
        float total[width] = {};
        for (uint64_t from = 0; from < k; from += choice.chunk) {
          float sum[width] = {};
          for (uint64_t kk = from, end = std::min<uint64_t>(k, from + choice.chunk); kk < end;
               ++kk) {
            float factor = right[j * k + kk];
            const float *row = &block[kk * width];
            for (uint64_t i = 0; i < width; ++i)
              sum[i] += row[i] * factor;
          }
          for (uint64_t i = 0; i < width; ++i)
            total[i] += sum[i];
        }
        std::memcpy(out + j * m + i0, total, count * 4);
      }
    }
  }

  Problem problem;
  Operands operands;
  AlgorithmChoice choice;
  bool tanhGelu;
};

} // namespace

std::shared_ptr<Work> makeMatmul(const Problem &problem, const Operands &operands,
                                 const AlgorithmChoice &choice, bool tanhGelu) {
  return std::make_shared<Matmul>(problem, operands, choice, tanhGelu);
}

} // namespace sim::lt
