//===- MutateCommunication.cpp - Faults in communication ------------------===//

#include "Mutate.h"
#include "tpc/Verify/Schedule.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AttrTypeSubElements.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

static bool isAnyCollective(Operation *op) { return isCollective(op); }

/// Returns an axis of the group with more than one rank; empty if there is none.
static StringRef getGroupAxis(Mutator &m, Operation *op) {
  for (auto axis : getGroupAxes(op).getAsValueRange<StringAttr>())
    if (m.sizeOf(axis) > 1)
      return axis;
  return {};
}

/// Removes the op and replaces its result by the operand, whose type becomes the result's type if
/// it has no other use.
static void bypass(Operation *op) {
  Value operand = op->getOperand(0), result = op->getResult(0);
  if (operand.hasOneUse() && operand.getDefiningOp())
    operand.setType(result.getType());
  result.replaceAllUsesWith(operand);
  op->erase();
}

static bool dropCollective(Mutator &m) {
  Operation *op = m.pick<Operation *>(isAnyCollective);
  if (!op)
    return false;
  m.location = op->getOperand(0).getDefiningOp();
  bypass(op);
  return true;
}

// Repeats a collective: on its own result, or on the same operand, with a result that is not used.
static bool duplicateCollective(Mutator &m) {
  Operation *op = m.pick<Operation *>(isAnyCollective);
  if (!op)
    return false;
  m.builder.setInsertionPointAfter(op);
  Operation *again = m.builder.clone(*op);
  if (m.draw(2) == 0)
    return true;
  op->getResult(0).replaceAllUsesExcept(again->getResult(0), again);
  again->setOperand(0, op->getResult(0));
  return true;
}

// Some ranks run A before C, the others C before A.
static bool reorderCollectives(Mutator &m) {
  auto partner = [&](Operation *op) -> Operation * {
    StringRef axis = isCollective(op) ? getGroupAxis(m, op) : StringRef();
    if (axis.empty())
      return nullptr;
    for (Operation *other = op->getPrevNode(); other; other = other->getPrevNode())
      if (isCollective(other) && describeCommunication(op) != describeCommunication(other) &&
          llvm::is_contained(getGroupAxes(other).getAsValueRange<StringAttr>(), axis))
        return other;
    return nullptr;
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return partner(o) != nullptr; });
  if (!op)
    return false;
  Operation *other = partner(op);
  OpBuilder &b = m.builder;
  auto branch = scf::IfOp::create(b, op->getLoc(), op->getResultTypes(),
                                  m.makeIsFirst(getGroupAxis(m, op)), /*withElseRegion=*/true);
  for (auto [block, first, second] :
       {std::tuple(branch.thenBlock(), op, other), std::tuple(branch.elseBlock(), other, op)}) {
    b.setInsertionPointToEnd(block);
    Operation *a = b.clone(*first), *c = b.clone(*second);
    scf::YieldOp::create(b, op->getLoc(), (first == op ? a : c)->getResults());
  }
  op->replaceAllUsesWith(branch.getResults());
  op->erase();
  m.location = branch;
  return true;
}

static bool wrongReduction(Mutator &m) {
  Operation *op = m.pick<Operation *>([](Operation *o) {
    return isa<AllReduceOp, ReduceScatterOp>(o) && o->getOperand(0).getDefiningOp() &&
           getDist(o->getOperand(0)).getPartial();
  });
  if (!op)
    return false;
  Value operand = op->getOperand(0);
  DistAttr dist = getDist(operand);
  auto partial = PartialAttr::get(m.context, ReductionKind::Max, dist.getPartialAxes());
  operand.setType(
      makeTensorType(getElementTypeOrSelf(operand.getType()), dist.withPartial(partial), m.grid));
  return true;
}

