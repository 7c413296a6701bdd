//===- MutateTraining.cpp - Faults in gradients and updates ---------------===//

#include "Mutate.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

//===----------------------------------------------------------------------===//
// Sums of gradients
//===----------------------------------------------------------------------===//

/// Returns true for the sum of two gradients before their reduction: of two micro-batches, or of
/// two uses of a weight.
static bool isSumOfParts(AddOp op) {
  return bool(getDist(op.getLhs()).getPartial()) && bool(getDist(op.getRhs()).getPartial());
}

// The sum restarts: it loses the micro-batches, or the use of a tied weight, before it.
static bool restartSum(Mutator &m) {
  auto op = m.pick<AddOp>(
      [](AddOp add) { return isSumOfParts(add) && add.getType() == add.getRhs().getType(); });
  if (op)
    op.getResult().replaceAllUsesWith(m.draw(2) ? op.getRhs() : op.getLhs());
  return bool(op);
}

// Two sums over micro-batches get each other's values.
static bool swapSums(Mutator &m) {
  SmallVector<AccumulateOp> ops = m.find<AccumulateOp>([](AccumulateOp) { return true; });
  for (auto [i, first] : llvm::enumerate(ops))
    for (AccumulateOp second : ArrayRef(ops).drop_front(i + 1))
      if (first.getValue().getType() == second.getValue().getType() &&
          first.getValue() != second.getValue()) {
        Value value = first.getValue();
        first.getValueMutable().assign(second.getValue());
        second.getValueMutable().assign(value);
        return true;
      }
  return false;
}

// The gradients of one micro-batch are used for all.
static bool loseMicroBatches(Mutator &m) {
  auto loop = m.pick<MicroBatchesOp>([](MicroBatchesOp op) {
    return op.getBatchAttr() && !op.getBody().getOps<AccumulateOp>().empty();
  });
  if (loop)
    loop.removeBatchAttr();
  return bool(loop);
}

// A sum is complete over ranks in each micro-batch, and is reduced over them again.
static bool reduceTwice(Mutator &m) {
  auto op = m.pick<AccumulateOp>(
      [](AccumulateOp o) { return getDist(o.getValue()).getPartialAxes().size() > 1; });
  if (!op)
    return false;
  Type type = op.getValue().getType();
  PartialAttr partial = getDist(type).getPartial();
  SmallVector<Attribute> axes;
  for (StringAttr axis : partial.getAxes())
    if (axis.getValue() != kMicroBatchAxis)
      axes.push_back(axis);
  m.builder.setInsertionPoint(op);
  op.getValueMutable().assign(AllReduceOp::create(m.builder, op.getLoc(), type, op.getValue(),
                                                  m.builder.getArrayAttr(axes)));
  return true;
}

// One gradient is added twice instead of another.
static bool addTwice(Mutator &m) {
  auto op = m.pick<AddOp>([](AddOp add) {
    return isSumOfParts(add) && add.getLhs().getType() == add.getRhs().getType();
  });
  if (op)
    op.getLhsMutable().assign(op.getRhs());
  return bool(op);
}

/// Scales a value by `factor` before all its uses.
static void scale(Mutator &m, Value value, double factor) {
  m.builder.setInsertionPointAfter(value.getDefiningOp());
  auto scalar = RankedTensorType::get({}, m.builder.getF32Type());
  Value number = ConstantOp::create(
      m.builder, value.getLoc(), scalar,
      DenseElementsAttr::get(scalar, Attribute(m.builder.getF32FloatAttr(float(factor)))));
  Value product = MulOp::create(m.builder, value.getLoc(), value.getType(), value, number);
  value.replaceAllUsesExcept(product, product.getDefiningOp());
}

