//===- ReportExperts.cpp - Experts and exchanged tokens of each rank ------===//

#include "tpc/Analysis/ReportExperts.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"

#include <cmath>

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
using Coordinates = std::map<std::string, int64_t>;
struct Part {
  int64_t begin = 0, size = 0;
};

class ExpertCounter {
public:
  ExpertCounter(ModuleOp module, const Symbols &symbols, const Routing *routing)
      : module(module), grid(MeshAttr::lookup(module)), symbols(symbols), routing(routing) {}
  LogicalResult count(Block &block, ExpertRow &row);

  Coordinates at;
  int64_t layer = 0; // number of mixtures of experts so far

private:
  LogicalResult countBytes(Operation *op, ExpertRow &row);

  ModuleOp module;
  MeshAttr grid;
  const Symbols &symbols;
  const Routing *routing;
};
} // namespace

/// Returns the part of `n` elements, split over `axes` in order, at these coordinates.
static Part split(MeshAttr grid, int64_t n, ArrayRef<StringAttr> axes, const Coordinates &at) {
  Part range{0, n};
  for (StringAttr axis : axes) {
    int64_t parts = grid.getAxisSize(axis.getValue()), c = at.at(axis.getValue().str());
    range.begin += ::tpc::shardBegin(range.size, parts, c);
    range.size = ::tpc::shardSize(range.size, parts, c);
  }
  return range;
}

LogicalResult ExpertCounter::countBytes(Operation *op, ExpertRow &row) {
  bool isDispatch = isa<DispatchOp>(op);
  Value rows = isDispatch ? op->getOperand(0) : op->getResult(0); // of this rank's tokens
  DimAttr tokens = getDist(rows).getDims()[0];
  auto experts = op->getAttrOfType<DimAttr>("experts");
  StringRef axis = cast<StringAttr>(op->getAttrOfType<ArrayAttr>("axes")[0]).getValue();
  int64_t all = *experts.getExpr().asConstant();
  int64_t topK = op->getAttrOfType<IntegerAttr>("top_k").getInt();
  int64_t width = evaluateOr1(getSizes(rows)[1], symbols) - (isDispatch ? all : 0);
  int64_t batch = evaluateOr1(tokens.getFactors()[0].getExpr(), symbols), rest = 1;
  for (FactorAttr factor : tokens.getFactors().drop_front())
    rest *= evaluateOr1(factor.getExpr(), symbols);
  if (routing && !routing->has(layer))
    return op->emitError() << "the routing has only " << routing->layers << " layers";
  if (routing && (routing->experts != all || routing->tokens != batch * rest))
    return op->emitError() << "the routing is of " << routing->tokens << " tokens and "
                           << routing->experts << " experts, but the program has " << batch * rest
                           << " tokens and " << all << " experts";
  auto rowsOf = [&](const Coordinates &rank) {
    if (!tokens.getAxes().empty())
      return split(grid, batch * rest, tokens.getAxes(), rank);
    Part range = split(grid, batch, tokens.getFactors()[0].getAxes(), rank);
    return Part{range.begin * rest, range.size * rest};
  };
  auto expertsOf = [&](const Coordinates &rank) {
    return split(grid, all, experts.getAllAxes(), rank);
  };
  int64_t element = getElementTypeOrSelf(rows).getIntOrFloatBitWidth() / 8;
  double expected = 0;
  for (int64_t peer = 0; peer < grid.getAxisSize(axis); ++peer) {
    if (peer == at.at(axis.str()))
      continue;
    Coordinates other = at;
    other[axis.str()] = peer;
    // One of the two ranks has the tokens, the other the experts.
    Part sent = rowsOf(isDispatch ? at : other), owned = expertsOf(isDispatch ? other : at);
    int64_t used = 0, weights = 0;
    for (int64_t t = 0; routing && t < sent.size; ++t) {
      int64_t selected = 0;
      for (int64_t e = 0; e < owned.size; ++e)
        selected += routing->uses(layer, sent.begin + t, owned.begin + e);
      used += selected > 0;
      weights += selected;
    }
    int64_t bits = llvm::divideCeil(isDispatch ? sent.size * owned.size : sent.size, 8);
    int64_t &exact = isDispatch ? row.dispatchBytes : row.combineBytes;
    exact += bits + element * (used * width + (isDispatch ? weights : 0));
    double share = getExpectedShare(all, owned.size, topK);
    expected += double(bits) + double(element * sent.size) *
                                   (share * double(width) +
                                    (isDispatch ? double(topK * owned.size) / double(all) : 0));
  }
  int64_t &uniform = isDispatch ? row.uniformDispatchBytes : row.uniformCombineBytes;
  uniform += int64_t(std::llround(expected));
  return success();
}

LogicalResult ExpertCounter::count(Block &block, ExpertRow &row) {
  for (Operation &op : block) {
    if (auto call = dyn_cast<func::CallOp>(op)) {
      if (failed(count(module.lookupSymbol<func::FuncOp>(call.getCallee()).front(), row)))
        return failure();
    } else if (isa<DispatchOp, CombineOp>(op)) {
      if (failed(countBytes(&op, row)))
        return failure();
      layer += isa<CombineOp>(op);
    } else if (auto moe = dyn_cast<MoeOp>(op)) {
      auto localExperts = getDist(moe.getUp()).getDims()[0].getLocalSize(grid, at, symbols);
      row.experts = std::max(row.experts, localExperts.value_or(0));
    }
    for (Region &region : op.getRegions())
      for (Block &inner : region)
        if (failed(count(inner, row)))
          return failure();
  }
  return success();
}

