//===- MutateComputation.cpp - Faults in computations of ranks ------------===//

#include "Mutate.h"
#include "tpc/Dialect/Elements.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

//===----------------------------------------------------------------------===//
// Weights
//===----------------------------------------------------------------------===//

static int64_t getRank(ParameterOp op) { return getDist(op.getResult()).getDims().size(); }

static ViewAttr makeView(Mutator &m, int64_t offset,
                         ArrayRef<SmallVector<std::pair<int64_t, int64_t>>> dims) {
  SmallVector<ArrayAttr> list;
  for (const auto &dim : dims) {
    SmallVector<Attribute> factors;
    for (auto [size, stride] : dim)
      factors.push_back(StridedFactorAttr::get(m.context, size, stride));
    list.push_back(ArrayAttr::get(m.context, factors));
  }
  return ViewAttr::get(m.context, offset, list);
}

static SmallVector<SmallVector<std::pair<int64_t, int64_t>>> getDims(ViewAttr view) {
  SmallVector<SmallVector<std::pair<int64_t, int64_t>>> dims;
  for (unsigned d = 0; d < view.getDims().size(); ++d) {
    dims.emplace_back();
    for (StridedFactorAttr factor : view.getFactors(d))
      dims.back().push_back({factor.getSize(), factor.getStride()});
  }
  return dims;
}

static std::optional<unsigned> getSplitDim(ParameterOp op) {
  for (auto [d, dim] : llvm::enumerate(getDist(op.getResult()).getDims()))
    if (dim.isSharded())
      return d;
  return std::nullopt;
}

// Each rank's shard begins one element too late, so that its last element belongs to another rank.
static bool shiftShard(Mutator &m) {
  auto op = m.pick<ParameterOp>([](ParameterOp p) { return getSplitDim(p).has_value(); });
  if (!op)
    return false;
  ViewAttr view = op.getViewOrDense();
  auto dims = getDims(view);
  auto &factors = dims[*getSplitDim(op)];
  op.setViewAttr(makeView(m, view.getOffset() + factors.back().second, dims));
  return true;
}

/// Returns the number of columns of a fused weight, if the parameter is a contiguous range of
/// these.
static std::optional<int64_t> getFusedColumns(ParameterOp op) {
  WeightOp weight = op.getWeightOp();
  if (!weight || !op.getViewAttr())
    return std::nullopt;
  auto shape = cast<RankedTensorType>(weight.getType()).getShape();
  auto dims = getDims(op.getViewOrDense());
  if (shape.empty() || dims.empty() || dims.back().size() != 1 || dims.back()[0].second != 1 ||
      dims.back()[0].first >= shape.back() || shape.back() % dims.back()[0].first)
    return std::nullopt;
  return shape.back();
}

/// Returns the number of heads and the head size of a column dimension such as `5{tp}*8`.
static std::optional<std::pair<int64_t, int64_t>> getHeads(ParameterOp op) {
  auto factors = getDist(op.getResult()).getDims().back().getFactors();
  if (factors.size() != 2 || !factors[0].getExpr().asConstant() ||
      !factors[1].getExpr().asConstant())
    return std::nullopt;
  return std::pair(*factors[0].getExpr().asConstant(), *factors[1].getExpr().asConstant());
}

// Reads GPT-2's [all Q, all K, all V] as GPT-NeoX's [for each head: q, k, v].
static bool otherFamily(Mutator &m) {
  auto op = m.pick<ParameterOp>([](ParameterOp p) { return getFusedColumns(p) && getHeads(p); });
  if (!op)
    return false;
  auto [heads, size] = *getHeads(op);
  ViewAttr view = op.getViewOrDense();
  auto dims = getDims(view);
  int64_t parts = *getFusedColumns(op) / dims.back()[0].first;
  int64_t index = view.getOffset() / dims.back()[0].first; // of Q, K, V
  dims.back() = {{heads, parts * size}, {size, 1}};
  op.setViewAttr(makeView(m, index * size, dims));
  return true;
}

// Each rank has a contiguous range of the fused columns, and splits it into Q, K and V.
static bool splitContiguously(Mutator &m) {
  auto fits = [&](ParameterOp p) {
    auto heads = getHeads(p);
    return getFusedColumns(p) && heads && getSplitDim(p) && m.sizeOf("tp") > 1 &&
           heads->first % m.sizeOf("tp") == 0;
  };
  auto op = m.pick<ParameterOp>(fits);
  if (!op)
    return false;
  ViewAttr view = op.getViewOrDense();
  auto dims = getDims(view);
  int64_t width = dims.back()[0].first / m.sizeOf("tp"), columns = *getFusedColumns(op);
  int64_t index = view.getOffset() / dims.back()[0].first; // of Q, K, V
  dims.back() = {{m.sizeOf("tp"), columns / m.sizeOf("tp")}, {width, 1}};
  op.setViewAttr(makeView(m, index * width, dims));
  return true;
}

