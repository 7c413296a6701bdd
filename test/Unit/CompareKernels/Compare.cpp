//===- Compare.cpp - Comparison of both targets on one case ---------------===//

#include "Compare.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace mlir;
using namespace mlir::tpc;
using namespace compare;
using lowered::MemoryView;

/// Tolerance relative to the largest element.
static constexpr double kTolerance = 1e-5;
/// Tolerance relative to the error of rounding to 16 bits.
static constexpr double kRounding = 1.5;

/// Whether all float operations are moves, conversions and comparisons.
static bool onlyMoves(const Kernel &kernel) {
  bool computes = false;
  kernel.func->walk([&](Operation *op) {
    bool isFloat = op->getNumResults() && isa<FloatType>(op->getResult(0).getType());
    computes |= isFloat && op->getNumOperands() &&
                llvm::all_of(op->getOperandTypes(), llvm::IsaPred<FloatType>) &&
                !isa<arith::ExtFOp, arith::TruncFOp>(op);
    computes |= isa<kernel::FoldOp>(op);
  });
  return !computes;
}

static bool isHalf(Type type) { return type.isF16() || type.isBF16(); }

/// Returns a view of raw bytes as elements.
static MemoryView view(Type type, const std::vector<uint8_t> &bytes) {
  auto memory = std::make_shared<lowered::Memory>(bytes.size(), true);
  std::memcpy(memory->bytes.data(), bytes.data(), bytes.size());
  return {memory, 0, int64_t(bytes.size()) / getElementBytes(type), type};
}

//===----------------------------------------------------------------------===//
// The CPU
//===----------------------------------------------------------------------===//

namespace {
/// Memory as the runtime allocates it.
struct HostBuffer {
  HostBuffer(int64_t bytes, uint8_t fill) : store(bytes + 128, fill) {
    begin = store.data() + (64 - reinterpret_cast<uintptr_t>(store.data()) % 64) % 64;
  }
  std::vector<uint8_t> store;
  uint8_t *begin;
};
} // namespace

/// Adds to the results of 16-bit types their values without rounding. Also adds the error of a
/// computation in f64 that rounds only at the kernel's casts and stores.
static void addReference(CpuRun &expected, const Program &program, const Kernel &kernel,
                         const Case &c) {
  auto run = lowered::KernelProgram::get(kernel.func);
  if (failed(run))
    llvm::report_fatal_error("the reference interpreter does not run a kernel");
  std::vector<MemoryView> outputs[2];
  for (bool rounds : {false, true}) {
    std::vector<MemoryView> memory;
    for (const Tensor &operand : c.operands) {
      MemoryView copy{std::make_shared<lowered::Memory>(operand.bytes(), rounds), 0,
                      operand.elements, operand.type};
      for (int64_t i = 0; i < operand.elements; ++i)
        copy.store(i, operand.content.load(i));
      memory.push_back(copy);
    }
    for (const Tensor &result : c.results)
      memory.push_back({std::make_shared<lowered::Memory>(result.bytes(), rounds), 0,
                        result.elements, result.type});
    bool reported = false;
    if (failed((*run)->run(
            memory, [&](const SymExpr &s) { return c.evaluate(s, program.getLayout()); }, c.seed,
            rounds ? lowered::Rounding::Casts : lowered::Rounding::None, reported)))
      llvm::report_fatal_error("the reference interpreter finds a fault in a kernel");
    outputs[rounds].assign(memory.end() - c.results.size(), memory.end());
  }
  for (auto [i, result] : llvm::enumerate(expected.results)) {
    Type type = c.results[i].type;
    if (!isHalf(type))
      continue;
    for (int64_t at = 0; at < c.results[i].elements; ++at) {
      bool known = outputs[0][i].isWritten(at);
      double exact = known ? outputs[0][i].load(at).f : 0,
             rounded = known ? outputs[1][i].load(at).f : 0;
      result.exact.push_back(exact);
      if (std::isfinite(exact) && std::isfinite(rounded))
        result.rounding = std::max(result.rounding, std::fabs(exact - rounded));
    }
  }
}

