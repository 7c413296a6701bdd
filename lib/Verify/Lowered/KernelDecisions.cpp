//===- KernelDecisions.cpp - Operands of comparisons in kernels -----------===//
//
// A comparison or a limit with a wrong operand may give another result for rare operands only,
// which runs with random numbers do not have: |x| instead of max(|x|, y) in the denominator of a
// ratio that is compared with 0.02, for example. Therefore operands of comparisons, maxima and
// minima of floats are checked without running the kernel: they must depend on the same memory of
// floats as on tensors. Dependences on indices and conditions are not compared, because a lookup of
// a compared element is a comparison of looked-up elements.
//
//===----------------------------------------------------------------------===//

#include "CheckKernels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;

namespace {
/// Arguments of a kernel that a value depends on.
struct Sources {
  std::set<unsigned> all;
  /// Arguments that it depends on without a reduction in between.
  std::set<unsigned> elements;
  /// Whether an op with an unknown dependence is in between.
  bool isUnknown = false;

  /// Adds sources. Returns whether any is new.
  bool add(const Sources &other) {
    size_t before = all.size() + elements.size() + isUnknown;
    all.insert(other.all.begin(), other.all.end());
    elements.insert(other.elements.begin(), other.elements.end());
    isUnknown |= other.isUnknown;
    return all.size() + elements.size() + isUnknown != before;
  }
  Sources reduced() const { return {all, {}, isUnknown}; }
  auto key() const { return std::tie(all, elements); }
  bool operator<(const Sources &other) const { return key() < other.key(); }
};

/// Comparison, maximum or minimum of two floats.
struct Decision {
  Operation *op;
  std::optional<arith::CmpFPredicate> predicate;
  Sources lhs, rhs;

  Decision(Operation *op, std::optional<arith::CmpFPredicate> predicate, const Sources &x,
           const Sources &y)
      : op(op), predicate(predicate), lhs(x), rhs(y) {
    if (!predicate && rhs < lhs)
      std::swap(lhs, rhs);
  }
  auto key() const { return std::tie(predicate, lhs, rhs); }
  bool operator<(const Decision &other) const { return key() < other.key(); }
  bool isUnknown() const { return lhs.isUnknown || rhs.isUnknown; }
  /// Whether both operands depend on elements. Otherwise the comparison may be a part of another
  /// op: of an element with a constant, with the result of a reduction, or with itself.
  bool comparesElements() const {
    return !lhs.elements.empty() && !rhs.elements.empty() && op->getOperand(0) != op->getOperand(1);
  }
};

/// Order of the keys of a map whose elements stay where they are, unlike those of a DenseMap.
struct Before {
  bool operator()(Value a, Value b) const {
    return a.getAsOpaquePointer() < b.getAsOpaquePointer();
  }
};

/// Decisions of a tensor function.
class TensorDecisions {
public:
  explicit TensorDecisions(func::FuncOp tensors);
  std::set<Decision> decisions;
  bool hasUnknown = false;

private:
  void visit(Operation *op);
  Sources joinOperands(Operation *op) {
    Sources result;
    for (Value operand : op->getOperands())
      result.add(sources[operand]);
    return result;
  }
  std::map<Value, Sources, Before> sources;
};

/// Decisions of a kernel.
class KernelDecisions {
public:
  explicit KernelDecisions(kernel::FuncOp function);
  std::set<Decision> decisions;

private:
  /// Adds the sources of the results and of the stored value of an op.
  void visit(Operation *op);
  void add(Value value, const Sources &more) { hasChanged |= sources[value].add(more); }
  /// Adds the sources of values that a region yields to the results of its op.
  void addYielded(ValueRange results, ValueRange yielded) {
    for (auto [result, value] : llvm::zip_equal(results, yielded))
      add(result, sources[value]);
  }
  /// Sources of values, and for memory those of stored values.
  std::map<Value, Sources, Before> sources;
  bool hasChanged = false;
};
} // namespace

std::optional<arith::CmpFPredicate> lowered::getPredicate(Operation *op) {
  std::optional<arith::CmpFPredicate> predicate;
  if (auto scalar = dyn_cast<ScalarOpInterface>(op)) {
    Block block;
    buildDefinition(scalar, block);
    for (auto inner : block.getOps<arith::CmpFOp>())
      predicate = inner.getPredicate();
  }
  return predicate;
}

static bool isFloat(Value value) { return isa<FloatType>(getElementTypeOrSelf(value)); }

