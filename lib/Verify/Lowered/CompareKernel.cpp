//===- CompareKernel.cpp - Comparison of a kernel with tensor ops ---------===//
//
// A run of the program does not detect all faults of a kernel: a cap has no effect on small scores,
// an epsilon has no effect on large sums, and masks are never 2. Each kernel is therefore also run
// separately, on operands of several magnitudes and on special values. The tolerance is small,
// because other ops do not add rounding errors. CompareRounding.cpp compares roundings.
//
//===----------------------------------------------------------------------===//

#include "CompareRounding.h"

#include "../Interpret/Arithmetic.h"
#include "../Interpret/Domains.h"

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;
using interpret::Domain;
using interpret::Domains;
using interpret::Doubles;
using interpret::World;

FailureOr<func::FuncOp> lowered::getTensors(ModuleOp program, kernel::FuncOp function) {
  auto tensors = program.lookupSymbol<func::FuncOp>(function.getSymName());
  if (tensors && !tensors.isExternal() && tensors->hasAttr(kKernelAttr))
    return tensors;
  return function.emitOpError() << "has no tensor function @" << function.getSymName();
}

namespace {
enum class Special { None, AllZero, Zeros, Infinities, NaNs };

/// Distribution of random operands. Magnitude 0: the operands of the run are used.
struct Draw {
  double magnitude;
  bool positive = false;
  double offset = 0;
  Special special = Special::None;
  /// Whether to use the integers of the run.
  bool keepsIntegers = false;
  /// Whether to compare the rounding of the kernel, too.
  bool comparesRounding = false;
};

class Comparison {
public:
  Comparison(const KernelProgram &kernel, func::FuncOp tensors, ArrayRef<MemoryView> memory,
             bool isGiven, World &world, const Coordinates &at,
             function_ref<int64_t(const ::tpc::SymExpr &)> evaluate, KernelOutcomes &outcomes)
      : kernel(kernel), function(kernel.getFunction()), tensors(tensors), memory(memory),
        isGiven(isGiven), world(world), at(at), evaluate(evaluate), outcomes(outcomes),
        exact(tensors, world, at) {
    caches.resize(tensors.getNumResults());
    for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands()))
      if (auto append = value.getDefiningOp<AppendOp>())
        caches[i] = append.getCache();
    tensors.walk([&](CmpOp comparison) {
      for (Value operand : comparison->getOperands())
        addSpecial(operand);
    });
    ScopedDiagnosticHandler quiet(tensors.getContext(), [](Diagnostic &) { return success(); });
    Domains known(world);
    if (succeeded(known.run(tensors)))
      for (BlockArgument argument : tensors.getArguments())
        domains.push_back(known.get(argument));
  }
  LogicalResult run(const Draw &draw);
  bool has16Bits() const { return exact.has16Bits(); }

private:
  void addSpecial(Value constant);
  Data draw(const Draw &draw, BlockArgument argument, const MemoryView *given);
  int64_t drawInteger(BlockArgument argument, uint64_t key, size_t i) const;
  double drawSpecial(Special special, double number, uint64_t x, bool isDense) const;
  MemoryView makeView(const Data &data, Type type, int64_t width = 0, int64_t stride = 0) const;
  std::optional<SmallVector<MemoryView>> makeMemory(const std::vector<Data> &arguments);
  MemoryView makeOperand(const Data &data, unsigned index) const;
  LogicalResult compare(unsigned result, const MemoryView &have, double magnitude,
                        const Data *sensitivity);
  SmallVector<MemoryView> runAgain(const std::vector<Data> &arguments, Rounding rounding);

  const KernelProgram &kernel;
  kernel::FuncOp function;
  func::FuncOp tensors;
  ArrayRef<MemoryView> memory;
  bool isGiven;
  World &world;
  const Coordinates &at;
  function_ref<int64_t(const ::tpc::SymExpr &)> evaluate;
  KernelOutcomes &outcomes;
  TensorRun exact;
  SmallVector<Value> caches; // caches that results are appended to
  SmallVector<Domain> domains;
  /// In a mask only 0 is false. The other numbers are constants that tensors are compared with.
  SmallVector<int64_t> frequentIntegers = {0, 1, 2, -1};
  SmallVector<double> specialFloats = {0, -0.0, 0, 1, -1, 2};
  unsigned draws = 0;
};
} // namespace

