//===- ExpertKernels.cpp - Kernels of mixtures of experts -----------------===//

#include "cuda/library/ExpertKernels.h"
#include "core/DType.h"
#include "cuda/library/Block.h"
#include "cuda/library/GemvText.h"
#include "tpc/gemv.h"
#include <algorithm>
#include <bit>
#include <stdexcept>

namespace tpc::rt::cuda {
namespace {

constexpr const char *names[] = {"tpc_experts_inner_f32",   "tpc_experts_inner_f16",
                                 "tpc_experts_inner_bf16",  "tpc_experts_outputs_f32",
                                 "tpc_experts_outputs_f16", "tpc_experts_outputs_bf16"};

/// Kernel parameters, in order.
struct InnerLaunch {
  static constexpr unsigned threads = gemv::kThreads;
  uint64_t pointers[7]; // x, routing, up, up_bias, gate, gate_bias, h
  uint32_t
      numbers[10]; // tokens, hidden, experts, all, first, inner, alpha, beta, limit, activation

  template <class Visit> void forEachParameter(Visit visit) {
    std::for_each(std::begin(pointers), std::end(pointers), visit);
    std::for_each(std::begin(numbers), std::end(numbers), visit);
  }
};

struct OutputsLaunch {
  static constexpr unsigned threads = gemv::kThreads;
  uint64_t pointers[4]; // h, routing, down, out
  uint32_t numbers[7];  // tokens, experts, all, first, inner, outputs, whether it adds to out

  template <class Visit> void forEachParameter(Visit visit) {
    std::for_each(std::begin(pointers), std::end(pointers), visit);
    std::for_each(std::begin(numbers), std::end(numbers), visit);
  }
};

int64_t blocksFor(int64_t warps) { return (warps + gemv::kWarps - 1) / gemv::kWarps; }

/// Returns the address of an element, null for a null pointer.
uint64_t advance(const void *pointer, int32_t dtype, int64_t elements) {
  return pointer ? addressOf(pointer) + static_cast<uint64_t>(elements * sizeOf(dtype)) : 0;
}

} // namespace

ExpertKernels::ExpertKernels(Queue &queue)
    : kernels(queue, [] { return std::string(expertsText()); }, names, "compute experts") {}

void ExpertKernels::run(const tpc_experts_args &a, Address workspace, int64_t bytes) {
  const int type = a.dtype == TPC_F32 ? 0 : a.dtype == TPC_F16 ? 1 : 2;
  const char *innerName = names[type], *outputsName = names[3 + type];
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
      InnerLaunch up{{addressOf(a.x + t * a.hidden), routing, advance(a.up, a.dtype, e * matrix),
                      advance(a.up_bias, TPC_F32, e * a.inner),
                      advance(a.gate, a.dtype, e * matrix),
                      advance(a.gate_bias, TPC_F32, e * a.inner), workspace},
                     {rows, static_cast<uint32_t>(a.hidden), count, all, first, inner,
                      std::bit_cast<uint32_t>(a.alpha), std::bit_cast<uint32_t>(a.beta),
                      std::bit_cast<uint32_t>(a.limit), static_cast<uint32_t>(a.activation)}};
      kernels.run(innerName, up, blocksFor(count * a.inner));
      OutputsLaunch down{{workspace, routing, advance(a.down, a.dtype, e * a.outputs * a.inner),
                          addressOf(a.out + t * a.outputs)},
                         {rows, count, all, first, inner, outputs, e > 0}};
      kernels.run(outputsName, down, blocksFor(rows * a.outputs));
    }
}

} // namespace tpc::rt::cuda
