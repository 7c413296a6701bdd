//===- MeasureMatmuls.cpp - GEMM algorithm measurement --------------------===//
//
// Measurements run between steps, because they synchronize the GPU and create events.
//
//===----------------------------------------------------------------------===//

#include "core/DType.h"
#include "cuda/library/InFlightOperations.h"
#include "cuda/library/MatmulPlan.h"
#include <algorithm>
#include <charconv>
#include <limits>
#include <sstream>
#include <utility>

namespace tpc::rt::cuda {
namespace {

/// Number of timed runs of an algorithm, after a warm-up run. Slow algorithms are timed once.
constexpr int runs = 4;
constexpr float longMilliseconds = 5;
/// Bits that are ones in f16, and moderate numbers in bf16 and f32.
constexpr unsigned filling = 0x3c003c00;

int64_t roundUp(int64_t bytes) { return (bytes + 255) / 256 * 256; }

/// Bytes of the operands in memory.
struct Operands {
  explicit Operands(const MatmulShape &shape) {
    auto all = [&](int32_t dtype, int64_t one, int64_t stride) {
      return (one + (shape.batch - 1) * stride) * sizeOf(dtype);
    };
    auto rows = [](int64_t count, int64_t n, int64_t row) {
      return row ? (count - 1) * row + n : count * n;
    };
    x = all(shape.dtype, shape.m * shape.k, shape.xStride);
    w = all(shape.dtype, rows(shape.k, shape.n, shape.wRow), shape.wStride);
    out = all(shape.outDtype, rows(shape.m, shape.n, shape.outRow), shape.m * shape.n);
    bias = shape.alignBias ? shape.n * sizeOf(shape.outDtype) : 0;
    // The residual shares the buffer of the results if both have the same alignment.
    c = shape.residual && shape.alignC != shape.alignD ? out : 0;
  }
  int64_t x, w, out, bias, c;
};

/// Suballocates memory at exactly the requested alignments.
class Suballocator {
public:
  explicit Suballocator(Address memory) : begin(memory), next(memory) {}
  Address take(int64_t bytes, uint32_t alignment) {
    if (!bytes)
      return 0;
    Address piece = next + (alignment < 256 ? alignment : 0);
    next = begin + static_cast<Address>(roundUp(static_cast<int64_t>(piece - begin) + bytes));
    return piece;
  }
  int64_t bytes() const { return static_cast<int64_t>(next - begin); }

private:
  const Address begin;
  Address next;
};

MatmulCall callOf(const MatmulShape &shape, Suballocator &pieces, bool reusable) {
  Operands sizes(shape);
  auto take = [&](int64_t bytes, uint32_t alignment) {
    return pointerTo(pieces.take(bytes, alignment));
  };
  MatmulCall call{};
  call.m = shape.m;
  call.k = shape.k;
  call.n = shape.n;
  call.transposed = shape.transposed;
  call.batch = shape.batch;
  call.xStride = shape.xStride;
  call.wStride = shape.wStride;
  call.wRow = shape.wRow;
  call.outRow = shape.outRow;
  call.dtype = shape.dtype;
  call.outDtype = shape.outDtype;
  call.x = take(sizes.x, shape.alignX);
  call.w = reusable ? nullptr : take(sizes.w, shape.alignW);
  call.out = take(sizes.out, shape.alignD);
  call.bias = take(sizes.bias, shape.alignBias);
  if (shape.residual)
    call.residual = sizes.c ? take(sizes.c, shape.alignC) : call.out;
  return call;
}

/// Measures the duration of a section of the stream.
class Stopwatch {
public:
  Stopwatch(const Driver &driver, Stream stream) : driver(driver), stream(stream) {
    for (Event &event : events)
      driver.check(driver.cuEventCreate(&event, 0), "to create an event");
  }
  Stopwatch(const Stopwatch &) = delete;
  Stopwatch &operator=(const Stopwatch &) = delete;
  ~Stopwatch() {
    for (Event event : events)
      if (event)
        driver.cuEventDestroy_v2(event);
  }
  void begin() { record(events[0]); }
  float milliseconds() {
    record(events[1]);
    InFlightOperations::Wait wait;
    driver.check(driver.cuEventSynchronize(events[1]), "while it worked");
    float elapsed = 0;
    driver.check(driver.cuEventElapsedTime(&elapsed, events[0], events[1]), "to measure time");
    return elapsed;
  }

private:
  void record(Event event) {
    driver.check(driver.cuEventRecord(event, stream), "to record an event");
  }
  const Driver &driver;
  const Stream stream;
  Event events[2] = {};
};

} // namespace

std::string MatmulShape::text() const {
  std::ostringstream text;
  text << spellType(dtype);
  if (outDtype != dtype)
    text << ">" << spellType(outDtype);
  text << " " << batch << " " << m << " " << k << " " << n << " " << xStride << " " << wStride
       << " " << tf32 << transposed << residual << " " << alignW << " " << alignX << " " << alignC
       << " " << alignD << " " << alignBias;
  if (wRow || outRow)
    text << " " << wRow << " " << outRow;
  return text.str();
}

std::optional<MatmulShape> MatmulShape::parse(const std::string &text) {
  std::istringstream from(text);
  std::string type, flags;
  MatmulShape shape;
  if (!(from >> type >> shape.batch >> shape.m >> shape.k >> shape.n >> shape.xStride >>
        shape.wStride >> flags >> shape.alignW >> shape.alignX >> shape.alignC >> shape.alignD >>
        shape.alignBias) ||
      flags.size() != 3)
    return std::nullopt;
  if (!(from >> shape.wRow >> shape.outRow))
    shape.wRow = shape.outRow = 0;
  std::string out = type.substr(std::min(type.find('>') + 1, type.size()));
  type = type.substr(0, type.find('>'));
  for (int32_t dtype : {TPC_F32, TPC_F16, TPC_BF16}) {
    if (type == spellType(dtype))
      shape.dtype = dtype;
    if (out == spellType(dtype))
      shape.outDtype = dtype;
  }
  shape.tf32 = flags[0] == '1';
  shape.transposed = flags[1] == '1';
  shape.residual = flags[2] == '1';
  return shape.text() == text ? std::optional(shape) : std::nullopt;
}

std::vector<MatmulShape> Matmuls::shapes() const {
  std::vector<MatmulShape> all;
  for (const auto &[shape, plan] : planAt)
    if (!shape.alignSeparateBias) // a GEMM without its bias uses the result of the original GEMM
      all.push_back(shape);
  return all;
}

int64_t Matmuls::bytesToMeasure(const MatmulShape &shape, bool reusable) {
  Suballocator pieces(0);
  callOf(shape, pieces, reusable);
  return pieces.bytes();
}

MatmulShape Matmuls::computed(const MatmulShape &shape) {
  if (!shape.alignBias || !planOf(shape).algorithms.empty())
    return shape;
  MatmulShape rest = shape;
  rest.residual = true;
  rest.alignC = shape.alignD;
  rest.alignSeparateBias = std::exchange(rest.alignBias, 0);
  return rest;
}

template <class Compute>
std::optional<float> Matmuls::time(MatmulCall &call, std::span<const Address> reusable,
                                   Compute compute) {
  Stopwatch watch(driver, stream);
  float minimum = std::numeric_limits<float>::max();
  for (int i = 0, end = runs; i <= end; ++i) {
    if (!reusable.empty())
      call.w = pointerTo(reusable[static_cast<size_t>(i) % reusable.size()]);
    watch.begin();
    if (!compute())
      return std::nullopt;
    InFlightOperations::add(driver, stream, "a measured matmul", nullptr, {call.m, call.k, call.n});
    float elapsed = watch.milliseconds();
    if (i > 0)
      minimum = std::min(minimum, elapsed);
    else if (elapsed > longMilliseconds)
      end = 1;
  }
  return minimum;
}

std::optional<MatmulMethod> Matmuls::measure(const MatmulShape &requestedShape, Address memory,
                                             std::span<const Address> reusable) {
  const MatmulShape shape = computed(requestedShape);
  Plan &plan = planOf(shape);
  const bool offersGemv = gemv.supports(requestedShape);
  if (plan.algorithms.size() + offersGemv < 2)
    return std::nullopt;
  const int64_t bytes = bytesToMeasure(requestedShape, !reusable.empty());
  driver.check(driver.cuMemsetD32Async(memory, filling,
                                       static_cast<size_t>(bytes) / sizeof(filling), stream),
               "to write to memory");
  std::optional<MatmulMethod> best;
  float minimum = std::numeric_limits<float>::max();
  auto add = [&](std::optional<float> milliseconds, const MatmulMethod &method) {
    if (milliseconds && *milliseconds < minimum) {
      minimum = *milliseconds;
      best = method;
    }
  };
  Suballocator pieces(memory);
  MatmulCall call = callOf(shape, pieces, !reusable.empty());
  for (const blas::Algorithm &algorithm : plan.algorithms)
    add(time(call, reusable,
             [&] {
               blas::Status status = run(plan, call, algorithm);
               if (status != blas::notSupported)
                 checkComputed(status, call);
               return status != blas::notSupported;
             }),
        {.algorithm = algorithm});
  if (offersGemv) {
    // A GEMV kernel also adds a bias for which the library needs a second GEMM.
    Suballocator gemvPieces(memory);
    MatmulCall gemvCall = callOf(requestedShape, gemvPieces, !reusable.empty());
    add(time(gemvCall, reusable,
             [&] {
               gemv.run(gemvCall);
               return true;
             }),
        {.isGemv = true});
  }
  return best;
}

bool Matmuls::applyTuning(const MatmulShape &requestedShape, const MatmulMethod &method) {
  if (method.isGemv) {
    if (!gemv.supports(requestedShape))
      return false;
    gemv.load(requestedShape.dtype, requestedShape.transposed);
    tunedToGemv.insert(requestedShape);
    return true;
  }
  const blas::Algorithm &algorithm = method.algorithm;
  const MatmulShape shape = computed(requestedShape);
  Plan &plan = planOf(shape);
  blas::Heuristic checked{};
  if (library.MatmulAlgoCheck(handle, plan.operation, plan.a, plan.b, plan.d, plan.d, &algorithm,
                              &checked) != blas::success ||
      checked.workspaceBytes > static_cast<size_t>(workspaceBytes))
    return false;
  tuned[shape] = algorithm;
  if (plan.algorithms.empty() || plan.algorithms.front() != algorithm)
    plan.algorithms.insert(plan.algorithms.begin(), algorithm);
  return true;
}

} // namespace tpc::rt::cuda
