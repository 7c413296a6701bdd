//===- MutateBuffers.cpp - Faults in programs on buffers ------------------===//

#include "Mutate.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Locations
//===----------------------------------------------------------------------===//

/// Returns the operands that an op reads or writes.
template <typename EffectT> static SmallVector<OpOperand *> getOperands(Operation *op) {
  SmallVector<OpOperand *> found;
  auto effects = dyn_cast<MemoryEffectOpInterface>(op);
  if (!isa_and_nonnull<buffer::BufferDialect>(op->getDialect()) || !effects)
    return found;
  SmallVector<MemoryEffects::EffectInstance> list;
  effects.getEffects<EffectT>(list);
  for (auto &effect : list)
    if (auto *operand = effect.getEffectValue<OpOperand *>();
        operand && isa<buffer::BufferType>(operand->get().getType()))
      found.push_back(operand);
  return found;
}

static SmallVector<OpOperand *> getReads(Operation *op) {
  return getOperands<MemoryEffects::Read>(op);
}
SmallVector<OpOperand *> mutate::getWrites(Operation *op) {
  return getOperands<MemoryEffects::Write>(op);
}
static bool isRuntimeCall(Operation *op) { return !getReads(op).empty() || !getWrites(op).empty(); }

SmallVector<Value> mutate::getOthers(Operation *op, Value buffer, bool ofEqualExtent) {
  SmallVector<Value> others;
  auto consider = [&](Value other) {
    if (other != buffer && isa<buffer::BufferType>(other.getType()) &&
        (!ofEqualExtent || buffer::getExtent(other) == buffer::getExtent(buffer)))
      others.push_back(other);
  };
  for (Operation &before : llvm::make_range(op->getBlock()->begin(), op->getIterator()))
    llvm::for_each(before.getResults(), consider);
  for (Value argument : op->getBlock()->getArguments())
    consider(argument);
  return others;
}

// Two values get the same memory.
static bool shareSlot(Mutator &m) {
  auto others = [](buffer::SlotOp slot) {
    SmallVector<buffer::SlotOp> found;
    for (Operation *user : slot.getFrame().getUsers())
      if (auto other = dyn_cast<buffer::SlotOp>(user);
          other && other.getOffset() != slot.getOffset())
        found.push_back(other);
    return found;
  };
  auto slot = m.pick<buffer::SlotOp>([&](buffer::SlotOp s) { return !others(s).empty(); });
  if (!slot)
    return false;
  auto found = others(slot);
  slot.setOffsetAttr(m.drawFrom(found).getOffset());
  return true;
}

static bool shiftSlot(Mutator &m) {
  auto slot = m.pickAny<buffer::SlotOp>();
  if (slot)
    slot.setOffsetAttr(add(m, slot.getOffset(), m.draw(2) ? 64 : -64));
  return bool(slot);
}

static bool shiftPart(Mutator &m) {
  auto part = m.pickAny<buffer::PartOp>();
  if (part)
    part.setFromAttr(add(m, part.getFrom(), 1));
  return bool(part);
}

static bool smallFrame(Mutator &m) {
  auto push = m.pickAny<buffer::PushOp>();
  if (push)
    push.setBytesAttr(add(m, push.getBytes(), -64));
  return bool(push);
}

static bool wrongExtent(Mutator &m) {
  auto op = m.pick<Operation *>(
      [](Operation *o) { return bool(o->getAttrOfType<buffer::ExtentAttr>("extent")); });
  if (!op)
    return false;
  auto extent = op->getAttrOfType<buffer::ExtentAttr>("extent");
  op->setAttr("extent", buffer::ExtentAttr::get(m.context, add(m, extent.getElements(), -1),
                                                extent.getElement()));
  return true;
}

static bool earlyPop(Mutator &m) {
  auto pop = m.pick<buffer::PopOp>(
      [](buffer::PopOp p) { return p->getPrevNode() && !isa<buffer::PushOp>(p->getPrevNode()); });
  if (pop)
    pop->moveBefore(pop->getPrevNode());
  return bool(pop);
}

