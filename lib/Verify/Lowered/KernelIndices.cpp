//===- KernelIndices.cpp - Check of integer arithmetic in kernels ---------===//
//
// Runs at small sizes do not detect an index that is reduced modulo, or clamped to, a number far
// above all small sizes. KernelConstants.cpp detects such a number if it is a constant, but not if
// it is computed from sizes and ones: `row mod (n * n)`, `min(x, (1 + 1) * ... * (1 + 1))`.
// Therefore arithmetic is restricted:
//
//   * A value computed from sizes and constants alone is *uniform*. Limits, divisors, factors and
//     addends of other values are single sizes and constants, or uniform values of the tensor
//     function.
//   * Indices are sums, differences and multiples, and quotients and remainders by a size if a
//     reshape or a dimension of several factors needs them. A select adds a size to one index, or
//     subtracts it. No other op may compute an index.
//   * An index from a tensor, such as an id, is compared with sizes of a dimension that it indexes.
//   * An integer op of a kernel needs a counterpart on tensors. Its operands are elements of
//     tensors; they are positions (indices of rows, elements or columns) only if tpc.iota makes
//     positions elements of a tensor. `4 * i` may be the shift that selects the packed number i.
//   * A limit or a comparison of floats needs a counterpart on tensors too. Limits are not computed
//     from constants.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"
#include "TensorArithmetic.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

namespace {
class IndexChecker {
public:
  IndexChecker(kernel::FuncOp function, func::FuncOp tensors)
      : function(function), tensors(tensors) {}
  LogicalResult run() {
    WalkResult result = function.walk<WalkOrder::PreOrder>([&](Operation *op) -> WalkResult {
      noteUniform(op);
      return visit(op);
    });
    return failure(result.wasInterrupted());
  }

private:
  LogicalResult visit(Operation *op);
  LogicalResult visitIndex(Operation *op);
  LogicalResult visitInteger(Operation *op);
  LogicalResult visitSelect(arith::SelectOp op);
  LogicalResult visitPositions(Operation *op);
  LogicalResult visitLoop(scf::ForOp loop);
  LogicalResult visitFloatLimit(Operation *op);
  void noteUniform(Operation *op);

  static bool isInteger(Value value) { return value.getType().isIntOrIndex(); }
  bool isUniform(Value value) const { return uniform.contains(value); }
  /// Returns whether a value is a single size or constant, or a uniform value of the tensor
  /// function.
  bool isLimit(Value value) const;
  /// Returns whether a value depends on loaded elements of a tensor, such as ids.
  static bool isOfData(Value value);
  /// Returns whether a number is computed from an index of a row, an element or a column.
  bool isOfPosition(Value number) const;
  /// Checks that an index from a tensor is compared with a size of a dimension that it indexes.
  LogicalResult visitDataLimit(arith::CmpIOp op);
  /// Returns whether a value is a limit, or an index that is computed from a limit by permitted
  /// index arithmetic.
  bool isIndex(Value value) const;
  LogicalResult requireLimit(Operation *op, Value value);
  LogicalResult requireLimits(Operation *op);
  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName() << ": ";
  }

  kernel::FuncOp function;
  TensorArithmetic tensors;
  /// Values computed only from sizes and constants, with their expressions (nullopt: unknown).
  DenseMap<Value, std::optional<SymExpr>> uniform;
  /// Uniform floats; true: the float is the result of arithmetic.
  DenseMap<Value, bool> floats;
};
} // namespace

static bool isCast(Operation *op) {
  return isa_and_nonnull<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp,
                         arith::TruncIOp>(op);
}

/// Returns a divisor that is replaced by 1 if it is 0 or -1, so that a quotient does not trap; null
/// for other ops.
static Value getGuardedDivisor(Operation *op) {
  auto select = dyn_cast<arith::SelectOp>(op);
  auto compare = select ? select.getCondition().getDefiningOp<arith::CmpIOp>() : arith::CmpIOp();
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq ||
      compare.getLhs() != select.getFalseValue() || getConstantIntValue(select.getTrueValue()) != 1)
    return {};
  std::optional<int64_t> bad = getConstantIntValue(compare.getRhs());
  return bad == 0 || bad == -1 ? select.getFalseValue() : Value();
}