// Replicas add their gradients, each of which is already divided by their number (a mean of means).
static bool meanOfMeans(Mutator &m) {
  auto op = m.pick<AllReduceOp>([](AllReduceOp reduction) {
    return getDist(reduction.getOperand()).getPartial().getKind() == ReductionKind::Sum &&
           getElementTypeOrSelf(reduction.getType()).isF32();
  });
  if (!op)
    return false;
  int64_t size = 1;
  for (StringAttr axis : op.getAxes().getAsRange<StringAttr>())
    size *= m.sizeOf(axis.getValue());
  scale(m, op.getResult(), 1.0 / double(size));
  return size > 1;
}

/// Returns true for the sum of the squares of one gradient.
static bool isSquareSum(ReduceOp op) {
  Value squares = op.getOperand();
  if (auto rows = squares.getDefiningOp<ReduceOp>())
    squares = rows.getOperand();
  auto square = squares.getDefiningOp<MulOp>();
  return op.getFunction() == ReduceFunction::Sum && getDist(op.getResult()).getDims().empty() &&
         square && square.getLhs() == square.getRhs();
}

// The norm counts a weight that is replicated over tp once per rank.
static bool countReplicated(Mutator &m) {
  int64_t ranks = m.sizeOf("tp");
  auto op = m.pick<ReduceOp>([](ReduceOp sum) {
    return isSquareSum(sum) && !getDist(sum.getResult()).isUnreducedOver("tp");
  });
  if (!op || ranks == 1)
    return false;
  scale(m, op.getResult(), double(ranks));
  return true;
}

// The norm leaves out one weight.
static bool leaveOut(Mutator &m) {
  auto op = m.pick<ReduceOp>(isSquareSum);
  if (op)
    scale(m, op.getResult(), 0);
  return bool(op);
}

//===----------------------------------------------------------------------===//
// Updates
//===----------------------------------------------------------------------===//

/// Returns the outputs that update parameters, with the index that the pipeline gives them.
static SmallVector<OutputOp> findUpdates(Mutator &m) {
  return m.find<OutputOp>([](OutputOp op) {
    auto pipeline = op->getParentOfType<PipelineOp>();
    return Update::get(cast<DictionaryAttr>(pipeline.getOutputs()[op.getIndex()])).has_value();
  });
}

/// Calls `apply` with two updates of values of one type.
static bool withPair(Mutator &m, llvm::function_ref<void(OutputOp, OutputOp)> apply) {
  SmallVector<OutputOp> updates = findUpdates(m);
  SmallVector<std::pair<OutputOp, OutputOp>> pairs;
  for (auto [i, first] : llvm::enumerate(updates))
    for (OutputOp second : ArrayRef(updates).drop_front(i + 1))
      if (first.getValue().getType() == second.getValue().getType() &&
          first->getBlock() == second->getBlock() && first.getValue() != second.getValue())
        pairs.push_back({first, second});
  if (pairs.empty())
    return false;
  auto [first, second] = pairs[m.seed % pairs.size()];
  m.location = first;
  apply(first, second);
  return true;
}

// Two parameters, or a weight and its moment, exchange their new elements.
static bool swapNewElements(Mutator &m) {
  return withPair(m, [](OutputOp first, OutputOp second) {
    Value value = first.getValue();
    first.getValueMutable().assign(second.getValue());
    second.getValueMutable().assign(value);
  });
}

// A parameter is updated by another one's new elements.
static bool updateByOther(Mutator &m) {
  return withPair(m, [](OutputOp first, OutputOp second) {
    first.getValueMutable().assign(second.getValue());
  });
}

/// Replaces the attributes of an output that updates a parameter.
static bool
changeOutput(Mutator &m,
             llvm::function_ref<DictionaryAttr(ArrayRef<DictionaryAttr>, unsigned)> to) {
  OutputOp op = m.choose(ArrayRef<OutputOp>(findUpdates(m)));
  if (!op)
    return false;
  auto pipeline = op->getParentOfType<PipelineOp>();
  auto outputs = llvm::to_vector(pipeline.getOutputs().getAsRange<DictionaryAttr>());
  DictionaryAttr changed = to(outputs, op.getIndex());
  if (!changed)
    return false;
  outputs[op.getIndex()] = changed;
  pipeline.setOutputsAttr(
      m.builder.getArrayAttr(SmallVector<Attribute>(outputs.begin(), outputs.end())));
  return true;
}

