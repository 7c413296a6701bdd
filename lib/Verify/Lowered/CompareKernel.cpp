//===- CompareKernel.cpp - Kernels beside their functions of tensors ------===//
//
// A run of the whole program hides what a kernel does to numbers that the model never has there: a
// cap of scores that are small, an epsilon beside large sums, a mask that is 2. So each kernel is
// run alone as well, on operands of several magnitudes and on special values, and compared closely:
// nothing else of the model adds noise. How it rounds is compared in CompareRounding.cpp.
//
//===----------------------------------------------------------------------===//

#include "CompareRounding.h"

#include "../Interpret/Arithmetic.h"
#include "../Interpret/Domains.h"

#include "tpc/Dialect/State.h"

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
  return function.emitOpError() << "has no function of tensors @" << function.getSymName();
}

namespace {
enum class Special { None, Zeros, Infinities, NaNs };

/// What operands are drawn from; without a magnitude they are those of the run.
struct Draw {
  double magnitude;
  bool positive = false;
  double offset = 0;
  Special special = Special::None;
  /// Integers are those of the run, where it gives some.
  bool keepsIntegers = false;
  /// How the kernel rounds is compared as well.
  bool comparesRounding = false;
};

class Comparison {
public:
  Comparison(const KernelProgram &kernel, func::FuncOp tensors, ArrayRef<Place> memory,
             bool isGiven, World &world, const Coordinates &at)
      : kernel(kernel), function(kernel.getFunction()), tensors(tensors), memory(memory),
        isGiven(isGiven), world(world), at(at), exact(tensors, world, at) {
    caches.resize(tensors.getNumResults());
    for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands()))
      if (auto append = value.getDefiningOp<AppendOp>())
        caches[i] = append.getCache();
    ScopedDiagnosticHandler quiet(tensors.getContext(), [](Diagnostic &) { return success(); });
    Domains known(world);
    if (succeeded(known.run(tensors)))
      for (BlockArgument argument : tensors.getArguments())
        domains.push_back(known.get(argument));
  }
  LogicalResult run(const Draw &draw, function_ref<int64_t(const ::tpc::SymExpr &)> evaluate);

private:
  Data draw(const Draw &draw, BlockArgument argument, const Place *given);
  int64_t drawInteger(BlockArgument argument, uint64_t key, size_t i) const;
  Place place(const Data &data, Type type) const;
  std::optional<SmallVector<Place>> makeMemory(const std::vector<Data> &arguments);
  LogicalResult compare(unsigned result, const Place &have, double magnitude,
                        const Data *sensitivity);
  SmallVector<Place> runAgain(const std::vector<Data> &arguments, Rounding rounding,
                              function_ref<int64_t(const ::tpc::SymExpr &)> evaluate);

  const KernelProgram &kernel;
  kernel::FuncOp function;
  func::FuncOp tensors;
  ArrayRef<Place> memory;
  bool isGiven;
  World &world;
  const Coordinates &at;
  TensorRun exact;
  SmallVector<Value> caches; // that results are appended to
  SmallVector<Domain> domains;
  unsigned draws = 0;
};
} // namespace

/// One that the function can be run with. Small ones are frequent: masks that count as true are not
/// only 1.
int64_t Comparison::drawInteger(BlockArgument argument, uint64_t key, size_t i) const {
  uint64_t x = interpret::hash(key, i);
  auto type = cast<IntegerType>(getElementTypeOrSelf(argument.getType()));
  if (type.getWidth() == 1)
    return x & 1;
  if (domains.empty())
    return x & 1;
  Domain domain = domains[argument.getArgNumber()].intersect(Domain::ofType(type));
  constexpr int64_t frequent[] = {0, 1, 2, -1};
  int64_t number = x % 2 ? frequent[(x >> 8) % 4] : int64_t((x >> 8) % 12) - 5;
  if (number >= domain.least && number <= domain.greatest)
    return number;
  double least = std::isfinite(domain.least) ? domain.least : domain.greatest - 12;
  double greatest = std::min(domain.greatest, least + 12);
  return int64_t(least) + int64_t((x >> 8) % uint64_t(greatest - least + 1));
}

static double drawSpecial(Special special, double number, uint64_t x) {
  constexpr double zeros[] = {0, -0.0, 0, 1, -1, 2};
  switch (special) {
  case Special::None:
    return number;
  case Special::Zeros:
    return x % 4 ? zeros[(x >> 8) % std::size(zeros)] : number;
  case Special::Infinities:
    return x % 4 ? number : (x >> 8) % 2 ? INFINITY : -INFINITY;
  case Special::NaNs:
    return x % 6 ? number : NAN;
  }
  llvm_unreachable("all kinds are listed");
}