CpuRun compare::runOnCpu(const Program &program, const Kernel &kernel, const Case &c) {
  CpuRun expected;
  std::vector<HostBuffer> operands;
  for (const Tensor &operand : c.operands) {
    operands.emplace_back(operand.bytes(), 0);
    std::memcpy(operands.back().begin, operand.content.memory->bytes.data(), operand.bytes());
  }
  // Bytes that differ after both passes are unwritten.
  std::vector<HostBuffer> results[2];
  for (unsigned pass = 0; pass < 2; ++pass) {
    std::vector<void *> pointers;
    for (HostBuffer &operand : operands)
      pointers.push_back(operand.begin);
    for (const Tensor &result : c.results)
      results[pass].emplace_back(result.bytes(), pass ? 0xA5 : 0x5A);
    for (HostBuffer &result : results[pass])
      pointers.push_back(result.begin);
    tpc_status status{};
    if (pass == 0) {
      kernel.cpu(c.env.data(), &status, pointers.data(), 0, c.rows);
      continue;
    }
    for (int64_t row = 0; row < c.rows; ++row) {
      tpc_status own{};
      kernel.cpu(c.env.data(), &own, pointers.data(), row, row + 1);
      if (own.missing)
        expected.reports.push_back(own);
    }
  }
  for (auto [i, tensor] : llvm::enumerate(c.results)) {
    CpuRun::Result result;
    const uint8_t *one = results[0][i].begin, *other = results[1][i].begin;
    result.bytes.assign(one, one + tensor.bytes());
    int64_t size = getElementBytes(tensor.type);
    for (int64_t at = 0; at < tensor.elements; ++at)
      result.written.push_back(!std::memcmp(one + at * size, other + at * size, size));
    result.writesAll = llvm::all_of(result.written, [](bool w) { return w; });
    expected.results.push_back(std::move(result));
  }
  if (llvm::any_of(c.results, [](const Tensor &t) { return isHalf(t.type); }))
    addReference(expected, program, kernel, c);
  return expected;
}

//===----------------------------------------------------------------------===//
// Comparison
//===----------------------------------------------------------------------===//

/// Returns the first wrong element and a description.
static std::string compareResult(const Tensor &tensor, const CpuRun::Result &expected,
                                 const std::vector<uint8_t> &bytes, bool exactly,
                                 double tolerance) {
  int64_t size = getElementBytes(tensor.type);
  MemoryView cpu = view(tensor.type, expected.bytes), gpu = view(tensor.type, bytes);
  auto forEach = [&](auto f) {
    for (int64_t at = 0; at < tensor.elements; ++at)
      if (expected.written[at])
        f(at);
  };
  if (!isa<FloatType>(tensor.type)) {
    std::string wrong;
    forEach([&](int64_t at) {
      if (wrong.empty() && std::memcmp(&bytes[at * size], &expected.bytes[at * size], size))
        wrong = llvm::formatv("element {0} is {1}, but {2} on the CPU", at, gpu.load(at).i,
                              cpu.load(at).i);
    });
    return wrong;
  }
  auto right = [&](int64_t at) { return exactly ? expected.exact[at] : cpu.load(at).f; };
  // exp returns 0 instead of numbers below the smallest normal one, which bf16 can represent.
  double smallest = std::numeric_limits<float>::min();
  double bound = kRounding * std::max(expected.rounding, smallest), largest = 0, worst = 0;
  forEach([&](int64_t at) {
    double value = std::fabs(right(at));
    largest = std::isfinite(value) ? std::max(largest, value) : largest;
  });
  if (!exactly)
    bound = tolerance * largest;
  int64_t count = 0, worstAt = 0;
  forEach([&](int64_t at) {
    double x = gpu.load(at).f, y = right(at);
    // Infinities and NaN must equal those of the CPU.
    if (exactly && !std::isfinite(cpu.load(at).f))
      y = cpu.load(at).f;
    if (x == y || (std::isnan(x) && std::isnan(y)))
      return;
    double off = std::isfinite(x) && std::isfinite(y) ? std::fabs(x - y) : INFINITY;
    if (off <= bound)
      return;
    ++count;
    if (off > worst) {
      worst = off;
      worstAt = at;
    }
  });
  if (!count)
    return "";
  return llvm::formatv("{0} of {1} elements differ; the largest difference is at element {2}: "
                       "{3:e9}, but {4:e9} {5} "
                       "(largest element: {6:e3}; largest allowed difference: {7:e3})",
                       count, tensor.elements, worstAt, gpu.load(worstAt).f, right(worstAt),
                       exactly ? "without rounding" : "on the CPU", largest, bound);
}