/// Adds a constant to the numbers that are drawn frequently.
void Comparison::addSpecial(Value value) {
  auto constant = value.getDefiningOp<ConstantOp>();
  auto dense = constant ? dyn_cast<DenseElementsAttr>(constant.getValue()) : DenseElementsAttr();
  if (!dense || !dense.isSplat())
    return;
  if (isa<FloatType>(dense.getElementType()))
    specialFloats.push_back(dense.getSplatValue<APFloat>().convertToDouble());
  else
    frequentIntegers.push_back(dense.getSplatValue<APInt>().getSExtValue());
}

/// Draws an integer from the domain of the argument.
int64_t Comparison::drawInteger(BlockArgument argument, uint64_t key, size_t i) const {
  uint64_t x = interpret::hash(key, i);
  auto type = cast<IntegerType>(getElementTypeOrSelf(argument.getType()));
  if (type.getWidth() == 1)
    return x & 1;
  if (domains.empty())
    return x & 1;
  Domain domain = domains[argument.getArgNumber()].intersect(Domain::ofType(type));
  int64_t number =
      x % 2 ? frequentIntegers[(x >> 8) % frequentIntegers.size()] : int64_t((x >> 8) % 12) - 5;
  if (number >= domain.lowest && number <= domain.highest)
    return number;
  double lowest = std::isfinite(domain.lowest) ? domain.lowest : domain.highest - 12;
  double highest = std::min(domain.highest, lowest + 12);
  return int64_t(lowest) + int64_t((x >> 8) % uint64_t(highest - lowest + 1));
}

/// `isDense`: special numbers are frequent.
double Comparison::drawSpecial(Special special, double number, uint64_t x, bool isDense) const {
  uint64_t rest = x >> 8;
  unsigned every = isDense ? 2 : 6;
  switch (special) {
  case Special::None:
    return number;
  case Special::AllZero:
    return 0;
  case Special::Zeros:
    return x % 4 ? specialFloats[rest % specialFloats.size()] : number;
  case Special::Infinities:
    return x % 4 ? number : rest % 2 ? INFINITY : -INFINITY;
  case Special::NaNs:
    return x % every ? number : NAN;
  }
  llvm_unreachable("all kinds are listed");
}

/// Returns element `i` of a row of n; earlier elements precede `element` in memory. Some rows are
/// zero or consist of integers with sum zero, so that sums and centered elements are zero.
static double drawZeroSum(double number, double other, uint64_t row, int64_t i, int64_t n,
                          const double *element) {
  int64_t mirror = n - 1 - i;
  switch (row % 3) {
  case 0:
    return 0;
  case 1:
    return i < mirror ? std::trunc(4 * other) : i == mirror ? 0 : -element[mirror - i];
  default:
    return number;
  }
}

/// Returns the number of a tensor's type that an integer in memory represents. Memory has no
/// unsigned types.
static double asNumber(int64_t bits, Type tensor) {
  auto type = cast<IntegerType>(getElementTypeOrSelf(tensor));
  bool isNegative = bits < 0 && type.isUnsigned() && type.getWidth() < 64;
  return isNegative ? double(bits + (int64_t(1) << type.getWidth())) : double(bits);
}

Data Comparison::draw(const Draw &draw, BlockArgument argument, const MemoryView *given) {
  Data data(world.getSlice(argument.getType(), at).shape);
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument.getType()));
  uint64_t key = argument.getArgNumber() + 1 + 0x1000 * draws;
  size_t row = data.shape.empty() ? 1 : std::max<int64_t>(1, data.shape.back());
  for (auto [i, x] : llvm::enumerate(data.data)) {
    bool isGiven = given && given->exists(i) && given->isWritten(i);
    Scalar value = isGiven ? given->load(i) : Scalar();
    isGiven &= !value.isUnspecified();
    if (isGiven && (isFloat ? draw.magnitude == 0 : draw.keepsIntegers)) {
      x = isFloat ? value.f : asNumber(value.i, argument.getType());
    } else if (isFloat) {
      double number = Doubles::random(key, i);
      number = (draw.magnitude == 0 ? 1 : draw.magnitude) *
                   (draw.positive ? std::fabs(number) : number) +
               draw.offset;
      x = drawSpecial(draw.special, number, interpret::hash(~key, i),
                      interpret::hash(~key, ~(i / row)) % 2 == 0);
      // In some rows only few elements are visible. A second maximum may then be -infinity.
      if (draw.special == Special::Infinities && interpret::hash(key, ~(i / row)) % 2 == 0 &&
          interpret::hash(key, i) % 4 != 0)
        x = -INFINITY;
      if (draw.special == Special::Zeros)
        x = drawZeroSum(x, number, interpret::hash(key, ~(i / row)), i % row, row, &data.data[i]);
    } else {
      x = drawInteger(argument, key, i);
    }
  }
  return data;
}

