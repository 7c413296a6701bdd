//===- TensorRun.cpp - Interpreter of tensor functions --------------------===//

#include "TensorRun.h"

#include "../Interpret/Domains.h"
#include "../Interpret/Evaluation.h"

#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Domain;
using interpret::Doubles;
using interpret::RankSlice;

void lowered::roundNumbers(Data &data, Type type) {
  Type element = getElementTypeOrSelf(type);
  if (isa<FloatType>(element))
    for (double &x : data.data)
      x = roundTo(element, x);
}

/// Returns the elements of slice `to`, given the elements of slice `from`; nothing if an element is
/// missing.
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

TensorRun::TensorRun(func::FuncOp function, interpret::World &world,
                     const interpret::Coordinates &at)
    : function(function), world(world), at(at) {
  auto isFloat = [](Type type) { return isa<FloatType>(getElementTypeOrSelf(type)); };
  auto note = [&](Type type) {
    auto number = dyn_cast<FloatType>(getElementTypeOrSelf(type));
    halves |= number && number.getWidth() == 16;
  };
  llvm::for_each(function.getArgumentTypes(), note);
  for (Operation &op : function.front().without_terminator()) {
    llvm::for_each(op.getResultTypes(), note);
    steps |=
        llvm::any_of(op.getOperandTypes(), isFloat) && !llvm::all_of(op.getResultTypes(), isFloat);
  }
}

bool TensorRun::runOp(Operation *op, Data &result) {
  SmallVector<const Data *> operands;
  for (Value operand : op->getOperands())
    operands.push_back(&get(operand));
  std::optional<Data> computed;
  if (auto local = dyn_cast<LocalSliceOp>(op))
    computed = slice(*operands[0], world.getSlice(local.getOperand().getType(), at),
                     world.getSlice(local.getType(), at));
  else if (auto evaluated = interpret::Evaluation<Doubles>(op, operands, world, at).run();
           succeeded(evaluated))
    computed = std::move(*evaluated);
  if (!computed || computed->shape != world.getSlice(op->getResult(0).getType(), at).shape)
    return false;
  result = std::move(*computed);
  if (auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(op->getResult(0)))) {
    Domain domain = Domain::ofType(type);
    for (double &x : result.data) {
      unspecified |= isa<CastOp>(op) && !(x >= domain.lowest && x <= domain.highest);
      // The minimum of no integers is the type's largest number.
      if (std::isinf(x))
        x = x < 0 ? domain.lowest : domain.highest;
    }
  }
  return true;
}

static uint64_t magnitudeBits(double x) { return llvm::bit_cast<uint64_t>(std::fabs(x)); }

/// Relative perturbation: a few units in the last place of the type in which the number is
/// computed.
static double getShare(Type type) { return std::ldexp(1.0, type.isF64() ? -50 : -21); }

/// Perturbs the mean that a norm subtracts. The rounding error of the mean dominates if the
/// elements of a row are nearly equal and far from zero; perturbed operands do not simulate this
/// error.
static void perturbMean(LayerNormOp op, const Data &x, const Data &scale, uint64_t seed,
                        Data &result) {
  double epsilon = op.getEpsilon().convertToDouble();
  double share = getShare(getElementTypeOrSelf(op.getType()));
  size_t n = scale.data.size();
  for (size_t begin = 0; n > 0 && begin < x.data.size(); begin += n) {
    ArrayRef<double> row(&x.data[begin], n);
    double largest = 0, mean = 0, variance = 0;
    for (double each : row) {
      largest = std::max(largest, std::fabs(each));
      mean += each / n;
    }
    for (double each : row)
      variance += (each - mean) * (each - mean) / n;
    double off = std::copysign(share * largest, Doubles::random(seed, begin)) /
                 std::sqrt(variance + epsilon);
    for (size_t i = 0; i < n; ++i)
      result.data[begin + i] += off * scale.data[i];
  }
}

/// Rounds or perturbs numbers, as `change` says. Equal numbers are perturbed equally, so that they
/// stay equal. If the function is discontinuous, numbers that an op only forwards are not
/// perturbed; a maximum, for example, stays one of its operands.
void TensorRun::change(Data &data, Value value, Change change, uint64_t seed) const {
  auto type = dyn_cast<FloatType>(getElementTypeOrSelf(value));
  if (!type || change == Exact)
    return;
  if (change == Rounded) {
    if (type.getWidth() == 16)
      roundNumbers(data, type);
    return;
  }
  Operation *op = value.getDefiningOp();
  if (op && op->getNumOperands() == 0)
    return;
  DenseSet<uint64_t> known;
  if (op && steps)
    for (Value operand : op->getOperands())
      for (double x : get(operand).data)
        known.insert(magnitudeBits(x));
  double share = getShare(type);
  if (auto norm = dyn_cast_or_null<LayerNormOp>(op))
    perturbMean(norm, get(norm.getX()), get(norm->getOperand(1)), seed, data);
  for (double &x : data.data) {
    if (!known.contains(magnitudeBits(x)))
      x *= 1 + share * Doubles::random(seed, llvm::bit_cast<uint64_t>(x));
    if (!type.isF64()) // also for 16-bit types, because kernels compute in f32
      x = std::isfinite(float(x)) ? x : float(x);
  }
}

bool TensorRun::run(const std::vector<Data> &arguments, Change how, uint64_t seed) {
  values.clear();
  unspecified = false;
  for (auto [argument, data] : llvm::zip_equal(function.getArguments(), arguments)) {
    Data &value = values[argument] = data;
    change(value, argument, how, seed);
  }
  for (Operation &op : function.front().without_terminator()) {
    Data result;
    if (!runOp(&op, result))
      return false;
    change(result, op.getResult(0), how, seed);
    values[op.getResult(0)] = std::move(result);
  }
  return true;
}

SmallVector<const Data *> TensorRun::getValues(Type element) const {
  SmallVector<const Data *> list;
  for (auto &[value, data] : values)
    if (getElementTypeOrSelf(value) == element)
      list.push_back(&data);
  return list;
}

std::vector<Data> lowered::measureSensitivity(const TensorRun &exact, TensorRun run,
                                              const std::vector<Data> &arguments) {
  constexpr int runs = 3;
  std::vector<Data> differences;
  for (unsigned i = 0; i < exact.countResults(); ++i)
    differences.emplace_back(exact.getResult(i).shape);
  for (int seed = 1; seed <= runs; ++seed) {
    bool isEvaluated = run.run(arguments, TensorRun::Perturbed, seed);
    for (unsigned i = 0; i < differences.size(); ++i)
      for (auto [at, difference] : llvm::enumerate(differences[i].data)) {
        double x = exact.getResult(i).data[at], y = isEvaluated ? run.getResult(i).data[at] : NAN;
        if (x == y || (isEvaluated && std::isnan(x) && std::isnan(y)))
          continue;
        double d = std::fabs(x - y);
        difference = std::isfinite(d) ? std::max(difference, d) : INFINITY;
      }
  }
  return differences;
}
