//===- World.cpp - Shared state of a run ----------------------------------===//

#include "World.h"
#include "Arithmetic.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

std::vector<int64_t> interpret::getIndices(ArrayRef<DimFactor> factors,
                                           ArrayRef<StringAttr> product, MeshAttr grid,
                                           llvm::function_ref<int64_t(StringAttr)> coordinate) {
  auto split = [&](std::vector<int64_t> list, ArrayRef<StringAttr> axes) {
    for (StringAttr axis : axes) {
      int64_t parts = grid.getAxisSize(axis.getValue());
      if (parts == 1)
        continue;
      int64_t c = coordinate(axis);
      auto begin = list.begin() + ::tpc::shardBegin(list.size(), parts, c);
      list = std::vector<int64_t>(begin, begin + ::tpc::shardSize(list.size(), parts, c));
    }
    return list;
  };
  std::vector<int64_t> list = {0};
  for (const DimFactor &factor : factors) {
    std::vector<int64_t> minors(std::max<int64_t>(0, factor.size)), next;
    std::iota(minors.begin(), minors.end(), 0);
    minors = split(std::move(minors), factor.axes);
    next.reserve(list.size() * minors.size());
    for (int64_t major : list)
      for (int64_t minor : minors)
        next.push_back(major * factor.size + minor);
    list = std::move(next);
  }
  return split(std::move(list), product);
}

bool interpret::isLocalProgram(ModuleOp module) {
  bool local = false;
  auto look = [&](Type type) { local |= isa<RankedTensorType>(type) && getDist(type).getLocal(); };
  module.walk([&](Operation *op) {
    local |= isa<PipelineOp>(op);
    llvm::for_each(op->getResultTypes(), look);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), look);
    return local ? WalkResult::interrupt() : WalkResult::advance();
  });
  return local;
}

World::World(ModuleOp module, MeshAttr grid, const Sizes &sizes)
    : module(module), grid(grid), sizes(sizes), local(isLocalProgram(module)) {
  for (auto weight : module.getOps<WeightOp>()) {
    std::string text;
    llvm::raw_string_ostream(text) << weight.getSymName() << " " << weight.getFile() << " "
                                   << weight.getOffset() << " " << weight.getType();
    weights.try_emplace(weight.getSymName(), Weight{weight, hashText(text)});
  }
}

const World::Weight &World::getWeight(StringRef name) {
  return weights.try_emplace(name, Weight{{}, 0}).first->second;
}

Coordinates World::getCoordinates(int64_t rank) const {
  Coordinates at;
  for (int64_t size : grid.getSizes()) {
    at.push_back(rank % size);
    rank /= size;
  }
  at.push_back(0);
  return at;
}

std::optional<unsigned> World::getPosition(StringAttr axis) const {
  ArrayRef<StringAttr> order = grid.getOrder();
  if (axis.getValue() == kMicroBatchAxis)
    return order.size();
  auto it = llvm::find(order, axis);
  return it == order.end() ? std::nullopt : std::optional<unsigned>(it - order.begin());
}

World::OfType &World::get(Type type) {
  std::unique_ptr<OfType> &known = types[type];
  if (known)
    return *known;
  known = std::make_unique<OfType>();
  known->dist = getDist(type);
  auto note = [&](ArrayRef<StringAttr> axes) {
    for (StringAttr axis : axes)
      if (std::optional<unsigned> position = getPosition(axis))
        known->axes.push_back(*position);
  };
  for (DimAttr dim : known->dist.getDims()) {
    int64_t size = 1;
    for (FactorAttr factor : dim.getFactors()) {
      size *= std::max<int64_t>(0, sizes.evaluate(factor.getExpr()));
      if (known->dist.getLocal())
        note(factor.getAxes());
    }
    if (known->dist.getLocal())
      note(dim.getAxes());
    known->whole.push_back(size);
  }
  return *known;
}

std::vector<int64_t> World::getIndices(DimAttr dim, const Coordinates &at, bool split) const {
  using Axes = ArrayRef<StringAttr>;
  SmallVector<DimFactor> factors;
  for (FactorAttr factor : dim.getFactors())
    factors.push_back({sizes.evaluate(factor.getExpr()), split ? factor.getAxes() : Axes()});
  return interpret::getIndices(factors, split ? dim.getAxes() : Axes(), grid, [&](StringAttr axis) {
    std::optional<unsigned> position = getPosition(axis);
    return position ? at[*position] : 0;
  });
}

const RankSlice &World::getSlice(Type type, const Coordinates &at) {
  OfType &known = get(type);
  Coordinates key;
  for (unsigned axis : known.axes)
    key.push_back(at[axis]);
  std::unique_ptr<RankSlice> &part = known.parts[key];
  if (part)
    return *part;
  part = std::make_unique<RankSlice>();
  for (DimAttr dim : known.dist.getDims()) {
    part->indices.push_back(getIndices(dim, at, known.dist.getLocal()));
    part->shape.push_back(part->indices.back().size());
  }
  return *part;
}

bool interpret::runsEveryMicroBatch(MicroBatchesOp loop, MeshAttr grid) {
  DimAttr batch = loop.getBatchAttr();
  if (!batch || !grid)
    return false;
  std::optional<int64_t> size = batch.getExpr().asConstant();
  SmallVector<StringAttr> axes = batch.getAllAxes();
  return size && *size >= grid.getMicroBatches() && axes.size() == 1 && axes[0] == kMicroBatchAxis;
}