/// Element `i` of a row of n, the elements before it in front of `at`: in some rows all are zero,
/// or integers whose sum is zero and of which some are. Then sums, and differences to the mean, are
/// zero.
static double drawZeroSum(double number, double other, uint64_t row, int64_t i, int64_t n,
                          const double *at) {
  int64_t mirror = n - 1 - i;
  switch (row % 3) {
  case 0:
    return 0;
  case 1:
    return i < mirror ? std::trunc(4 * other) : i == mirror ? 0 : -at[mirror - i];
  default:
    return number;
  }
}

Data Comparison::draw(const Draw &draw, BlockArgument argument, const Place *given) {
  Data data(world.getPart(argument.getType(), at).shape);
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument.getType()));
  uint64_t key = argument.getArgNumber() + 1 + 0x1000 * draws;
  size_t row = data.shape.empty() ? 1 : std::max<int64_t>(1, data.shape.back());
  for (auto [i, x] : llvm::enumerate(data.data)) {
    bool isGiven = given && given->exists(i) && given->isWritten(i);
    if (isGiven && (isFloat ? draw.magnitude == 0 : draw.keepsIntegers)) {
      Scalar value = given->load(i);
      x = isFloat ? value.f : double(value.i);
    } else if (isFloat) {
      double number = Doubles::random(key, i);
      number = (draw.magnitude == 0 ? 1 : draw.magnitude) *
                   (draw.positive ? std::fabs(number) : number) +
               draw.offset;
      x = drawSpecial(draw.special, number, interpret::hash(~key, i));
      if (draw.special == Special::Zeros)
        x = drawZeroSum(x, number, interpret::hash(key, ~(i / row)), i % row, row, &data.data[i]);
    } else {
      x = drawInteger(argument, key, i);
    }
  }
  return data;
}

/// Numbers are exact in it: casts alone round, where they do.
Place Comparison::place(const Data &data, Type type) const {
  int64_t n = data.data.size();
  Place place{std::make_shared<Memory>(n * getElementBytes(type), /*rounds=*/false), 0, n, type};
  for (auto [i, x] : llvm::enumerate(data.data)) {
    Scalar value;
    if (isa<FloatType>(type))
      value.f = x;
    else
      value.i = int64_t(x);
    place.store(i, value);
  }
  return place;
}

static void roundNumbers(Data &data, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    for (double &x : data.data)
      x = roundTo(element, x);
}

/// Operands, then results, which hold nothing yet. Nothing where a result is appended to no
/// operand.
std::optional<SmallVector<Place>> Comparison::makeMemory(const std::vector<Data> &arguments) {
  SmallVector<Place> own;
  for (BlockArgument argument : tensors.getArguments())
    if (!llvm::is_contained(caches, Value(argument)))
      own.push_back(place(arguments[argument.getArgNumber()], memory[own.size()].type));
  for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands())) {
    Type type = memory[own.size()].type;
    if (caches[i]) {
      auto argument = dyn_cast<BlockArgument>(caches[i]);
      if (!argument)
        return std::nullopt;
      own.push_back(place(arguments[argument.getArgNumber()], type));
      continue;
    }
    own.push_back(place(Data(world.getPart(value.getType(), at).shape), type));
    own.back().forget();
  }
  return own;
}

LogicalResult Comparison::compare(unsigned result, const Place &have, double magnitude,
                                  const Data *sensitivity) {
  const Data &want = exact.getResult(result);
  // Constants of kernels are of the program's types, those of the interpreter doubles.
  constexpr double share = 1e-6, least = 1e-9;
  double largest = 0;
  for (double x : want.data)
    largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  bool isFloat = have.type.isFloat();
  for (auto [i, expected] : llvm::enumerate(want.data)) {
    // Constants of 1 or so may cancel: of small operands their error is left. What is not finite
    // has no neighbors.
    double tolerance =
        !std::isfinite(expected) ? 0
        : magnitude < 1
            ? share
            : share * (std::fabs(expected) + std::min(largest, magnitude)) + least * magnitude;
    if (sensitivity)
      tolerance += isFloat ? 8 * sensitivity->data[i] : sensitivity->data[i] == 0 ? 0 : INFINITY;
    Scalar value = have.load(i);
    double x = isFloat ? value.f : double(value.i);
    bool same = x == expected || (std::isnan(x) && std::isnan(expected)) || tolerance == INFINITY ||
                std::fabs(x - expected) <= tolerance;
    if (have.isWritten(i) && same)
      continue;
    InFlightDiagnostic diag = reportResult(function, tensors, result);
    if (!have.isWritten(i))
      return diag << "does not store element " << i << " of result " << result;
    return diag << "stores "
                << llvm::formatv("{0:e9} as element {1} of result {2}, and its function of tensors "
                                 "computes {3:e9}",
                                 x, i, result, expected)
                       .str();
  }
  return success();
}

/// Nothing where it fails with these numbers.
SmallVector<Place> Comparison::runAgain(const std::vector<Data> &arguments, Rounding rounding,
                                        function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) {
  SmallVector<Place> own = *makeMemory(arguments);
  bool reported = false;
  ScopedDiagnosticHandler quiet(function.getContext(), [](Diagnostic &) { return success(); });
  if (failed(kernel.run(own, evaluate, /*seed=*/1, rounding, reported)) || reported)
    own.clear();
  return own;
}