static bool wrongAxis(Mutator &m) {
  Operation *op = m.pick<Operation *>(isAnyCollective);
  if (!op)
    return false;
  auto axes = getGroupAxes(op).getAsValueRange<StringAttr>();
  SmallVector<Attribute> others;
  for (StringAttr axis : m.grid.getOrder())
    if (!llvm::is_contained(axes, axis.getValue()))
      others.push_back(axis);
  if (others.empty())
    return false;
  // Prefer axes with more than one rank.
  auto *real = llvm::find_if(
      others, [&](Attribute axis) { return m.sizeOf(cast<StringAttr>(axis).getValue()) > 1; });
  op->setAttr("axes", ArrayAttr::get(m.context, {real == others.end() ? others[0] : *real}));
  return true;
}

// Changes the order of the axes, and thereby of the members, of a collective or a local slice over
// several axes.
static bool permuteGroup(Mutator &m) {
  Operation *op = m.pick<Operation *>([&](Operation *o) {
    auto axes = o->getAttrOfType<ArrayAttr>("axes");
    return axes && axes.size() > 1;
  });
  if (!op)
    return false;
  SmallVector<Attribute> axes(llvm::reverse(getGroupAxes(op)));
  op->setAttr("axes", ArrayAttr::get(m.context, axes));
  return true;
}

static bool rankBranch(Mutator &m) {
  Operation *op = m.pick<Operation *>(
      [&](Operation *o) { return isCollective(o) && !getGroupAxis(m, o).empty(); });
  if (!op)
    return false;
  m.wrapInBranch(op, getGroupAxis(m, op));
  return true;
}

/// Returns the axes other than pp with more than one rank.
static SmallVector<StringRef> getAxes(Mutator &m) {
  SmallVector<StringRef> axes;
  if (!m.grid)
    return axes;
  for (StringAttr axis : m.grid.getOrder())
    if (axis.getValue() != "pp" && m.sizeOf(axis.getValue()) > 1)
      axes.push_back(axis.getValue());
  return axes;
}

static bool transferInBranch(Mutator &m) {
  SmallVector<StringRef> axes = getAxes(m);
  auto send = m.pick<SendOp>([&](SendOp) { return !axes.empty(); });
  if (!send)
    return false;
  m.wrapInBranch(send, axes[m.draw(axes.size())]);
  return true;
}

// Replicas with more samples wait for replicas with fewer.
static bool replicaCollective(Mutator &m) {
  auto loop = m.pick<MicroBatchesOp>([&](MicroBatchesOp l) {
    return l.getBatchAttr() && l.getBatchAttr().usesAxis("dp") && m.sizeOf("dp") > 1 &&
           !l.getBody().getOps<func::CallOp>().empty();
  });
  if (!loop)
    return false;
  auto call = *loop.getBody().getOps<func::CallOp>().begin();
  m.builder.setInsertionPointAfter(call);
  Value value = call.getResult(0);
  auto broadcast = BroadcastOp::create(m.builder, call.getLoc(), value.getType(), value,
                                       m.builder.getStrArrayAttr({"dp"}), 0);
  value.replaceAllUsesExcept(broadcast.getResult(), broadcast);
  return true;
}

// Broadcasts one rank's shard to all ranks. The types are correct.
static bool broadcastShard(Mutator &m) {
  auto fits = [&](Operation *o) {
    if (!isa<ShardingRuleOpInterface>(o) || isa<ParameterOp>(o) || o->getNumResults() != 1 ||
        o->use_empty() || m.sizeOf("tp") < 2)
      return false;
    DistAttr dist = getDist(o->getResult(0));
    return dist.getLocal() && dist.usesAxis("tp") && !dist.getPartial();
  };
  Operation *op = m.pick<Operation *>(fits);
  if (!op)
    return false;
  m.builder.setInsertionPointAfter(op);
  Value value = op->getResult(0);
  auto broadcast = BroadcastOp::create(m.builder, op->getLoc(), value.getType(), value,
                                       m.builder.getStrArrayAttr({"tp"}), 0);
  value.replaceAllUsesExcept(broadcast.getResult(), broadcast);
  return true;
}