// Two outputs update one parameter, and another parameter keeps its elements.
static bool updateOneTwice(Mutator &m) {
  return changeOutput(m, [&](ArrayRef<DictionaryAttr> all, unsigned index) -> DictionaryAttr {
    for (auto [i, other] : llvm::enumerate(all))
      if (i != index && Update::get(other) && other.get("type") == all[index].get("type")) {
        NamedAttrList fields(all[index]);
        fields.set(kUpdateAttr, other.get(kUpdateAttr));
        return fields.getDictionary(m.context);
      }
    return {};
  });
}

// A parameter is not updated: its new elements are an output.
static bool loseUpdate(Mutator &m) {
  return changeOutput(m, [&](ArrayRef<DictionaryAttr> all, unsigned index) {
    NamedAttrList fields(all[index]);
    fields.erase(kUpdateAttr);
    return fields.getDictionary(m.context);
  });
}

/// Returns a subtraction that computes new elements of a weight: a result of a stage.
static SubOp pickStep(Mutator &m, llvm::function_ref<bool(SubOp)> fits) {
  return m.pick<SubOp>([&](SubOp op) {
    bool isReturned = llvm::any_of(op->getUsers(), [](Operation *user) {
      return isa<func::ReturnOp, OutputOp, SelectOp>(user);
    });
    return isReturned && fits(op);
  });
}

// The step ascends.
static bool ascend(Mutator &m) {
  SubOp op = pickStep(m, [](SubOp) { return true; });
  if (!op)
    return false;
  Value sum = AddOp::create(m.builder, op.getLoc(), op.getType(), op.getLhs(), op.getRhs());
  op.getResult().replaceAllUsesWith(sum);
  return true;
}

// Scales and biases decay.
static bool decayScales(Mutator &m) {
  SubOp op = pickStep(m, [](SubOp sub) {
    return getDist(sub.getResult()).getDims().size() == 1 && !sub.getLhs().getDefiningOp<MulOp>();
  });
  if (!op)
    return false;
  auto scalar = RankedTensorType::get({}, m.builder.getF32Type());
  Value factor = ConstantOp::create(
      m.builder, op.getLoc(), scalar,
      DenseElementsAttr::get(scalar, Attribute(m.builder.getF32FloatAttr(0.99f))));
  op.getLhsMutable().assign(
      MulOp::create(m.builder, op.getLoc(), op.getLhs().getType(), op.getLhs(), factor));
  return true;
}

// A matrix does not decay.
static bool loseDecay(Mutator &m) {
  SubOp op = pickStep(m, [](SubOp sub) {
    auto decayed = sub.getLhs().getDefiningOp<MulOp>();
    return decayed && decayed.getLhs().getType() == sub.getLhs().getType();
  });
  if (op)
    op.getLhsMutable().assign(op.getLhs().getDefiningOp<MulOp>().getLhs());
  return bool(op);
}

// Each parameter of a kind of moment is read from the other kind.
static bool swapMoments(Mutator &m) {
  constexpr StringLiteral mean = "adamw.mean.", variance = "adamw.variance.";
  auto op = m.pick<ParameterOp>([&](ParameterOp p) { return p.getWeight().starts_with(mean); });
  if (!op)
    return false;
  std::string other = (variance + op.getWeight().drop_front(mean.size())).str();
  op.setWeightAttr(FlatSymbolRefAttr::get(m.context, other));
  return true;
}

/// Returns the index of an input of the pipeline, or -1.
static int findInput(PipelineOp pipeline, StringRef name) {
  for (auto [i, attrs] : llvm::enumerate(pipeline.getInputAttrs().getAsRange<DictionaryAttr>()))
    if (auto text = attrs.getAs<StringAttr>(kNameAttr); text && text.getValue() == name)
      return i;
  return -1;
}

