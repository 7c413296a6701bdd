//===- Reshard.cpp - Search for sequences of collectives ------------------===//
//
// A dimension's distribution is represented as stacks of axes: one for each factor, and one for the
// product of the factors. A step removes the top of a stack or pushes an axis onto it. The stacks
// of factors are accessible only if the product's stack is empty:
//
//   slice             an unused axis                     pushed onto a stack
//   reduce-scatter    an unreduced axis                  pushed onto a stack
//   all-reduce        unreduced axes                     removed
//   all-gather        the top of a stack                 removed
//   all-to-all        the top of a stack                 pushed onto a stack of another dimension
//   permute           a dimension's axes                 reordered, or moved to the target's stacks
//   exchange          anything                           the target, in one step
//
// Every step has positive cost, and the number of distributions is finite, so Dijkstra's algorithm
// finds the cheapest path. The caller decides whether the search may use exchanges.
//
//===----------------------------------------------------------------------===//

#include "tpc/Transforms/Collectives/Reshard.h"

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Exchange.h"

#include <queue>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

using Axes = SmallVector<StringAttr, 2>;

//===----------------------------------------------------------------------===//
// Dimensions as stacks
//===----------------------------------------------------------------------===//

namespace {
struct AxisStack {
  SymExpr size;
  Axes axes;
};
} // namespace

/// Returns the stacks of a dimension. Factors without axes are divided at boundaries of the other
/// dimension's factors.
static SmallVector<AxisStack> getStacks(DimAttr dim, DimAttr other) {
  auto toStacks = [](DimAttr attr) {
    SmallVector<AxisStack> list;
    for (FactorAttr factor : attr.getFactors())
      list.push_back({factor.getExpr(), Axes(factor.getAxes())});
    return list;
  };
  SmallVector<AxisStack> left = toStacks(dim), right = toStacks(other), stacks;
  std::reverse(left.begin(), left.end());
  std::reverse(right.begin(), right.end());
  // The lists are now minor to major. Divides the last entry into a minor part and, as the new last
  // entry, a major part of `size`.
  auto divide = [](SmallVector<AxisStack> &list, const SymExpr &size) {
    auto rest = list.back().size.divideExact(size);
    if (!rest)
      return false;
    list.back().size = *rest;
    list.push_back({size, {}});
    return true;
  };
  while (!left.empty() && !right.empty()) {
    if (left.back().size != right.back().size) {
      bool fits = divide(right, left.back().size) ||
                  (left.back().axes.empty() && divide(left, right.back().size));
      if (!fits)
        return toStacks(dim);
    }
    stacks.push_back(left.pop_back_val());
    right.pop_back();
  }
  while (!left.empty())
    stacks.push_back(left.pop_back_val());
  // The other dimension may end with split factors of size 1 (one head over eight ranks).
  for (const AxisStack &stack : right)
    if (stack.size.isConstant(1))
      stacks.push_back({stack.size, {}});
  return stacks;
}

static DimAttr join(MLIRContext *context, ArrayRef<AxisStack> stacks,
                    ArrayRef<StringAttr> product) {
  SmallVector<FactorAttr> factors;
  for (const AxisStack &stack : stacks)
    factors.push_back(FactorAttr::get(context, stack.size, stack.axes));
  return DimAttr::get(context, factors, product);
}

/// Returns the axes that can be removed next.
static Axes getTops(DimAttr dim) {
  if (!dim.getAxes().empty())
    return {dim.getAxes().back()};
  Axes tops;
  for (FactorAttr factor : dim.getFactors())
    if (!factor.getAxes().empty())
      tops.push_back(factor.getAxes().back());
  return tops;
}

static DimAttr removeTop(DimAttr dim, StringAttr axis) {
  if (!dim.getAxes().empty())
    return DimAttr::get(dim.getContext(), dim.getFactors(), dim.getAxes().drop_back());
  SmallVector<FactorAttr> factors(dim.getFactors());
  for (FactorAttr &factor : factors)
    if (!factor.getAxes().empty() && factor.getAxes().back() == axis)
      factor = FactorAttr::get(dim.getContext(), factor.getSize(), factor.getAxes().drop_back());
  return DimAttr::get(dim.getContext(), factors);
}

/// Returns all ways to push `axis` onto a stack: the product's stack or, if the product is not
/// split, the stack of a factor.
static SmallVector<DimAttr, 4> addTop(DimAttr dim, DimAttr target, StringAttr axis) {
  MLIRContext *context = dim.getContext();
  SmallVector<DimAttr, 4> result;
  SmallVector<AxisStack> stacks = getStacks(dim, target);
  if (dim.getAxes().empty())
    for (AxisStack &stack : stacks) {
      stack.axes.push_back(axis);
      result.push_back(join(context, stacks, {}));
      stack.axes.pop_back();
    }
  Axes product(dim.getAxes());
  product.push_back(axis);
  DimAttr whole = DimAttr::get(context, dim.getFactors(), product);
  if (!llvm::is_contained(result, whole))
    result.push_back(whole);
  return result;
}