// All query heads use the keys of the first group (a stride of 0 between kv heads).
static bool wrongKvGroup(Mutator &m) {
  // Parameters of keys (and values) are recognized by the number of heads in their types.
  SmallVector<int64_t> kvHeads;
  m.module.walk([&](AttentionOp op) {
    if (auto heads = getDist(op.getK()).getDims()[2].getExpr().asConstant())
      kvHeads.push_back(*heads);
  });
  auto op = m.pick<ParameterOp>([&](ParameterOp p) {
    auto heads = getHeads(p);
    if (getRank(p) != 2 || !heads || heads->first < 2 || !llvm::is_contained(kvHeads, heads->first))
      return false;
    auto dims = getDims(p.getViewOrDense());
    return dims.back().size() == 1;
  });
  if (!op)
    return false;
  auto [heads, size] = *getHeads(op);
  auto dims = getDims(op.getViewOrDense());
  int64_t stride = dims.back()[0].second;
  dims.back() = {{heads, 0}, {size, stride}};
  op.setViewAttr(makeView(m, op.getViewOrDense().getOffset(), dims));
  return true;
}

static bool wrongLayerWeight(Mutator &m) {
  auto other = [&](ParameterOp op) -> WeightOp {
    WeightOp mine = op.getWeightOp();
    for (auto weight : m.module.getOps<WeightOp>())
      if (mine && weight != mine && weight.getType() == mine.getType())
        return weight;
    return {};
  };
  auto op = m.pick<ParameterOp>([&](ParameterOp p) { return bool(other(p)); });
  if (!op)
    return false;
  op.setWeight(other(op).getSymName());
  return true;
}

// A tied weight (embedding and head), or an embedding: one use reads it one row further on in the
// file, as from another copy.
static bool staleTiedWeight(Mutator &m) {
  llvm::StringMap<unsigned> uses;
  m.module.walk([&](ParameterOp op) { ++uses[op.getWeight()]; });
  auto op = m.pick<ParameterOp>([&](ParameterOp p) {
    WeightOp weight = p.getWeightOp();
    auto type = weight ? dyn_cast<RankedTensorType>(weight.getType()) : RankedTensorType();
    return type && type.getRank() == 2 && p.getResult().hasOneUse() &&
           (uses[p.getWeight()] > 1 || isa<EmbeddingOp>(*p.getResult().getUsers().begin()));
  });
  if (!op)
    return false;
  WeightOp weight = op.getWeightOp();
  OpBuilder builder(weight);
  auto stale = cast<WeightOp>(builder.clone(*weight));
  stale.setSymName((weight.getSymName() + ".stale").str());
  auto type = cast<RankedTensorType>(weight.getType());
  stale.setOffset(weight.getOffset() + type.getDimSize(1) * getElementBytes(type));
  op.setWeight(stale.getSymName());
  return true;
}

//===----------------------------------------------------------------------===//
// Biases and residuals
//===----------------------------------------------------------------------===//

/// Returns the reduction that is an operand of an add; null if there is none.
static Operation *getReduction(AddOp add) {
  for (Value operand : add->getOperands())
    if (Operation *op = operand.getDefiningOp();
        op && isa<AllReduceOp, ReduceScatterOp>(op) && op->getResult(0).hasOneUse())
      return op;
  return nullptr;
}

static Value getOther(Operation *add, Value one) {
  return add->getOperand(0) == one ? add->getOperand(1) : add->getOperand(0);
}

static bool biasEverywhere(Mutator &m) {
  auto add = m.pick<AddOp>([](AddOp a) {
    Operation *reduction = getReduction(a);
    return reduction && getDist(getOther(a, reduction->getResult(0))).getDims().size() == 1;
  });
  if (!add)
    return false;
  Operation *reduction = getReduction(add);
  Value partial = reduction->getOperand(0), bias = getOther(add, reduction->getResult(0));
  // The bias may be defined after the reduction.
  m.builder.setInsertionPoint(add);
  auto early = AddOp::create(m.builder, add.getLoc(), partial.getType(), partial, bias);
  reduction->moveBefore(add);
  reduction->setOperand(0, early.getResult());
  add.getResult().replaceAllUsesWith(reduction->getResult(0));
  m.location = reduction;
  add.erase();
  return true;
}