// Reads another value of the same size.
static bool staleBuffer(Mutator &m) {
  auto fits = [](Operation *op) {
    return llvm::any_of(getReads(op),
                        [&](OpOperand *read) { return !getOthers(op, read->get(), true).empty(); });
  };
  Operation *op = m.pick<Operation *>(fits);
  if (!op)
    return false;
  for (OpOperand *read : getReads(op))
    if (auto others = getOthers(op, read->get(), true); !others.empty()) {
      read->set(m.drawFrom(others));
      return true;
    }
  return false;
}

// Writes a result over another value.
static bool otherResult(Mutator &m) {
  auto others = [](Operation *op) {
    auto writes = getWrites(op);
    return writes.empty() ? SmallVector<Value>() : getOthers(op, writes[0]->get(), true);
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return !others(o).empty(); });
  if (!op)
    return false;
  auto found = others(op);
  getWrites(op)[0]->set(m.drawFrom(found));
  return true;
}

static bool inPlace(Mutator &m) {
  auto fits = [](Operation *op) {
    auto reads = getReads(op), writes = getWrites(op);
    return !writes.empty() &&
           llvm::any_of(reads, [&](OpOperand *read) { return read->get() != writes[0]->get(); });
  };
  Operation *op = m.pick<Operation *>(fits);
  if (!op)
    return false;
  auto reads = getReads(op);
  getWrites(op)[0]->set(m.drawFrom(reads)->get());
  return true;
}

template <SmallVector<OpOperand *> (*get)(Operation *)> static bool swapBuffers(Mutator &m) {
  auto findPair = [](Operation *op) -> std::pair<OpOperand *, OpOperand *> {
    auto list = get(op);
    for (OpOperand *a : list)
      for (OpOperand *b : list)
        if (a->get() != b->get() &&
            buffer::getExtent(a->get()).getElement() == buffer::getExtent(b->get()).getElement())
          return {a, b};
    return {};
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return findPair(o).first; });
  if (!op)
    return false;
  auto [a, b] = findPair(op);
  Value first = a->get();
  a->set(b->get());
  b->set(first);
  return true;
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

static bool dropCopy(Mutator &m) {
  auto copy = m.pickAny<buffer::CopyOp>();
  if (!copy)
    return false;
  m.location = copy->getParentOp();
  copy.erase();
  return true;
}

static bool dropCall(Mutator &m) {
  Operation *op = m.pick<Operation *>(isRuntimeCall);
  if (!op)
    return false;
  m.location = op->getParentOp();
  op->erase();
  return true;
}

static bool duplicateCall(Mutator &m) {
  Operation *op =
      m.pick<Operation *>([](Operation *o) { return isRuntimeCall(o) && !isa<buffer::CopyOp>(o); });
  if (op)
    m.builder.clone(*op);
  return op;
}

static bool reorderCalls(Mutator &m) {
  auto previous = [](Operation *op) {
    Operation *before = isRuntimeCall(op) ? op->getPrevNode() : nullptr;
    return before && isRuntimeCall(before) ? before : nullptr;
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return previous(o) != nullptr; });
  if (op)
    op->moveBefore(previous(op));
  return op;
}

/// Returns the sizes and counts of an op, except `grain`, which has no effect on results.
static SmallVector<NamedAttribute> getCounts(Operation *op) {
  SmallVector<NamedAttribute> counts;
  if (isRuntimeCall(op) || isa<buffer::MicroBatchesOp>(op))
    for (NamedAttribute attr : op->getAttrs())
      if (isa<buffer::ExprAttr>(attr.getValue()) && attr.getName() != "grain")
        counts.push_back(attr);
  return counts;
}

static bool wrongCount(Mutator &m) {
  Operation *op = m.pick<Operation *>([](Operation *o) { return !getCounts(o).empty(); });
  if (!op)
    return false;
  auto counts = getCounts(op);
  NamedAttribute attr = m.drawFrom(counts);
  op->setAttr(attr.getName(), add(m, cast<buffer::ExprAttr>(attr.getValue()), 1));
  return true;
}