LogicalResult Comparison::run(const Draw &draw,
                              function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) {
  ++draws;
  unsigned operands = tensors.getNumArguments() - llvm::count_if(caches, [](Value cache) {
                        return isa_and_nonnull<BlockArgument>(cache);
                      });
  if (operands + tensors.getNumResults() != memory.size())
    return function.emitOpError() << "has " << memory.size() << " operands and results, its "
                                  << "function of tensors " << operands + tensors.getNumResults();
  std::vector<Data> arguments;
  unsigned next = 0;
  for (BlockArgument argument : tensors.getArguments()) {
    bool isKept = llvm::is_contained(caches, Value(argument));
    arguments.push_back(this->draw(draw, argument, isKept || !isGiven ? nullptr : &memory[next]));
    next += !isKept;
  }
  std::optional<SmallVector<Place>> own = makeMemory(arguments);
  if (!own)
    return success();
  // Arithmetic fails with some numbers, as an integer of infinity: then others are drawn. But
  // indices are never outside.
  bool reported = false;
  Operation *failedAt = nullptr;
  std::string why;
  Narrowings narrowings;
  std::vector<Data> sensitivity;
  {
    ScopedDiagnosticHandler quiet(function.getContext(), [&](Diagnostic &diagnostic) {
      why = diagnostic.str();
      return success();
    });
    // Nor is anything known of a row that a table does not have.
    bool missed = std::exchange(world.misses, false);
    bool isEvaluated = exact.run(arguments);
    bool isThere = !std::exchange(world.misses, missed);
    if (!isEvaluated || !isThere ||
        (succeeded(kernel.run(*own, evaluate, /*seed=*/1, Rounding::None, reported, &failedAt,
                              draw.comparesRounding ? &narrowings : nullptr)) &&
         reported))
      return success();
    if (draw.comparesRounding || exact.hasSteps()) {
      sensitivity = measureSensitivity(exact, TensorRun(tensors, world, at), arguments);
      world.misses = missed;
    }
  }
  if (failedAt && !reported)
    return isa<memref::LoadOp, memref::StoreOp>(failedAt)
               ? LogicalResult(failedAt->emitError() << "alone, " << why)
               : success();
  for (unsigned i = 0; i < tensors.getNumResults(); ++i)
    if (failed(compare(i, (*own)[operands + i],
                       draw.magnitude == 0 ? 1 : std::max(draw.magnitude, draw.offset),
                       exact.hasSteps() ? &sensitivity[i] : nullptr)))
      return failure();
  if (!draw.comparesRounding)
    return success();
  if (failed(compareNarrowings(function, narrowings, exact)))
    return failure();
  SmallVector<Place> again = runAgain(arguments, Rounding::Arithmetic, evaluate);
  if (!again.empty() &&
      failed(compareArithmetic(function, tensors, ArrayRef(again).drop_front(operands), exact,
                               sensitivity)))
    return failure();
  if (!exact.has16Bits())
    return success();
  for (auto [argument, data] : llvm::zip_equal(tensors.getArguments(), arguments))
    roundNumbers(data, argument.getType());
  TensorRun rounded(tensors, world, at);
  again = runAgain(arguments, Rounding::Casts, evaluate);
  if (again.empty() || !rounded.run(arguments, TensorRun::Rounded))
    return success();
  return compareCasts(function, tensors, ArrayRef(again).drop_front(operands), rounded);
}

LogicalResult lowered::compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                                     ArrayRef<Place> memory, bool isGiven, bool isBrief,
                                     World &world, const Coordinates &at,
                                     function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) {
  Comparison comparison(kernel, tensors, memory, isGiven, world, at);
  SmallVector<Draw> draws;
  if (isGiven)
    draws.push_back({.magnitude = 0, .keepsIntegers = true});
  draws.push_back({.magnitude = 1, .comparesRounding = !isBrief});
  if (!isBrief) {
    draws.push_back({.magnitude = 3, .positive = true});
    draws.push_back({.magnitude = 60, .keepsIntegers = true});
    draws.push_back({.magnitude = 1000});
    for (Special special : {Special::Zeros, Special::Infinities})
      draws.push_back({.magnitude = 1, .special = special});
    if (isGiven) { // of small numbers an epsilon is no small part; sizes make no difference to it
      draws.push_back({.magnitude = 1e-3, .keepsIntegers = true});
    } else {
      draws.push_back({.magnitude = 1, .offset = 1000, .comparesRounding = true});
      for (Special special : {Special::Zeros, Special::Infinities, Special::NaNs})
        draws.push_back({.magnitude = 1, .special = special});
    }
  }
  for (const Draw &draw : draws)
    if (failed(comparison.run(draw, evaluate)))
      return failure();
  return success();
}