static bool crossSends(Mutator &m) {
  int64_t stages = m.sizeOf("pp");
  auto send = m.pick<SendOp>([&](SendOp) { return stages > 2; });
  if (!send)
    return false;
  int64_t self = send->getParentOfType<StageOp>().getIndex();
  int64_t to = send.getTo();
  do
    to = (to + 1) % stages;
  while (to == self);
  send.setTo(to);
  return true;
}

static bool dropSend(Mutator &m) {
  auto send = m.pick<SendOp>([](SendOp) { return true; });
  if (!send)
    return false;
  m.location = send->getParentOp();
  send.erase();
  return true;
}

static bool duplicateSend(Mutator &m) {
  auto send = m.pick<SendOp>([](SendOp) { return true; });
  if (send)
    m.builder.clone(*send);
  return bool(send);
}

static bool duplicateRecv(Mutator &m) {
  auto recv = m.pick<RecvOp>([](RecvOp) { return true; });
  if (recv)
    m.builder.clone(*recv);
  return bool(recv);
}

/// Returns a send and the receive of its message.
static std::pair<SendOp, RecvOp> pickPair(Mutator &m) {
  auto send = m.pick<SendOp>([](SendOp) { return true; });
  if (!send)
    return {};
  int64_t from = send->getParentOfType<StageOp>().getIndex(), to = send.getTo();
  for (RecvOp recv : m.find<RecvOp>([&](RecvOp r) {
         return int64_t(r.getFrom()) == from &&
                int64_t(r->getParentOfType<StageOp>().getIndex()) == to;
       }))
    return {send, recv};
  return {};
}

// Each of two stages waits for the message of the other before it sends its own. Sends and receives
// match, but deadlock.
static bool circularWait(Mutator &m) {
  auto [send, recv] = pickPair(m);
  if (!send || !recv)
    return false;
  int64_t from = recv.getFrom(), to = send.getTo();
  m.builder.setInsertionPoint(send);
  RecvOp::create(m.builder, send.getLoc(), send.getValue().getType(), to);
  m.builder.setInsertionPointAfter(recv);
  SendOp::create(m.builder, recv.getLoc(), recv.getResult(), from);
  return true;
}

// Sends an unused value from stage i to i + 2 before the message that i + 1 waits for, and receives
// it after the message of i + 1: correct with buffered messages, a deadlock without.
static bool lateMessage(Mutator &m) {
  auto last = [&](SendOp first) -> RecvOp {
    for (SendOp second : m.find<SendOp>(
             [&](SendOp s) { return s->getParentOfType<StageOp>().getIndex() == first.getTo(); }))
      for (RecvOp recv : m.find<RecvOp>([&](RecvOp r) {
             return r.getFrom() == first.getTo() &&
                    r->getParentOfType<StageOp>().getIndex() == second.getTo();
           }))
        return recv;
    return {};
  };
  auto send = m.pick<SendOp>([&](SendOp s) { return bool(last(s)); });
  if (!send)
    return false;
  RecvOp recv = last(send);
  int64_t from = send->getParentOfType<StageOp>().getIndex(),
          to = recv->getParentOfType<StageOp>().getIndex();
  SendOp::create(m.builder, send.getLoc(), send.getValue(), to);
  m.builder.setInsertionPointAfter(recv);
  RecvOp::create(m.builder, recv.getLoc(), send.getValue().getType(), from);
  return true;
}

// Broadcasts a replicated value; replicas without samples do not take part.
static bool idleReplica(Mutator &m) {
  SmallVector<BlockArgument> inputs;
  for (auto pipeline : m.module.getOps<PipelineOp>())
    llvm::append_range(inputs, pipeline.getBody().front().getArguments());
  auto call = m.pick<func::CallOp>([&](func::CallOp c) {
    auto loop = dyn_cast<MicroBatchesOp>(c->getParentOp());
    return loop && loop.getBatchAttr() && loop.getBatchAttr().usesAxis("dp") &&
           m.sizeOf("dp") > 1 && llvm::any_of(c.getOperands(), [&](Value operand) {
             return llvm::is_contained(inputs, operand);
           });
  });
  if (!call)
    return false;
  for (OpOperand &operand : call->getOpOperands())
    if (llvm::is_contained(inputs, operand.get())) {
      operand.set(BroadcastOp::create(m.builder, call.getLoc(), operand.get().getType(),
                                      operand.get(), m.builder.getStrArrayAttr({"dp"}), 0));
      return true;
    }
  return false;
}

