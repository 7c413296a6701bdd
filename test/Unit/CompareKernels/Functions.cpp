//===- Functions.cpp - Functions sin, cos, pow, … on hard arguments -------===//

#include "Modes.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/Format.h"

#include <bit>
#include <cmath>
#include <cstring>

using namespace compare;
using llvm::StringRef;

static constexpr unsigned kRows = 512, kColumns = 1024, kCount = kRows * kColumns;

namespace {
struct Function {
  const char *op;
  bool isBinary;
  /// The exact function, with far more digits than f32.
  long double (*exact)(float, float);
  double bound;  // maximum error in units of the last place
  bool sameBits; // the result must have the CPU's bits
};
} // namespace

/// Returns the error of x, in units in the last place of f32 at the exact number.
static double getUlps(float x, long double exact) {
  float rounded = float(exact);
  if (std::isnan(exact) || std::isnan(x))
    return std::isnan(exact) && std::isnan(x) ? 0 : INFINITY;
  if (std::isinf(rounded) || std::isinf(x))
    return x == rounded || std::fabs(x) == std::numeric_limits<float>::max() ||
                   std::fabs(rounded) == std::numeric_limits<float>::max()
               ? 0
               : INFINITY;
  int exponent = 0;
  std::frexp(exact, &exponent);
  double unit = std::ldexp(1.0, std::max(exponent - 24, -149));
  return double(std::fabs(x - exact)) / unit;
}

/// Draws numbers of each exponent, numbers near multiples of pi/2 and near 1, and special values.
static float drawHard(Random &random, unsigned i) {
  static constexpr float special[] = {0.f,        -0.f,
                                      INFINITY,   -INFINITY,
                                      NAN,        1.f,
                                      -1.f,       2.f,
                                      -2.f,       0.5f,
                                      -0.5f,      3.f,
                                      -3.f,       1e-45f,
                                      -1e-45f,    1.17549435e-38f,
                                      3.4e38f,    -3.4028235e38f,
                                      1e30f,      16777216.f,
                                      16777217.f, 8388608.5f,
                                      88.722839f, -103.97f};
  float random32 = std::bit_cast<float>(uint32_t(random.next()));
  switch (i % 4) {
  case 0: // every exponent, subnormals among them
    return random32;
  case 1: { // near n pi/2, for all n that floats reach
    long double n = std::floor(std::ldexp(1.0L + random.uniform(), random.below(80)));
    float near = float(n * 1.57079632679489661923132169163975144L);
    return std::nextafter(near, random.below(2) ? INFINITY : -INFINITY) *
           (random.below(2) ? 1 : -1);
  }
  case 2:
    return i / 4 % 64 ? float(random.normal() * 4) : special[random.below(std::size(special))];
  default: // whole, halves, and near 1
    return random.below(2) ? float(random.below(400) - 200) / 2
                           : 1 + float(random.normal()) * std::ldexp(1.f, -int(random.below(20)));
  }
}

// glibc's functions of long double are correct to more than 60 bits for all arguments.
static const Function functions[] = {
    {"math.sin", false, [](float x, float) { return std::sin((long double)x); }, 2, false},
    {"math.cos", false, [](float x, float) { return std::cos((long double)x); }, 2, false},
    {"math.powf", true, [](float x, float y) { return std::pow((long double)x, (long double)y); },
     2, false},
    {"math.exp", false, [](float x, float) { return std::exp((long double)x); }, INFINITY, true},
    {"math.tanh", false, [](float x, float) { return std::tanh((long double)x); }, INFINITY, true},
    {"math.erf", false, [](float x, float) { return std::erf((long double)x); }, INFINITY, true},
    {"math.log", false, [](float x, float) { return std::log((long double)x); }, INFINITY, true},
    {"math.sqrt", false, [](float x, float) { return std::sqrt((long double)x); }, 0.5, true},
    {"math.floor", false, [](float x, float) { return std::floor((long double)x); }, 0, true},
    {"math.ceil", false, [](float x, float) { return std::ceil((long double)x); }, 0, true},
    {"math.roundeven", false, [](float x, float) { return std::nearbyint((long double)x); }, 0,
     true},
};

static std::string getText(const Function &function) {
  std::string memref = "memref<?x?xf32>", sizes = " of [_512, _1024]";
  std::string load = "[%i, %j] : " + memref + "\n";
  return "module attributes {tpc.target = \"cuda\"} { module @kernels { tpc_kernel.func @function("
         "%x: " +
         memref + sizes + ", %y: " + memref + sizes + ") -> (%z: " + memref + sizes +
         ") { tpc_kernel.rows (%i) in [_512] { tpc_kernel.elements (%j) in [_1024] {\n" +
         "%a = memref.load %x" + load + "%b = memref.load %y" + load + "%c = " + function.op +
         (function.isBinary ? " %a, %b" : " %a") + " : f32\nmemref.store %c, %z" + load +
         "} } } } }";
}

static bool check(mlir::MLIRContext &context, const Function &function) {
  KernelSelection selection;
  std::unique_ptr<Program> program = Program::parse(context, getText(function), selection);
  if (!program)
    return false;
  const Kernel &kernel = program->getKernels().front();
  std::optional<Case> c = draw(*program, kernel, Sizes::One, Indices::Present, 1,
                               {.work = 2 * kCount, .elements = 2 * kCount});
  Random random(7);
  std::vector<float> x(kCount), y(kCount);
  for (unsigned i = 0; i < kCount; ++i) {
    x[i] = drawHard(random, i);
    y[i] = drawHard(random, i / 4);
  }
  for (auto [operand, values] : llvm::zip_equal(c->operands, std::array{&x, &y})) {
    operand.alignment = 256;
    std::memcpy(operand.content.memory->bytes.data(), values->data(), operand.bytes());
  }
  CpuRun cpu = runOnCpu(*program, kernel, *c);
  GpuRun gpu = runOnGpu(program->getPtxModule(), *program, kernel, *c, cpu);
  if (!gpu.launch.clean()) {
    llvm::outs() << function.op << ": " << gpu.launch.str();
    return false;
  }
  double worst = 0, worstOfCpu = 0;
  unsigned worstAt = 0, others = 0;
  for (unsigned i = 0; i < kCount; ++i) {
    float ours, theirs;
    std::memcpy(&ours, &gpu.results[0][i * 4], 4);
    std::memcpy(&theirs, &cpu.results[0].bytes[i * 4], 4);
    long double exact = function.exact(x[i], y[i]);
    double off = getUlps(ours, exact);
    if (off > worst) {
      worst = off;
      worstAt = i;
    }
    worstOfCpu = std::max(worstOfCpu, getUlps(theirs, exact));
    others += std::memcmp(&ours, &theirs, 4) && !(std::isnan(ours) && std::isnan(theirs));
  }
  bool isGood = worst <= function.bound && !(function.sameBits && others);
  llvm::outs() << function.op << ": " << kCount << " arguments, worst "
               << llvm::format("%.3f", worst) << " ulp at "
               << llvm::format("%.9g", double(x[worstAt]));
  if (function.isBinary)
    llvm::outs() << llvm::format(", %.9g", double(y[worstAt]));
  llvm::outs() << "; the CPU's " << llvm::format("%.3f", worstOfCpu) << "; " << others
               << " have other bits than on the CPU" << (isGood ? "" : ": WRONG") << "\n";
  return isGood;
}

bool compare::checkFunctions(mlir::MLIRContext &context) {
  bool isGood = true;
  for (const Function &function : functions)
    isGood &= check(context, function);
  return isGood;
}
