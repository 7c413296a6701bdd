//===- MutateExperts.cpp - Faults in mixtures of experts ------------------===//

#include "Mutate.h"
#include "tpc/Dialect/Experts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

static MoeOp pickMoe(Mutator &m, llvm::function_ref<bool(MoeOp)> fits) {
  return m.pick<MoeOp>(fits);
}
static bool isMoe(MoeOp) { return true; }
static bool hasGate(MoeOp op) { return bool(op.getGate()); }

// Each output is weighted by the square of its weight.
static bool weightTwice(Mutator &m) {
  auto op = pickMoe(m, isMoe);
  if (!op)
    return false;
  Value routing = op.getRouting();
  op.getRoutingMutable().assign(
      MulOp::create(m.builder, op.getLoc(), routing.getType(), routing, routing));
  return true;
}

// The weight multiplies the operand of the experts, before their activation, instead of the result.
static bool weightBefore(Mutator &m) {
  auto op = pickMoe(m, [](MoeOp moe) {
    return getDist(moe.getX()).getDims()[0] == getDist(moe.getRouting()).getDims()[0];
  });
  if (!op)
    return false;
  Location loc = op.getLoc();
  Value routing = op.getRouting();
  auto dims = llvm::to_vector(getDist(routing).getDims());
  dims[1] = DimAttr::get(m.context, {FactorAttr::get(m.context, SymExpr(1), {})}, {});
  Type type =
      makeTensorType(getElementTypeOrSelf(routing), getDist(routing).withDims(dims), m.grid);
  Value sum = ReduceOp::create(m.builder, loc, type, ReduceFunction::Sum, routing,
                               ArrayRef<int64_t>{1}, true);
  op.getXMutable().assign(MulOp::create(m.builder, loc, op.getX().getType(), op.getX(), sum));
  return true;
}

// Selected experts have the weight 1.
static bool unweighted(Mutator &m) {
  auto op = pickMoe(m, isMoe);
  if (!op)
    return false;
  Value routing = op.getRouting();
  op.getRoutingMutable().assign(
      DivOp::create(m.builder, op.getLoc(), routing.getType(), routing, routing));
  return true;
}

// Rounds the weights of the routing to 16 bits.
static bool halfWeights(Mutator &m) {
  auto op = pickMoe(m, [](MoeOp moe) { return getElementTypeOrSelf(moe.getRouting()).isF32(); });
  if (!op)
    return false;
  Value routing = op.getRouting();
  auto type = cast<RankedTensorType>(routing.getType());
  Value half = CastOp::create(m.builder, op.getLoc(), type.clone(m.builder.getBF16Type()), routing);
  op.getRoutingMutable().assign(CastOp::create(m.builder, op.getLoc(), type, half));
  return true;
}

/// Moves the view of a parameter of experts to the next or previous expert.
static bool shiftExperts(Mutator &m, llvm::function_ref<Value(MoeOp)> which) {
  // Parameters of stages; those of layers are operands of calls.
  SmallVector<std::pair<StringRef, unsigned>> arguments;
  SmallVector<ParameterOp> found;
  m.module.walk([&](MoeOp op) {
    Value value = which(op);
    if (!value)
      return;
    if (auto parameter = value.getDefiningOp<ParameterOp>())
      found.push_back(parameter);
    else if (auto argument = dyn_cast<BlockArgument>(value))
      if (auto function = dyn_cast<func::FuncOp>(argument.getOwner()->getParentOp()))
        arguments.push_back({function.getName(), argument.getArgNumber()});
  });
  m.module.walk([&](func::CallOp call) {
    for (auto [name, index] : arguments)
      if (call.getCallee() == name)
        if (auto parameter = call.getOperand(index).getDefiningOp<ParameterOp>())
          found.push_back(parameter);
  });
  ParameterOp op = m.choose(ArrayRef<ParameterOp>(found));
  if (!op)
    return false;
  ViewAttr view = op.getViewOrDense();
  StridedFactorAttr factor = view.getFactors(0).front();
  if (factor.getSize() < 2)
    return false;
  int64_t by = m.draw(2) ? factor.getStride() : -factor.getStride();
  op.setViewAttr(ViewAttr::get(m.context, view.getOffset() + by, view.getDims()));
  return true;
}
static bool neighborUp(Mutator &m) {
  return shiftExperts(m, [](MoeOp op) -> Value { return op.getUp(); });
}
static bool neighborDown(Mutator &m) {
  return shiftExperts(m, [](MoeOp op) -> Value { return op.getDown(); });
}

static bool swapGateUp(Mutator &m) {
  auto op = pickMoe(m, hasGate);
  if (!op)
    return false;
  Value gate = op.getGate();
  op.getGateMutable().assign(op.getUp());
  op.getUpMutable().assign(gate);
  return true;
}

