//===- MutateUpdates.cpp - Faults in updates of parameters in place -------===//

#include "Mutate.h"
#include "tpc/Kernel/Kernel.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;

/// Returns the results of a launch that are in the memory of a parameter.
static SmallVector<OpOperand *> getUpdates(Operation *op) {
  SmallVector<OpOperand *> found = getWrites(op);
  llvm::erase_if(found, [](OpOperand *write) {
    return !isa<buffer::LaunchOp>(write->getOwner()) ||
           !write->get().getDefiningOp<buffer::DenseOp>();
  });
  return found;
}

/// Returns the last op before `launch` that takes the parameter of one of its updates.
static Operation *findLastReader(Operation *launch) {
  Operation *last = nullptr;
  for (OpOperand *update : getUpdates(launch)) {
    auto dense = update->get().getDefiningOp<buffer::DenseOp>();
    for (Value value : {Value(dense.getResult()), Value(dense.getIndex())})
      for (Operation *user : value.getUsers())
        if (user->getBlock() == launch->getBlock() && user->isBeforeInBlock(launch) &&
            !isa<buffer::DenseOp>(user) && (!last || last->isBeforeInBlock(user)))
          last = user;
  }
  return last;
}

// A parameter is updated before its last read.
static bool updateEarly(Mutator &m) {
  Operation *launch =
      m.pick<Operation *>([](Operation *op) { return findLastReader(op) != nullptr; });
  if (!launch)
    return false;
  Operation *reader = findLastReader(launch);
  for (Value operand : launch->getOperands())
    if (auto slot = operand.getDefiningOp<buffer::SlotOp>();
        slot && slot->getBlock() == reader->getBlock() && reader->isBeforeInBlock(slot))
      slot->moveBefore(reader);
  launch->moveBefore(reader);
  return true;
}

static bool updateTwice(Mutator &m) {
  Operation *launch = m.pick<Operation *>([](Operation *op) { return !getUpdates(op).empty(); });
  if (launch)
    m.builder.clone(*launch);
  return launch;
}

// New elements are written to another parameter, or to a slot.
static bool updateOther(Mutator &m) {
  auto others = [](Operation *op) {
    auto updates = getUpdates(op);
    if (updates.empty())
      return SmallVector<Value>();
    auto found = getOthers(op, updates[0]->get(), true);
    auto dense = updates[0]->get().getDefiningOp<buffer::DenseOp>();
    for (auto other : dense->getBlock()->getOps<buffer::DenseOp>())
      if (other != dense && other.getExtent() == dense.getExtent())
        found.push_back(other);
    return found;
  };
  Operation *launch = m.pick<Operation *>([&](Operation *op) { return !others(op).empty(); });
  if (!launch)
    return false;
  auto found = others(launch);
  getUpdates(launch)[0]->set(m.drawFrom(found));
  return true;
}

/// Picks a kernel with a result over an operand.
static kernel::FuncOp pickOverwriting(Mutator &m) {
  ModuleOp kernels = kernel::getKernels(m.module);
  SmallVector<kernel::FuncOp> found;
  if (kernels)
    for (auto function : kernels.getOps<kernel::FuncOp>())
      if (function.getOver())
        found.push_back(function);
  return m.choose(ArrayRef<kernel::FuncOp>(found));
}

static bool unmarkUpdate(Mutator &m) {
  kernel::FuncOp function = pickOverwriting(m);
  if (function)
    function.removeOverAttr();
  return bool(function);
}

// A result may have the memory of another operand than the one that it updates.
static bool markOther(Mutator &m) {
  kernel::FuncOp function = pickOverwriting(m);
  if (!function)
    return false;
  unsigned result = m.draw(function.getNumResults());
  function.setOverwritten(result, m.draw(function.getOperandMemory().size()));
  return true;
}

ArrayRef<Mutation> mutate::getUpdateMutations() {
  static constexpr Mutation mutations[] = {
      {"update-early", "a parameter is updated before its last read", updateEarly},
      {"update-twice", "a parameter is updated twice", updateTwice},
      {"update-other", "new elements are written to the memory of another value", updateOther},
      {"update-unmarked", "a kernel overwrites an operand that it may still read", unmarkUpdate},
      {"update-marks-other", "a kernel may overwrite another operand", markOther},
  };
  return mutations;
}