static bool dropLoop(Mutator &m) {
  auto loop = m.pick<MicroBatchesOp>([&](MicroBatchesOp l) {
    return l.getBatchAttr() && m.sizeOf("pp") > 1 &&
           !(l.getBody().getOps<SendOp>().empty() && l.getBody().getOps<RecvOp>().empty());
  });
  if (!loop)
    return false;
  loop.removeBatchAttr();
  return true;
}

// One stage processes samples in another order than the preceding stage; each stage is consistent.
static bool crossMicroBatches(Mutator &m) {
  auto recv = m.pick<RecvOp>([](RecvOp r) {
    return llvm::any_of(getDist(r.getResult()).getDims(),
                        [](DimAttr dim) { return dim.usesAxis("mb") && dim.usesAxis("dp"); });
  });
  if (!recv)
    return false;
  auto isBatch = [](ArrayRef<StringAttr> axes) {
    return axes.size() == 2 && axes[0].getValue() == "dp" && axes[1].getValue() == "mb";
  };
  AttrTypeReplacer replacer;
  replacer.addReplacement([&](FactorAttr factor) -> std::optional<Attribute> {
    if (!isBatch(factor.getAxes()))
      return std::nullopt;
    return FactorAttr::get(m.context, factor.getExpr(), {factor.getAxes()[1], factor.getAxes()[0]});
  });
  DenseMap<StringAttr, StringAttr> clones;
  std::function<void(Operation *)> cross = [&](Operation *op) {
    replacer.recursivelyReplaceElementsIn(op, /*replaceAttrs=*/true, /*replaceLocs=*/false,
                                          /*replaceTypes=*/true);
    op->walk([&](Operation *inner) {
      if (auto slice = dyn_cast<LocalSliceOp>(inner)) {
        auto axes = llvm::to_vector(slice.getAxes().getAsRange<StringAttr>());
        if (isBatch(axes))
          slice.setAxesAttr(ArrayAttr::get(m.context, {axes[1], axes[0]}));
      }
      auto call = dyn_cast<func::CallOp>(inner);
      auto callee = call ? m.module.lookupSymbol<func::FuncOp>(call.getCallee()) : func::FuncOp();
      if (!callee)
        return;
      auto [name, isNew] = clones.try_emplace(callee.getSymNameAttr());
      if (isNew) {
        auto clone = callee.clone();
        clone.setName((callee.getName() + "_crossed").str());
        m.module.insert(callee, clone);
        name->second = clone.getSymNameAttr();
        StringAttr symbol = clone.getSymNameAttr();
        cross(clone);
        call.setCallee(symbol.getValue());
        return;
      }
      call.setCallee(name->second.getValue());
    });
  };
  auto loop = recv->getParentOfType<MicroBatchesOp>();
  if (!loop)
    return false;
  for (Operation &op : loop.getBody().front())
    cross(&op);
  return true;
}

static bool swapStages(Mutator &m) {
  SmallVector<func::CallOp> calls = m.find<func::CallOp>(
      [](func::CallOp call) { return call->getParentOfType<StageOp>() != nullptr; });
  if (calls.size() < 2)
    return false;
  // Prefer adjacent calls of equal type: the fault is less obvious.
  SmallVector<std::pair<func::CallOp, func::CallOp>> pairs;
  for (bool sameType : {true, false}) {
    for (size_t i = 0; i + 1 < calls.size(); ++i)
      if ((calls[i].getCalleeType() == calls[i + 1].getCalleeType()) == sameType)
        pairs.push_back({calls[i], calls[i + 1]});
    if (!pairs.empty())
      break;
  }
  auto [a, b] = pairs[m.seed % pairs.size()];
  m.location = a;
  auto callee = a.getCalleeAttr();
  a.setCalleeAttr(b.getCalleeAttr());
  b.setCalleeAttr(callee);
  return true;
}

