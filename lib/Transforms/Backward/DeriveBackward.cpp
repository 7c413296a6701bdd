//===- DeriveBackward.cpp - Loss and gradients of a model -----------------===//

#include "Activity.h"
#include "LayerBackward.h"
#include "Loss.h"
#include "WeightGradients.h"
#include "tpc/Transforms/Backward/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_DERIVEBACKWARD
#include "tpc/Transforms/Backward/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct DeriveBackward : public mlir::tpc::impl::DeriveBackwardBase<DeriveBackward> {
  using DeriveBackwardBase::DeriveBackwardBase;

  /// Returns the index of the logits among the results of @main.
  FailureOr<unsigned> findLogits() {
    std::optional<unsigned> found;
    for (unsigned i = 0; i < main.getNumResults(); ++i)
      if (auto name = main.getResultAttrOfType<StringAttr>(i, kNameAttr);
          name && name.getValue() == "logits")
        found = i;
    if (!found && main.getNumResults() == 1)
      found = 0;
    if (!found)
      return emitError(main.getLoc()) << "has " << main.getNumResults()
                                      << " outputs, and none is named 'logits'; the loss needs one",
             failure();
    Value logits = main.front().getTerminator()->getOperand(*found);
    if (!elementTypeOf(logits).isF32() || rankOf(logits) < 2)
      return emitError(main.getLoc()) << "has an output of type " << logits.getType()
                                      << "; the loss needs f32 logits [.., vocabulary]",
             failure();
    return *found;
  }

  Value addInput(StringRef name, Type type) {
    Builder builder(&getContext());
    auto attributes =
        builder.getDictionaryAttr(builder.getNamedAttr(kNameAttr, builder.getStringAttr(name)));
    (void)main.insertArgument(main.getNumArguments(), type, attributes, main.getLoc());
    return main.getArgument(main.getNumArguments() - 1);
  }

  /// Replaces the results of @main by the loss. Returns the loss.
  Value addLoss(GradientBuilder &b, Value logits) {
    SmallVector<SymExpr> sizes = getSizes(logits);
    SymExpr vocabulary = sizes.pop_back_val();
    Type integers = b.getBuilder().getI64Type();
    Value labels = addInput("labels", makeTensorType(integers, sizes));
    if (scaleLoss)
      scale = addInput("loss_scale", RankedTensorType::get({}, b.getBuilder().getF32Type()));
    // Uses the rows of logits before they are divided into samples.
    if (auto reshape = logits.getDefiningOp<ReshapeOp>();
        reshape && rankOf(reshape.getOperand()) == 2 &&
        getSizes(reshape.getOperand())[1] == vocabulary)
      logits = reshape.getOperand();
    Value rows = logits;
    if (rankOf(logits) != 2)
      rows = b.reshape(logits, {product(sizes), vocabulary});
    active.values.insert(rows);
    Value count = countLabels(b, labels, elementTypeOf(logits));
    Value loss = buildCrossEntropy(b, rows, b.reshape(labels, {product(sizes)}), count,
                                   {labelSmoothing, zLoss, scale});
    if (rows != logits)
      b.accumulate(logits, b.reshape(b.getCotangent(rows), getSizes(logits)));
    return loss;
  }

  /// Replaces a call by one with the results of the layer, which has more results now.
  func::CallOp updateCall(func::CallOp call) {
    auto layer = symbols->lookup<func::FuncOp>(call.getCallee());
    if (layer.getNumResults() == call.getNumResults())
      return call;
    OpBuilder builder(call);
    auto updated =
        func::CallOp::create(builder, call.getLoc(), layer, SmallVector<Value>(call.getOperands()));
    updated->setDiscardableAttrs(call->getDiscardableAttrDictionary());
    for (auto [from, to] : llvm::zip(call.getResults(), updated.getResults())) {
      if (active.values.contains(from))
        active.values.insert(to);
      from.replaceAllUsesWith(to);
    }
    call.erase();
    return updated;
  }

  LogicalResult differentiateCall(GradientBuilder &b, func::CallOp call) {
    const LayerBackward &backward = layers.at(call.getCallee());
    SmallVector<Value> operands;
    for (unsigned i : backward.arguments)
      operands.push_back(call.getOperand(i));
    for (unsigned i : backward.saved)
      operands.push_back(call.getResult(i));
    for (unsigned i : backward.results) {
      Value cotangent = b.getCotangent(call.getResult(i));
      operands.push_back(cotangent ? cotangent : b.zeros(call.getResult(i).getType()));
    }
    auto gradients = func::CallOp::create(b.getBuilder(), b.getLoc(), backward.function, operands);
    for (auto [i, gradient] : llvm::zip(backward.gradients, gradients.getResults()))
      b.accumulate(call.getOperand(i), gradient);
    return success();
  }

  LogicalResult run() {
    if (!(labelSmoothing >= 0 && labelSmoothing < 1))
      return emitError(main.getLoc())
             << "--label-smoothing=" << labelSmoothing << ": expected 0 or more, below 1";
    if (!(zLoss >= 0 && std::isfinite(zLoss)))
      return emitError(main.getLoc()) << "--z-loss=" << zLoss << ": expected 0 or more";
    FailureOr<unsigned> index = findLogits();
    if (failed(index))
      return failure();
    Operation *end = main.front().getTerminator();
    if (failed(active.analyze(getOperation())))
      return failure();
    if (!active.values.contains(end->getOperand(*index)))
      return emitError(main.getLoc()) << "has logits that depend on no weight";
    SmallVector<func::CallOp> calls(main.getOps<func::CallOp>());
    for (func::CallOp call : calls) {
      StringRef callee = call.getCallee();
      if (layers.count(callee))
        continue;
      FailureOr<LayerBackward> backward = deriveLayerBackward(
          symbols->lookup<func::FuncOp>(callee), active.values, *symbols, decomposeAttention);
      if (failed(backward))
        return failure();
      layers[callee] = *backward;
    }
    for (func::CallOp call : calls)
      updateCall(call);
    SmallVector<Operation *> forward;
    for (Operation &op : main.front().without_terminator())
      forward.push_back(&op);

    OpBuilder builder(end);
    GradientBuilder b(builder, active.values, decomposeAttention);
    Value logits = end->getOperand(*index);
    b.setLoc(logits.getLoc());
    SmallVector<NamedValue> results = {{"loss", addLoss(b, logits)}};
    auto onCall = [&](func::CallOp call) { return differentiateCall(b, call); };
    if (failed(buildBackward(b, forward, onCall)) ||
        failed(collectWeightGradients(b, getOperation(), main, results)))
      return failure();
    for (NamedValue &gradient : MutableArrayRef(results).drop_front(scale ? 1 : results.size())) {
      b.setLoc(gradient.value.getLoc());
      gradient.value = b.div(gradient.value, scale);
    }
    setResults(results);
    return success();
  }

  void setResults(ArrayRef<NamedValue> results) {
    Builder builder(&getContext());
    SmallVector<Value> values;
    SmallVector<DictionaryAttr> attributes;
    for (const auto &[name, value] : results) {
      values.push_back(value);
      attributes.push_back(
          builder.getDictionaryAttr(builder.getNamedAttr(kNameAttr, builder.getStringAttr(name))));
    }
    Operation *end = main.front().getTerminator();
    end->setOperands(values);
    main.setType(builder.getFunctionType(main.front().getArgumentTypes(), end->getOperandTypes()));
    main.setAllResultAttrs(attributes);
    for (auto function : getOperation().getOps<func::FuncOp>())
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(function.front())))
        if (isOpTriviallyDead(&op))
          op.erase();
  }

  void runOnOperation() override {
    active = {};
    layers.clear();
    scale = {};
    main = getOperation().lookupSymbol<func::FuncOp>("main");
    if (!main || main.isExternal()) {
      emitError(getOperation().getLoc()) << "there is no function @main to differentiate";
      return signalPassFailure();
    }
    symbols.emplace(getOperation());
    if (failed(run()))
      signalPassFailure();
  }

  func::FuncOp main;
  std::optional<SymbolTable> symbols;
  Activity active;
  Value scale; // of the loss; null: none
  llvm::StringMap<LayerBackward> layers;
};
} // namespace