TensorDecisions::TensorDecisions(func::FuncOp tensors) {
  for (auto [i, operand] : llvm::enumerate(getKernelOperands(tensors)))
    if (isFloat(operand))
      sources[operand] = {{unsigned(i)}, {unsigned(i)}};
  for (Operation &op : tensors.front().without_terminator())
    visit(&op);
}

void TensorDecisions::visit(Operation *op) {
  Sources joined = joinOperands(op);
  llvm::TypeSwitch<Operation *>(op)
      .Case<MaxOp, MinOp, CmpOp>([&](Operation *) {
        if (!isFloat(op->getOperand(0)))
          return;
        Decision decision(op, getPredicate(op), sources[op->getOperand(0)],
                          sources[op->getOperand(1)]);
        hasUnknown |= decision.isUnknown();
        decisions.insert(decision);
      })
      .Case([&](ReduceOp) { joined = joined.reduced(); })
      .Case<ScalarOpInterface, CastOp, SoftmaxOp, LayerNormOp, RmsNormOp, ReshapeOp, TransposeOp,
            ExpandOp, SliceOp, ConcatOp, RollOp, GatherOp, GatherNDOp, EmbeddingOp, ConstantOp,
            IotaOp, SizeOp, TriluOp, RotaryOp, DequantizeOp>([](Operation *) {})
      .Default([&](Operation *) { joined.isUnknown = true; });
  for (Value result : op->getResults())
    sources[result] = joined;
}

KernelDecisions::KernelDecisions(kernel::FuncOp function) {
  auto memory = function.getBody().getArguments();
  for (auto [i, argument] : llvm::enumerate(memory.drop_back(function.getNumResults())))
    if (isFloat(argument))
      sources[argument] = {{unsigned(i)}, {unsigned(i)}};
  do {
    hasChanged = false;
    function.walk([&](Operation *op) { visit(op); });
  } while (hasChanged);
  function.walk([&](Operation *op) {
    std::optional<arith::CmpFPredicate> predicate;
    if (auto comparison = dyn_cast<arith::CmpFOp>(op))
      predicate = comparison.getPredicate();
    if (predicate ||
        isa<arith::MaximumFOp, arith::MinimumFOp, arith::MaxNumFOp, arith::MinNumFOp>(op))
      decisions.insert(
          Decision(op, predicate, sources[op->getOperand(0)], sources[op->getOperand(1)]));
  });
}

void KernelDecisions::visit(Operation *op) {
  llvm::TypeSwitch<Operation *>(op)
      .Case([&](memref::StoreOp store) { add(store.getMemRef(), sources[store.getValue()]); })
      .Case([&](kernel::FoldOp fold) { add(fold.getResult(), sources[fold.getTerm()].reduced()); })
      .Case([&](scf::ForOp loop) {
        addYielded(loop.getRegionIterArgs(), loop.getInits());
        addYielded(loop.getRegionIterArgs(), loop.getYieldedValues());
        addYielded(loop.getResults(), loop.getRegionIterArgs());
      })
      .Case([&](scf::IfOp condition) {
        for (Region *region : condition.getRegions())
          if (!region->empty())
            addYielded(condition.getResults(), region->front().getTerminator()->getOperands());
        for (Value result : condition.getResults())
          add(result, sources[condition.getCondition()]);
      })
      .Default([&](Operation *) {
        for (Value result : op->getResults())
          for (Value operand : op->getOperands())
            add(result, sources[operand]);
      });
}

LogicalResult lowered::checkDecisions(kernel::FuncOp function, func::FuncOp tensors) {
  KernelDecisions have(function);
  if (have.decisions.empty())
    return success();
  TensorDecisions want(tensors);
  for (const Decision &decision : want.decisions)
    if (!decision.isUnknown() && !have.decisions.count(decision))
      return decision.op->emitError()
             << "'" << getSourceName(decision.op->getLoc()) << "' (" << decision.op->getName()
             << "): kernel @" << function.getSymName()
             << " has no such operation on values that depend on the same operands";
  for (const Decision &decision : have.decisions)
    if (decision.comparesElements() && !want.hasUnknown && !want.decisions.count(decision))
      return decision.op->emitError()
             << "'" << getSourceName(decision.op->getLoc()) << "' (" << decision.op->getName()
             << ") in kernel @" << function.getSymName()
             << ": its tensor function has no such operation on values that depend on the same "
                "operands";
  return success();
}