void IndexChecker::noteUniform(Operation *op) {
  if (op->getNumResults() == 1 && op->getNumRegions() == 0 &&
      isa<FloatType>(op->getResult(0).getType()) && isMemoryEffectFree(op) &&
      llvm::all_of(op->getOperands(), [&](Value operand) {
        return uniform.contains(operand) || floats.contains(operand);
      }))
    floats[op->getResult(0)] =
        !isa<arith::ConstantOp, arith::SIToFPOp, arith::UIToFPOp, arith::ExtFOp, arith::TruncFOp>(
            op);
  if (op->getNumResults() != 1 || op->getNumRegions() > 0 || !isInteger(op->getResult(0)))
    return;
  std::optional<SymExpr> &value = uniform.try_emplace(op->getResult(0), std::nullopt).first->second;
  if (auto constant = dyn_cast<arith::ConstantOp>(op)) {
    if (auto integer = dyn_cast<IntegerAttr>(constant.getValue()))
      value = SymExpr(integer.getType().isInteger(1) ? int64_t(integer.getValue().getZExtValue())
                                                     : integer.getValue().getSExtValue());
    return;
  }
  if (auto size = dyn_cast<kernel::SizeOp>(op)) {
    value = size.getExpr();
    return;
  }
  bool isUniform =
      op->getNumOperands() > 0 && isMemoryEffectFree(op) &&
      llvm::all_of(op->getOperands(), [&](Value operand) { return uniform.contains(operand); });
  if (!isUniform) {
    uniform.erase(op->getResult(0));
    return;
  }
  if (Value divisor = getGuardedDivisor(op)) {
    uniform[op->getResult(0)] = uniform.lookup(divisor);
    return;
  }
  SmallVector<std::optional<SymExpr>> x;
  for (Value operand : op->getOperands())
    x.push_back(uniform.lookup(operand));
  if (!llvm::all_of(x, [](const auto &known) { return known.has_value(); }))
    return;
  auto &result = uniform[op->getResult(0)];
  if (isCast(op))
    result = x[0];
  else if (isa<arith::AddIOp>(op))
    result = *x[0] + *x[1];
  else if (isa<arith::SubIOp>(op))
    result = *x[0] - *x[1];
  else if (isa<arith::MulIOp>(op))
    result = *x[0] * *x[1];
  else if (isa<arith::MinSIOp>(op))
    result = SymExpr::min(*x[0], *x[1]);
  else if (isa<arith::MaxSIOp>(op))
    result = SymExpr::max(*x[0], *x[1]);
}

bool IndexChecker::isLimit(Value value) const {
  auto it = uniform.find(value);
  if (it == uniform.end())
    return false;
  Operation *op = value.getDefiningOp();
  while (isCast(op))
    op = op->getOperand(0).getDefiningOp();
  if (isa_and_nonnull<kernel::SizeOp, arith::ConstantOp>(op))
    return true; // KernelConstants.cpp checks the origin
  return it->second ? tensors.isUniform(*it->second) : tensors.combinesUniform;
}

bool IndexChecker::isIndex(Value value) const {
  if (isLimit(value) || !isUniform(value))
    return true;
  return llvm::TypeSwitch<Operation *, bool>(value.getDefiningOp())
      .Case<arith::AddIOp, arith::SubIOp>(
          [&](auto op) { return isIndex(op.getLhs()) && isLimit(op.getRhs()); })
      .Case<arith::RemUIOp, arith::DivUIOp>(
          [&](auto op) { return tensors.divides && isIndex(op.getLhs()) && isLimit(op.getRhs()); })
      .Case([&](arith::SelectOp op) {
        return isIndex(op.getTrueValue()) && isIndex(op.getFalseValue());
      })
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>([&](auto op) { return isIndex(op.getIn()); })
      .Default([](Operation *) { return false; });
}

bool IndexChecker::isOfData(Value value) {
  SmallVector<Value> work{value};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<memref::LoadOp>(op))
      return true;
    if (op && isMemoryEffectFree(op))
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          work.push_back(operand);
  }
  return false;
}

bool IndexChecker::isOfPosition(Value number) const {
  SmallVector<Value> work{number};
  DenseSet<Value> seen;
  while (!work.empty()) {
    Value value = work.pop_back_val();
    Operation *op = value.getDefiningOp();
    if (!op || isUniform(value) || !isMemoryEffectFree(op))
      continue;
    if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op) && op->getOperand(0).getType().isIndex())
      return true;
    // The number that a shift selects is an element of a tensor.
    bool isUnpacked = isa<arith::ShRUIOp>(op) && tensors.unpacks && isOfData(op->getOperand(0));
    for (Value operand : isUnpacked ? op->getOperands().take_front() : op->getOperands())
      if (isInteger(operand) && !operand.getType().isIndex() && seen.insert(operand).second)
        work.push_back(operand);
  }
  return false;
}

