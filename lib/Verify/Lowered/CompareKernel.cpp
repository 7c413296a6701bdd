//===- CompareKernel.cpp - Comparison of a kernel with tensor ops ---------===//
//
// A run of the whole program does not exercise a kernel with numbers that the model never computes:
// small scores hide their cap, and large sums hide an epsilon. Each kernel is therefore also run
// alone, on operands of several magnitudes. The tolerance is small, because no other op adds noise.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"

#include "../Interpret/Evaluation.h"

#include "tpc/Dialect/State.h"

#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "llvm/Support/FormatVariadic.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;
using interpret::Doubles;
using interpret::RankSlice;
using interpret::World;

using Data = interpret::Tensor<double>;

FailureOr<func::FuncOp> lowered::getTensors(ModuleOp program, kernel::FuncOp function) {
  auto tensors = program.lookupSymbol<func::FuncOp>(function.getSymName());
  if (tensors && !tensors.isExternal() && tensors->hasAttr(kKernelAttr))
    return tensors;
  return function.emitOpError() << "has no function of tensors @" << function.getSymName();
}

namespace {
/// Distribution of random floats; with magnitude 0 they are those of the run.
struct Draw {
  double magnitude;
  bool positive;
};

class Comparison {
public:
  Comparison(const KernelProgram &kernel, func::FuncOp tensors, ArrayRef<MemoryView> memory,
             bool isGiven, World &world, const Coordinates &at)
      : kernel(kernel), function(kernel.getFunction()), tensors(tensors), memory(memory),
        isGiven(isGiven), world(world), at(at) {
    caches.resize(tensors.getNumResults());
    for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands()))
      if (auto append = value.getDefiningOp<AppendOp>())
        caches[i] = append.getCache();
  }
  LogicalResult run(Draw draw, function_ref<int64_t(const ::tpc::SymExpr &)> evaluate);

private:
  Data draw(Draw draw, BlockArgument argument, const MemoryView *given);
  MemoryView makeView(const Data &data, Type type) const;
  bool evaluateTensors(std::vector<Data> arguments, std::vector<Data> &results);
  LogicalResult compare(unsigned result, const MemoryView &have, const Data &want,
                        double magnitude);

  const KernelProgram &kernel;
  kernel::FuncOp function;
  func::FuncOp tensors;
  ArrayRef<MemoryView> memory;
  bool isGiven;
  World &world;
  const Coordinates &at;
  SmallVector<Value> caches; // caches that results are appended to
};
} // namespace

Data Comparison::draw(Draw draw, BlockArgument argument, const MemoryView *given) {
  Data data(world.getSlice(argument.getType(), at).shape);
  bool isFloat = isa<FloatType>(getElementTypeOrSelf(argument.getType()));
  for (auto [i, x] : llvm::enumerate(data.data)) {
    bool isGiven = given && given->exists(i) && given->isWritten(i);
    if (isGiven && (!isFloat || draw.magnitude == 0)) {
      Scalar value = given->load(i);
      x = isFloat ? value.f : double(value.i);
    } else {
      double number = Doubles::random(argument.getArgNumber() + 1, i);
      // Valid rows of any table, lengths, truth values.
      x = !isFloat ? number > 0
                   : (draw.magnitude == 0 ? 1 : draw.magnitude) *
                         (draw.positive ? std::fabs(number) : number);
    }
  }
  return data;
}