static std::string describe(const tpc_status &status) {
  if (!status.missing)
    return "no index out of bounds";
  return llvm::formatv("index {0} out of bounds {1} at node {2}", status.index, status.size,
                       status.node);
}

static std::string compareStatus(const CpuRun &expected, const tpc_status &status) {
  if (expected.reports.empty() && !status.missing)
    return "";
  bool isOne = llvm::any_of(expected.reports, [&](const tpc_status &one) {
    return one.missing == status.missing && one.node == status.node && one.index == status.index &&
           one.size == status.size;
  });
  if (isOne)
    return "";
  return "the status is " + describe(status) + ", but on the CPU " +
         describe(expected.reports.empty() ? tpc_status{} : expected.reports.front());
}

//===----------------------------------------------------------------------===//
// The GPU
//===----------------------------------------------------------------------===//

GpuRun compare::runOnGpu(const ptx::Module &module, const Program &program, const Kernel &kernel,
                         const Case &c, const CpuRun &expected, uint64_t maxInstructions) {
  ptx::Memory memory(c.seed);
  std::vector<ptx::Argument> arguments;
  auto add = [&](const std::string &name, const void *bytes, int64_t size, unsigned alignment,
                 bool readOnly) {
    uint64_t at = memory.allocate(size, name, alignment);
    if (bytes)
      memory.copyIn(at, bytes, size);
    memory.setReadOnly(at, readOnly);
    arguments.push_back(ptx::Argument::pointer(at));
    return at;
  };
  add("env", c.env.data(), c.env.size() * sizeof(int64_t), 256, true);
  // Fields other than `missing` are compared only if it is set.
  tpc_status status{.missing = 0, .node = -7, .index = -7, .size = -7};
  uint64_t statusAt = add("status", &status, sizeof status, 256, false);
  for (auto [i, operand] : llvm::enumerate(c.operands))
    add("operand " + std::to_string(i), operand.content.memory->bytes.data(), operand.bytes(),
        operand.alignment, true);
  std::vector<uint64_t> resultsAt;
  for (auto [i, result] : llvm::enumerate(c.results))
    resultsAt.push_back(
        add("result " + std::to_string(i), nullptr, result.bytes(), result.alignment, false));

  GpuRun run;
  ptx::LaunchConfig config;
  config.grid = {c.blocks};
  config.block = {kernel.launch.threads};
  config.seed = c.seed;
  config.maxInstructions = maxInstructions;
  config.maxFindings = 4;
  run.launch = ptx::launch(module, kernel.name, arguments, memory, config);
  if (!run.launch.clean()) {
    run.wrong = run.launch.str();
    return run;
  }
  for (auto [i, tensor] : llvm::enumerate(c.results)) {
    std::vector<uint8_t> bytes(tensor.bytes());
    memory.copyOut(bytes.data(), resultsAt[i], bytes.size());
    const CpuRun::Result &own = expected.results[i];
    bool half = isHalf(tensor.type), moves = onlyMoves(kernel);
    std::string wrong;
    uint64_t missing = memory.countUnwritten(resultsAt[i], bytes.size());
    if (missing || !own.writesAll) {
      int64_t size = getElementBytes(tensor.type);
      for (int64_t at = 0; at < tensor.elements && wrong.empty(); ++at) {
        bool written = !memory.countUnwritten(resultsAt[i] + at * size, size);
        if (written != own.written[at])
          wrong = llvm::formatv(written ? "element {0} is written, but not on the CPU"
                                        : "element {0} is not written, but it is on the CPU",
                                at);
      }
    }
    if (wrong.empty())
      wrong = compareResult(tensor, own, bytes, half, moves ? 0 : kTolerance);
    if (!wrong.empty())
      run.wrong += "result " + std::to_string(i) + ": " + wrong + "\n";
    run.results.push_back(std::move(bytes));
  }
  memory.copyOut(&status, statusAt, sizeof status);
  if (std::string wrong = compareStatus(expected, status); !wrong.empty())
    run.wrong += wrong + "\n";
  return run;
}
