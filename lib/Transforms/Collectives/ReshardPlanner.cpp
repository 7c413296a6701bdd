//===- ReshardPlanner.cpp - Costs and choice of reshard sequences ---------===//

#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Exchange.h"

using namespace mlir;
using namespace mlir::tpc;

using Axes = SmallVector<StringAttr, 2>;

//===----------------------------------------------------------------------===//
// Costs
//===----------------------------------------------------------------------===//

/// Limit on element counts, so that sums of a few counts, times the number of ranks, do not exceed
/// 64 bits.
static constexpr int64_t maxElements = int64_t(1) << 40;

int64_t ReshardPlanner::getElements(DistAttr dist) const {
  int64_t count = 1;
  for (DimAttr dim : dist.getDims())
    if (__builtin_mul_overflow(count, dim.getLocalSize(grid, {}, symbols).value_or(1), &count))
      return std::numeric_limits<int32_t>::max();
  return std::min(count, maxElements);
}

int64_t ReshardPlanner::getMaxMovedElements(DistAttr from, DistAttr to) const {
  auto exchange = Exchange::get(from, to);
  auto moved = exchange ? exchange->getMaxMovedElements(grid, {}, symbols) : std::nullopt;
  return std::min(moved.value_or(maxElements), maxElements);
}

ReshardCost ReshardPlanner::getCost(ReshardStep::Kind kind, ArrayRef<StringAttr> axes,
                                    DistAttr from, DistAttr to) const {
  if (kind == ReshardStep::Slice)
    return {0, 0, 1};
  if (kind == ReshardStep::Permute) {
    // For the permuted dimension, count the elements of the rank that sends the most.
    int64_t sent = 1;
    for (auto [before, after] : llvm::zip(from.getDims(), to.getDims())) {
      auto move = before == after ? std::nullopt : BlockMove::get(before, after, std::nullopt);
      auto part = move ? move->getMaxSentElements(grid, {}, symbols, std::nullopt)
                       : before.getLocalSize(grid, {}, symbols);
      if (__builtin_mul_overflow(sent, part.value_or(1), &sent))
        sent = std::numeric_limits<int32_t>::max();
    }
    return {std::min(sent, maxElements) * (grid ? grid.getWorldSize() : 1), 1, 0};
  }
  if (kind == ReshardStep::Exchange)
    return {getMaxMovedElements(from, to) * (grid ? grid.getWorldSize() : 1), 1, 0};
  int64_t members = 1, ranks = grid ? grid.getWorldSize() : 1;
  for (StringAttr axis : axes)
    if (axis.getValue() != kMicroBatchAxis)
      members *= grid ? grid.getAxisSize(axis.getValue()) : 1;
  // A rank sends (n - 1) / n of the whole buffer. Counts are multiplied by the world size, so that
  // they are exact integers.
  int64_t whole = getElements(kind == ReshardStep::AllGather ? to : from);
  int64_t sent = whole * (members - 1) * (ranks / members);
  if (kind == ReshardStep::AllReduce)
    return {2 * sent, 1, 0};
  return {sent, kind == ReshardStep::AllToAll ? 1 : int64_t(axes.size()), 0};
}

double ReshardPlanner::getSeconds(const ReshardStep &step, DistAttr from, double elementBytes,
                                  const LinkModel &links) const {
  using ::tpc::Transfer;
  auto seconds = [&](Transfer transfer, int64_t elements) {
    return links.getSeconds(transfer, step.axes, double(elements) * elementBytes);
  };
  switch (step.kind) {
  case ReshardStep::Slice:
    return 0;
  case ReshardStep::AllReduce:
    return seconds(Transfer::AllReduce, getElements(from));
  case ReshardStep::ReduceScatter:
    return seconds(Transfer::ReduceScatter, getElements(from));
  case ReshardStep::AllGather:
    return seconds(Transfer::AllGather, getElements(step.result));
  case ReshardStep::AllToAll:
    return seconds(Transfer::AllToAll, getElements(from));
  case ReshardStep::Permute:
    return seconds(Transfer::CollectivePermute,
                   getCost(step.kind, step.axes, from, step.result).sent /
                       (grid ? grid.getWorldSize() : 1));
  case ReshardStep::Exchange:
    return seconds(Transfer::Exchange, getMaxMovedElements(from, step.result));
  }
  llvm_unreachable("all kinds are handled");
}

