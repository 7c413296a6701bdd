//===- GemvKernels.cpp - GEMV kernels: GEMMs with few rows ----------------===//

#include "cuda/library/GemvKernels.h"
#include "cuda/library/GemvText.h"
#include "cuda/library/Matmuls.h"
#include <stdexcept>
#include <string_view>

namespace tpc::rt::cuda {
namespace {

struct VariantKernels {
  int32_t dtype;
  bool transposed;
  std::string (*text)();
  const char *names[gemv::kMaxRows];
};

template <int32_t dtype, bool transposed> std::string textOf() {
  return gemvText(dtype, transposed);
}

#define TPC_GEMV_KERNELS(type, name)                                                               \
  {type,                                                                                           \
   false,                                                                                          \
   textOf<type, false>,                                                                            \
   {"tpc_gemv_" name "_kn_1", "tpc_gemv_" name "_kn_2", "tpc_gemv_" name "_kn_3",                  \
    "tpc_gemv_" name "_kn_4"}},                                                                    \
  {                                                                                                \
    type, true, textOf<type, true>,                                                                \
        {"tpc_gemv_" name "_nk_1", "tpc_gemv_" name "_nk_2", "tpc_gemv_" name "_nk_3",             \
         "tpc_gemv_" name "_nk_4"}                                                                 \
  }
constexpr VariantKernels all[] = {TPC_GEMV_KERNELS(TPC_F32, "f32"),
                                  TPC_GEMV_KERNELS(TPC_F16, "f16"),
                                  TPC_GEMV_KERNELS(TPC_BF16, "bf16")};
#undef TPC_GEMV_KERNELS

const VariantKernels &find(int32_t dtype, bool transposed) {
  for (const VariantKernels &one : all)
    if (one.dtype == dtype && one.transposed == transposed)
      return one;
  throw std::logic_error("internal error: a matrix-vector kernel of an unsupported type");
}

/// Kernel parameters, in order.
struct GemvLaunch {
  static constexpr unsigned threads = gemv::kThreads;
  uint64_t w, x, out, bias, residual, partials, counters;
  uint32_t k, n, chunks, isWide, wRow, outRow;

  template <class Visit> void forEachParameter(Visit visit) {
    for (uint64_t *address : {&w, &x, &out, &bias, &residual, &partials, &counters})
      visit(*address);
    for (uint32_t *number : {&k, &n, &chunks, &isWide, &wRow, &outRow})
      visit(*number);
  }
};

gemv::Variant variantOf(const MatmulShape &shape) {
  return {.element = shape.dtype, .transposed = shape.transposed, .m = shape.m};
}

} // namespace

GemvKernels::GemvKernels(Queue &queue, GemvUse use, Address workspace, int64_t workspaceBytes)
    : queue(queue), use(use), workspace(workspace), workspaceBytes(workspaceBytes),
      counters(queue.driver, maxCounters * static_cast<int64_t>(sizeof(uint32_t))) {
  queue.driver.check(queue.driver.cuMemsetD8Async(
                         counters.address, 0, static_cast<size_t>(counters.bytes), queue.stream),
                     "to clear memory");
}

GemvUse GemvKernels::useOf(const char *variable, bool measures) {
  std::string_view value = variable ? variable : "";
  if (value.empty())
    return {.mode = measures ? GemvUse::Measured : GemvUse::Always};
  if (value == "measured")
    return {.mode = GemvUse::Measured, .minBytes = 0};
  if (value == "always")
    return {.mode = GemvUse::Always, .minBytes = 0};
  if (value == "never")
    return {.mode = GemvUse::Never};
  throw std::runtime_error("TPC_GEMV=" + std::string(value) +
                           ": must be always, never or measured");
}

bool GemvKernels::supports(const MatmulShape &shape) const {
  if (use.mode == GemvUse::Never || shape.batch != 1 || shape.xStride || shape.wStride ||
      shape.alignSeparateBias ||
      !gemv::supports(shape.dtype, shape.transposed, shape.m, shape.k, shape.n,
                      shape.wRow         ? shape.wRow
                      : shape.transposed ? shape.k
                                         : shape.n) ||
      shape.alignW < gemv::kAccessBytes || shape.alignX < gemv::kAccessBytes)
    return false;
  if (shape.k * shape.n * gemv::getBytes(shape.dtype) < use.minBytes)
    return false;
  gemv::Grid grid = gemv::getGrid(variantOf(shape), shape.k, shape.n, queue.gpu.multiprocessors);
  return gemv::getPartialBytes(variantOf(shape), grid) <= workspaceBytes &&
         (grid.splits == 1 || grid.ranges <= maxCounters);
}

LibraryKernels &GemvKernels::kernelsOf(int32_t dtype, bool transposed) {
  std::unique_ptr<LibraryKernels> &own = loaded[{dtype, transposed}];
  if (!own) {
    const VariantKernels &found = find(dtype, transposed);
    own = std::make_unique<LibraryKernels>(queue, found.text, found.names,
                                           "multiply matrices and vectors");
  }
  return *own;
}

void GemvKernels::prepare(int64_t k, int64_t n, int32_t dtype, bool transposed) {
  constexpr uint32_t aligned = 256;
  MatmulShape shape{.m = 1,
                    .k = k,
                    .n = n,
                    .dtype = dtype,
                    .outDtype = dtype,
                    .transposed = transposed,
                    .alignW = aligned,
                    .alignX = aligned};
  if (computes(shape))
    load(dtype, transposed);
}

void GemvKernels::run(const MatmulCall &call) {
  gemv::Variant variant{.element = call.dtype, .transposed = call.transposed, .m = call.m};
  gemv::Grid grid = gemv::getGrid(variant, call.k, call.n, queue.gpu.multiprocessors);
  auto address = [](const void *pointer) { return reinterpret_cast<uint64_t>(pointer); };
  GemvLaunch launch{.w = address(call.w),
                    .x = address(call.x),
                    .out = address(call.out),
                    .bias = address(call.bias),
                    .residual = address(call.residual),
                    .partials = workspace,
                    .counters = counters.address,
                    .k = static_cast<uint32_t>(call.k),
                    .n = static_cast<uint32_t>(call.n),
                    .chunks = static_cast<uint32_t>(grid.chunks),
                    .isWide = call.outDtype == TPC_F32,
                    .wRow = static_cast<uint32_t>(call.wRow         ? call.wRow
                                                  : call.transposed ? call.k
                                                                    : call.n),
                    .outRow = static_cast<uint32_t>(call.outRow ? call.outRow : call.n)};
  kernelsOf(call.dtype, call.transposed)
      .run(find(call.dtype, call.transposed).names[call.m - 1], launch, grid.blocks);
}

} // namespace tpc::rt::cuda
