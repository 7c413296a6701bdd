//===- KernelChoices.cpp - Coverage of choices in kernels -----------------===//
//
// A kernel computes with a fixed set of float operations (KernelArithmetic.cpp) on elements whose
// indices are polynomials of positions and sizes, except where it chooses: by a comparison, a
// selection or a branch. An outcome that no run has is not compared with the tensor function, so
// it may be wrong: `row > 48 ? 0 : x` in runs with 12 rows. Each choice must therefore have both
// outcomes, with these exceptions:
//
//   * Intervals of indices and sizes show that a condition is constant, or it depends on static
//   sizes
//     alone and a small kernel ran at its real sizes. The other branch must then have no constant
//     and no float operation that is only there, because the tensor function may require it.
//   * The condition is a part of the bounds check of a lookup. checkLookups compares its form, and
//     runs have no invalid indices.
//   * The condition chooses an operand of a concatenation.
//   * A comparison of elements or an op on booleans lacks the same outcome on tensors. No
//     probability is -infinity, for example.
//   * An element-wise op on tensors compares integers with a constant in its definition, such as
//     tpc.mod its divisor with -1.
//
//===----------------------------------------------------------------------===//

#include "KernelChoices.h"

#include "CheckKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

ChoiceCoverage::Kernel &ChoiceCoverage::find(const KernelProgram &kernel) {
  Kernel &entry = kernels[kernel.getFunction()];
  entry.choices = kernel.getChoices();
  entry.alone.choices.resize(entry.choices.size());
  entry.inProgram.resize(entry.choices.size());
  return entry;
}

namespace {
/// Checks the choices of one kernel.
class ChoiceChecker {
public:
  ChoiceChecker(kernel::FuncOp function, func::FuncOp tensors, SizeRanges &sizes,
                const KernelOutcomes &alone)
      : function(function), alone(alone), decided(findDecided(function, tensors, sizes)) {
    tensors.walk([&](ScalarOpInterface op) {
      Block block;
      buildDefinition(op, block);
      for (auto comparison : block.getOps<arith::CmpIOp>())
        if (!isa<CmpOp>(op.getOperation()))
          defined.insert({comparison.getPredicate(), getConstantIntValue(comparison.getRhs())});
    });
    tensors.walk([&](ConcatOp) { concatenates = true; });
    function.walk([&](kernel::CheckOp check) { addCheck(check); });
  }
  LogicalResult check(Operation *choice, uint8_t outcomes);

private:
  /// The condition of a lookup's bounds check is true, and its index is not negative.
  void addCheck(kernel::CheckOp check) {
    auto below = check.getExists().getDefiningOp<arith::CmpIOp>();
    auto row = below ? below.getLhs().getDefiningOp<arith::SelectOp>() : arith::SelectOp();
    if (!row)
      return;
    checks[check.getExists()] = true;
    checks[row.getCondition()] = false;
  }
  /// Returns the value of a condition that is constant.
  std::optional<bool> getConstant(Value condition) const;
  bool isUnreachable(Operation *op) const;
  /// Returns whether a condition is a comparison of floats or an op on booleans, and one on tensors
  /// has only these outcomes.
  bool isOnTensors(Value condition, uint8_t outcomes) const;
  /// Returns whether a condition may be a comparison of integers in the definition of an
  /// element-wise op on tensors, of an element with a constant, or a combination with one.
  bool isInDefinition(Value condition) const;
  /// Returns whether a condition may choose an operand of a concatenation: a slice of it may drop
  /// entire operands, at sizes that intervals do not relate.
  bool isOfConcat(Value condition) const {
    auto comparison = condition.getDefiningOp<arith::CmpIOp>();
    return concatenates && comparison && comparison.getPredicate() == arith::CmpIPredicate::slt &&
           comparison.getLhs().getType().isIndex() &&
           isa_and_nonnull<kernel::SizeOp, arith::ConstantOp>(comparison.getRhs().getDefiningOp());
  }
  LogicalResult checkUnreachable(Region &region);

  kernel::FuncOp function;
  const KernelOutcomes &alone;
  DenseMap<Operation *, bool> decided;
  DenseMap<Value, bool> checks;
  /// Whether the tensor function has a tpc.concat, whose operands are branches.
  bool concatenates = false;
  /// Comparisons of integers with constants in definitions of element-wise ops.
  std::set<std::pair<arith::CmpIPredicate, std::optional<int64_t>>> defined;
};
} // namespace

