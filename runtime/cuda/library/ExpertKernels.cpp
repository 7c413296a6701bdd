//===- ExpertKernels.cpp - Kernels of mixtures of experts -----------------===//

#include "cuda/library/ExpertKernels.h"
#include "core/DType.h"
#include "cuda/library/Block.h"
#include "cuda/library/GemvText.h"
#include "tpc/experts.h"
#include <algorithm>
#include <bit>
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

constexpr const char *rowsName = "tpc_experts_rows", *combineName = "tpc_experts_combine";
constexpr const char *names[] = {"tpc_experts_inner_f32",
                                 "tpc_experts_inner_f16",
                                 "tpc_experts_inner_bf16",
                                 "tpc_experts_outputs_f32",
                                 "tpc_experts_outputs_f16",
                                 "tpc_experts_outputs_bf16",
                                 "tpc_experts_grouped_f32",
                                 "tpc_experts_grouped_f16",
                                 "tpc_experts_grouped_bf16",
                                 rowsName,
                                 combineName};

const char *nameOf(int kind, int32_t dtype) {
  return names[3 * kind + (dtype == TPC_F32 ? 0 : dtype == TPC_F16 ? 1 : 2)];
}

/// Kernel parameters, in order.
template <int pointerCount, int numberCount> struct ExpertsLaunch {
  static constexpr unsigned threads = gemv::kThreads;
  uint64_t pointers[pointerCount];
  uint32_t numbers[numberCount];

  template <class Visit> void forEachParameter(Visit visit) {
    std::for_each(std::begin(pointers), std::end(pointers), visit);
    std::for_each(std::begin(numbers), std::end(numbers), visit);
  }
};

// x, routing, up, up_bias, gate, gate_bias, h; tokens, hidden, experts, all, first, inner, alpha,
// beta, limit, activation
using InnerLaunch = ExpertsLaunch<7, 10>;
// h, routing, down, out; tokens, experts, all, first, inner, outputs, whether it adds to out
using OutputsLaunch = ExpertsLaunch<4, 7>;
// routing, rows, places, counts; tokens, experts, all, first
using RowsLaunch = ExpertsLaunch<4, 4>;
// x [tokens, k], or without rows [experts, tokens, k], rows, counts, up, up_bias, gate, gate_bias,
// out [experts, tokens, n]; tokens, k, n, alpha, beta, limit, activation
using GroupedLaunch = ExpertsLaunch<8, 7>;
// y, routing, places, out; tokens, experts, all, first, outputs, whether it adds to out
using CombineLaunch = ExpertsLaunch<4, 6>;

int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }
int64_t blocksFor(int64_t warps) { return ceilDiv(warps, gemv::kWarps); }
uint32_t bitsOf(float x) { return std::bit_cast<uint32_t>(x); }

/// Returns the address of an element, null for a null pointer.
uint64_t advance(const void *pointer, int32_t dtype, int64_t elements) {
  return pointer ? addressOf(pointer) + static_cast<uint64_t>(elements * sizeOf(dtype)) : 0;
}

} // namespace

ExpertKernels::ExpertKernels(Queue &queue)
    : kernels(queue, [] { return std::string(expertsText()); }, names, "compute experts") {}

void ExpertKernels::run(const tpc_experts_args &a, Address workspace, int64_t bytes) {
  if (!runGrouped(a, workspace, bytes))
    runRows(a, workspace, bytes);
}