static bool otherExpertActivation(Mutator &m) {
  auto op = pickMoe(m, isMoe);
  if (!op)
    return false;
  op.setAlpha(APFloat(1.0));
  op.setActivation(op.getActivation() == ExpertActivation::Relu ? ExpertActivation::GeluTanh
                                                                : ExpertActivation::Relu);
  return true;
}

static bool dropLimit(Mutator &m) {
  auto op = pickMoe(m, [](MoeOp moe) { return moe.getLimit().convertToDouble() != 0; });
  if (op)
    op.setLimit(APFloat(0.0));
  return bool(op);
}

static bool otherBeta(Mutator &m) {
  auto op = pickMoe(m, hasGate);
  if (op)
    op.setBeta(APFloat(1 - op.getBeta().convertToDouble()));
  return bool(op);
}

static bool swapBiases(Mutator &m) {
  auto op = pickMoe(m, [](MoeOp moe) { return moe.getUpBias() && moe.getGateBias(); });
  if (!op)
    return false;
  Value bias = op.getUpBias();
  op.getUpBiasMutable().assign(op.getGateBias());
  op.getGateBiasMutable().assign(bias);
  return true;
}

// Tokens take the weights of the routing of the next token.
static bool otherToken(Mutator &m) {
  auto op = pickMoe(m, [](MoeOp moe) {
    DimAttr tokens = getDist(moe.getRouting()).getDims()[0];
    return !tokens.isSharded();
  });
  if (!op)
    return false;
  Value routing = op.getRouting();
  SymExpr tokens = getSizes(routing)[0];
  op.getRoutingMutable().assign(RollOp::create(m.builder, op.getLoc(), routing.getType(), routing,
                                               uint64_t(0), SymExpr(1), tokens));
  return true;
}

// Each expert has the routing weights of the next expert.
static bool otherColumn(Mutator &m) {
  auto op = pickMoe(m, isMoe);
  if (!op)
    return false;
  Value routing = op.getRouting();
  op.getRoutingMutable().assign(RollOp::create(m.builder, op.getLoc(), routing.getType(), routing,
                                               uint64_t(1), SymExpr(1), getSizes(routing)[1]));
  return true;
}

/// Picks an all-reduce of the results of experts.
static AllReduceOp pickSum(Mutator &m) {
  return m.pick<AllReduceOp>(
      [](AllReduceOp op) { return bool(op.getOperand().getDefiningOp<MoeOp>()); });
}

// The biases, or the residual, are added on every rank before the sum over the ranks.
static bool addBefore(Mutator &m) {
  AllReduceOp sum = pickSum(m);
  if (!sum || !sum->hasOneUse())
    return false;
  auto add = dyn_cast<AddOp>(*sum->user_begin());
  if (!add)
    return false;
  Value other = add.getLhs() == sum.getResult() ? add.getRhs() : add.getLhs();
  if (Operation *def = other.getDefiningOp();
      def && def->getBlock() == sum->getBlock() && !def->isBeforeInBlock(sum))
    return false;
  m.builder.setInsertionPoint(sum);
  Value partial = sum.getOperand();
  Value early = AddOp::create(m.builder, add.getLoc(), partial.getType(), partial, other);
  sum->setOperand(0, early);
  add.getResult().replaceAllUsesWith(sum.getResult());
  add.erase();
  return true;
}

// The results of a rank are not added to those of the others.
static bool dropSum(Mutator &m) {
  AllReduceOp sum = pickSum(m);
  if (!sum)
    return false;
  Value partial = sum.getOperand();
  partial.setType(sum.getResult().getType());
  sum.getResult().replaceAllUsesWith(partial);
  sum.erase();
  return true;
}

static bool fewerAxes(Mutator &m) {
  AllReduceOp sum = m.pick<AllReduceOp>([](AllReduceOp op) {
    return op.getOperand().getDefiningOp<MoeOp>() && op.getAxes().size() > 1;
  });
  if (!sum)
    return false;
  SmallVector<Attribute> axes(sum.getAxes().begin(), sum.getAxes().end());
  axes.erase(axes.begin() + m.draw(axes.size()));
  sum.setAxesAttr(m.builder.getArrayAttr(axes));
  return true;
}

//===----------------------------------------------------------------------===//
// Exchange of tokens
//===----------------------------------------------------------------------===//

static Operation *pickRouted(Mutator &m) {
  return m.pick<Operation *>([](Operation *op) { return isa<DispatchOp, CombineOp>(op); });
}

/// Returns another axis of the grid with several ranks, except pp; null if there is none.
static StringAttr getOtherAxis(Mutator &m, ArrayAttr axes) {
  for (StringAttr axis : m.grid ? m.grid.getOrder() : ArrayRef<StringAttr>())
    if (m.sizeOf(axis.getValue()) > 1 && axis.getValue() != "pp" && !llvm::is_contained(axes, axis))
      return axis;
  return {};
}

