//===- LowerReshardsTest.cpp - Minimality of reshard collectives ----------===//
//
// The oracle is a shortest-path table over all distributions of a value of one to three dimensions
// over one or two axes. It shares no code with the pass. A distribution has, for each dimension,
// the ordered list of axes that split it, and the set of axes over which the value is unreduced.
// The result of the pass is read from the types of its ops.
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Transforms/Collectives/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include <gtest/gtest.h>

using namespace mlir;
using namespace mlir::tpc;

namespace {

using Stack = std::vector<int>; // axes, innermost last

struct Dist {
  std::vector<Stack> dims;
  std::set<int> unreduced;
  auto operator<=>(const Dist &) const = default;

  bool uses(int axis) const {
    return unreduced.count(axis) ||
           llvm::any_of(dims, [&](const Stack &stack) { return llvm::is_contained(stack, axis); });
  }
};

struct World {
  std::vector<int64_t> shape;
  std::vector<std::pair<std::string, int64_t>> axes; // names and sizes

  int64_t elements(const Dist &dist) const {
    int64_t count = 1;
    for (size_t d = 0; d < shape.size(); ++d) {
      int64_t size = shape[d];
      for (int axis : dist.dims[d])
        size = (size + axes[axis].second - 1) / axes[axis].second;
      count *= size;
    }
    return count;
  }
  int64_t ranks() const {
    int64_t count = 1;
    for (auto &[name, size] : axes)
      count *= size;
    return count;
  }
  std::string type(const Dist &dist) const {
    std::string text = "tensor<", dims, partial;
    for (size_t d = 0; d < shape.size(); ++d) {
      std::string size = std::to_string(shape[d]), split;
      for (int axis : dist.dims[d])
        split += (split.empty() ? "" : ", ") + axes[axis].first;
      text += size + "x";
      dims += (d ? ", " : "") + size + (split.empty() ? "" : "{" + split + "}");
    }
    for (int axis : dist.unreduced)
      partial += (partial.empty() ? "" : ", ") + axes[axis].first;
    bool plain = partial.empty() && dims.find('{') == std::string::npos;
    return text + "f32" +
           (plain ? ""
                  : ", #tpc.dist<[" + dims + "]" +
                        (partial.empty() ? "" : ", sum{" + partial + "}") + ">") +
           ">";
  }
};

/// Returns all distributions: with each axis in every position, in all orders.
std::vector<Dist> allDists(const World &world) {
  std::set<Dist> all;
  std::vector<int> order(world.axes.size());
  std::iota(order.begin(), order.end(), 0);
  do {
    std::vector<Dist> list = {Dist{std::vector<Stack>(world.shape.size()), {}}};
    for (int axis : order) {
      std::vector<Dist> next;
      for (const Dist &dist : list) {
        next.push_back(dist);
        next.push_back(dist);
        next.back().unreduced.insert(axis);
        for (size_t d = 0; d < world.shape.size(); ++d) {
          next.push_back(dist);
          next.back().dims[d].push_back(axis);
        }
      }
      list = std::move(next);
    }
    all.insert(list.begin(), list.end());
  } while (std::next_permutation(order.begin(), order.end()));
  return {all.begin(), all.end()};
}

/// Returns a rank's elements of a dimension of `size`.
std::set<int64_t> getElements(const World &world, int64_t size, const Stack &stack, int64_t rank) {
  int64_t begin = 0;
  for (int axis : stack) {
    int64_t stride = 1, parts = world.axes[axis].second;
    for (int before = 0; before < axis; ++before)
      stride *= world.axes[before].second;
    int64_t c = rank / stride % parts;
    // The first ranks have one element more if the size is no multiple.
    begin += c * (size / parts) + std::min(c, size % parts);
    size = size / parts + (c < size % parts);
  }
  std::set<int64_t> all;
  for (int64_t i = 0; i < size; ++i)
    all.insert(begin + i);
  return all;
}

/// Calls `use(next, sent)` for each distribution that one step makes from `dist`; `sent` is the
/// number of elements that a rank sends, times the number of ranks.
template <typename Use> void forEachStep(const World &world, const Dist &dist, Use use) {
  int64_t have = world.elements(dist), ranks = world.ranks();
  auto share = [&](int64_t whole, int64_t members) {
    return whole * (members - 1) * (ranks / members);
  };
  int count = world.axes.size();
  for (int axis = 0; axis < count; ++axis) {
    int64_t members = world.axes[axis].second;
    Dist reduced = dist;
    bool unreduced = reduced.unreduced.erase(axis);
    if (unreduced || !dist.uses(axis))
      for (Stack &stack : reduced.dims) { // reduce-scatter, slice
        stack.push_back(axis);
        use(reduced, unreduced ? share(have, members) : 0);
        stack.pop_back();
      }
  }
  for (int set = 1; set < 1 << count; ++set) { // all-reduce
    Dist reduced = dist;
    int64_t members = 1;
    for (int axis = 0; axis < count; ++axis)
      if (set >> axis & 1) {
        members *= reduced.unreduced.erase(axis) ? world.axes[axis].second : 0;
      }
    if (members)
      use(reduced, 2 * share(have, members));
  }
  for (size_t d = 0; d < dist.dims.size(); ++d) { // collective-permute
    Dist moved = dist;
    std::sort(moved.dims[d].begin(), moved.dims[d].end());
    do {
      int64_t most = 0;
      for (int64_t rank = 0; rank < ranks; ++rank) {
        std::set<int64_t> before = getElements(world, world.shape[d], dist.dims[d], rank),
                          after = getElements(world, world.shape[d], moved.dims[d], rank);
        most = std::max<int64_t>(
            most, llvm::count_if(before, [&](int64_t i) { return !after.count(i); }));
      }
      for (size_t other = 0; other < dist.dims.size(); ++other)
        if (other != d)
          most *= getElements(world, world.shape[other], dist.dims[other], 0).size();
      use(moved, most * ranks);
    } while (std::next_permutation(moved.dims[d].begin(), moved.dims[d].end()));
  }
  for (size_t d = 0; d < dist.dims.size(); ++d) { // all-gather, all-to-all
    if (dist.dims[d].empty())
      continue;
    Dist gathered = dist;
    int axis = gathered.dims[d].back();
    int64_t members = world.axes[axis].second;
    gathered.dims[d].pop_back();
    use(gathered, share(world.elements(gathered), members));
    for (size_t other = 0; other < dist.dims.size(); ++other)
      if (other != d) {
        gathered.dims[other].push_back(axis);
        use(gathered, share(have, members));
        gathered.dims[other].pop_back();
      }
  }
}

/// Returns the maximum over ranks of the elements of `to` that the rank does not have, over all
/// dimensions.
int64_t countLacking(const World &world, const Dist &from, const Dist &to) {
  int64_t most = 0;
  for (int64_t rank = 0; rank < world.ranks(); ++rank) {
    int64_t needed = 1, kept = 1;
    for (size_t d = 0; d < world.shape.size(); ++d) {
      std::set<int64_t> before = getElements(world, world.shape[d], from.dims[d], rank),
                        after = getElements(world, world.shape[d], to.dims[d], rank);
      needed *= after.size();
      kept *= llvm::count_if(after, [&](int64_t i) { return before.count(i); });
    }
    most = std::max(most, needed - kept);
  }
  return most;
}

/// Returns the minimum traffic from `from` to each distribution. Steps use only axes of `from` and
/// `to`.
std::map<Dist, int64_t> oracle(const World &world, ArrayRef<Dist> all, const Dist &from,
                               const Dist &to) {
  auto isRelevant = [&](const Dist &dist) {
    for (int axis = 0; axis < int(world.axes.size()); ++axis)
      if (dist.uses(axis) && !from.uses(axis) && !to.uses(axis))
        return false;
    return true;
  };
  std::map<Dist, int64_t> best = {{from, 0}};
  for (bool changed = true; changed;) {
    changed = false;
    for (auto [dist, sent] : std::map(best)) {
      auto reach = [&](const Dist &next, int64_t more) {
        // Other axes are not added and removed again by intermediate steps.
        if (!isRelevant(next))
          return;
        auto [it, isNew] = best.try_emplace(next, sent + more);
        if (!isNew && it->second <= sent + more)
          return;
        it->second = sent + more;
        changed = true;
      };
      forEachStep(world, dist, reach);
      for (const Dist &next : all) // exchange
        if (next.unreduced == dist.unreduced)
          reach(next, countLacking(world, dist, next) * world.ranks());
    }
  }
  return best;
}

/// Returns the elements that a rank sends for one op, times the number of ranks.
int64_t countSent(Operation &op, MeshAttr grid) {
  auto elements = [&](DistAttr dist) {
    int64_t count = 1;
    for (DimAttr dim : dist.getDims())
      count *= dim.getLocalSize(grid, {}, {}).value();
    return count;
  };
  if (isa<LocalSliceOp, func::ReturnOp>(op))
    return 0;
  if (auto permute = dyn_cast<CollectivePermuteOp>(op))
    return *getMaxSentBytes(permute, grid, {}, {}) / int64_t(sizeof(float)) * grid.getWorldSize();
  if (auto exchange = dyn_cast<ExchangeOp>(op))
    return *exchange.getMaxMemberBytes(grid, {}, {}) / int64_t(sizeof(float)) * grid.getWorldSize();
  auto axes = op.getAttrOfType<ArrayAttr>("axes").getAsRange<StringAttr>();
  int64_t members = 1;
  for (StringAttr axis : axes)
    members *= grid.getAxisSize(axis);
  int64_t ranks = grid.getWorldSize();
  DistAttr whole = getDist(op.getOperand(0));
  if (isa<AllGatherOp>(op))
    whole = getDist(op.getResult(0));
  else
    EXPECT_TRUE((isa<AllReduceOp, ReduceScatterOp, AllToAllOp>(op)));
  // A gather or scatter over two axes sends as much as two over one axis each, if sizes divide.
  int64_t sent = elements(whole) * (members - 1) * (ranks / members);
  return isa<AllReduceOp>(op) ? 2 * sent : sent;
}

void compare(const World &world) {
  std::vector<Dist> dists = allDists(world);
  std::vector<std::pair<Dist, Dist>> pairs;
  std::string text = "module attributes {tpc.mesh = #tpc.mesh<";
  for (auto &[name, size] : world.axes)
    text += name + " = " + std::to_string(size) + ", ";
  text += "pp = 1, mb = 1>} {\n";
  for (const Dist &from : dists)
    for (const Dist &to : dists) {
      // No step makes a partial sum from a whole value.
      if (!std::includes(from.unreduced.begin(), from.unreduced.end(), to.unreduced.begin(),
                         to.unreduced.end()))
        continue;
      std::string name = "@f" + std::to_string(pairs.size()), a = world.type(from),
                  b = world.type(to);
      text += "func.func " + name + "(%x: " + a + ") -> " + b + " {\n%y = tpc.reshard %x : " + a +
              " -> " + b + "\nreturn %y : " + b + "\n}\n";
      pairs.push_back({from, to});
    }
  text += "}\n";
  ASSERT_GT(pairs.size(), world.shape.size());

  MLIRContext context;
  context.loadDialect<TpcDialect, func::FuncDialect>();
  OwningOpRef<ModuleOp> module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
  PassManager pm(&context);
  pm.addPass(createLowerReshards(LowerReshardsOptions{/*allowReshard=*/true}));
  ASSERT_TRUE(succeeded(pm.run(*module)));

  MeshAttr grid = MeshAttr::lookup(*module);
  auto functions = module->getOps<func::FuncOp>();
  auto at = functions.begin();
  std::map<std::pair<Dist, std::set<int>>, std::map<Dist, int64_t>> known;
  for (auto &[from, to] : pairs) {
    func::FuncOp function = *at++;
    int64_t sent = 0;
    for (Operation &op : function.front())
      sent += countSent(op, grid);
    std::set<int> relevantAxes;
    for (int axis = 0; axis < int(world.axes.size()); ++axis)
      if (from.uses(axis) || to.uses(axis))
        relevantAxes.insert(axis);
    auto [it, isNew] = known.try_emplace({from, relevantAxes});
    if (isNew)
      it->second = oracle(world, dists, from, to);
    EXPECT_EQ(sent, it->second.at(to)) << "from " << world.type(from) << " to " << world.type(to);
  }
}

TEST(LowerReshards, IsMinimalOverOneAxis) {
  compare({{24}, {{"tp", 2}}});
  compare({{24, 24}, {{"tp", 3}}});
  compare({{24, 24, 24}, {{"tp", 4}}});
}

TEST(LowerReshards, IsMinimalOverTwoAxes) {
  compare({{24}, {{"tp", 2}, {"dp", 3}}});
  compare({{24, 24}, {{"tp", 4}, {"dp", 2}}});
  compare({{24, 24, 24}, {{"tp", 2}, {"dp", 4}}});
  // Dimensions of different sizes.
  compare({{8, 48, 16}, {{"tp", 4}, {"dp", 2}}});
}

} // namespace
