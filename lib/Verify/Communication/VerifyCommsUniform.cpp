//===- VerifyCommsUniform.cpp - Uniformity of loops and branches ----------===//
//
// Computes for each value the set of axes along which ranks may have different values. For inputs
// and constants it is empty; for a slice (local_slice, a split parameter) it has the axes of the
// split; for other ops it is the union over the operands. A collective whose result is equal on all
// members removes the group's axes.
//
// A collective in a branch or loop is valid only if the axes of its group are disjoint from the
// axes of the condition or the trip count.
//
//===----------------------------------------------------------------------===//

#include "VerifyComms.h"
#include "tpc/Dialect/Async.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/Support/JSON.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::comms;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

// The trip count of a rank is its number of non-empty micro-batches.
AxisMask comms::getLoopAxes(const Schedule &schedule, MicroBatchesOp loop) {
  DimAttr batch = loop.getBatchAttr();
  if (!batch)
    return 0;
  AxisMask all = schedule.getMask(batch.getAllAxes());
  if (!all)
    return 0;
  AxisMask uneven = getSizeAxes(schedule, batch);
  if (!uneven)
    return 0;
  MeshAttr grid = schedule.getGrid();
  std::optional<int64_t> size = batch.getExpr().asConstant();
  if (!size || batch.getFactors().size() != 1 || !batch.getAxes().empty())
    return uneven;
  // If every micro-batch has samples, no rank skips an iteration.
  int64_t parts = 1;
  for (StringAttr axis : batch.getFactors()[0].getAxes())
    if (llvm::MulOverflow(parts, grid.getAxisSize(axis.getValue()), parts))
      return uneven;
  return *size >= parts ? 0 : uneven;
}

bool comms::haveSameTripCount(const Schedule &schedule, MicroBatchesOp a, MicroBatchesOp b) {
  if (!a || !b)
    return !a && !b;
  if (a.getBatchAttr() == b.getBatchAttr())
    return !a.getBatchAttr() ||
           !(schedule.getMask(a.getBatchAttr().getAllAxes()) & schedule.getMask(kPipelineAxis));
  return false;
}

namespace {

/// Axes along which control flow may diverge at a loop or branch.
struct Control {
  AxisMask axes;
  Operation *op; // the loop or branch
};

class Checker {
public:
  explicit Checker(const Schedule &schedule) : schedule(schedule) {
    for (const auto &[function, items] : schedule.getFunctions())
      communicates.insert(function);
  }

  LogicalResult run();

private:
  using Masks = DenseMap<Value, AxisMask>;
  AxisMask ofOperands(Operation *op, const Masks &masks) const;
  LogicalResult runBlock(Block &block, Masks &masks, SmallVector<AxisMask> &results);
  LogicalResult runOp(Operation *op, Masks &masks);
  LogicalResult runCall(func::CallOp call, Masks &masks);
  LogicalResult runBranch(scf::IfOp branch, Masks &masks);
  LogicalResult checkControl(Operation *op);

  const Schedule &schedule;
  DenseSet<Operation *> communicates;
  SmallVector<Control> controls; // enclosing loops and branches, outermost first
  /// Result axes by function, axes of arguments, and axes of the enclosing control flow.
  std::map<std::pair<Operation *, std::vector<AxisMask>>, SmallVector<AxisMask>> known;
  std::map<std::pair<int64_t, int64_t>, SmallVector<AxisMask>> sent; // by sender and receiver stage
  std::map<std::pair<int64_t, int64_t>, size_t> received;
};

} // namespace

AxisMask Checker::ofOperands(Operation *op, const Masks &masks) const {
  AxisMask mask = 0;
  for (Value operand : op->getOperands())
    mask |= masks.lookup(operand);
  return mask;
}

/// Returns a text that identifies the communication of `items` over groups that have several
/// coordinates on `axes`.
static std::string listAffected(const Schedule &schedule, const Schedule::Items &items,
                                AxisMask axes) {
  std::string text;
  llvm::raw_string_ostream os(text);
  for (const Item &item : items) {
    switch (item.kind) {
    case Item::Kind::Comm:
      if (!isCollective(item.op) || (schedule.getMask(getGroupAxes(item.op)) & axes))
        os << llvm::json::Value(describeCommunication(item.op));
      break;
    case Item::Kind::Call:
      os << func::FuncOp(item.callee).getName() << ";"; // callees are compared by name
      break;
    case Item::Kind::Output:
      break;
    default: // loops and branches are compared by identity, and checked separately
      os << item.op;
    }
  }
  return text;
}

LogicalResult Checker::checkControl(Operation *op) {
  MeshAttr grid = schedule.getGrid();
  AxisMask group = schedule.getMask(getGroupAxes(op));
  for (const Control &control : controls) {
    AxisMask apart = control.axes & group;
    if (!apart)
      continue;
    bool isLoop = isa<MicroBatchesOp>(control.op);
    StringRef axis = schedule.getNames(apart)[0];
    Coordinates a, b{{axis, grid.getAxisSize(axis) - 1}};
    InFlightDiagnostic diag = op->emitError()
                              << opText(op) << ": not all members of its group over "
                              << axesText(schedule, group) << " reach it: " << rankText(grid, a)
                              << " and " << rankText(grid, b)
                              << (isLoop ? " may have a different number of micro-batches"
                                         : " may take different branches");
    diag.attachNote(control.op->getLoc())
        << (isLoop ? "each replica runs this loop once for each micro-batch that is not empty"
                   : "the condition depends on the coordinate of " + axesText(schedule, apart));
    return diag;
  }
  return success();
}