/// Returns memory whose stores do not round: only casts round.
MemoryView Comparison::makeView(const Data &data, Type type, int64_t width, int64_t stride) const {
  int64_t n = data.data.size();
  MemoryView view{nullptr, 0, n, type, width, stride};
  view.memory = std::make_shared<Memory>(view.getEnd(), /*rounds=*/false);
  for (auto [i, x] : llvm::enumerate(data.data)) {
    Scalar value;
    if (isa<FloatType>(type))
      value.f = x;
    else
      value.i = int64_t(x);
    view.store(i, value);
  }
  return view;
}

/// Returns memory of an operand, with the row stride with which the kernel reads it.
MemoryView Comparison::makeOperand(const Data &data, unsigned index) const {
  auto rows = kernel::FuncOp(function).getRowStride(function->getRegion(0).getArgument(index));
  if (!rows)
    return makeView(data, memory[index].type);
  int64_t width = 1;
  for (int64_t size : ArrayRef(data.shape).drop_front(rows->dims))
    width *= size;
  return makeView(data, memory[index].type, width, std::max(width, evaluate(rows->stride)));
}

/// Returns memory of the operands, followed by memory of the results: that of an operand if the
/// kernel may overwrite it, else uninitialized memory. Returns nothing if a result is appended to a
/// value that is not an operand.
std::optional<SmallVector<MemoryView>> Comparison::makeMemory(const std::vector<Data> &arguments) {
  SmallVector<MemoryView> views;
  for (BlockArgument argument : tensors.getArguments())
    if (!llvm::is_contained(caches, Value(argument)))
      views.push_back(makeOperand(arguments[argument.getArgNumber()], views.size()));
  for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands())) {
    Type type = memory[views.size()].type;
    if (caches[i]) {
      auto argument = dyn_cast<BlockArgument>(caches[i]);
      if (!argument)
        return std::nullopt;
      views.push_back(makeView(arguments[argument.getArgNumber()], type));
      continue;
    }
    if (std::optional<unsigned> operand = kernel::FuncOp(function).getOverwritten(i)) {
      views.push_back(views[*operand]);
      continue;
    }
    views.push_back(makeView(Data(world.getSlice(value.getType(), at).shape), type));
    views.back().forget();
  }
  return views;
}

LogicalResult Comparison::compare(unsigned result, const MemoryView &have, double magnitude,
                                  const Data *sensitivity) {
  const Data &want = exact.getResult(result);
  // Constants of kernels are rounded to the program's types; those of the interpreter are doubles.
  constexpr double share = 1e-6, floor = 1e-9;
  double largest = 0;
  for (double x : want.data)
    largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  bool isFloat = have.type.isFloat(), hasUnspecified = exact.hasUnspecified();
  Type type = tensors.front().getTerminator()->getOperand(result).getType();
  for (auto [i, expected] : llvm::enumerate(want.data)) {
    // If operands are small, constants near 1 may cancel and leave only their rounding errors.
    // Infinities and NaNs must be equal.
    double tolerance =
        !std::isfinite(expected) ? 0
        : magnitude < 1
            ? share
            : share * (std::fabs(expected) + std::min(largest, magnitude)) + floor * magnitude;
    if (sensitivity)
      tolerance += isFloat ? 8 * sensitivity->data[i] : sensitivity->data[i] == 0 ? 0 : INFINITY;
    Scalar value = have.load(i);
    if (value.isUnspecified()) {
      if (hasUnspecified)
        continue;
      return reportResult(function, tensors, result)
             << "stores an unspecified element " << i << " of result " << result << ": "
             << explainUnspecified(value);
    }
    double x = isFloat ? value.f : asNumber(value.i, type);
    bool same = x == expected || (std::isnan(x) && std::isnan(expected)) || tolerance == INFINITY ||
                std::fabs(x - expected) <= tolerance;
    if (have.isWritten(i) && same)
      continue;
    InFlightDiagnostic diag = reportResult(function, tensors, result);
    if (!have.isWritten(i))
      return diag << "does not store element " << i << " of result " << result;
    return diag << "stores "
                << llvm::formatv("{0:e9} as element {1} of result {2}, but its tensor function "
                                 "computes {3:e9}",
                                 x, i, result, expected)
                       .str();
  }
  return success();
}

/// Returns nothing if the kernel fails.
SmallVector<MemoryView> Comparison::runAgain(const std::vector<Data> &arguments,
                                             Rounding rounding) {
  SmallVector<MemoryView> views = *makeMemory(arguments);
  bool reported = false;
  ScopedDiagnosticHandler quiet(function.getContext(), [](Diagnostic &) { return success(); });
  if (failed(kernel.run(views, evaluate, /*seed=*/1, rounding, reported)) || reported)
    views.clear();
  return views;
}