bool ExpertKernels::runGrouped(const tpc_experts_args &a, Address workspace, int64_t bytes) {
  // A token of an expert has a row of h, a row of y, and an element of rows and of places.
  int64_t rowBytes = (a.inner + a.outputs + 2) * 4;
  int64_t maxRows = (bytes - a.experts * 4) / rowBytes, tokens = std::min(a.tokens, maxRows);
  Address operands = addressOf(a.x) | addressOf(a.up) | addressOf(a.gate) | addressOf(a.down);
  if (operands % gemv::kAccessBytes || !experts::supportsGrouped(tokens, a.hidden, a.inner))
    return false;
  int64_t experts = std::min(a.experts, maxRows / tokens), pairs = experts * tokens;
  const Address h = workspace, y = h + static_cast<Address>(pairs * a.inner * 4),
                rows = y + static_cast<Address>(pairs * a.outputs * 4),
                places = rows + static_cast<Address>(pairs * 4),
                counts = places + static_cast<Address>(pairs * 4);
  auto hidden = static_cast<uint32_t>(a.hidden), inner = static_cast<uint32_t>(a.inner),
       outputs = static_cast<uint32_t>(a.outputs), all = static_cast<uint32_t>(a.all);
  for (int64_t t = 0; t < a.tokens; t += tokens)
    for (int64_t e = 0; e < a.experts; e += experts) {
      int64_t ownTokens = std::min(tokens, a.tokens - t), own = std::min(experts, a.experts - e);
      auto m = static_cast<uint32_t>(ownTokens), count = static_cast<uint32_t>(own),
           first = static_cast<uint32_t>(a.first + e);
      uint64_t routing = addressOf(a.routing + t * a.all);
      RowsLaunch find{{routing, rows, places, counts}, {m, count, all, first}};
      kernels.run(rowsName, find, blocksFor(own));
      auto multiply = [&](GroupedLaunch launch, int64_t columns) {
        int64_t blocks =
            own * ceilDiv(ownTokens, experts::kTileRows) * ceilDiv(columns, experts::kBlockColumns);
        kernels.run(nameOf(2, a.dtype), launch, blocks);
      };
      int64_t matrix = a.inner * a.hidden;
      multiply({{addressOf(a.x + t * a.hidden), rows, counts, advance(a.up, a.dtype, e * matrix),
                 advance(a.up_bias, TPC_F32, e * a.inner), advance(a.gate, a.dtype, e * matrix),
                 advance(a.gate_bias, TPC_F32, e * a.inner), h},
                {m, hidden, inner, bitsOf(a.alpha), bitsOf(a.beta), bitsOf(a.limit),
                 static_cast<uint32_t>(a.activation)}},
               a.inner * (a.gate ? 2 : 1));
      multiply({{h, 0, counts, advance(a.down, a.dtype, e * a.outputs * a.inner), 0, 0, 0, y},
                {m, inner, outputs, 0, 0, 0, TPC_EPILOGUE_NONE}},
               a.outputs);
      CombineLaunch add{{y, routing, places, addressOf(a.out + t * a.outputs)},
                        {m, count, all, first, outputs, e > 0}};
      kernels.run(combineName, add, ceilDiv(ownTokens * a.outputs, gemv::kThreads));
    }
  return true;
}

void ExpertKernels::runRows(const tpc_experts_args &a, Address workspace, int64_t bytes) {
  int64_t rowBytes = a.inner * static_cast<int64_t>(sizeof(float));
  int64_t maxRows = bytes / rowBytes;
  if (maxRows < 1)
    throw std::runtime_error("experts of " + std::to_string(a.inner) +
                             " inner elements are too wide for the GPU's workspace");
  int64_t experts = std::min(a.experts, maxRows), tokens = std::min(a.tokens, maxRows / experts);
  for (int64_t t = 0; t < a.tokens; t += tokens)
    for (int64_t e = 0; e < a.experts; e += experts) {
      auto count = static_cast<uint32_t>(std::min(experts, a.experts - e));
      auto rows = static_cast<uint32_t>(std::min(tokens, a.tokens - t));
      auto all = static_cast<uint32_t>(a.all), first = static_cast<uint32_t>(a.first + e);
      auto inner = static_cast<uint32_t>(a.inner), outputs = static_cast<uint32_t>(a.outputs);
      uint64_t routing = addressOf(a.routing + t * a.all);
      int64_t matrix = a.inner * a.hidden;
      InnerLaunch up{
          {addressOf(a.x + t * a.hidden), routing, advance(a.up, a.dtype, e * matrix),
           advance(a.up_bias, TPC_F32, e * a.inner), advance(a.gate, a.dtype, e * matrix),
           advance(a.gate_bias, TPC_F32, e * a.inner), workspace},
          {rows, static_cast<uint32_t>(a.hidden), count, all, first, inner, bitsOf(a.alpha),
           bitsOf(a.beta), bitsOf(a.limit), static_cast<uint32_t>(a.activation)}};
      kernels.run(nameOf(0, a.dtype), up, blocksFor(count * a.inner));
      OutputsLaunch down{{workspace, routing, advance(a.down, a.dtype, e * a.outputs * a.inner),
                          addressOf(a.out + t * a.outputs)},
                         {rows, count, all, first, inner, outputs, e > 0}};
      kernels.run(nameOf(1, a.dtype), down, blocksFor(rows * a.outputs));
    }
}

} // namespace tpc::rt::cuda