/// Returns the possible results of a collective-permute: the dimension with the axes of one stack
/// in other orders, and `target` if it has the same axes.
static SmallVector<DimAttr, 4> getPermuted(DimAttr dim, DimAttr target) {
  SmallVector<DimAttr, 4> candidates, result;
  auto addOrders = [&](ArrayRef<StringAttr> stack,
                       function_ref<DimAttr(ArrayRef<StringAttr>)> make) {
    auto order = llvm::to_vector(llvm::seq<unsigned>(0, stack.size()));
    while (stack.size() > 1 && std::next_permutation(order.begin(), order.end())) {
      Axes axes;
      for (unsigned i : order)
        axes.push_back(stack[i]);
      candidates.push_back(make(axes));
    }
  };
  addOrders(dim.getAxes(), [&](ArrayRef<StringAttr> axes) {
    return DimAttr::get(dim.getContext(), dim.getFactors(), axes);
  });
  for (unsigned i = 0; i < dim.getFactors().size(); ++i)
    addOrders(dim.getFactors()[i].getAxes(), [&](ArrayRef<StringAttr> axes) {
      SmallVector<FactorAttr> factors(dim.getFactors());
      factors[i] = FactorAttr::get(dim.getContext(), factors[i].getSize(), axes);
      return DimAttr::get(dim.getContext(), factors, dim.getAxes());
    });
  candidates.push_back(target);
  for (DimAttr to : candidates)
    if (to != dim && dim.isSharded() && !to.usesAxis(kMicroBatchAxis) &&
        !llvm::is_contained(result, to) && BlockMove::get(dim, to, std::nullopt))
      result.push_back(to);
  return result;
}

/// Returns true if `target` is `dim` with additional axes.
static bool isExtendedBy(DimAttr dim, DimAttr target) {
  SmallVector<AxisStack> have = getStacks(dim, target), want = getStacks(target, dim);
  if (have.size() != want.size())
    return false;
  auto isPrefix = [](ArrayRef<StringAttr> a, ArrayRef<StringAttr> b) {
    return a.size() <= b.size() && b.take_front(a.size()) == a;
  };
  bool equal = true;
  for (auto [a, b] : llvm::zip(have, want)) {
    if (a.size != b.size || !isPrefix(a.axes, b.axes))
      return false;
    equal &= a.axes == b.axes;
  }
  return isPrefix(dim.getAxes(), target.getAxes()) && (equal || dim.getAxes().empty());
}

static DistAttr withoutPartial(DistAttr dist, ArrayRef<StringAttr> axes) {
  Axes rest;
  for (StringAttr axis : dist.getPartialAxes())
    if (!llvm::is_contained(axes, axis))
      rest.push_back(axis);
  if (rest.empty())
    return dist.withPartial({});
  return dist.withPartial(PartialAttr::get(dist.getContext(), dist.getPartial().getKind(), rest));
}

//===----------------------------------------------------------------------===//
// Search
//===----------------------------------------------------------------------===//

namespace {

class Search {
public:
  Search(const ReshardPlanner &planner, DistAttr from, DistAttr to, ReshardPlanner::Filter filter,
         bool exchanges);
  std::optional<ReshardPath> run();

private:
  struct Node {
    ReshardCost cost;
    DistAttr before;
    ReshardStep step;
    bool done = false;
  };
  void expand(DistAttr dist);
  void relax(DistAttr from, ReshardStep::Kind kind, Axes axes, int64_t dim, int64_t toDim,
             DistAttr next);

