//===- GemvKernels.cpp - GEMV kernels: GEMMs with few rows ----------------===//

#include "cuda/library/GemvKernels.h"
#include "cuda/library/GemvText.h"
#include "cuda/library/Matmuls.h"
#include <bit>
#include <stdexcept>
#include <string_view>

namespace tpc::rt::cuda {
namespace {

struct VariantKernels {
  int32_t dtype;
  bool transposed, fused;
  std::string (*text)();
  const char *names[gemv::kMaxRows];
};

template <int32_t dtype, bool transposed, bool fused> std::string textOf() {
  return gemvText(dtype, transposed, fused);
}

#define TPC_GEMV_KERNELS(type, transposed, fused, name)                                            \
  {type,                                                                                           \
   transposed,                                                                                     \
   fused,                                                                                          \
   textOf<type, transposed, fused>,                                                                \
   {"tpc_gemv_" name "_1", "tpc_gemv_" name "_2", "tpc_gemv_" name "_3", "tpc_gemv_" name "_4"}}
#define TPC_GEMV_KERNELS_OF_TYPE(type, name)                                                       \
  TPC_GEMV_KERNELS(type, false, false, name "_kn"),                                                \
      TPC_GEMV_KERNELS(type, true, false, name "_nk"),                                             \
      TPC_GEMV_KERNELS(type, false, true, name "_kn_fused")
constexpr VariantKernels all[] = {TPC_GEMV_KERNELS_OF_TYPE(TPC_F32, "f32"),
                                  TPC_GEMV_KERNELS_OF_TYPE(TPC_F16, "f16"),
                                  TPC_GEMV_KERNELS_OF_TYPE(TPC_BF16, "bf16")};
#undef TPC_GEMV_KERNELS_OF_TYPE
#undef TPC_GEMV_KERNELS

const VariantKernels &find(int32_t dtype, bool transposed, bool fused) {
  for (const VariantKernels &one : all)
    if (one.dtype == dtype && one.transposed == transposed && one.fused == fused)
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

/// Parameters of a fused kernel, in order.
struct FusedLaunch : GemvLaunch {
  uint64_t scale = 0, shift = 0;
  uint32_t norm = 0, isWideX = 0, isWideScale = 0, epsilon = 0, activation = 0, gated = 0;

  template <class Visit> void forEachParameter(Visit visit) {
    for (uint64_t *address : {&w, &x, &out, &bias, &residual, &partials, &counters, &scale, &shift})
      visit(*address);
    for (uint32_t *number : {&k, &n, &chunks, &isWide, &wRow, &outRow, &norm, &isWideX,
                             &isWideScale, &epsilon, &activation, &gated})
      visit(*number);
  }
};

int64_t wRowOf(const MatmulCall &call) {
  return call.wRow ? call.wRow : call.transposed ? call.k : call.n;
}

gemv::Variant variantOf(const MatmulCall &call, bool fused = false) {
  return {.element = call.dtype, .transposed = call.transposed, .m = call.m, .fused = fused};
}

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

LibraryKernels &GemvKernels::kernelsOf(int32_t dtype, bool transposed, bool fused) {
  std::unique_ptr<LibraryKernels> &kernels = loaded[{dtype, transposed, fused}];
  if (!kernels) {
    const VariantKernels &found = find(dtype, transposed, fused);
    kernels = std::make_unique<LibraryKernels>(queue, found.text, found.names,
                                               "multiply matrices and vectors");
  }
  return *kernels;
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

void GemvKernels::load(int32_t dtype, bool transposed) {
  kernelsOf(dtype, transposed).load();
  if (!transposed)
    kernelsOf(dtype, transposed, /*fused=*/true).load();
}

static GemvLaunch makeLaunch(const MatmulCall &call, const gemv::Grid &grid, Address partials,
                             Address counters) {
  return {.w = addressOf(call.w),
          .x = addressOf(call.x),
          .out = addressOf(call.out),
          .bias = addressOf(call.bias),
          .residual = addressOf(call.residual),
          .partials = partials,
          .counters = counters,
          .k = static_cast<uint32_t>(call.k),
          .n = static_cast<uint32_t>(call.n),
          .chunks = static_cast<uint32_t>(grid.chunks),
          .isWide = call.outDtype == TPC_F32,
          .wRow = static_cast<uint32_t>(wRowOf(call)),
          .outRow = static_cast<uint32_t>(call.outRow ? call.outRow : call.n)};
}

void GemvKernels::run(const MatmulCall &call) {
  gemv::Grid grid = gemv::getGrid(variantOf(call), call.k, call.n, queue.gpu.multiprocessors);
  kernelsOf(call.dtype, call.transposed)
      .run(find(call.dtype, call.transposed, false).names[call.m - 1],
           makeLaunch(call, grid, workspace, counters.address), grid.blocks, /*sharedBytes=*/0,
           call.isWeight);
}

bool GemvKernels::supports(const MatmulCall &call, const MatmulFusion &fusion) const {
  auto isAligned = [](const void *pointer) { return addressOf(pointer) % gemv::kAccessBytes == 0; };
  auto isType = [&](int32_t dtype) { return dtype == call.dtype || dtype == TPC_F32; };
  return !call.transposed &&
         gemv::supportsFused(call.dtype, call.k, call.n, wRowOf(call), fusion.gated,
                             queue.gpu.multiprocessors) &&
         isAligned(fusion.x) && isAligned(fusion.scale) && isAligned(fusion.shift) &&
         isType(fusion.xDtype) && isType(fusion.scaleDtype);
}

void GemvKernels::run(const MatmulCall &call, const MatmulFusion &fusion) {
  gemv::Variant variant = variantOf(call, /*fused=*/true);
  gemv::Grid grid = gemv::getGrid(variant, call.k, call.n, queue.gpu.multiprocessors);
  FusedLaunch launch{makeLaunch(call, grid, workspace, counters.address)};
  launch.x = addressOf(fusion.x);
  launch.out = addressOf(fusion.out);
  launch.outRow = static_cast<uint32_t>(fusion.outRow);
  launch.scale = addressOf(fusion.scale);
  launch.shift = addressOf(fusion.shift);
  launch.norm = static_cast<uint32_t>(fusion.norm);
  launch.isWideX = fusion.xDtype == TPC_F32;
  launch.isWideScale = fusion.scaleDtype == TPC_F32;
  launch.epsilon = std::bit_cast<uint32_t>(fusion.epsilon);
  launch.activation = static_cast<uint32_t>(fusion.activation);
  launch.gated = fusion.gated;
  kernelsOf(call.dtype, call.transposed, /*fused=*/true)
      .run(find(call.dtype, call.transposed, true).names[call.m - 1], launch, grid.blocks,
           gemv::getStagedBytes(variant, grid, call.k), call.isWeight);
}

} // namespace tpc::rt::cuda