/// Replaces an input of the pipeline by another in all stages.
static bool replaceInput(Mutator &m, StringRef from, StringRef to) {
  auto pipeline = m.pickAny<PipelineOp>();
  int a = pipeline ? findInput(pipeline, from) : -1, b = pipeline ? findInput(pipeline, to) : -1;
  if (a < 0 || b < 0)
    return false;
  Block &body = pipeline.getBody().front();
  body.getArgument(a).replaceAllUsesWith(body.getArgument(b));
  return true;
}

// The variance has the bias correction of the mean, or the reverse.
static bool swapCorrections(Mutator &m) {
  StringRef names[] = {"correction1", "correction2"};
  return replaceInput(m, names[m.draw(2)], names[1 - m.draw(2)]);
}

// The learning rate is a bias correction.
static bool otherRate(Mutator &m) { return replaceInput(m, "learning_rate", "correction1"); }

// Labels are the tokens themselves.
static bool labelsAreTokens(Mutator &m) { return replaceInput(m, "labels", "input_ids"); }

// A step whose loss or gradients are not finite changes one parameter.
static bool applyOverflow(Mutator &m) {
  auto op = m.pick<SelectOp>([](SelectOp select) {
    return rankOf(select.getCondition()) == 0 && select.getRhs().getDefiningOp<ParameterOp>();
  });
  if (op)
    op.getResult().replaceAllUsesWith(op.getLhs());
  return bool(op);
}

/// Replaces the result of an op by one of its operands.
template <typename OpT> static bool skip(Mutator &m, unsigned operand) {
  auto op = m.pick<OpT>([&](OpT o) {
    return o->getOperand(operand).getType() == o.getType() &&
           getElementTypeOrSelf(o.getType()).isF32() && getDist(o.getResult()).getDims().empty();
  });
  if (op)
    op.getResult().replaceAllUsesWith(op->getOperand(operand));
  return bool(op);
}

// The factor of clipping is not limited to 1, so that small gradients are enlarged.
static bool clipBothWays(Mutator &m) { return skip<MinOp>(m, 0); }

// The loss, or the norm, is not divided.
static bool loseDivision(Mutator &m) { return skip<DivOp>(m, 0); }

ArrayRef<Mutation> mutate::getTrainingMutations() {
  static constexpr Mutation mutations[] = {
      {"train-apply-overflow", "a step that is not finite changes a parameter", applyOverflow},
      {"train-restart-sum", "a sum of gradients loses one side", restartSum},
      {"train-add-twice", "a gradient is added twice, and another one not at all", addTwice},
      {"train-swap-sums", "two sums over micro-batches get each other's values", swapSums},
      {"train-lose-micro-batches", "only one micro-batch is computed", loseMicroBatches},
      {"train-reduce-twice", "a gradient is reduced in each micro-batch, and again after them",
       reduceTwice},
      {"train-mean-of-means", "a sum over ranks is a mean", meanOfMeans},
      {"train-count-replicated", "the norm counts a replicated weight once for each rank",
       countReplicated},
      {"train-leave-out", "the norm leaves out a weight", leaveOut},
      {"train-swap-updates", "two parameters exchange their new elements", swapNewElements},
      {"train-update-by-other", "a parameter gets the new elements of another", updateByOther},
      {"train-update-one-twice", "two outputs update one parameter", updateOneTwice},
      {"train-lose-update", "a parameter is not updated", loseUpdate},
      {"train-ascend", "a step adds instead of subtracting", ascend},
      {"train-decay-scales", "a scale or bias decays", decayScales},
      {"train-lose-decay", "a matrix does not decay", loseDecay},
      {"train-swap-moments", "the mean of a gradient is read from its variance", swapMoments},
      {"train-swap-corrections", "a bias correction is that of the other moment", swapCorrections},
      {"train-other-rate", "the learning rate is a bias correction", otherRate},
      {"train-labels-are-tokens", "labels are not shifted", labelsAreTokens},
      {"train-clip-both-ways", "clipping enlarges small gradients", clipBothWays},
      {"train-lose-division", "a scalar is not divided", loseDivision},
  };
  return mutations;
}