FailureOr<std::vector<ExpertRow>> mlir::tpc::countExperts(ModuleOp module, const Symbols &symbols,
                                                          const Routing *routing) {
  std::vector<ExpertRow> rows;
  bool hasExperts = false, dispatches = false;
  module.walk([&](Operation *op) {
    hasExperts |= isa<MoeOp>(op);
    dispatches |= isa<DispatchOp>(op);
  });
  if (routing && !dispatches) {
    emitError(module.getLoc()) << "--routing: no tokens are sent to the ranks of their experts";
    return failure();
  }
  MeshAttr grid = MeshAttr::lookup(module);
  if (!hasExperts || !grid || grid.getWorldSize() > Report::maxRanks)
    return rows;
  for (int64_t rank = 0; rank < grid.getWorldSize(); ++rank) {
    ExpertCounter counter(module, symbols, routing);
    int64_t left = rank;
    for (auto [axis, size] : llvm::zip(grid.getOrder(), grid.getSizes())) {
      counter.at[axis.getValue().str()] = left % size;
      left /= size;
    }
    ExpertRow row, others;
    row.rank = rank;
    row.stage = counter.at[kPipelineAxis.str()];
    LogicalResult result = success();
    module.walk([&](StageOp stage) {
      bool isOwn = int64_t(stage.getIndex()) == row.stage;
      if (succeeded(result))
        result = counter.count(stage.getBody().front(), isOwn ? row : others);
    });
    if (failed(result))
      return failure();
    rows.push_back(row);
  }
  return rows;
}

LogicalResult mlir::tpc::applyRouting(ModuleOp staged, const Symbols &symbols,
                                      const Routing &routing, Report &report) {
  bool dispatches =
      staged.walk([](DispatchOp) { return WalkResult::interrupt(); }).wasInterrupted();
  if (!dispatches || MeshAttr::lookup(staged).getWorldSize() > Report::maxRanks)
    return success();
  auto rows = countExperts(staged, symbols, &routing);
  if (failed(rows))
    return failure();
  for (CollectiveRow &collective : report.collectives) {
    if (collective.kind != "dispatch" && collective.kind != "combine")
      continue;
    collective.bytes = 0;
    for (const ExpertRow &row : *rows)
      if (row.stage == collective.stage)
        collective.bytes = std::max(
            collective.bytes, collective.kind == "dispatch" ? row.dispatchBytes : row.combineBytes);
  }
  return success();
}

/// Returns the last mixture of experts; null if there is none.
static MoeOp findExperts(ModuleOp program) {
  MoeOp moe;
  program.walk([&](MoeOp op) { moe = op; });
  return moe;
}

LogicalResult mlir::tpc::checkRouting(ModuleOp program, const Symbols &symbols,
                                      const Routing &routing) {
  MoeOp moe = findExperts(program);
  if (!moe)
    return emitError(program.getLoc()) << "--routing: the program has no experts";
  std::optional<int64_t> all = getSizes(moe.getUp())[0].evaluate(symbols);
  std::optional<int64_t> tokens = getSizes(moe.getX())[0].evaluate(symbols);
  if ((all && routing.experts != *all) || (tokens && routing.tokens != *tokens))
    return moe->emitError() << "the routing is of " << routing.tokens << " tokens and "
                            << routing.experts << " experts, but the program has "
                            << tokens.value_or(routing.tokens) << " tokens and "
                            << all.value_or(routing.experts) << " experts";
  return success();
}

std::pair<double, double> mlir::tpc::getBusiestExperts(ModuleOp program, MeshAttr grid,
                                                       const Routing &routing) {
  MoeOp moe = findExperts(program);
  DimAttr experts = getDist(moe.getUp()).getDims()[0];
  int64_t all = routing.experts, parts = 1;
  SmallVector<StringAttr> axes(experts.getAllAxes());
  for (StringAttr axis : axes)
    parts *= grid.getAxisSize(axis.getValue());
  double selectedPerToken = 0, activeExperts = 0;
  for (int64_t layer = 0; layer < routing.layers; ++layer) {
    int64_t most = 0, active = 0;
    for (int64_t part = 0; part < parts; ++part) {
      Coordinates at;
      int64_t left = part, selected = 0, used = 0;
      for (StringAttr axis : axes) {
        at[axis.getValue().str()] = left % grid.getAxisSize(axis.getValue());
        left /= grid.getAxisSize(axis.getValue());
      }
      Part own = split(grid, all, axes, at);
      for (int64_t e = own.begin; e < own.begin + own.size; ++e) {
        int64_t before = selected;
        for (int64_t t = 0; t < routing.tokens; ++t)
          selected += routing.uses(layer, t, e);
        used += selected > before;
      }
      if (std::pair(selected, used) > std::pair(most, active))
        std::tie(most, active) = {selected, used};
    }
    selectedPerToken += double(most) / double(std::max<int64_t>(1, routing.tokens));
    activeExperts += double(active);
  }
  return {selectedPerToken / double(routing.layers), activeExperts / double(routing.layers)};
}

llvm::json::Array mlir::tpc::toJSON(ArrayRef<ExpertRow> rows, bool hasRouting) {
  llvm::json::Array list;
  for (const ExpertRow &row : rows) {
    llvm::json::Object object{
        {"rank", row.rank},
        {"experts", row.experts},
        {"uniform", llvm::json::Object{{"dispatch", row.uniformDispatchBytes},
                                       {"combine", row.uniformCombineBytes}}}};
    if (hasRouting)
      object["routing"] =
          llvm::json::Object{{"dispatch", row.dispatchBytes}, {"combine", row.combineBytes}};
    list.push_back(std::move(object));
  }
  return list;
}