LogicalResult Comparison::run(const Draw &draw) {
  ++draws;
  unsigned operands = tensors.getNumArguments() - llvm::count_if(caches, [](Value cache) {
                        return isa_and_nonnull<BlockArgument>(cache);
                      });
  if (operands + tensors.getNumResults() != memory.size())
    return function.emitOpError() << "has " << memory.size() << " operands and results, but its "
                                  << "tensor function " << operands + tensors.getNumResults();
  std::vector<Data> arguments;
  unsigned next = 0;
  for (BlockArgument argument : tensors.getArguments()) {
    bool isCache = llvm::is_contained(caches, Value(argument));
    arguments.push_back(this->draw(draw, argument, isCache || !isGiven ? nullptr : &memory[next]));
    next += !isCache;
  }
  std::optional<SmallVector<MemoryView>> views = makeMemory(arguments);
  if (!views)
    return success();
  // Arithmetic that is undefined for the operands, such as a cast of infinity to an integer, is
  // skipped. An index out of bounds is always an error.
  bool reported = false;
  bool isHuge = draw.magnitude > 1000; // sines, for example, are only rounding errors
  Operation *failedAt = nullptr;
  std::string why;
  Narrowings narrowings;
  Outcomes compared;
  std::vector<Data> sensitivity;
  {
    ScopedDiagnosticHandler quiet(function.getContext(), [&](Diagnostic &diagnostic) {
      why = diagnostic.str();
      return success();
    });
    // Lookups out of bounds have no expected result.
    bool missed = std::exchange(world.misses, false);
    bool isDefined = exact.run(arguments);
    if (std::exchange(world.misses, missed) || !isDefined)
      return success();
    (void)kernel.run(*views, evaluate, /*seed=*/1, Rounding::None, reported, &failedAt,
                     draw.comparesRounding ? &narrowings : nullptr, &compared);
    if (draw.comparesRounding || isHuge || exact.hasSteps()) {
      sensitivity = measureSensitivity(exact, TensorRun(tensors, world, at), arguments);
      world.misses = missed;
    }
  }
  if (reported)
    return failedAt->emitError()
           << "in kernel @" << function.getSymName()
           << ", run alone at small sizes, reports a valid index as out of bounds";
  if (failedAt)
    return isa<memref::LoadOp, memref::StoreOp>(failedAt)
               ? LogicalResult(failedAt->emitError() << "run alone: " << why)
               : success();
  for (unsigned i = 0; i < tensors.getNumResults(); ++i)
    if (failed(compare(i, (*views)[operands + i],
                       draw.magnitude == 0 ? 1 : std::max(draw.magnitude, draw.offset),
                       isHuge || exact.hasSteps() ? &sensitivity[i] : nullptr)))
      return failure();
  for (auto [all, outcome] : llvm::zip_equal(outcomes.choices, compared))
    all |= outcome;
  for (Operation &op : tensors.front().without_terminator()) {
    bool isBoolean = getElementTypeOrSelf(op.getResult(0)).isInteger(1);
    if (!isBoolean && !getPredicate(&op))
      continue;
    uint8_t &had = outcomes.onTensors[&op];
    if (isBoolean)
      for (double x : exact.get(op.getResult(0)).data)
        had |= x != 0 ? 2 : 1;
  }
  if (!draw.comparesRounding)
    return success();
  if (failed(compareNarrowings(function, narrowings, exact)))
    return failure();
  SmallVector<MemoryView> again = runAgain(arguments, Rounding::Arithmetic);
  if (!again.empty() &&
      failed(compareArithmetic(function, tensors, ArrayRef(again).drop_front(operands), exact,
                               sensitivity)))
    return failure();
  if (!exact.has16Bits())
    return success();
  for (auto [argument, data] : llvm::zip_equal(tensors.getArguments(), arguments))
    roundNumbers(data, argument.getType());
  TensorRun rounded(tensors, world, at);
  again = runAgain(arguments, Rounding::Casts);
  if (again.empty() || !rounded.run(arguments, TensorRun::Rounded))
    return success();
  return compareCasts(function, tensors, ArrayRef(again).drop_front(operands), rounded);
}