// Only ranks with coordinate 0 run the op, as if the others had no tokens.
static bool skipRouted(Mutator &m) {
  Operation *op = pickRouted(m);
  if (op)
    m.wrapInBranch(op, cast<StringAttr>(op->getAttrOfType<ArrayAttr>("axes")[0]).getValue());
  return bool(op);
}

// Tokens are exchanged with the ranks of another group.
static bool otherRoutedGroup(Mutator &m) {
  Operation *op = pickRouted(m);
  StringAttr axis = op ? getOtherAxis(m, op->getAttrOfType<ArrayAttr>("axes")) : StringAttr();
  if (axis)
    op->setAttr("axes", m.builder.getArrayAttr({axis}));
  return bool(axis);
}

// Weights of the routing are read one column earlier, so tokens are sent to the ranks of other
// experts.
static bool otherDispatchColumn(Mutator &m) {
  auto op = m.pickAny<DispatchOp>();
  if (op)
    op.setColumn(op.getColumn() - 1);
  return bool(op);
}

// Tokens are sent as if there were one expert less, or as if the axes split experts in the other
// order.
static bool otherDispatchExperts(Mutator &m) {
  auto op = m.pickAny<DispatchOp>();
  if (!op)
    return false;
  DimAttr experts = op.getExperts();
  FactorAttr factor = experts.getFactors()[0];
  auto axes = llvm::to_vector(factor.getAxes());
  std::reverse(axes.begin(), axes.end());
  SymExpr count = axes.size() > 1 ? factor.getExpr() : factor.getExpr() - SymExpr(1);
  op.setExpertsAttr(
      DimAttr::get(m.context, FactorAttr::get(m.context, count, axes), experts.getAxes()));
  return true;
}

// Results return to the wrong tokens.
static bool rotateCombined(Mutator &m) {
  auto op = m.pickAny<CombineOp>();
  if (!op)
    return false;
  Value operand = op.getOperand();
  op->setOperand(0, RollOp::create(m.builder, op.getLoc(), operand.getType(), operand, uint64_t(0),
                                   SymExpr(1), getSizes(operand)[0]));
  return true;
}

//===----------------------------------------------------------------------===//
// Programs on buffers
//===----------------------------------------------------------------------===//

/// Changes some call that sends or returns tokens.
template <typename CallT> static bool changeRouted(Mutator &m, function_ref<void(CallT)> change) {
  auto op = m.pickAny<CallT>();
  if (op)
    change(op);
  return bool(op);
}
static bool otherCallColumn(Mutator &m) {
  return changeRouted<buffer::DispatchOp>(m, [&](buffer::DispatchOp op) {
    op.setColumnAttr(buffer::ExprAttr::get(m.context, op.getColumn().getExpr() - SymExpr(1)));
  });
}
static bool fewerCallExperts(Mutator &m) {
  return changeRouted<buffer::DispatchOp>(m, [&](buffer::DispatchOp op) {
    op.setExpertsAttr(buffer::ExprAttr::get(m.context, op.getExperts().getExpr() - SymExpr(1)));
  });
}
static bool otherCallSplit(Mutator &m) {
  return changeRouted<buffer::DispatchOp>(m, [&](buffer::DispatchOp op) {
    SmallVector<Attribute> axes(op.getSplit().getValue());
    if (axes.size() > 1)
      std::reverse(axes.begin(), axes.end());
    else
      axes.clear();
    op.setSplitAttr(m.builder.getArrayAttr(axes));
  });
}
template <typename CallT> static bool fewerRoutedRows(Mutator &m) {
  return changeRouted<CallT>(m, [&](CallT op) {
    op.setNAttr(buffer::ExprAttr::get(m.context, op.getN().getExpr() - SymExpr(1)));
  });
}
static bool otherCombinedWidth(Mutator &m) {
  return changeRouted<buffer::CombineOp>(m, [&](buffer::CombineOp op) {
    op.setWidthAttr(buffer::ExprAttr::get(m.context, op.getWidth().getExpr() + SymExpr(1)));
  });
}
static bool otherCallGroup(Mutator &m) {
  Operation *op = m.pick<Operation *>(
      [](Operation *call) { return isa<buffer::DispatchOp, buffer::CombineOp>(call); });
  StringAttr axis = op ? getOtherAxis(m, op->getAttrOfType<ArrayAttr>("axes")) : StringAttr();
  if (axis)
    op->setAttr("axes", m.builder.getArrayAttr({axis}));
  return bool(axis);
}