/// Checks that an op on numbers computes with positions only if the tensor function does.
LogicalResult IndexChecker::visitPositions(Operation *op) {
  auto isShift = [&](Value number) {
    auto product = number.getDefiningOp<arith::MulIOp>();
    return product && isCast(product.getLhs().getDefiningOp()) && isLimit(product.getRhs());
  };
  if (tensors.hasPositions || llvm::none_of(op->getOperands(), [&](Value operand) {
        return isInteger(operand) && !operand.getType().isIndex() && isOfPosition(operand);
      }))
    return success();
  if (tensors.unpacks && isa<arith::MulIOp>(op) && isShift(op->getResult(0)))
    return success();
  if (tensors.unpacks && isa<arith::ShRUIOp>(op) && isShift(op->getOperand(1)) &&
      !isOfPosition(op->getOperand(0)))
    return success();
  return fail(op) << "computes with the position of an element, but its tensor function has no "
                     "positions as elements (tpc.iota)";
}

LogicalResult IndexChecker::visitDataLimit(arith::CmpIOp op) {
  auto limit = uniform.find(op.getRhs());
  if (!isLimit(op.getRhs()) || !limit->second || !isOfData(op.getLhs()) ||
      tensors.indexes(*limit->second))
    return success();
  return fail(op) << "compares an index from a tensor with '" << limit->second->str()
                  << "', but no op of its tensor function looks up or appends rows of a dimension "
                     "of this size";
}

LogicalResult IndexChecker::requireLimit(Operation *op, Value value) {
  if (isLimit(value))
    return success();
  InFlightDiagnostic diag = fail(op);
  auto it = uniform.find(value);
  if (it == uniform.end())
    return diag << "divides, multiplies, subtracts or compares by a varying value, but its tensor "
                   "function has a size or a constant there";
  diag << "takes a value computed from sizes and constants";
  if (it->second)
    diag << ", '" << it->second->str() << "'";
  return diag << ", but its tensor function computes no such number";
}

/// Checks that all uniform integer operands are limits, except booleans, which are checked at
/// comparisons.
LogicalResult IndexChecker::requireLimits(Operation *op) {
  for (Value operand : op->getOperands())
    if (isInteger(operand) && !operand.getType().isInteger(1) && isUniform(operand) &&
        failed(requireLimit(op, operand)))
      return failure();
  return success();
}

/// Checks a select of one index, with or without a size added, by a comparison of this index.
LogicalResult IndexChecker::visitSelect(arith::SelectOp op) {
  auto strip = [&](Value value) {
    if (auto sum = value.getDefiningOp<arith::AddIOp>(); sum && isLimit(sum.getRhs()))
      return sum.getLhs();
    if (auto difference = value.getDefiningOp<arith::SubIOp>();
        difference && isLimit(difference.getRhs()))
      return difference.getLhs();
    return value;
  };
  Value x = op.getTrueValue(), y = op.getFalseValue();
  auto condition = op.getCondition().getDefiningOp<arith::CmpIOp>();
  auto isOf = [&](Value base) {
    if (x != base && strip(x) != base)
      return false;
    if (y != base && strip(y) != base)
      return false;
    Value compared = condition.getLhs();
    auto remainder = compared.getDefiningOp<arith::RemUIOp>();
    bool isCompared =
        compared == base || strip(compared) == base || (remainder && remainder.getLhs() == base);
    return isCompared && isLimit(condition.getRhs());
  };
  if (condition && (isOf(x) || isOf(strip(x)) || isOf(y) || isOf(strip(y))))
    return success();
  return fail(op) << "selects between different indices; both must be one index, with or without a "
                     "size added or subtracted, selected by a comparison of this index";
}

LogicalResult IndexChecker::visitIndex(Operation *op) {
  // If a size is 1, an index is a constant; values computed from such constants are not limits.
  if (isUniform(op->getResult(0)))
    return success();
  return llvm::TypeSwitch<Operation *, LogicalResult>(op)
      .Case([&](arith::AddIOp) -> LogicalResult {
        for (Value operand : op->getOperands())
          if (isUniform(operand) && failed(requireLimit(op, operand)))
            return failure();
        return success();
      })
      .Case([&](arith::SubIOp) { return requireLimit(op, op->getOperand(1)); })
      .Case([&](arith::MulIOp) {
        return requireLimit(op, op->getOperand(isUniform(op->getOperand(0)) ? 0 : 1));
      })
      .Case<arith::RemUIOp, arith::DivUIOp>([&](auto) -> LogicalResult {
        if (!tensors.divides)
          return fail(op) << "divides an index, which no op on tensors needs";
        return requireLimit(op, op->getOperand(1));
      })
      .Case([&](arith::SelectOp select) { return visitSelect(select); })
      // KernelWidths.cpp checks casts to fewer bits.
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>([&](auto) -> LogicalResult {
        if (isOfPosition(op->getOperand(0)) && !(tensors.hasPositions && tensors.looksUp))
          return fail(op) << "computes an index from the position of an element, which no op on "
                             "tensors needs";
        return success();
      })
      .Default([&](Operation *) -> LogicalResult {
        return fail(op) << "computes an index in a way that no op on tensors needs";
      });
}

