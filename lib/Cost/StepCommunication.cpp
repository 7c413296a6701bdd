//===- StepCommunication.cpp - Seconds of collectives and messages --------===//

#include "tpc/Cost/StepCost.h"

#include "tpc/Buffer/Async.h"
#include "tpc/Support/Links.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::Machine;

int64_t StepEstimator::getRanksPerNode() const {
  return grid.getGpusPerNode() > 0 ? grid.getGpusPerNode() : grid.getWorldSize();
}

int64_t StepEstimator::getStride(StringRef axis) {
  int64_t stride = 1;
  for (auto [name, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
    if (name.getValue() == axis)
      break;
    stride *= size;
  }
  return stride;
}

/// Returns the axes joined by "-", in the grid's order.
std::string StepEstimator::getLabel(ArrayRef<StringRef> axes) {
  std::string label;
  for (StringAttr axis : grid.getOrder())
    if (llvm::is_contained(axes, axis.getValue()))
      label += (label.empty() ? "" : "-") + axis.getValue().str();
  return label;
}

StepEstimator::OpCost StepEstimator::addCollective(StringRef kind, ArrayRef<StringRef> axes,
                                                   double bytes) {
  OpCost cost;
  int64_t members = 1, stride = INT64_MAX;
  for (StringRef axis : axes) {
    members *= grid.getAxisSize(axis);
    stride = std::min(stride, getStride(axis));
  }
  if (members <= 1 || bytes <= 0)
    return cost;
  int64_t perNode = getRanksPerNode();
  int64_t inside = perNode >= grid.getWorldSize()
                       ? members
                       : std::clamp<int64_t>(perNode / std::max<int64_t>(1, stride), 1, members);
  llvm::Expected<Machine::Transfer> time = machine.getCollective(kind, members, inside, bytes);
  if (!time) {
    std::string why = llvm::toString(time.takeError());
    if (problem.empty())
      problem = why;
    return cost;
  }
  count(time->extrapolates);
  derivedError = std::max(derivedError, time->error);
  cost.seconds.tensor = time->seconds;
  cost.event = {kind.str(), getLabel(axes), "", int64_t(bytes), {}, 0};
  return cost;
}

/// Returns the cost of a collective or message. Gathers and scatters over several axes are one
/// collective for each axis, the innermost first. The bytes of exchanges are those of the report.
StepEstimator::OpCost StepEstimator::visitCommunication(Operation &op) {
  auto getElementBytes = [](Value operand) {
    return buffer::getExtent(operand).getElement().getIntOrFloatBitWidth() / 8;
  };
  auto getAxes = [](ArrayAttr list) {
    SmallVector<StringRef> axes;
    for (StringAttr axis : list.getAsRange<StringAttr>())
      axes.push_back(axis.getValue());
    return axes;
  };
  if (auto send = dyn_cast<buffer::SendOp>(op)) {
    OpCost cost;
    double bytes = double(evaluate(send.getCount()) * getElementBytes(send.getData()));
    bool crosses = ::tpc::crossesNodes(getStride(kPipelineAxis), grid.getAxisSize(kPipelineAxis),
                                       grid.getWorldSize(), getRanksPerNode());
    llvm::Expected<Machine::Transfer> time = machine.getSend(crosses, bytes);
    if (!time) {
      std::string why = llvm::toString(time.takeError());
      if (problem.empty())
        problem = why;
    } else if (bytes > 0) {
      count(time->extrapolates);
      cost.message = time->seconds;
      cost.event = {"send", kPipelineAxis.str(), "", int64_t(bytes), {}, 0};
    }
    return cost;
  }
  if (auto reduce = dyn_cast<buffer::AllReduceOp>(op))
    return addCollective("all_reduce", getAxes(reduce.getAxes()),
                         double(evaluate(reduce.getCount()) * getElementBytes(reduce.getFrom())));
  if (auto reduce = dyn_cast<buffer::AllReduceStartOp>(op))
    return addCollective("all_reduce", getAxes(reduce.getAxes()),
                         double(evaluate(reduce.getCount()) * getElementBytes(reduce.getFrom())));
  if (auto broadcast = dyn_cast<buffer::BroadcastOp>(op))
    return addCollective(
        "broadcast", getAxes(broadcast.getAxes()),
        double(evaluate(broadcast.getCount()) * getElementBytes(broadcast.getData())));
  auto addSteps = [&](StringRef kind, auto split, Value operand) {
    OpCost cost;
    SmallVector<StringRef> axes = getAxes(split.getAxes());
    int64_t others = 1;
    for (StringRef axis : axes)
      others *= grid.getAxisSize(axis);
    int64_t rest =
        evaluate(split.getOuter()) * evaluate(split.getInner()) * getElementBytes(operand);
    int64_t n = evaluate(split.getN());
    for (StringRef axis : llvm::reverse(axes)) {
      others /= grid.getAxisSize(axis);
      OpCost one = addCollective(kind, axis, double(rest * ((n + others - 1) / others)));
      cost += one;
      if (cost.event.kind.empty())
        cost.event = one.event;
      else
        cost.event.bytes += one.event.bytes;
    }
    return cost;
  };
  if (auto gather = dyn_cast<buffer::AllGatherOp>(op))
    return addSteps("all_gather", gather, gather.getFrom());
  if (auto scatter = dyn_cast<buffer::ReduceScatterOp>(op))
    return addSteps("reduce_scatter", scatter, scatter.getFrom());
  bool isRouted = isa<buffer::DispatchOp, buffer::CombineOp>(op);
  if (!report ||
      (!isRouted && !isa<buffer::AllToAllOp, buffer::CollectivePermuteOp, buffer::ExchangeOp>(op)))
    return {};
  // The average of the stage's collectives of this kind. An exchange in which each of n ranks sends
  // b bytes is an all-to-all of b n / (n - 1) bytes.
  StringRef kind = op.getName().stripDialect();
  for (const CollectiveRow &row : report->collectives)
    if (row.stage == stage && row.kind == kind && row.count > 0) {
      SmallVector<StringRef> axes;
      StringRef(row.axis).split(axes, '-');
      double bytes = double(row.bytes) / double(row.count), members = 1;
      if (!isRouted && !isa<buffer::ExchangeOp>(op))
        return addCollective(kind, axes, bytes);
      for (StringRef axis : axes)
        members *= double(grid.getAxisSize(axis));
      OpCost cost = addCollective("all_to_all", axes, bytes * members / std::max(1.0, members - 1));
      if (!cost.event.kind.empty()) {
        cost.event.kind = kind.str();
        cost.event.bytes = int64_t(bytes);
      }
      return cost;
    }
  return {};
}
