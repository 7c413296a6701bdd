//===- KernelIndices.cpp - Form of integer arithmetic in kernels ----------===//
//
// An index that wraps or ends at a number far above all small sizes is right in every small run.
// Such a number has an origin where KernelConstants.cpp finds it, but not where arithmetic makes it
// of sizes and ones: `row mod (n * n)`, `min(x, (1 + 1) * ... * (1 + 1))`. So arithmetic is
// compared as well:
//
//   * a value made of sizes and constants alone is *uniform*. Limits, divisors, factors and addends
//     of other values are single sizes and constants, or uniform values of the function of tensors;
//   * indices are sums, differences, multiples, and quotients and remainders by a size where a
//     dimension of several factors, or a reshape, needs them. A select adds to one index, or takes
//     from it. Nothing else makes an index;
//   * an op on integers of tensors has an op on tensors that it comes from;
//   * limits of floats are constants too, and not computed of constants.
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
  LogicalResult visitLoop(scf::ForOp loop);
  LogicalResult visitFloatLimit(Operation *op);
  void noteUniform(Operation *op);

  static bool isInteger(Value value) { return value.getType().isIntOrIndex(); }
  bool isUniform(Value value) const { return uniform.contains(value); }
  /// A single size or constant, or such a value of the function of tensors.
  bool isLimit(Value value) const;
  /// A limit, or an index that is made of one as other indices are made.
  bool isIndex(Value value) const;
  LogicalResult requireLimit(Operation *op, Value value);
  LogicalResult requireLimits(Operation *op);
  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName() << ": ";
  }

  kernel::FuncOp function;
  TensorArithmetic tensors;
  /// What is made of sizes and constants alone; without a value where it is unknown.
  DenseMap<Value, std::optional<SymExpr>> uniform;
  /// Floats that are; whether they are computed.
  DenseMap<Value, bool> floats;
};
} // namespace

static bool isCast(Operation *op) {
  return isa_and_nonnull<arith::IndexCastOp, arith::IndexCastUIOp, arith::ExtSIOp, arith::ExtUIOp,
                         arith::TruncIOp>(op);
}

/// A divisor, or 1 where that is 0 or -1, so that a quotient does not trap; null for other ops.
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
    return true; // of which KernelConstants.cpp knows the origin
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

LogicalResult IndexChecker::requireLimit(Operation *op, Value value) {
  if (isLimit(value))
    return success();
  InFlightDiagnostic diag = fail(op);
  auto it = uniform.find(value);
  if (it == uniform.end())
    return diag << "divides, multiplies, subtracts or compares by what varies, where its function "
                   "of tensors has a size or a constant";
  diag << "takes what is computed of sizes and constants";
  if (it->second)
    diag << ", '" << it->second->str() << "'";
  return diag << ", and its function of tensors computes no such number";
}

/// Of all uniform integers that it takes. Truth values are looked at where they are compared.
LogicalResult IndexChecker::requireLimits(Operation *op) {
  for (Value operand : op->getOperands())
    if (isInteger(operand) && !operand.getType().isInteger(1) && isUniform(operand) &&
        failed(requireLimit(op, operand)))
      return failure();
  return success();
}

/// One index, to which something is added or not, by a comparison of this index.
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
  return fail(op) << "chooses between indices that are not one index, with a size added or taken "
                     "away where it is less than another";
}

LogicalResult IndexChecker::visitIndex(Operation *op) {
  // At sizes of 1 an index is a constant. What is made of these is a limit nowhere.
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
      // Of integers of tensors, or of fewer bits (KernelWidths.cpp).
      .Case<arith::IndexCastOp, arith::IndexCastUIOp>([](auto) { return success(); })
      .Default([&](Operation *) -> LogicalResult {
        return fail(op) << "makes an index, which no op on tensors needs";
      });
}

LogicalResult IndexChecker::visitInteger(Operation *op) {
  if (isUniform(op->getResult(0)) && !isa<arith::CmpIOp>(op))
    return success(); // looked at where it is used
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op))
    return success();
  if (!tensors.has(op))
    return fail(op) << "computes with integers, and its function of tensors has no op that does";
  return requireLimits(op);
}

LogicalResult IndexChecker::visitLoop(scf::ForOp loop) {
  if (!tensors.accumulates)
    return fail(loop) << "repeats something, and its function of tensors has no running sum";
  // All indices are of this form, also those behind a movement.
  auto isBound = [&](Value value) {
    return value.getType().isIndex() && (isLimit(value) || !isUniform(value));
  };
  if (isBound(loop.getLowerBound()) && isBound(loop.getUpperBound()) &&
      getConstantIntValue(loop.getStep()) == 1)
    return success();
  return fail(loop) << "does not go from one index or size to another";
}

LogicalResult IndexChecker::visitFloatLimit(Operation *op) {
  if (tensors.computesFloats ||
      llvm::none_of(op->getOperands(), [&](Value operand) { return floats.lookup(operand); }))
    return success();
  return fail(op) << "has a limit that is computed of constants, which its function of tensors "
                     "does not compute";
}

LogicalResult IndexChecker::visit(Operation *op) {
  if (auto loop = dyn_cast<scf::ForOp>(op)) {
    if (failed(visitLoop(loop)))
      return failure();
  } else if (isa<scf::IfOp, kernel::FoldOp>(op)) {
    for (Value result : op->getResults())
      if (isInteger(result) && !result.getType().isInteger(1) &&
          !(isa<scf::IfOp>(op) ? tensors.chooses : tensors.reduces))
        return fail(op) << "makes an integer, and its function of tensors has no op that does";
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
      return success();
    return fail(op) << "makes a float of an integer, which its function of tensors does not";
  }
  if (auto compare = dyn_cast<arith::CmpIOp>(op); compare && compare.getLhs().getType().isIndex()) {
    // Where a triangle begins: column and row, each an index.
    Value x = compare.getLhs(), y = compare.getRhs();
    if (auto sum = y.getDefiningOp<arith::AddIOp>(); sum && isLimit(sum.getRhs()))
      y = sum.getLhs();
    if (!isIndex(x))
      return requireLimit(op, x);
    if (isa<BlockArgument>(x) && isa<BlockArgument>(y))
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