// Replaces a symbolic count by 24, which is right at the sizes of some tests.
static bool foldedCount(Mutator &m) {
  auto isSymbolic = [](NamedAttribute attr) {
    auto expr = cast<buffer::ExprAttr>(attr.getValue()).getExpr();
    return !expr.isConstant();
  };
  Operation *op =
      m.pick<Operation *>([&](Operation *o) { return llvm::any_of(getCounts(o), isSymbolic); });
  if (!op)
    return false;
  for (NamedAttribute attr : getCounts(op))
    if (isSymbolic(attr)) {
      op->setAttr(attr.getName(), buffer::ExprAttr::get(m.context, SymExpr(24)));
      return true;
    }
  return false;
}

static bool wrongAxes(Mutator &m) {
  auto other = [&](Operation *op) -> StringAttr {
    auto axes = op->getAttrOfType<ArrayAttr>("axes");
    if (!isRuntimeCall(op) || !axes || !m.grid)
      return {};
    for (StringAttr axis : m.grid.getOrder())
      if (!llvm::is_contained(axes, axis))
        return axis;
    return {};
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return bool(other(o)); });
  if (op)
    op->setAttr("axes", m.builder.getArrayAttr({other(op)}));
  return op;
}

static bool sumToMax(Mutator &m) {
  Operation *op =
      m.pick<Operation *>([](Operation *o) { return isRuntimeCall(o) && o->hasAttr("kind"); });
  if (op)
    op->setAttr("kind", ReductionKindAttr::get(m.context, ReductionKind::Max));
  return op;
}

static bool wrongKernel(Mutator &m) {
  auto other = [&](buffer::LaunchOp launch) -> func::FuncOp {
    auto mine = m.module.lookupSymbol<func::FuncOp>(launch.getKernel());
    for (auto function : m.module.getOps<func::FuncOp>())
      if (mine && function != mine && function->hasAttr(kKernelAttr) &&
          function.getFunctionType() == mine.getFunctionType())
        return function;
    return {};
  };
  auto launch = m.pick<buffer::LaunchOp>([&](buffer::LaunchOp l) { return bool(other(l)); });
  if (launch)
    launch.setKernel(other(launch).getName());
  return bool(launch);
}

static bool wrongFunction(Mutator &m) {
  auto other = [&](buffer::CallOp call) -> buffer::FuncOp {
    auto mine = m.module.lookupSymbol<buffer::FuncOp>(call.getCallee());
    for (auto function : m.module.getOps<buffer::FuncOp>())
      if (mine && function != mine && !function.getStage() &&
          function.getArgs() == mine.getArgs() &&
          function.getResultExtents() == mine.getResultExtents())
        return function;
    return {};
  };
  auto call = m.pick<buffer::CallOp>([&](buffer::CallOp c) { return bool(other(c)); });
  if (call)
    call.setCallee(other(call).getSymName());
  return bool(call);
}

static bool wrongParameter(Mutator &m) {
  auto fits = [](buffer::ParameterOp p, buffer::ParameterOp other) {
    return p != other && p->getBlock() == other->getBlock() && p.getEntry() != other.getEntry();
  };
  auto others = [&](buffer::ParameterOp p) {
    SmallVector<buffer::ParameterOp> found;
    for (auto other : p->getBlock()->getOps<buffer::ParameterOp>())
      if (fits(p, other))
        found.push_back(other);
    return found;
  };
  auto parameter =
      m.pick<buffer::ParameterOp>([&](buffer::ParameterOp p) { return !others(p).empty(); });
  if (!parameter)
    return false;
  auto found = others(parameter);
  parameter.setEntry(m.drawFrom(found).getEntry());
  return true;
}