//===----------------------------------------------------------------------===//
// Merging of steps
//===----------------------------------------------------------------------===//

/// Returns true if `axes` are the top of one stack of `dim`, innermost last.
static bool isOnOneStack(DimAttr dim, ArrayRef<StringAttr> axes) {
  auto endsWith = [&](ArrayRef<StringAttr> all) {
    return all.size() >= axes.size() && all.take_back(axes.size()) == axes;
  };
  if (!dim.getAxes().empty())
    return endsWith(dim.getAxes());
  return llvm::any_of(dim.getFactors(), [&](FactorAttr f) { return endsWith(f.getAxes()); });
}

/// Merges consecutive steps of one kind on one stack into one step.
static void mergeSteps(DistAttr from, SmallVectorImpl<ReshardStep> &steps) {
  // Slices of different dimensions commute, so the slices of each dimension are grouped.
  for (auto begin = steps.begin(); begin != steps.end();) {
    auto end = std::find_if(begin, steps.end(),
                            [](const ReshardStep &s) { return s.kind != ReshardStep::Slice; });
    for (auto at = begin; at != end; ++at)
      std::rotate(std::upper_bound(begin, at, *at, [](auto &a, auto &b) { return a.dim < b.dim; }),
                  at, std::next(at));
    begin = end == steps.end() ? end : std::next(end);
  }
  SmallVector<ReshardStep> merged;
  DistAttr dist = from;
  for (ReshardStep &step : steps) {
    if (step.kind == ReshardStep::Slice) // its position may have changed
      step.result = withDim(dist, step.dim, step.result.getDims()[step.dim]);
    if (!merged.empty() && merged.back().kind == step.kind && merged.back().dim == step.dim) {
      ReshardStep &last = merged.back();
      DistAttr before = merged.size() > 1 ? merged[merged.size() - 2].result : from;
      bool gathers = step.kind == ReshardStep::AllGather;
      Axes joint = gathers ? step.axes : last.axes;
      llvm::append_range(joint, gathers ? last.axes : step.axes);
      bool fits =
          gathers ? isOnOneStack(before.getDims()[step.dim], joint)
                  : (step.kind == ReshardStep::Slice || step.kind == ReshardStep::ReduceScatter) &&
                        isOnOneStack(step.result.getDims()[step.dim], joint);
      if (fits) {
        last.axes = joint;
        last.result = dist = step.result;
        continue;
      }
    }
    merged.push_back(step);
    dist = step.result;
  }
  steps = std::move(merged);
}

//===----------------------------------------------------------------------===//
// Choice of the path
//===----------------------------------------------------------------------===//

/// Returns the exact number of elements that ranks send on a path without reductions. The costs of
/// gathers and all-to-alls are upper bounds: they assume the largest shard for all ranks.
int64_t ReshardPlanner::getSentElements(DistAttr from, const ReshardPath &path) const {
  int64_t sent = 0;
  for (const ReshardStep &step : path.steps) {
    switch (step.kind) {
    case ReshardStep::AllGather:
    case ReshardStep::AllToAll:
    case ReshardStep::Permute:
    case ReshardStep::Exchange:
      sent += getMaxMovedElements(from, step.result) * (grid ? grid.getWorldSize() : 1);
      break;
    default:
      sent += getCost(step.kind, step.axes, from, step.result).sent;
    }
    from = step.result;
  }
  return sent;
}

std::optional<ReshardPath> ReshardPlanner::find(DistAttr from, DistAttr to, Filter filter) const {
  auto path = search(from, to, filter, /*exchanges=*/false);
  if (path)
    mergeSteps(from, path->steps);
  // A single collective sends only missing elements; a sequence may send more.
  if (path && path->steps.size() <= 1)
    return path;
  auto other = search(from, to, filter, /*exchanges=*/true);
  if (other)
    mergeSteps(from, other->steps);
  if (!path || (other && getSentElements(from, *other) < getSentElements(from, *path)))
    return other;
  return path;
}