// A stage sends the value that it received.
static bool staleSend(Mutator &m) {
  auto received = [](SendOp send) -> Value {
    for (RecvOp recv : send->getBlock()->getOps<RecvOp>())
      if (recv.getResult().getType() == send.getValue().getType())
        return recv.getResult();
    return {};
  };
  auto send = m.pick<SendOp>([&](SendOp s) { return bool(received(s)); });
  if (!send)
    return false;
  send.getValueMutable().assign(received(send));
  return true;
}

static bool dropOutput(Mutator &m) {
  auto output = m.pick<OutputOp>([](OutputOp) { return true; });
  if (!output)
    return false;
  m.location = output->getParentOp();
  output.erase();
  return true;
}

static bool wrongRecvType(Mutator &m) {
  auto recv = m.pick<RecvOp>(
      [](RecvOp r) { return getElementTypeOrSelf(r.getResult().getType()).isF32(); });
  if (!recv)
    return false;
  Value result = recv.getResult();
  Type type = result.getType();
  result.setType(makeTensorType(Float16Type::get(m.context), getDist(type), m.grid));
  m.builder.setInsertionPointAfter(recv);
  auto cast = CastOp::create(m.builder, recv.getLoc(), type, result);
  result.replaceAllUsesExcept(cast.getResult(), cast);
  return true;
}

// All ranks shift to the rank after the correct one. Pairs and sizes match.
static bool wrongShift(Mutator &m) {
  auto permute =
      m.pick<CollectivePermuteOp>([](CollectivePermuteOp p) { return p.getFrom().has_value(); });
  if (!permute)
    return false;
  permute.setFrom(*permute.getFrom() + 1);
  return true;
}

ArrayRef<Mutation> mutate::getCommunicationMutations() {
  static constexpr Mutation mutations[] = {
      {"drop-collective", "a collective is removed", dropCollective},
      {"duplicate-collective", "a collective is repeated", duplicateCollective},
      {"reorder-collectives", "some ranks run two collectives in the other order",
       reorderCollectives},
      {"sum-to-max", "a sum is replaced by a maximum", wrongReduction},
      {"wrong-axis", "a collective uses another axis", wrongAxis},
      {"wrong-shift", "a cyclic shift sends to the ranks of another shift", wrongShift},
      {"permute-group", "the members of a group are in another order", permuteGroup},
      {"rank-branch", "a collective is in a branch that some members do not take", rankBranch},
      {"replica-collective", "replicas wait for others that may have fewer micro-batches",
       replicaCollective},
      {"broadcast-shard", "one rank's shard overwrites the others'", broadcastShard},
      {"cross-sends", "a send names another stage as its receiver", crossSends},
      {"drop-send", "a send is removed", dropSend},
      {"duplicate-send", "a send is repeated", duplicateSend},
      {"duplicate-recv", "a receive is repeated", duplicateRecv},
      {"transfer-in-branch", "some ranks of a stage do not send", transferInBranch},
      {"circular-wait", "two stages wait for each other", circularWait},
      {"late-message", "stages deadlock unless messages are buffered", lateMessage},
      {"idle-replica", "a replica without samples does not take part in a broadcast", idleReplica},
      {"drop-loop", "a stage runs only one micro-batch", dropLoop},
      {"cross-micro-batches", "a stage takes samples in another order", crossMicroBatches},
      {"swap-stages", "two stages exchange their layers", swapStages},
      {"stale-send", "a stage sends the value that it received", staleSend},
      {"wrong-recv-type", "a message is received as another type", wrongRecvType},
      {"drop-output", "an output is not delivered", dropOutput},
  };
  return mutations;
}