MemoryView Comparison::makeView(const Data &data, Type type) const {
  int64_t n = data.data.size();
  MemoryView view{std::make_shared<Memory>(n * getElementBytes(type), /*rounds=*/false), 0, n,
                  type};
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

/// Returns a rank's slice of a slice; nothing if an element is missing.
static std::optional<Data> slice(const Data &in, const RankSlice &from, const RankSlice &to) {
  SmallVector<std::vector<int64_t>> sources(to.indices.size());
  for (size_t d = 0; d < sources.size(); ++d)
    for (int64_t index : to.indices[d]) {
      auto found = llvm::lower_bound(from.indices[d], index);
      if (found == from.indices[d].end() || *found != index)
        return std::nullopt;
      sources[d].push_back(found - from.indices[d].begin());
    }
  Data out(to.shape);
  size_t next = 0;
  interpret::forEachIndex(to.shape, [&](ArrayRef<int64_t> index) {
    interpret::Shape source;
    for (auto [d, i] : llvm::enumerate(index))
      source.push_back(sources[d][i]);
    out.data[next++] = in.data[interpret::linearize(source, in.shape)];
  });
  return out;
}

/// Returns false if the function cannot be evaluated with these numbers.
bool Comparison::evaluateTensors(std::vector<Data> arguments, std::vector<Data> &results) {
  DenseMap<Value, Data> values;
  for (auto [argument, data] : llvm::zip_equal(tensors.getArguments(), arguments))
    values[argument] = std::move(data);
  for (Operation &op : tensors.front().without_terminator()) {
    SmallVector<const Data *> operands;
    for (Value operand : op.getOperands())
      operands.push_back(&values.find(operand)->second);
    std::optional<Data> computed;
    if (auto local = dyn_cast<LocalSliceOp>(op))
      computed = slice(*operands[0], world.getSlice(local.getOperand().getType(), at),
                       world.getSlice(local.getType(), at));
    else if (auto evaluated = interpret::Evaluation<Doubles>(&op, operands, world, at).run();
             succeeded(evaluated))
      computed = std::move(*evaluated);
    if (!computed || computed->shape != world.getSlice(op.getResult(0).getType(), at).shape)
      return false;
    values[op.getResult(0)] = std::move(*computed);
  }
  for (Value value : tensors.front().getTerminator()->getOperands())
    results.push_back(values.lookup(value));
  return true;
}

LogicalResult Comparison::compare(unsigned result, const MemoryView &have, const Data &want,
                                  double magnitude) {
  // Constants of kernels have the program's types, those of the interpreter are doubles.
  constexpr double share = 1e-6, least = 1e-9;
  double largest = 0;
  for (double x : want.data)
    largest = std::isfinite(x) ? std::max(largest, std::fabs(x)) : largest;
  bool isFloat = have.type.isFloat();
  for (auto [i, expected] : llvm::enumerate(want.data)) {
    // Constants near 1 may cancel; their error remains next to small operands.
    double tolerance =
        magnitude < 1
            ? share
            : share * (std::fabs(expected) + std::min(largest, magnitude)) + least * magnitude;
    Scalar value = have.load(i);
    double x = isFloat ? value.f : double(value.i);
    bool same = x == expected || (std::isnan(x) && std::isnan(expected)) ||
                std::fabs(x - expected) <= tolerance;
    if (have.isWritten(i) && same)
      continue;
    Operation *op = tensors.front().getTerminator()->getOperand(result).getDefiningOp();
    Operation *from = op ? op : tensors.getOperation();
    InFlightDiagnostic diag = from->emitError()
                              << "'" << getSourceName(from->getLoc()) << "' (" << from->getName()
                              << "): kernel @" << function.getSymName()
                              << ", run alone at small sizes, ";
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

LogicalResult Comparison::run(Draw draw, function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) {
  std::vector<Data> arguments;
  SmallVector<MemoryView> own;
  for (BlockArgument argument : tensors.getArguments()) {
    bool isKept = llvm::is_contained(caches, Value(argument));
    if (!isKept && own.size() >= memory.size())
      return function.emitOpError() << "has fewer operands than its tensor function";
    arguments.push_back(
        this->draw(draw, argument, isKept || !isGiven ? nullptr : &memory[own.size()]));
    if (!isKept)
      own.push_back(makeView(arguments.back(), memory[own.size()].type));
  }
  unsigned operands = own.size();
  if (operands + tensors.getNumResults() != memory.size())
    return function.emitOpError() << "has " << memory.size() << " operands and results, but its "
                                  << "tensor function " << operands + tensors.getNumResults();
  for (auto [i, value] : llvm::enumerate(tensors.front().getTerminator()->getOperands())) {
    Type type = memory[own.size()].type;
    if (caches[i]) {
      auto argument = dyn_cast<BlockArgument>(caches[i]);
      if (!argument)
        return success();
      own.push_back(makeView(arguments[argument.getArgNumber()], type));
      continue;
    }
    own.push_back(makeView(Data(world.getSlice(value.getType(), at).shape), type));
    own.back().forget();
  }
  // Arithmetic fails with some numbers, such as an integer cast of infinity; other draws are
  // compared then. Indices must never be out of bounds.
  bool reported = false;
  Operation *failedAt = nullptr;
  std::string why;
  std::vector<Data> expected;
  {
    ScopedDiagnosticHandler quiet(function.getContext(), [&](Diagnostic &diagnostic) {
      why = diagnostic.str();
      return success();
    });
    // A lookup out of bounds has no expected result either.
    bool missed = std::exchange(world.misses, false);
    bool isEvaluated = evaluateTensors(std::move(arguments), expected);
    bool isThere = !std::exchange(world.misses, missed);
    if (!isEvaluated || !isThere ||
        (succeeded(kernel.run(own, evaluate, /*seed=*/1, /*rounds=*/false, reported, &failedAt)) &&
         reported))
      return success();
  }
  if (failedAt && !reported)
    return isa<memref::LoadOp, memref::StoreOp>(failedAt)
               ? LogicalResult(failedAt->emitError() << "alone, " << why)
               : success();
  for (auto [i, want] : llvm::enumerate(expected))
    if (failed(compare(i, own[operands + i], want, draw.magnitude == 0 ? 1 : draw.magnitude)))
      return failure();
  return success();
}

LogicalResult lowered::compareKernel(const KernelProgram &kernel, func::FuncOp tensors,
                                     ArrayRef<MemoryView> memory, bool isGiven, bool isBrief,
                                     World &world, const Coordinates &at,
                                     function_ref<int64_t(const ::tpc::SymExpr &)> evaluate) {
  // Integers that are derived from floats, or by reductions, and lookups are meaningful only in the
  // whole program, which compares them.
  bool makesIndices =
      tensors
          .walk([](Operation *op) {
            bool isInteger = llvm::any_of(op->getResultTypes(), [](Type type) {
              auto integer = dyn_cast<IntegerType>(getElementTypeOrSelf(type));
              return integer && integer.getWidth() > 1;
            });
            bool isOfFloats = llvm::any_of(op->getOperandTypes(), [](Type type) {
              return isa<FloatType>(getElementTypeOrSelf(type));
            });
            // A comparison with a reduced value computes the index of a maximum.
            bool isReduced = isa<CmpOp>(op) && llvm::any_of(op->getOperands(), [](Value operand) {
                               Operation *from = operand.getDefiningOp();
                               while (isa_and_nonnull<ReshapeOp, ExpandOp, CastOp>(from))
                                 from = from->getOperand(0).getDefiningOp();
                               return isa_and_nonnull<ReduceOp>(from);
                             });
            return isa<LookupOpInterface>(op) || (isInteger && isOfFloats) || isReduced ||
                           (isInteger && isa<ReduceOp>(op))
                       ? WalkResult::interrupt()
                       : WalkResult::advance();
          })
          .wasInterrupted();
  if (makesIndices)
    return success();
  Comparison comparison(kernel, tensors, memory, isGiven, world, at);
  if (isGiven && failed(comparison.run({0, false}, evaluate)))
    return failure();
  // An epsilon is significant next to small numbers.
  for (Draw draw :
       {Draw{1, false}, Draw{3, true}, Draw{60, false}, Draw{1000, false}, Draw{1e-3, false}}) {
    if (isBrief && draw.magnitude != 1)
      continue;
    if (draw.magnitude < 1 && !isGiven) // independent of sizes
      continue;
    if (failed(comparison.run(draw, evaluate)))
      return failure();
  }
  return success();
}