// Loads another weight of the same type.
static bool wrongEntry(Mutator &m) {
  auto other = [&](buffer::EntryOp entry) -> WeightOp {
    auto mine = m.module.lookupSymbol<WeightOp>(entry.getLoad().getWeight());
    for (auto weight : m.module.getOps<WeightOp>())
      if (mine && weight != mine && weight.getType() == mine.getType())
        return weight;
    return {};
  };
  auto entry = m.pick<buffer::EntryOp>([&](buffer::EntryOp e) { return bool(other(e)); });
  if (!entry)
    return false;
  buffer::LoadAttr load = entry.getLoad();
  entry.setLoadAttr(buffer::LoadAttr::get(m.context, load.getUse(), other(entry).getSymNameAttr(),
                                          load.getView(), load.getType()));
  return true;
}

static bool wrongInput(Mutator &m) {
  auto input = m.pickAny<buffer::InputOp>();
  if (input)
    input.setIndex(input.getIndex() ? input.getIndex() - 1 : 1);
  return bool(input);
}

// Uses the memory of another cache.
static bool wrongState(Mutator &m) {
  SmallVector<buffer::StateOp> states;
  m.module.walk([&](buffer::StateOp op) { states.push_back(op); });
  auto state = m.pick<buffer::StateOp>([&](buffer::StateOp op) {
    return llvm::any_of(states, [&](buffer::StateOp o) { return o.getCache() != op.getCache(); });
  });
  if (!state)
    return false;
  llvm::erase_if(states, [&](buffer::StateOp o) { return o.getCache() == state.getCache(); });
  state.setCacheAttr(m.drawFrom(states).getCacheAttr());
  return true;
}

// Removes or changes the epilogue of a matmul.
static bool wrongEpilogue(Mutator &m) {
  auto product = m.pickAny<buffer::ProductOp>();
  if (!product)
    return false;
  auto parts = product.getMatmuls();
  buffer::ProductOp::Matmul &part = m.drawFrom(parts);
  if (part.residual && m.draw(2))
    part.residual = {};
  else if (part.bias && m.draw(2))
    part.bias = {};
  else
    part.epilogue =
        part.epilogue == buffer::Epilogue::None ? buffer::Epilogue::Relu : buffer::Epilogue::None;
  product.setMatmuls(parts);
  return true;
}

// Two merged matmuls exchange a parameter, a bias, an epilogue or a result.
static bool swapParts(Mutator &m) {
  auto product =
      m.pick<buffer::ProductOp>([](buffer::ProductOp p) { return p.getMatmuls().size() > 1; });
  if (!product)
    return false;
  auto parts = product.getMatmuls();
  size_t i = m.draw(parts.size()), j = (i + 1 + m.draw(parts.size() - 1)) % parts.size();
  buffer::ProductOp::Matmul &a = parts[i], &b = parts[j];
  unsigned field = m.draw(4);
  if (field == 1 && a.bias != b.bias)
    std::swap(a.bias, b.bias);
  else if (field == 2 && a.epilogue != b.epilogue)
    std::swap(a.epilogue, b.epilogue);
  else if (field == 3)
    std::swap(a.to, b.to);
  else
    std::swap(a.parameter, b.parameter);
  product.setMatmuls(parts);
  return true;
}

// Removes one of several merged matmuls.
static bool dropPart(Mutator &m) {
  auto product =
      m.pick<buffer::ProductOp>([](buffer::ProductOp p) { return p.getMatmuls().size() > 1; });
  if (!product)
    return false;
  auto parts = product.getMatmuls();
  parts.erase(parts.begin() + m.draw(parts.size()));
  product.setMatmuls(parts);
  return true;
}

static bool wrongPeer(Mutator &m) {
  auto isPeer = [](NamedAttribute attr) {
    return isa<IntegerAttr>(attr.getValue()) &&
           (attr.getName() == "to" || attr.getName() == "from" || attr.getName() == "root" ||
            attr.getName() == "index");
  };
  Operation *op = m.pick<Operation *>(
      [&](Operation *o) { return isRuntimeCall(o) && llvm::any_of(o->getAttrs(), isPeer); });
  if (!op)
    return false;
  for (NamedAttribute attr : op->getAttrs())
    if (isPeer(attr))
      op->setAttr(attr.getName(),
                  m.builder.getI64IntegerAttr(cast<IntegerAttr>(attr.getValue()).getInt() + 1));
  return true;
}

