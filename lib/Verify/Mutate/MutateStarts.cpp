//===- MutateStarts.cpp - Faults in asynchronous communication ------------===//

#include "Mutate.h"
#include "tpc/Buffer/Async.h"
#include "tpc/Dialect/Async.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static bool dropWait(Mutator &m) {
  auto wait = m.pickAny<WaitOp>();
  if (!wait)
    return false;
  wait.getResult().replaceAllUsesWith(wait.getOperand());
  wait.erase();
  return true;
}

static bool repeatWait(Mutator &m) {
  auto wait = m.pickAny<WaitOp>();
  if (!wait)
    return false;
  m.builder.setInsertionPointAfter(wait);
  m.builder.clone(*wait);
  return true;
}

// An op reads the result in flight.
static bool readInFlight(Mutator &m) {
  auto wait = m.pickAny<WaitOp>();
  if (!wait || wait.getResult().use_empty())
    return false;
  SmallVector<OpOperand *> uses;
  for (OpOperand &use : wait.getResult().getUses())
    uses.push_back(&use);
  m.drawFrom(uses)->set(wait.getOperand());
  return true;
}

// Only some members wait.
static bool waitInBranch(Mutator &m) {
  auto wait = m.pick<WaitOp>([&](WaitOp) { return m.sizeOf("tp") > 1; });
  if (wait)
    m.wrapInBranch(wait, "tp");
  return bool(wait);
}

// Only some members start the operation.
static bool startInBranch(Mutator &m) {
  auto start = m.pick<AllReduceStartOp>([&](AllReduceStartOp) { return m.sizeOf("tp") > 1; });
  if (start)
    m.wrapInBranch(start, "tp");
  return bool(start);
}

// Some ranks start an operation before the previous all-reduce of the group, the others after it.
static bool reorderStarts(Mutator &m) {
  auto getPrevious = [](AllReduceStartOp start) {
    Operation *op = start->getPrevNode();
    while (op && !isa<AllReduceOp, AllReduceStartOp>(op))
      op = op->getPrevNode();
    return op;
  };
  auto start = m.pick<AllReduceStartOp>([&](AllReduceStartOp op) {
    return m.sizeOf("tp") > 1 && op.getResult().hasOneUse() && getPrevious(op);
  });
  if (!start)
    return false;
  Operation *previous = getPrevious(start);
  auto wait = cast<WaitOp>(*start.getResult().user_begin());
  OpBuilder &b = m.builder;
  Location loc = start.getLoc();
  auto branch = scf::IfOp::create(b, loc, start->getResultTypes(), m.makeIsFirst("tp"),
                                  /*withElseRegion=*/true);
  for (auto [block, first, second] :
       {std::tuple(branch.thenBlock(), start.getOperation(), previous),
        std::tuple(branch.elseBlock(), previous, start.getOperation())}) {
    b.setInsertionPointToEnd(block);
    Value result;
    SmallVector<Operation *> copies{b.clone(*first), b.clone(*second)};
    for (Operation *copy : copies) {
      Value value = copy->getResult(0);
      if (isa<AllReduceStartOp>(copy))
        value = WaitOp::create(b, loc, value);
      if (copy == copies[first != start])
        result = value;
    }
    scf::YieldOp::create(b, loc, result);
  }
  wait.getResult().replaceAllUsesWith(branch.getResult(0));
  wait.erase();
  start.erase();
  m.location = branch;
  return true;
}