/// Changes some call on experts.
static bool changeCall(Mutator &m, function_ref<void(buffer::ExpertsOp)> change) {
  auto op = m.pickAny<buffer::ExpertsOp>();
  if (op)
    change(op);
  return bool(op);
}

// Each rank reads the weights of the routing for the experts of its neighbor.
static bool otherFirst(Mutator &m) {
  return changeCall(m, [&](buffer::ExpertsOp op) {
    SymExpr first = op.getFirst().getExpr();
    op.setFirstAttr(buffer::ExprAttr::get(m.context, first.isConstant(0) ? op.getExperts().getExpr()
                                                                         : SymExpr(0)));
  });
}

static bool missingExpert(Mutator &m) {
  return changeCall(m, [&](buffer::ExpertsOp op) {
    op.setExpertsAttr(buffer::ExprAttr::get(m.context, op.getExperts().getExpr() - SymExpr(1)));
  });
}

static bool fewerTokens(Mutator &m) {
  return changeCall(m, [&](buffer::ExpertsOp op) {
    op.setTokensAttr(buffer::ExprAttr::get(m.context, op.getTokens().getExpr() - SymExpr(1)));
  });
}

static bool otherCallActivation(Mutator &m) {
  return changeCall(m, [&](buffer::ExpertsOp op) {
    op.setActivation(op.getActivation() == ExpertActivation::Identity ? ExpertActivation::Relu
                                                                      : ExpertActivation::Identity);
  });
}

static bool swapCallWeights(Mutator &m) {
  auto op = m.pick<buffer::ExpertsOp>([](buffer::ExpertsOp call) { return bool(call.getGate()); });
  if (!op)
    return false;
  Value gate = op.getGate();
  op.getGateMutable().assign(op.getUp());
  op.getUpMutable().assign(gate);
  return true;
}

ArrayRef<Mutation> mutate::getExpertMutations() {
  static constexpr Mutation mutations[] = {
      {"experts-weight-twice", "weights of experts are applied twice", weightTwice},
      {"experts-weight-before", "weights are applied before the activation", weightBefore},
      {"experts-unweighted", "selected experts have the weight 1", unweighted},
      {"experts-half-weights", "weights of experts are rounded to 16 bits", halfWeights},
      {"experts-neighbor-up", "experts have the first matrix of their neighbor", neighborUp},
      {"experts-neighbor-down", "experts have the second matrix of their neighbor", neighborDown},
      {"experts-swap-gate", "the two first matrices of experts are exchanged", swapGateUp},
      {"experts-activation", "experts have another activation", otherExpertActivation},
      {"experts-drop-limit", "the limit of an activation is removed", dropLimit},
      {"experts-beta", "a number is added to, or missing in, the second projection", otherBeta},
      {"experts-swap-biases", "the biases of the first matrices are exchanged", swapBiases},
      {"experts-other-token", "a token has the experts of the next token", otherToken},
      {"experts-other-column", "an expert has the tokens of the next expert", otherColumn},
      {"experts-add-before", "a bias or residual is added on every rank before the sum", addBefore},
      {"experts-drop-sum", "results of ranks are not added", dropSum},
      {"experts-fewer-axes", "results are added over one axis of two", fewerAxes},
      {"experts-dispatch-skip", "some ranks skip an exchange of tokens", skipRouted},
      {"experts-dispatch-group", "tokens are sent to another group of ranks", otherRoutedGroup},
      {"experts-dispatch-column", "tokens are sent by the routing weights of other experts",
       otherDispatchColumn},
      {"experts-dispatch-experts", "tokens are sent by another assignment of experts to ranks",
       otherDispatchExperts},
      {"experts-dispatch-order", "results return to other tokens", rotateCombined},
      {"experts-call-column", "a call sends tokens by the routing weights of other experts",
       otherCallColumn},
      {"experts-call-counts", "a call counts one expert less", fewerCallExperts},
      {"experts-call-split", "a call has another assignment of experts to ranks", otherCallSplit},
      {"experts-call-rows", "a call sends one part of the tokens less",
       fewerRoutedRows<buffer::DispatchOp>},
      {"experts-call-returned", "a call returns one part of the tokens less",
       fewerRoutedRows<buffer::CombineOp>},
      {"experts-call-width", "a call returns rows of another size", otherCombinedWidth},
      {"experts-call-group", "a call is over another group of ranks", otherCallGroup},
      {"experts-call-first", "a rank reads the columns of other experts", otherFirst},
      {"experts-call-missing", "a rank computes one expert less", missingExpert},
      {"experts-call-tokens", "a rank computes one token less", fewerTokens},
      {"experts-call-activation", "a call has another activation", otherCallActivation},
      {"experts-call-gate", "a call has its two first matrices exchanged", swapCallWeights},
  };
  return mutations;
}