// Changes a list of sizes of an output, an exchange or attention.
static bool wrongList(Mutator &m) {
  auto lists = [](Operation *op) {
    SmallVector<NamedAttribute> found;
    if (isRuntimeCall(op))
      for (NamedAttribute attr : op->getAttrs())
        if (auto list = dyn_cast<ArrayAttr>(attr.getValue());
            list && !list.empty() && llvm::all_of(list, llvm::IsaPred<buffer::ExprAttr>))
          found.push_back(attr);
    return found;
  };
  Operation *op = m.pick<Operation *>([&](Operation *o) { return !lists(o).empty(); });
  if (!op)
    return false;
  auto found = lists(op);
  NamedAttribute attr = m.drawFrom(found);
  SmallVector<Attribute> list(cast<ArrayAttr>(attr.getValue()).getValue());
  Attribute &entry = list[m.seed % list.size()];
  entry = add(m, cast<buffer::ExprAttr>(entry), 1);
  op->setAttr(attr.getName(), m.builder.getArrayAttr(list));
  return true;
}

ArrayRef<Mutation> mutate::getBufferMutations() {
  static constexpr Mutation mutations[] = {
      {"buffer-share-slot", "two values share a slot", shareSlot},
      {"buffer-shift-slot", "a slot begins 64 bytes later or earlier", shiftSlot},
      {"buffer-shift-part", "a part begins an element later", shiftPart},
      {"buffer-small-frame", "a frame is too small", smallFrame},
      {"buffer-wrong-extent", "a buffer has another size", wrongExtent},
      {"buffer-early-pop", "a frame is released before its last use", earlyPop},
      {"buffer-stale-place", "another value is read", staleBuffer},
      {"buffer-other-result", "a result is written over another value", otherResult},
      {"buffer-in-place", "a result is written over an operand", inPlace},
      {"buffer-swap-operands", "two operands are exchanged", swapBuffers<getReads>},
      {"buffer-swap-results", "two results are exchanged", swapBuffers<getWrites>},
      {"buffer-drop-copy", "a copy is removed", dropCopy},
      {"buffer-drop-call", "a call is removed", dropCall},
      {"buffer-duplicate-call", "a call is repeated", duplicateCall},
      {"buffer-reorder-calls", "two calls are exchanged", reorderCalls},
      {"buffer-wrong-count", "a count is off by one", wrongCount},
      {"buffer-folded-count", "a symbolic size is replaced by a number", foldedCount},
      {"buffer-wrong-list", "an offset, a stride or a size is off by one", wrongList},
      {"buffer-wrong-axes", "a collective uses another axis", wrongAxes},
      {"buffer-sum-to-max", "a sum is replaced by a maximum", sumToMax},
      {"buffer-wrong-kernel", "another kernel of equal signature is launched", wrongKernel},
      {"buffer-wrong-function", "another function of equal signature is called", wrongFunction},
      {"buffer-wrong-parameter", "another parameter is used", wrongParameter},
      {"buffer-wrong-entry", "another weight is loaded", wrongEntry},
      {"buffer-wrong-input", "another input is read", wrongInput},
      {"buffer-wrong-state", "the memory of another cache is used", wrongState},
      {"buffer-wrong-epilogue", "a matmul has another epilogue, or none", wrongEpilogue},
      {"buffer-swap-parts",
       "two merged matmuls exchange a parameter, a bias, an epilogue or a result", swapParts},
      {"buffer-drop-part", "one of several merged matmuls is removed", dropPart},
      {"buffer-wrong-peer", "a peer, a root, or the index of an output is larger by one",
       wrongPeer},
  };
  return mutations;
}