// A blocking all-reduce replaces the start, so the wait is for a collective that is not in flight.
static bool waitForNothing(Mutator &m) {
  auto wait = m.pick<WaitOp>([](WaitOp op) {
    auto start = op.getOperand().getDefiningOp<AllReduceStartOp>();
    return start && start.getOperand().getDefiningOp();
  });
  if (!wait)
    return false;
  auto start = wait.getOperand().getDefiningOp<AllReduceStartOp>();
  m.builder.setInsertionPoint(start);
  Operation *blocking = AllReduceOp::create(m.builder, start.getLoc(), start.getType(),
                                            start.getOperand(), start.getAxesAttr());
  start.getResult().replaceAllUsesWith(blocking->getResult(0));
  start.erase();
  return true;
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

static bool dropBufferWait(Mutator &m) {
  auto wait = m.pickAny<buffer::WaitOp>();
  if (wait)
    wait.erase();
  return bool(wait);
}

static bool repeatBufferWait(Mutator &m) {
  auto wait = m.pickAny<buffer::WaitOp>();
  if (wait)
    m.builder.clone(*wait);
  return bool(wait);
}

static bool isCall(Operation *op) {
  return !isa<buffer::SlotOp, buffer::PartOp, buffer::ColumnsOp, buffer::ParameterOp,
              buffer::DenseOp>(op);
}

// The wait runs after the next call, which may read the result.
static bool lateWait(Mutator &m) {
  auto getNextCall = [](Operation *op) {
    do
      op = op->getNextNode();
    while (op && (!isCall(op) || isa<buffer::WaitOp>(op)));
    return op;
  };
  auto wait = m.pick<buffer::WaitOp>([&](buffer::WaitOp op) { return getNextCall(op) != nullptr; });
  if (wait)
    wait->moveAfter(getNextCall(wait));
  return bool(wait);
}

// A chunk is waited for before the next one is started.
static bool earlyWait(Mutator &m) {
  auto wait = m.pick<buffer::WaitOp>([](buffer::WaitOp op) {
    Operation *start = op.getToken().getDefiningOp();
    for (Operation *next = start->getNextNode(); next && next != op; next = next->getNextNode())
      if (isa<buffer::AllReduceStartOp>(next))
        return true;
    return false;
  });
  if (wait)
    wait->moveAfter(wait.getToken().getDefiningOp());
  return bool(wait);
}

// Two operations are started in the other order.
static bool swapStarts(Mutator &m) {
  auto getNext = [](buffer::AllReduceStartOp op) {
    Operation *next = op->getNextNode();
    while (next && !isa<buffer::AllReduceStartOp>(next))
      next = next->getNextNode();
    return cast_or_null<buffer::AllReduceStartOp>(next);
  };
  auto start = m.pick<buffer::AllReduceStartOp>(
      [&](buffer::AllReduceStartOp op) { return bool(getNext(op)); });
  if (!start)
    return false;
  auto next = getNext(start);
  Value from = start.getFrom(), to = start.getTo();
  buffer::ExprAttr count = start.getCountAttr();
  // The buffers of `next` must be defined before `start` uses them.
  for (Value memory : {next.getFrom(), next.getTo()})
    if (Operation *op = memory.getDefiningOp(); op && op->getBlock() == start->getBlock())
      op->moveBefore(start);
  start.getFromMutable().assign(next.getFrom());
  start.getToMutable().assign(next.getTo());
  start.setCountAttr(next.getCountAttr());
  next.getFromMutable().assign(from);
  next.getToMutable().assign(to);
  next.setCountAttr(count);
  return true;
}

// Memory in flight is overwritten, by its own contents or by those of new memory.
static bool writeInFlight(Mutator &m) {
  auto wait = m.pick<buffer::WaitOp>([](buffer::WaitOp op) { return op->getPrevNode(); });
  if (!wait)
    return false;
  auto start = wait.getToken().getDefiningOp<buffer::AllReduceStartOp>();
  Value memory = m.draw(2) ? start.getFrom() : start.getTo();
  auto extent = buffer::getExtent(memory);
  Location loc = start.getLoc();
  auto bytes = buffer::ExprAttr::get(m.context, extent.getBytes());
  auto frame = buffer::PushOp::create(
      m.builder, loc,
      buffer::ExprAttr::get(m.context,
                            SymExpr(64) *
                                SymExpr::floorDiv(extent.getBytes() + SymExpr(63), SymExpr(64))));
  auto slot = buffer::SlotOp::create(m.builder, loc, frame,
                                     buffer::ExprAttr::get(m.context, SymExpr(0)), extent);
  if (m.draw(3))
    buffer::CopyOp::create(m.builder, loc, memory, slot, bytes);
  buffer::CopyOp::create(m.builder, loc, slot, memory, bytes);
  buffer::PopOp::create(m.builder, loc, frame);
  return true;
}

// A chunk begins one element later.
static bool shiftChunk(Mutator &m) {
  auto part = m.pick<buffer::PartOp>([](buffer::PartOp op) {
    return llvm::any_of(op->getUsers(), [](Operation *user) {
      return isa<buffer::AllReduceStartOp, buffer::ProductOp>(user);
    });
  });
  if (part)
    part.setFromAttr(buffer::ExprAttr::get(m.context, part.getFrom().getExpr() + SymExpr(1)));
  return bool(part);
}

// An operation omits the last element of its chunk.
static bool shortChunk(Mutator &m) {
  auto start = m.pickAny<buffer::AllReduceStartOp>();
  if (start)
    start.setCountAttr(buffer::ExprAttr::get(m.context, start.getCount().getExpr() - SymExpr(1)));
  return bool(start);
}

// A wait is for another operation.
static bool waitForOther(Mutator &m) {
  auto getOther = [](buffer::WaitOp op) -> Value {
    for (Operation &other : *op->getBlock())
      if (auto start = dyn_cast<buffer::AllReduceStartOp>(other);
          start && start.getToken() != op.getToken() && start->isBeforeInBlock(op))
        return start.getToken();
    return {};
  };
  auto wait = m.pick<buffer::WaitOp>([&](buffer::WaitOp op) { return bool(getOther(op)); });
  if (wait)
    wait.getTokenMutable().assign(getOther(wait));
  return bool(wait);
}

ArrayRef<Mutation> mutate::getStartMutations() {
  static constexpr Mutation list[] = {
      {"async-drop-wait", "a started collective is not waited for", dropWait},
      {"async-repeat-wait", "a started collective is waited for twice", repeatWait},
      {"async-read-in-flight", "an op reads the result of a collective in flight", readInFlight},
      {"async-wait-in-branch", "a wait is in a branch that some ranks do not take", waitInBranch},
      {"async-start-in-branch", "a start is in a branch that some members do not take",
       startInBranch},
      {"async-reorder-starts", "some ranks start two operations in the other order", reorderStarts},
      {"async-wait-for-nothing", "a wait for a collective that is not in flight", waitForNothing},
      {"async-buffer-drop-wait", "a call that waits is removed", dropBufferWait},
      {"async-buffer-repeat-wait", "a token is waited for twice", repeatBufferWait},
      {"async-buffer-late-wait", "a wait runs after the next call, which may read the result",
       lateWait},
      {"async-buffer-early-wait", "a chunk is waited for before the next is started", earlyWait},
      {"async-buffer-swap-starts", "two chunks are started in the other order", swapStarts},
      {"async-buffer-write-in-flight", "memory of an operation in flight is written",
       writeInFlight},
      {"async-buffer-shift-chunk", "a chunk begins one element later", shiftChunk},
      {"async-buffer-short-chunk", "an operation omits the last element of its chunk", shortChunk},
      {"async-buffer-other-token", "a call waits for another operation", waitForOther},
  };
  return list;
}