/// Returns true if the function cannot be run on random operands, because casts of integers would
/// wrap around. The run of the program tests such functions. Casts of floats out of range are
/// unspecified, and not compared.
static bool needsWholeProgram(func::FuncOp tensors) {
  auto wraps = [](CastOp op) {
    auto from = dyn_cast<IntegerType>(getElementTypeOrSelf(op.getOperand()));
    auto to = dyn_cast<IntegerType>(getElementTypeOrSelf(op.getType()));
    return from && to && to.getWidth() > 1 && (to.getWidth() < 32 || to.isUnsigned());
  };
  return tensors
      .walk([&](CastOp op) { return wraps(op) ? WalkResult::interrupt() : WalkResult::advance(); })
      .wasInterrupted();
}

/// Returns true if the function looks up rows at computed indices, which random integers may move
/// out of bounds.
static bool hasComputedRows(func::FuncOp tensors) {
  auto isComputed = [](Value index) {
    Operation *from = index.getDefiningOp();
    while (isa_and_nonnull<ReshapeOp, ExpandOp, TransposeOp, CastOp>(from))
      from = from->getOperand(0).getDefiningOp();
    return isa<IntegerType>(getElementTypeOrSelf(index)) && from && !isa<ConstantOp>(from);
  };
  return tensors
      .walk([&](LookupOpInterface op) {
        return llvm::any_of(op->getOperands(), isComputed) ? WalkResult::interrupt()
                                                           : WalkResult::advance();
      })
      .wasInterrupted();
}

/// Returns whether a kernel limits or compares floats.
static bool hasLimits(kernel::FuncOp function) {
  WalkResult result = function.walk([](Operation *op) {
    auto fold = dyn_cast<kernel::FoldOp>(op);
    bool limits = isa<arith::MinimumFOp, arith::MaximumFOp, arith::MinNumFOp, arith::MaxNumFOp,
                      arith::RemFOp, arith::CmpFOp>(op) ||
                  (fold && fold.getKind() != kernel::FoldKind::Sum);
    return limits ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}

LogicalResult lowered::compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                                     ArrayRef<MemoryView> memory, bool isGiven, bool isBrief,
                                     World &world, const Coordinates &at,
                                     function_ref<int64_t(const ::tpc::SymExpr &)> evaluate,
                                     KernelOutcomes &outcomes) {
  if (needsWholeProgram(tensors))
    return success();
  Comparison comparison(kernel, tensors, memory, isGiven, world, at, evaluate, outcomes);
  SmallVector<Draw> draws;
  if (isGiven)
    draws.push_back({.magnitude = 0, .keepsIntegers = true});
  draws.push_back({.magnitude = 1, .comparesRounding = !isBrief});
  if (!isBrief) {
    draws.push_back({.magnitude = 3, .positive = true});
    // The squares of numbers of 16 bits may overflow.
    bool halves = comparison.has16Bits();
    draws.push_back({.magnitude = 60, .keepsIntegers = true, .comparesRounding = halves});
    draws.push_back({.magnitude = 1000, .comparesRounding = halves});
    for (Special special : {Special::AllZero, Special::Zeros, Special::Infinities})
      draws.push_back({.magnitude = 1, .special = special});
    // A limit may be computed from the numbers, and be far above them.
    if (hasLimits(kernel.getFunction()))
      for (double magnitude : {1e6, 1e18, 1e36})
        draws.push_back({.magnitude = magnitude, .keepsIntegers = true});
    if (isGiven) // an epsilon affects small numbers, whatever the sizes
      draws.push_back({.magnitude = 1e-3, .keepsIntegers = true});
    if (!isGiven || hasComputedRows(tensors)) {
      draws.push_back({.magnitude = 1, .offset = 1000, .comparesRounding = true});
      for (Special special : {Special::AllZero, Special::Zeros, Special::Infinities, Special::NaNs})
        draws.push_back({.magnitude = 1, .special = special});
    }
  }
  // Runs with other integers are skipped if a computed index is out of bounds.
  if (isGiven && hasComputedRows(tensors))
    for (size_t i = 0, count = draws.size(); i < count; ++i) {
      draws.push_back(draws[i]);
      draws.back().keepsIntegers = true;
    }
  for (const Draw &draw : draws)
    if (failed(comparison.run(draw)))
      return failure();
  // Rare outcomes, such as those for divisors of -1, may need other numbers.
  constexpr int moreDraws = 24;
  auto isPartial = [](uint8_t outcome) { return outcome != 3; };
  for (int i = 0; i < moreDraws && !isBrief && llvm::any_of(outcomes.choices, isPartial); ++i)
    if (failed(comparison.run({.magnitude = 1, .special = i % 2 ? Special::Zeros : Special::None})))
      return failure();
  return success();
}