  const ReshardPlanner &planner;
  DistAttr from, to;
  ReshardPlanner::Filter filter;
  bool exchanges;
  Axes axes; // all axes of both distributions
  DenseMap<DistAttr, Node> nodes;
  int64_t found = 0;
  /// Entries of equal cost are ordered by discovery, so that the result is deterministic.
  using Entry = std::tuple<ReshardCost, int64_t, DistAttr>;
  struct Later {
    bool operator()(const Entry &a, const Entry &b) const {
      return std::tie(std::get<0>(a), std::get<1>(a)) > std::tie(std::get<0>(b), std::get<1>(b));
    }
  };
  std::priority_queue<Entry, std::vector<Entry>, Later> queue;
};

Search::Search(const ReshardPlanner &planner, DistAttr from, DistAttr to,
               ReshardPlanner::Filter filter, bool exchanges)
    : planner(planner), from(from), to(to), filter(filter), exchanges(exchanges) {
  for (DistAttr dist : {from, to}) {
    Axes all(dist.getPartialAxes());
    for (DimAttr dim : dist.getDims())
      llvm::append_range(all, dim.getAllAxes());
    for (StringAttr axis : all)
      if (!llvm::is_contained(axes, axis))
        axes.push_back(axis);
  }
}

void Search::relax(DistAttr before, ReshardStep::Kind kind, Axes over, int64_t dim, int64_t toDim,
                   DistAttr next) {
  if (kind != ReshardStep::Slice)
    for (StringAttr axis : over)
      if (!filter(kind, axis, before, dim))
        return;
  ReshardCost cost = nodes[before].cost + planner.getCost(kind, over, before, next);
  auto [it, isNew] = nodes.try_emplace(next);
  if (!isNew && it->second.cost <= cost)
    return;
  it->second = {cost, before, {kind, over, dim, toDim, next}};
  queue.push({cost, ++found, next});
}

void Search::expand(DistAttr dist) {
  auto dims = dist.getDims();
  // Exchanges are only tried to the target.
  if (exchanges)
    if (auto exchange = Exchange::get(dist, to))
      relax(dist, ReshardStep::Exchange, exchange->axes, -1, -1, to);
  auto forEachAdded = [&](StringAttr axis, auto &&use) {
    for (unsigned d = 0; d < dims.size(); ++d)
      for (DimAttr added : addTop(dims[d], to.getDims()[d], axis))
        use(d, added);
  };
  Axes reducible;
  for (StringAttr axis : axes) {
    if (!dist.usesAxis(axis.getValue())) {
      forEachAdded(axis, [&](unsigned d, DimAttr added) {
        // A slice over mb cannot be reversed, so it must be part of the target.
        if (axis.getValue() != kMicroBatchAxis || isExtendedBy(added, to.getDims()[d]))
          relax(dist, ReshardStep::Slice, {axis}, d, -1, withDim(dist, d, added));
      });
    } else if (dist.isUnreducedOver(axis.getValue()) && !to.isUnreducedOver(axis.getValue())) {
      reducible.push_back(axis);
      DistAttr reduced = withoutPartial(dist, {axis});
      if (!reduced.usesAxis(axis.getValue()))
        forEachAdded(axis, [&](unsigned d, DimAttr added) {
          relax(dist, ReshardStep::ReduceScatter, {axis}, d, -1, withDim(reduced, d, added));
        });
    }
  }
  // Tries all-reduces over every subset of the reducible axes.
  for (unsigned set = (1u << reducible.size()) - 1; set > 0; --set) {
    Axes over;
    for (auto [i, axis] : llvm::enumerate(reducible))
      if (set >> i & 1)
        over.push_back(axis);
    relax(dist, ReshardStep::AllReduce, over, -1, -1, withoutPartial(dist, over));
  }
  for (unsigned d = 0; d < dims.size(); ++d)
    for (StringAttr axis : getTops(dims[d])) {
      DistAttr popped = withDim(dist, d, removeTop(dims[d], axis));
      // While annotations still conflict, an axis may split two dimensions. Such an axis is not
      // moved, because it could then split one dimension twice.
      if (!popped.usesAxis(axis.getValue()))
        forEachAdded(axis, [&](unsigned other, DimAttr added) {
          if (other != d)
            relax(dist, ReshardStep::AllToAll, {axis}, d, other, withDim(popped, other, added));
        });
      relax(dist, ReshardStep::AllGather, {axis}, d, -1, popped);
    }
  for (unsigned d = 0; d < dims.size(); ++d)
    for (DimAttr moved : getPermuted(dims[d], to.getDims()[d])) {
      BlockMove::Axes over = BlockMove::get(dims[d], moved, std::nullopt)->getAxes();
      relax(dist, ReshardStep::Permute, Axes(over), d, -1, withDim(dist, d, moved));
    }
}

std::optional<ReshardPath> Search::run() {
  nodes[from];
  queue.push({{}, 0, from});
  while (!queue.empty()) {
    DistAttr dist = std::get<2>(queue.top());
    queue.pop();
    if (std::exchange(nodes[dist].done, true))
      continue;
    if (dist == to)
      break;
    expand(dist);
  }
  if (!nodes.contains(to))
    return std::nullopt;
  ReshardPath path;
  path.cost = nodes[to].cost;
  for (DistAttr at = to; at != from; at = nodes[at].before)
    path.steps.push_back(nodes[at].step);
  std::reverse(path.steps.begin(), path.steps.end());
  return path;
}

} // namespace

std::optional<ReshardPath> ReshardPlanner::search(DistAttr from, DistAttr to, Filter filter,
                                                  bool exchanges) const {
  return Search(*this, from, to, filter, exchanges).run();
}
