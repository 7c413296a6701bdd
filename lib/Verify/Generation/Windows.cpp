//===- Windows.cpp - Proof of sliding-window caches -----------------------===//

#include "Windows.h"

#include "FlatProgram.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
class Windows {
public:
  Windows(func::FuncOp main, const PreallocatedStep &form) : main(main), form(form) {}

  LogicalResult prove() {
    lengths = find(form.windowed->lengths);
    all = find(form.lengths);
    counts = find(form.counts);
    if (!lengths || !all || !counts || lengths.getType() != all.getType())
      return main.emitError() << "has no input '" << form.windowed->lengths
                              << "' in addition to its lengths";
    if (failed(checkLengths(lengths, /*queries=*/false)))
      return failure();
    for (BlockArgument argument : main.getArguments())
      if (hasCapacity(argument.getType()) && failed(checkCache(argument)))
        return failure();
    // Values with the capacity of sliding-window caches must derive from these caches.
    for (Operation &op : main.front().without_terminator())
      for (Value result : op.getResults())
        if (hasCapacity(result.getType()) && !fromCaches.contains(result))
          return fail(&op) << "has the capacity of sliding-window caches, but is not one";
    WalkResult walk = main.walk([&](Operation *op) {
      for (NamedAttribute attribute : op->getAttrs())
        if (auto size = dyn_cast<SymExprAttr>(attribute.getValue()))
          if (hasCapacity(size.getExpr()))
            return fail(op) << "depends on the capacity of sliding-window caches",
                   WalkResult::interrupt();
      return WalkResult::advance();
    });
    return failure(walk.wasInterrupted());
  }

private:
  static InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName() << ") ";
  }
  BlockArgument find(StringRef name) {
    for (BlockArgument argument : main.getArguments())
      if (auto inputName = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
          inputName && inputName.getValue() == name)
        return argument;
    return {};
  }
  bool hasCapacity(const SymExpr &e) const {
    std::set<std::string> symbols;
    e.collectSymbols(symbols);
    return symbols.count(form.windowed->capacity) != 0;
  }
  bool hasCapacity(Type type) const {
    return isa<RankedTensorType>(type) &&
           llvm::any_of(getSizes(type), [&](const SymExpr &size) { return hasCapacity(size); });
  }

  /// Returns whether a value is computed only from counts and constants, such as an index that
  /// selects one of the step's tokens for each sequence.
  bool isOfCounts(Value value) const {
    if (value == counts)
      return true;
    Operation *op = value.getDefiningOp();
    if (!op)
      return false;
    if (isa<ConstantOp, SizeOp>(op))
      return true;
    return isa<AddOp, SubOp, ExpandOp, ReshapeOp>(op) &&
           llvm::all_of(op->getOperands(), [&](Value operand) { return isOfCounts(operand); });
  }

  /// `queries`: `value` is the lengths plus an offset, and therefore not the index at which tokens
  /// are appended.
  LogicalResult checkLengths(Value value, bool queries) {
    for (OpOperand &use : value.getUses()) {
      Operation *user = use.getOwner();
      if (auto append = dyn_cast<AppendOp>(user);
          append && !queries && &use == &append.getLengthsMutable()) {
        if (!hasCapacity(append.getType()))
          return fail(user)
                 << "appends at the lengths of sliding-window caches, but to another cache";
        continue;
      }
      if (auto attention = dyn_cast<AttentionOp>(user);
          attention && use.get() == attention.getLengths()) {
        if (failed(checkAttention(attention)))
          return failure();
        continue;
      }
      if (isa<AddOp>(user) && !queries &&
          isOfCounts(user->getOperand(1 - use.getOperandNumber()))) {
        if (failed(checkLengths(user->getResult(0), true)))
          return failure();
        continue;
      }
      return fail(user) << "uses the number of tokens in sliding-window caches: tokens outside of "
                           "the window have an effect";
    }
    return success();
  }

  LogicalResult checkAttention(AttentionOp op) {
    if (!op.getCausal() || !op.getWindow())
      return fail(op) << "has no window, but reads a sliding-window cache";
    std::optional<int64_t> window = op.getWindow()->asConstant();
    if (!window || *window < 1 || *window > form.windowed->window)
      return fail(op) << "has a window of " << op.getWindow()->str() << ", but reads a cache of "
                      << form.windowed->window << " tokens";
    if (op.getMask() || op.getBias() || op.getKeyMask())
      return fail(op) << "takes masks or a bias, but reads a sliding-window cache";
    if (!hasCapacity(op.getK().getType()) || !hasCapacity(op.getV().getType()))
      return fail(op)
             << "has queries at the lengths of sliding-window caches, but reads other caches";
    return success();
  }

  LogicalResult checkCache(BlockArgument cache) {
    auto append = cache.hasOneUse() ? dyn_cast<AppendOp>(*cache.user_begin()) : AppendOp();
    if (!getCache(main.getArgAttrDict(cache.getArgNumber())) || !append ||
        append.getCache() != cache || append.getLengths() != lengths)
      return main.emitError() << "argument " << cache.getArgNumber()
                              << " has the capacity of sliding-window caches, but new tokens are "
                                 "not appended to it at their lengths";
    SmallVector<Value> todo{append.getResult()};
    while (!todo.empty()) {
      Value value = todo.pop_back_val();
      fromCaches.insert(value);
      for (OpOperand &use : value.getUses()) {
        Operation *user = use.getOwner();
        if (isa<func::ReturnOp>(user))
          continue;
        if (auto attention = dyn_cast<AttentionOp>(user)) {
          if (use.getOperandNumber() != 1 && use.getOperandNumber() != 2)
            return fail(user) << "takes a sliding-window cache other than as keys or values";
          if (!isOfLengths(attention.getLengths()))
            return fail(user) << "reads sliding-window caches, but has queries at other lengths";
          continue;
        }
        if (!isa<TransposeOp, ReshapeOp, ExpandOp>(user))
          return fail(user) << "takes a sliding-window cache other than as keys or values";
        todo.push_back(user->getResult(0));
      }
    }
    return success();
  }
  bool isOfLengths(Value value) const {
    if (!value || value == lengths)
      return bool(value);
    auto add = value.getDefiningOp<AddOp>();
    return add && llvm::is_contained(add->getOperands(), Value(lengths));
  }

  func::FuncOp main;
  const PreallocatedStep &form;
  BlockArgument lengths; // of sliding-window caches
  BlockArgument all;     // lengths of all other caches
  BlockArgument counts;
  DenseSet<Value> fromCaches;
};
} // namespace