static bool biasNowhere(Mutator &m) {
  SmallVector<Operation *> matches = m.find<Operation *>([](Operation *op) {
    if (auto matmul = dyn_cast<MatmulOp>(op))
      return bool(matmul.getBias());
    auto add = dyn_cast<AddOp>(op);
    return add && getDist(add.getLhs()).getDims().size() == 2 &&
           getDist(add.getRhs()).getDims().size() == 1;
  });
  Operation *op = m.choose<Operation *>(matches);
  if (!op)
    return false;
  if (auto matmul = dyn_cast<MatmulOp>(op)) {
    matmul.getBiasMutable().clear();
    return true;
  }
  m.location = op->getOperand(0).getDefiningOp();
  op->getResult(0).replaceAllUsesWith(op->getOperand(0));
  op->erase();
  return true;
}

static bool dropResidual(Mutator &m) {
  auto add = m.pick<AddOp>([](AddOp a) {
    return a.getLhs().getType() == a.getType() && a.getRhs().getType() == a.getType();
  });
  if (!add)
    return false;
  Value kept = add->getOperand(m.draw(2));
  m.location = add;
  add.getResult().replaceAllUsesWith(kept);
  return true;
}

//===----------------------------------------------------------------------===//
// Positions, activations, layers
//===----------------------------------------------------------------------===//

static bool wrongRotation(Mutator &m) {
  auto op = m.pick<RotaryOp>([](RotaryOp) { return true; });
  if (!op)
    return false;
  op.setInterleaved(!op.getInterleaved());
  return true;
}

// Zeroes the rows of negative ids, as if each shard looked up `id - first` and none had the row.
static bool loseNegativeIds(Mutator &m) {
  auto op = m.pick<EmbeddingOp>([](EmbeddingOp e) {
    return getDist(e.getIds()).getDims().size() == 1 &&
           getElementTypeOrSelf(e.getIds().getType()).isInteger(64);
  });
  if (!op)
    return false;
  OpBuilder &b = m.builder;
  Location loc = op.getLoc();
  DistAttr ids = getDist(op.getIds());
  Type element = getElementTypeOrSelf(op.getType());
  auto scalar = RankedTensorType::get({}, b.getI64Type());
  Value zero = ConstantOp::create(b, loc, scalar, DenseElementsAttr::get(scalar, int64_t(0)));
  Value known = CmpOp::create(b, loc, makeTensorType(b.getI1Type(), ids, m.grid), Predicate::GE,
                              op.getIds(), zero);
  Value factor = CastOp::create(b, loc, makeTensorType(element, ids, m.grid), known);
  auto column = ids.withDims({ids.getDims()[0], DimAttr::get(m.context, ::tpc::SymExpr(1))});
  factor = ReshapeOp::create(b, loc, makeTensorType(element, column, m.grid), factor);
  b.setInsertionPointAfter(op);
  auto product = MulOp::create(b, loc, op.getType(), op.getResult(), factor);
  op.getResult().replaceAllUsesExcept(product.getResult(), product);
  return true;
}

static bool wrongActivation(Mutator &m) {
  auto op = m.pick<GeluOp>([](GeluOp) { return true; });
  if (!op)
    return false;
  Attribute other;
  for (StringRef text : {"none", "tanh"})
    if (auto attr = symbolizeGeluApproximation(text); attr && *attr != op.getApproximate())
      other = GeluApproximationAttr::get(m.context, *attr);
  if (!other)
    return false;
  op->setAttr(op.getApproximateAttrName(), other);
  return true;
}

static bool wrongEpsilon(Mutator &m) {
  Operation *op = m.pick<Operation *>([](Operation *o) { return isa<NormOpInterface>(o); });
  if (!op)
    return false;
  auto epsilon = op->getAttrOfType<FloatAttr>("epsilon").getValueAsDouble();
  op->setAttr("epsilon", m.builder.getF64FloatAttr(epsilon * 10 + 1e-3));
  return true;
}

// Two layers exchange their weights.
static bool swapLayers(Mutator &m) {
  auto next = [](func::CallOp call) -> func::CallOp {
    for (Operation *op = call->getNextNode(); op; op = op->getNextNode())
      if (auto other = dyn_cast<func::CallOp>(op))
        return other.getCallee() == call.getCallee() ? other : func::CallOp();
    return {};
  };
  auto call = m.pick<func::CallOp>([&](func::CallOp c) {
    func::CallOp other = next(c);
    return other && c.getNumOperands() > 1 && !c->getParentOfType<PipelineOp>();
  });
  if (!call)
    return false;
  func::CallOp other = next(call);
  // All operands that are parameters; the parameters of the second call must be defined before the
  // first call.
  bool changed = false;
  for (unsigned i = 0; i < call.getNumOperands(); ++i) {
    Operation *a = call.getOperand(i).getDefiningOp(), *b = other.getOperand(i).getDefiningOp();
    if (!isa_and_nonnull<ParameterOp>(a) || !isa_and_nonnull<ParameterOp>(b) || a == b)
      continue;
    b->moveBefore(call);
    call.setOperand(i, b->getResult(0));
    other.setOperand(i, a->getResult(0));
    changed = true;
  }
  return changed;
}

