//===- Matmuls.cpp - GEMMs by cuBLASLt and GEMV kernels -------------------===//

#include "core/DType.h"
#include "cuda/library/InFlightOperations.h"
#include "cuda/library/MatmulPlan.h"
#include <algorithm>
#include <bit>
#include <stdexcept>
#include <utility>

namespace tpc::rt::cuda {
namespace {

using blas::Library;

/// Number of algorithms to request; one of them is used.
constexpr int candidates = 8;

/// Alignment of a pointer, up to the maximum that the library distinguishes.
uint32_t alignmentOf(const void *pointer) {
  auto address = reinterpret_cast<uintptr_t>(pointer);
  return static_cast<uint32_t>(std::min<uintptr_t>(address & (~address + 1), 256));
}

int typeOf(int32_t dtype) {
  return dtype == TPC_F32 ? blas::real32F : dtype == TPC_F16 ? blas::real16F : blas::real16BF;
}

} // namespace

Matmuls::Matmuls(const Driver &driver, const Library &library, GemvKernels &gemv, Address workspace,
                 int64_t workspaceBytes, Stream stream)
    : driver(driver), library(library), gemv(gemv), workspace(workspace),
      workspaceBytes(workspaceBytes), stream(stream) {
  Library::check(library.Create(&handle), "to start");
}

Matmuls::~Matmuls() {
  plans.clear();
  if (handle)
    library.Destroy(handle);
}

Matmuls::Plan &Matmuls::planOf(const MatmulShape &shape) {
  auto known = planAt.find(shape);
  if (known != planAt.end()) {
    plans.splice(plans.begin(), plans, known->second);
    return *plans.front();
  }
  plans.push_front(makePlan(shape));
  planAt[shape] = plans.begin();
  if (plans.size() > maxPlans) {
    planAt.erase(plans.back()->shape);
    plans.pop_back();
  }
  return *plans.front();
}

std::unique_ptr<Matmuls::Plan> Matmuls::makePlan(const MatmulShape &shape) {
  auto plan = std::make_unique<Plan>(library, shape);
  Library::check(library.MatmulDescCreate(&plan->operation,
                                          shape.tf32 ? blas::computeTf32 : blas::compute32F,
                                          blas::real32F),
                 "to describe a matmul");
  auto set = [&](int attribute, const auto &value) {
    Library::check(
        library.MatmulDescSetAttribute(plan->operation, attribute, &value, sizeof(value)),
        "to describe a matmul");
  };
  if (shape.transposed)
    set(blas::descTransA, blas::transposed);
  set(blas::descEpilogue, shape.alignBias ? blas::epilogueBias : blas::epilogueNone);
  // The heuristic reads the bias's alignment from its address, so any address with that alignment
  // serves.
  if (shape.alignBias)
    set(blas::descBias, reinterpret_cast<const void *>(uintptr_t(shape.alignBias)));

  auto layout = [&](Owned<blas::Layout> &made, int32_t dtype, int64_t rows, int64_t columns,
                    int64_t stride, int64_t leading) {
    Library::check(library.MatrixLayoutCreate(&made, typeOf(dtype), static_cast<uint64_t>(rows),
                                              static_cast<uint64_t>(columns),
                                              leading ? leading : rows),
                   "to describe a matrix");
    if (shape.batch == 1)
      return;
    auto count = static_cast<int32_t>(shape.batch);
    for (auto [attribute, value, bytes] :
         {std::tuple<int, const void *, size_t>{blas::layoutBatch, &count, sizeof(count)},
          {blas::layoutStride, &stride, sizeof(stride)}})
      Library::check(library.MatrixLayoutSetAttribute(made, attribute, value, bytes),
                     "to describe a matrix");
  };
  layout(plan->a, shape.dtype, shape.transposed ? shape.k : shape.n,
         shape.transposed ? shape.n : shape.k, shape.wStride, shape.wRow);
  layout(plan->b, shape.dtype, shape.k, shape.m, shape.xStride, 0);
  // The bias has D's type by default.
  layout(plan->d, shape.outDtype, shape.n, shape.m, shape.m * shape.n, shape.outRow);

  Owned<blas::Preference> preference(library.MatmulPreferenceDestroy);
  Library::check(library.MatmulPreferenceCreate(&preference), "to choose an algorithm");
  auto prefer = [&](int attribute, const auto &value) {
    Library::check(
        library.MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
        "to choose an algorithm");
  };
  prefer(blas::preferWorkspace, static_cast<uint64_t>(workspaceBytes));
  prefer(blas::preferAlignA, shape.alignW);
  prefer(blas::preferAlignB, shape.alignX);
  prefer(blas::preferAlignC, shape.alignC);
  prefer(blas::preferAlignD, shape.alignD);
  blas::Heuristic found[candidates];
  int count = 0;
  blas::Status status =
      library.MatmulAlgoGetHeuristic(handle, plan->operation, plan->a, plan->b, plan->d, plan->d,
                                     preference, candidates, found, &count);
  if (status != blas::notSupported)
    Library::check(status, "to choose an algorithm");
  else
    count = 0;
  // The measured algorithm precedes the recommended ones.
  if (auto known = tuned.find(shape); known != tuned.end())
    plan->algorithms.push_back(known->second);
  for (const blas::Heuristic &one : std::span(found, static_cast<size_t>(count)))
    if (one.state == blas::success)
      plan->algorithms.push_back(one.algorithm);
  return plan;
}

blas::Status Matmuls::run(Plan &plan, const MatmulCall &call, const blas::Algorithm &algorithm) {
  if (call.bias)
    Library::check(library.MatmulDescSetAttribute(plan.operation, blas::descBias, &call.bias,
                                                  sizeof(call.bias)),
                   "to describe a matmul");
  const float alpha = 1, beta = call.residual ? 1.0f : 0.0f;
  const void *c = call.residual ? call.residual : call.out;
  return library.Matmul(handle, plan.operation, &alpha, call.w, plan.a, call.x, plan.b, &beta, c,
                        plan.d, call.out, plan.d, &algorithm, reinterpret_cast<void *>(workspace),
                        static_cast<size_t>(workspaceBytes), stream);
}

void Matmuls::checkComputed(blas::Status status, const MatmulCall &call) const {
  if (status == blas::success)
    return;
  // If the GPU failed earlier, the driver's message is more precise.
  size_t ignored = 0;
  driver.check(driver.cuMemGetInfo_v2(&ignored, &ignored), "while it worked");
  std::string what = "to compute a matmul of " + std::to_string(call.m) + " x " +
                     std::to_string(call.k) + " x " + std::to_string(call.n);
  Library::check(status, what.c_str());
}

MatmulShape Matmuls::shapeOf(const MatmulCall &call) const {
  return {call.m,
          call.k,
          call.n,
          call.batch,
          call.xStride,
          call.wStride,
          call.k == 1 || call.wRow == call.n ? 0 : call.wRow,
          call.m == 1 || call.outRow == call.n ? 0 : call.outRow,
          call.dtype,
          call.outDtype,
          tf32 && call.dtype == TPC_F32 && !call.isExact,
          call.transposed,
          call.residual != nullptr,
          alignmentOf(call.w),
          alignmentOf(call.x),
          alignmentOf(call.residual ? call.residual : call.out),
          alignmentOf(call.out),
          call.bias ? alignmentOf(call.bias) : 0,
          call.separateBias ? alignmentOf(call.separateBias) : 0};
}

bool Matmuls::run(const MatmulCall &call) {
  MatmulShape shape = shapeOf(call);
  if (gemv.computes(shape) || tunedToGemv.contains(shape)) {
    gemv.run(call);
    return true;
  }
  Plan &plan = planOf(shape);
  while (!plan.algorithms.empty()) {
    blas::Status status = run(plan, call, plan.algorithms.front());
    if (status != blas::notSupported) {
      checkComputed(status, call);
      InFlightOperations::add(driver, stream, "a matmul", nullptr, {call.m, call.k, call.n});
      return true;
    }
    plan.algorithms.erase(plan.algorithms.begin());
  }
  return false;
}

const void *Matmuls::onesOf(int64_t rows, int32_t dtype) {
  Ones &own = ones[dtype];
  if (rows > own.count) {
    InFlightOperations::synchronize(driver, stream); // the old column may still be in use
    own.block.reset();
    ++moves;
    // 32-bit words, each with one or two elements of value one.
    int64_t words = dtype == TPC_F32 ? rows : (rows + 1) / 2;
    uint32_t one = dtype == TPC_F32 ? std::bit_cast<uint32_t>(1.0f)
                                    : (dtype == TPC_F16 ? 0x3c00 : 0x3f80) * 0x10001u;
    own.block = std::make_unique<Block>(driver, words * static_cast<int64_t>(sizeof(one)));
    own.count = rows;
    driver.check(
        driver.cuMemsetD32Async(own.block->address, one, static_cast<size_t>(words), stream),
        "to write to memory");
  }
  return reinterpret_cast<const void *>(own.block->address);
}

void Matmuls::addBias(const MatmulCall &call) {
  int64_t rows = call.batch * call.m;
  MatmulCall biases{.m = rows,
                    .k = 1,
                    .n = call.n,
                    .x = onesOf(rows, call.outDtype),
                    .w = call.bias,
                    .out = call.out,
                    .transposed = false,
                    .bias = nullptr,
                    .residual = call.residual,
                    .outRow = call.outRow,
                    .dtype = call.outDtype,
                    .outDtype = call.outDtype,
                    .isExact = true,
                    .separateBias = nullptr};
  if (!run(biases))
    throw std::runtime_error(library.describe() + " does not support a bias add to " +
                             std::to_string(rows) + " x " + std::to_string(call.n));
}

bool Matmuls::compute(const MatmulCall &call, const MatmulFusion &fusion) {
  MatmulShape shape = shapeOf(call);
  if (call.k == 0 || !(gemv.computes(shape) || tunedToGemv.contains(shape)) ||
      !gemv.supports(call, fusion))
    return false;
  gemv.run(call, fusion);
  return true;
}

void Matmuls::compute(const MatmulCall &call) {
  if (call.k > 0 && run(call))
    return;
  MatmulCall rest = call;
  if (call.bias) {
    // No epilogue for these sizes, or k = 0: the results start from the bias. Without a residual
    // this rounds once; adding the bias after the GEMM would round twice.
    addBias(call);
    if (call.k == 0)
      return;
    rest.separateBias = std::exchange(rest.bias, nullptr);
    rest.residual = call.out;
  } else if (call.k == 0) {
    // An empty sum.
    bool isDense = !call.outRow || call.outRow == call.n;
    int64_t rows = call.batch * call.m, elementBytes = sizeOf(call.outDtype);
    auto bytes = static_cast<size_t>((isDense ? rows : 1) * call.n * elementBytes);
    for (int64_t row = 0; row < (isDense ? 1 : rows); ++row) {
      auto at = static_cast<Address>(row * call.outRow * elementBytes);
      Address out = reinterpret_cast<Address>(call.out) + at;
      if (!call.residual)
        driver.check(driver.cuMemsetD8Async(out, 0, bytes, stream), "to clear memory");
      else if (call.residual != call.out)
        driver.check(driver.cuMemcpyDtoDAsync_v2(out, reinterpret_cast<Address>(call.residual) + at,
                                                 bytes, stream),
                     "to copy");
    }
    return;
  }
  if (!call.bias || !run(rest))
    throw std::runtime_error(library.describe() + " does not support a matmul of " +
                             std::to_string(call.m) + " x " + std::to_string(call.k) + " x " +
                             std::to_string(call.n) + " in " + spellType(call.dtype));
}

} // namespace tpc::rt::cuda