LogicalResult mlir::tpc::widenWindows(ModuleOp step, const PreallocatedStep &form) {
  func::FuncOp main = generation::getMain(step);
  if (failed(Windows(main, form).prove()))
    return failure();
  auto widen = [&](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    SmallVector<SymExpr> sizes = getSizes(type);
    for (SymExpr &size : sizes)
      size = size.substitute({{form.windowed->capacity, SymExpr::symbol(form.capacity)}});
    return makeTensorType(tensor.getElementType(), sizes);
  };
  step.walk([&](Operation *op) {
    for (Value result : op->getResults())
      if (isa<RankedTensorType>(result.getType()))
        result.setType(widen(result.getType()));
    if (auto cache = dyn_cast<CacheOp>(op))
      cache.setType(widen(cache.getType()));
  });
  BlockArgument windowLengths, lengths;
  for (BlockArgument argument : main.getArguments()) {
    argument.setType(widen(argument.getType()));
    auto name = main.getArgAttrOfType<StringAttr>(argument.getArgNumber(), kNameAttr);
    if (name && name.getValue() == form.windowed->lengths)
      windowLengths = argument;
    else if (name && name.getValue() == form.lengths)
      lengths = argument;
  }
  windowLengths.replaceAllUsesWith(lengths);
  (void)main.eraseArgument(windowLengths.getArgNumber());
  main.setType(FunctionType::get(step.getContext(), main.front().getArgumentTypes(),
                                 main.front().getTerminator()->getOperandTypes()));
  PreallocatedStep widened = form;
  widened.windowed.reset();
  widened.attachTo(step);
  return success();
}