// Micro-batches read one hoisted value instead of another.
static bool swapHoisted(Mutator &m) {
  auto isHoisted = [](Value value, func::CallOp call) {
    return value.getDefiningOp() && value.getParentBlock() == call->getParentOp()->getBlock();
  };
  auto second = [&](func::CallOp call, unsigned i) -> unsigned {
    for (unsigned k = i + 1; k < call.getNumOperands(); ++k)
      if (isHoisted(call.getOperand(k), call) && call.getOperand(k) != call.getOperand(i) &&
          call.getOperand(k).getType() == call.getOperand(i).getType())
        return k;
    return 0;
  };
  auto first = [&](func::CallOp call) -> unsigned {
    for (unsigned i = 0; i < call.getNumOperands(); ++i)
      if (isHoisted(call.getOperand(i), call) && second(call, i))
        return i;
    return call.getNumOperands();
  };
  auto call = m.pick<func::CallOp>([&](func::CallOp c) {
    return isa<MicroBatchesOp>(c->getParentOp()) && first(c) < c.getNumOperands();
  });
  if (!call)
    return false;
  unsigned i = first(call), k = second(call, i);
  Value a = call.getOperand(i), b = call.getOperand(k);
  call.setOperand(i, b);
  call.setOperand(k, a);
  return true;
}

// Hoists a slice of an input out of the micro-batch loop, so that all iterations read the first
// micro-batch.
static bool readFirstMicroBatch(Mutator &m) {
  auto getCall = [&](LocalSliceOp slice) -> func::CallOp {
    auto argument = dyn_cast<BlockArgument>(slice.getOperand());
    auto function = dyn_cast<func::FuncOp>(slice->getParentOp());
    if (!argument || !function || !argument.hasOneUse() || !getDist(slice.getType()).usesAxis("mb"))
      return {};
    auto calls = m.find<func::CallOp>(
        [&](func::CallOp call) { return call.getCallee() == function.getName(); });
    return calls.size() == 1 && isa<MicroBatchesOp>(calls[0]->getParentOp()) ? calls[0]
                                                                             : func::CallOp();
  };
  auto slice = m.pick<LocalSliceOp>([&](LocalSliceOp s) { return bool(getCall(s)); });
  if (!slice)
    return false;
  func::CallOp call = getCall(slice);
  auto argument = cast<BlockArgument>(slice.getOperand());
  auto function = cast<func::FuncOp>(slice->getParentOp());
  m.builder.setInsertionPoint(call->getParentOp());
  IRMapping mapping;
  mapping.map(argument, call.getOperand(argument.getArgNumber()));
  call.setOperand(argument.getArgNumber(), m.builder.clone(*slice, mapping)->getResult(0));
  argument.setType(slice.getType());
  slice.replaceAllUsesWith(Value(argument));
  m.location = call;
  slice.erase();
  function.setFunctionType(
      m.builder.getFunctionType(function.front().getArgumentTypes(), function.getResultTypes()));
  return true;
}

ArrayRef<Mutation> mutate::getComputationMutations() {
  static constexpr Mutation mutations[] = {
      {"shift-shard", "each rank's shard of a weight begins one element late", shiftShard},
      {"other-family", "a fused weight is read in the layout of another model family", otherFamily},
      {"split-contiguously", "Q, K and V are split from a contiguous piece of the fused weight",
       splitContiguously},
      {"wrong-kv-group", "all query heads use the keys of the first group", wrongKvGroup},
      {"wrong-layer-weight", "the weight of another layer is used", wrongLayerWeight},
      {"stale-tied-weight", "a tied weight is read from another location in one stage",
       staleTiedWeight},
      {"swap-layers", "two layers exchange their weights", swapLayers},
      {"bias-everywhere", "a bias is added on every rank before the reduction", biasEverywhere},
      {"bias-nowhere", "a bias is removed", biasNowhere},
      {"drop-residual", "a sum has only one operand", dropResidual},
      {"wrong-rotation", "rotary pairs are adjacent elements instead of halves, or the reverse",
       wrongRotation},
      {"lose-negative-ids", "no shard of a vocabulary handles negative ids", loseNegativeIds},
      {"wrong-activation", "GELU uses the other approximation", wrongActivation},
      {"wrong-epsilon", "a norm has another epsilon", wrongEpsilon},
      {"swap-held", "micro-batches read one hoisted value instead of another", swapHoisted},
      {"first-round", "all micro-batches read the first one's part of an input",
       readFirstMicroBatch},
  };
  return mutations;
}