LogicalResult IndexChecker::visitInteger(Operation *op) {
  if (isUniform(op->getResult(0)) && !isa<arith::CmpIOp>(op))
    return success(); // checked at its uses
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return success();
  if (!tensors.has(op))
    return fail(op) << "computes with integers, but its tensor function has no such op";
  if (failed(visitPositions(op)))
    return failure();
  return requireLimits(op);
}

LogicalResult IndexChecker::visitLoop(scf::ForOp loop) {
  if (!tensors.accumulates)
    return fail(loop) << "is a loop, but its tensor function has no running sum";
  // A bound is a limit, or an index that depends on the row.
  auto isBound = [&](Value value) {
    return value.getType().isIndex() && (isLimit(value) || !isUniform(value));
  };
  if (isBound(loop.getLowerBound()) && isBound(loop.getUpperBound()) &&
      getConstantIntValue(loop.getStep()) == 1)
    return success();
  return fail(loop) << "does not run from one index or size to another in steps of 1";
}

LogicalResult IndexChecker::visitFloatLimit(Operation *op) {
  auto isComputed = [&](Value operand) { return floats.lookup(operand); };
  if (!tensors.computesFloats && llvm::any_of(op->getOperands(), isComputed))
    return fail(op) << "has a limit that is computed from constants, which its tensor function "
                       "does not compute";
  if (!tensors.has(op))
    return fail(op) << "limits or compares floats, but its tensor function has no such op";
  return success();
}

LogicalResult IndexChecker::visit(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (failed(visitLoop(loop)))
      return failure();
  } else if (isa<scf::IfOp, kernel::FoldOp>(op)) {
    for (Value result : op->getResults())
      if (isInteger(result) && !result.getType().isInteger(1) &&
          !(isa<scf::IfOp>(op) ? tensors.chooses : tensors.reduces))
        return fail(op) << "computes an integer, but its tensor function has no such op";
  }
  if (isa<scf::YieldOp>(op))
    return requireLimits(op);
  if (op->getNumRegions() > 0 || op->getNumResults() != 1)
    return success();
  Value result = op->getResult(0);
  if (isa<arith::MinimumFOp, arith::MaximumFOp, arith::MinNumFOp, arith::MaxNumFOp, arith::RemFOp,
          arith::CmpFOp>(op))
    return visitFloatLimit(op);
  if (isa<arith::ConstantOp, kernel::SizeOp, memref::LoadOp>(op))
    return success();
  if (isa<arith::SIToFPOp, arith::UIToFPOp>(op)) {
    if (isUniform(op->getOperand(0)))
      return requireLimit(op, op->getOperand(0));
    if (tensors.makesFloats || op->getOperand(0).getType().isInteger(1))
      return visitPositions(op);
    return fail(op) << "casts an integer to a float, which its tensor function does not";
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op); compare && compare.getLhs().getType().isIndex()) {
    if (failed(visitDataLimit(compare)))
      return failure();
    // tpc.trilu compares two indices, the column and the row.
    Value x = compare.getLhs(), y = compare.getRhs();
    if (auto sum = y.getDefiningOp<arith::AddIOp>(); sum && isLimit(sum.getRhs()))
      y = sum.getLhs();
    if (!isIndex(x))
      return requireLimit(op, x);
    if (isa<BlockArgument>(x) && isa<BlockArgument>(y))
      return success();
    // tpc.scatter_add compares an id with the row.
    if (tensors.scatters && compare.getPredicate() == arith::CmpIPredicate::eq && isIndex(x) &&
        isIndex(y) && !isOfData(y))
      return success();
    return requireLimit(op, compare.getRhs());
  }
  if (auto select = dyn_cast<arith::SelectOp>(op); select && !isInteger(result))
    return success();
  if (!isInteger(result) || isa<arith::FPToSIOp, arith::FPToUIOp>(op))
    return success();
  return result.getType().isIndex() ? visitIndex(op) : visitInteger(op);
}

LogicalResult lowered::checkIndices(kernel::FuncOp function, func::FuncOp tensors) {
  return IndexChecker(function, tensors).run();
}