/// Returns whether a value is computed from the position of an element: an index of a loop.
static bool dependsOnPosition(Value value) {
  if (isa<BlockArgument>(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (isa<memref::LoadOp>(op))
    return false;
  auto branch = dyn_cast<scf::IfOp>(op);
  if (op->getNumRegions() > 0 && (!branch || branch.getElseRegion().empty()))
    return true;
  return llvm::any_of(op->getOperands(), dependsOnPosition) ||
         (branch && (llvm::any_of(branch.thenYield().getOperands(), dependsOnPosition) ||
                     llvm::any_of(branch.elseYield().getOperands(), dependsOnPosition)));
}

/// Returns whether a value is computed from static sizes, and from indices of loops over them,
/// alone.
static bool isStatic(Value value) {
  auto isStaticSize = [](const ::tpc::SymExpr &size) {
    std::set<std::string> names;
    size.collectSymbols(names);
    return llvm::all_of(names, [](const std::string &name) {
      std::optional<NamedSize> named = getNamedSize(name);
      return named && (named->kind == NamedSize::Size || named->kind == NamedSize::Offset);
    });
  };
  if (auto index = dyn_cast<BlockArgument>(value))
    return llvm::TypeSwitch<Operation *, bool>(index.getOwner()->getParentOp())
        .Case<kernel::RowsOp, kernel::ElementsOp, kernel::FoldOp>(
            [&](auto loop) { return isStaticSize(loop.getExprs()[index.getArgNumber()]); })
        .Default([](Operation *) { return false; });
  Operation *op = value.getDefiningOp();
  if (auto size = dyn_cast<kernel::SizeOp>(op))
    return isStaticSize(size.getExpr());
  return isa<arith::ArithDialect>(op->getDialect()) && value.getType().isIntOrIndex() &&
         llvm::all_of(op->getOperands(), isStatic);
}

bool ChoiceChecker::isInDefinition(Value condition) const {
  if (auto op = condition.getDefiningOp();
      isa_and_nonnull<arith::AndIOp, arith::OrIOp, arith::XOrIOp>(op))
    return isInDefinition(op->getOperand(0)) || isInDefinition(op->getOperand(1));
  auto comparison = condition.getDefiningOp<arith::CmpIOp>();
  if (!comparison || comparison.getLhs().getType().isIndex())
    return false;
  std::optional<int64_t> constant = getConstantIntValue(comparison.getRhs());
  return constant && defined.count({comparison.getPredicate(), constant}) &&
         !dependsOnPosition(comparison.getLhs());
}

std::optional<bool> ChoiceChecker::getConstant(Value condition) const {
  if (auto it = checks.find(condition); it != checks.end())
    return it->second;
  Operation *op = condition.getDefiningOp();
  if (auto it = decided.find(op); it != decided.end())
    return it->second;
  if (isa_and_nonnull<arith::ConstantOp>(op) && condition.getType().isInteger(1))
    return matchPattern(condition, m_One());
  if (!isa_and_nonnull<arith::AndIOp, arith::OrIOp>(op) || !condition.getType().isInteger(1))
    return std::nullopt;
  bool absorbing = isa<arith::OrIOp>(op), isKnown = true;
  for (Value operand : op->getOperands()) {
    std::optional<bool> value = getConstant(operand);
    if (value == absorbing)
      return absorbing;
    isKnown &= value.has_value();
  }
  return isKnown ? std::optional(!absorbing) : std::nullopt;
}

/// Returns whether an op is in a branch whose condition is constant.
bool ChoiceChecker::isUnreachable(Operation *op) const {
  for (; op != function; op = op->getParentOp())
    if (auto branch = dyn_cast<scf::IfOp>(op->getParentOp()))
      if (std::optional<bool> condition = getConstant(branch.getCondition()))
        if (op->getParentRegion() ==
            (*condition ? &branch.getElseRegion() : &branch.getThenRegion()))
          return true;
  return false;
}

bool ChoiceChecker::isOnTensors(Value condition, uint8_t outcomes) const {
  Operation *op = condition.getDefiningOp();
  auto isCounterpart = [&](Operation *onTensors) {
    if (auto comparison = dyn_cast_or_null<arith::CmpFOp>(op))
      return getPredicate(onTensors) == comparison.getPredicate();
    if (isa_and_nonnull<arith::CmpIOp>(op) && !op->getOperand(0).getType().isIndex())
      return isa<CmpOp>(onTensors) && !getPredicate(onTensors);
    return (isa_and_nonnull<arith::AndIOp>(op) && isa<AndOp>(onTensors)) ||
           (isa_and_nonnull<arith::OrIOp>(op) && isa<OrOp>(onTensors)) ||
           (isa_and_nonnull<arith::XOrIOp>(op) && isa<XorOp, NotOp>(onTensors));
  };
  return llvm::any_of(alone.onTensors, [&](auto &entry) {
    return (entry.second == outcomes || entry.second == 0) && isCounterpart(entry.first);
  });
}

/// Checks that the float constants and operations of a branch that is never taken are in other
/// places of the kernel, too.
LogicalResult ChoiceChecker::checkUnreachable(Region &region) {
  auto isSame = [](Operation *a, Operation *b) {
    return a->getName() == b->getName() && a->getAttrDictionary() == b->getAttrDictionary() &&
           a->getPropertiesAsAttribute() == b->getPropertiesAsAttribute();
  };
  auto isElsewhere = [&](Operation *op) {
    return function
        .walk([&](Operation *other) {
          return isSame(op, other) && !isUnreachable(other) ? WalkResult::interrupt()
                                                            : WalkResult::advance();
        })
        .wasInterrupted();
  };
  if (isOfConcat(cast<scf::IfOp>(region.getParentOp()).getCondition()))
    return success();
  WalkResult result = region.walk([&](Operation *op) -> WalkResult {
    bool isFloat =
        llvm::any_of(op->getResultTypes(), llvm::IsaPred<FloatType>) || isa<arith::CmpFOp>(op);
    auto constant = dyn_cast<arith::ConstantOp>(op);
    auto number = constant ? dyn_cast<FloatAttr>(constant.getValue()) : FloatAttr();
    if (!isFloat || isa<memref::LoadOp, scf::IfOp>(op) ||
        (number && number.getValue().isPosZero()) || isElsewhere(op))
      return success();
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName()
                           << ": it computes, but no size or rank reaches it";
  });
  return failure(result.wasInterrupted());
}

LogicalResult ChoiceChecker::check(Operation *op, uint8_t outcomes) {
  constexpr uint8_t both = 3;
  if (outcomes == both || isUnreachable(op))
    return success();
  if (isa<scf::ForOp>(op)) {
    if ((outcomes & 2) || decided.contains(op))
      return success();
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << ") in kernel @" << function.getSymName()
                           << ": run at small sizes, it has no iterations";
  }
  auto branch = dyn_cast<scf::IfOp>(op);
  auto select = dyn_cast<arith::SelectOp>(op);
  Value condition = branch   ? branch.getCondition()
                    : select ? select.getCondition()
                             : op->getResult(0);
  // The runs at real sizes have all values of such a condition.
  if (outcomes != 0 && ((alone.atRealSizes && isStatic(condition)) || isOfConcat(condition)))
    decided[condition.getDefiningOp()] = outcomes == 2;
  if (std::optional<bool> constant = getConstant(condition)) {
    if (branch)
      return checkUnreachable(*constant ? branch.getElseRegion() : branch.getThenRegion());
    if (!select || select.getType().isIntOrIndex())
      return success();
  }
  if (isOnTensors(condition, outcomes) || isInDefinition(condition))
    return success();
  return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                         << ") in kernel @" << function.getSymName()
                         << ": run at small sizes, its condition is "
                         << (outcomes == 0   ? "never computed"
                             : outcomes == 1 ? "never true"
                                             : "always true")
                         << ", so that its other result is not compared";
}

LogicalResult ChoiceCoverage::check(ModuleOp program) const {
  SizeRanges sizes(program);
  for (auto &[op, kernel] : kernels) {
    auto function = cast<kernel::FuncOp>(op);
    FailureOr<func::FuncOp> tensors = getTensors(program, function);
    if (failed(tensors))
      return failure();
    ChoiceChecker checker(function, *tensors, sizes, kernel.alone);
    for (auto [choice, alone, inProgram] :
         llvm::zip_equal(kernel.choices, kernel.alone.choices, kernel.inProgram))
      if (failed(checker.check(choice, alone | inProgram)))
        return failure();
  }
  return success();
}