LogicalResult Checker::runCall(func::CallOp call, Masks &masks) {
  auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
  std::vector<AxisMask> key;
  for (Value operand : call.getOperands())
    key.push_back(masks.lookup(operand));
  AxisMask around = 0;
  for (const Control &control : controls)
    around |= control.axes;
  key.push_back(around);
  auto [it, isNew] = known.try_emplace({callee.getOperation(), key});
  if (isNew) {
    Masks inner;
    for (auto [i, argument] : llvm::enumerate(callee.getArguments()))
      inner[argument] = key[i];
    SmallVector<AxisMask> results;
    if (failed(runBlock(callee.front(), inner, results)))
      return failure();
    it = known.find({callee.getOperation(), key});
    it->second = results;
  }
  for (auto [result, mask] : llvm::zip_equal(call.getResults(), it->second))
    masks[result] = mask;
  return success();
}

LogicalResult Checker::runBranch(scf::IfOp branch, Masks &masks) {
  AxisMask condition = masks.lookup(branch.getCondition());
  // If both branches have the same communication in the same order, divergence has no effect on
  // other ranks.
  bool areEqual = false;
  auto project = [&](Region &region) {
    Schedule::Items items;
    if (!region.empty())
      for (Operation &op : region.front()) {
        if (isCollective(&op) || isa<SendOp, RecvOp>(op))
          items.push_back({Item::Kind::Comm, &op, {}, {}, {}});
        else if (auto call = dyn_cast<func::CallOp>(op)) {
          auto callee =
              SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
          if (communicates.contains(callee))
            items.push_back({Item::Kind::Call, call, callee, {}, {}});
        } else if (isa<scf::IfOp>(op)) {
          items.push_back({Item::Kind::Branch, &op, {}, {}, {}});
        }
      }
    return listAffected(schedule, items, condition);
  };
  if (condition)
    areEqual = project(branch.getThenRegion()) == project(branch.getElseRegion());
  controls.push_back({areEqual ? 0 : condition, branch});
  SmallVector<AxisMask> yields[2];
  for (auto [i, region] : llvm::enumerate(branch->getRegions()))
    if (!region.empty() && failed(runBlock(region.front(), masks, yields[i])))
      return failure();
  controls.pop_back();
  for (auto [i, result] : llvm::enumerate(branch.getResults()))
    masks[result] = condition | yields[0][i] | yields[1][i];
  return success();
}

LogicalResult Checker::runOp(Operation *op, Masks &masks) {
  if (auto call = dyn_cast<func::CallOp>(op))
    return runCall(call, masks);
  if (auto branch = dyn_cast<scf::IfOp>(op))
    return runBranch(branch, masks);
  if (auto loop = dyn_cast<MicroBatchesOp>(op)) {
    controls.push_back({getLoopAxes(schedule, loop), loop});
    SmallVector<AxisMask> none;
    LogicalResult result = runBlock(loop.getBody().front(), masks, none);
    controls.pop_back();
    return result;
  }

  if (isa<SendOp, RecvOp>(op)) {
    for (const Control &control : controls)
      if (isa<scf::IfOp>(control.op)) {
        InFlightDiagnostic diag =
            op->emitError() << opText(op)
                            << ": a transfer is in a branch; whether the other stage takes the "
                               "same branch is unknown";
        diag.attachNote(control.op->getLoc()) << "this branch";
        return diag;
      }
    int64_t stage = op->getParentOfType<StageOp>().getIndex();
    if (auto send = dyn_cast<SendOp>(op)) {
      sent[{stage, int64_t(send.getTo())}].push_back(masks.lookup(send.getValue()));
    } else {
      // Stages are visited in order, so values received from later stages are unknown.
      auto recv = cast<RecvOp>(op);
      std::pair<int64_t, int64_t> key{int64_t(recv.getFrom()), stage};
      size_t index = received[key]++;
      auto &list = sent[key];
      masks[recv.getResult()] = index < list.size() ? list[index] : ~AxisMask(0);
    }
    return success();
  }

  AxisMask mask = ofOperands(op, masks);
  if (isCollective(op)) {
    if (failed(checkControl(op)))
      return failure();
    AxisMask group = schedule.getMask(getGroupAxes(op));
    // The result of these collectives is equal on all members.
    if (isa<AllReduceOp, AllReduceStartOp, AllGatherOp, BroadcastOp>(op))
      mask &= ~group;
    else
      mask |= group;
  } else if (auto slice = dyn_cast<LocalSliceOp>(op)) {
    mask |= schedule.getMask(slice.getAxes());
  } else if (op->getNumOperands() == 0) {
    // A source, such as a weight: each rank has its own slice.
    for (Type type : op->getResultTypes())
      if (isa<RankedTensorType>(type))
        for (DimAttr dim : getDist(type).getDims())
          mask |= schedule.getMask(dim.getAllAxes());
  }
  for (Value result : op->getResults())
    masks[result] = mask;
  // Ops with regions that do not communicate: results depend on all values that the regions read.
  for (Region &region : op->getRegions())
    region.walk([&](Operation *inner) {
      for (Value result : op->getResults())
        masks[result] |= ofOperands(inner, masks);
    });
  return success();
}

LogicalResult Checker::runBlock(Block &block, Masks &masks, SmallVector<AxisMask> &results) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>()) {
      for (Value operand : op.getOperands())
        results.push_back(masks.lookup(operand));
      return success();
    }
    if (failed(runOp(&op, masks)))
      return failure();
  }
  return success();
}

LogicalResult Checker::run() {
  for (const auto &[stage, items] : schedule.getStages()) {
    Masks masks; // inputs are replicated
    SmallVector<AxisMask> none;
    if (failed(runBlock(StageOp(stage).getBody().front(), masks, none)))
      return failure();
  }
  return success();
}

LogicalResult comms::checkUniformity(const Schedule &schedule) { return Checker(schedule).run(); }
