//===- ProgramFacts.cpp - What inputs and weights are used for ------------===//

#include "Manifest.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Follows a value up to where it comes from, through ops that only move
/// elements and through calls.
class Origins {
public:
  explicit Origins(ModuleOp module) {
    module.walk([&](func::CallOp call) {
      if (auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
              call, call.getCalleeAttr()))
        calls[callee].push_back(call);
    });
  }

  /// An input, a parameter or the result of another op, and whether only a part
  /// of it is used.
  struct Origin {
    Value value;
    bool part;
  };

  SmallVector<Origin> find(Value value) {
    SmallVector<Origin> found, work{{value, false}};
    llvm::DenseSet<Value> seen{value};
    while (!work.empty()) {
      auto [v, part] = work.pop_back_val();
      auto push = [&, part = part](Value next, bool sliced = false) {
        if (seen.insert(next).second)
          work.push_back({next, part || sliced});
      };
      Operation *op = v.getDefiningOp();
      if (auto arg = dyn_cast<BlockArgument>(v)) {
        auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
        if (!function)
          found.push_back({v, part});
        else
          for (func::CallOp call : calls[function])
            push(call.getOperand(arg.getArgNumber()));
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            call, call.getCalleeAttr());
        push(callee.front().getTerminator()->getOperand(
            cast<OpResult>(v).getResultNumber()));
      } else if (isa<ReshapeOp, ExpandOp, LocalSliceOp, TransposeOp, SliceOp>(op) ||
                 isNumberCast(op)) {
        push(op->getOperand(0), isa<SliceOp>(op));
      } else {
        found.push_back({v, part});
      }
    }
    return found;
  }

  /// Truth values are 0 or 1, whatever they were made of.
  static bool isNumberCast(Operation *op) {
    return isa<CastOp>(op) && (!getElementTypeOrSelf(op->getResult(0)).isInteger(1) ||
                               getElementTypeOrSelf(op->getOperand(0)).isInteger(1));
  }

private:
  SymbolTableCollection symbols;
  DenseMap<Operation *, SmallVector<func::CallOp>> calls;
};
} // namespace

ProgramFacts ProgramFacts::get(ModuleOp module, PipelineOp pipeline) {
  ProgramFacts facts;
  Origins origins(module);
  auto weightOf = [&](Value v) -> StringAttr {
    for (auto [origin, part] : origins.find(v))
      if (auto parameter = origin.getDefiningOp<ParameterOp>())
        return parameter.getWeightAttr().getAttr();
    return {};
  };
  auto lookup = [&](Value table, int64_t dim, Value ids) {
    auto rows = getSizes(table)[dim].asConstant();
    if (!rows)
      return;
    StringAttr weight = weightOf(table);
    for (auto [origin, part] : origins.find(ids)) {
      auto arg = dyn_cast<BlockArgument>(origin);
      if (!arg || arg.getOwner()->getParentOp() != pipeline)
        continue;
      Range range{-*rows, *rows - 1, weight ? weight.str() : "", part};
      auto [it, isNew] = facts.inputRanges.try_emplace(arg.getArgNumber(), range);
      // All of an input must be rows of all tables; of its parts, each of one.
      Range &known = it->second;
      if (!isNew && (known.part != part ? known.part
                     : part             ? known.max < range.max
                                        : known.max > range.max))
        known = range;
    }
  };
  module.walk([&](Operation *op) {
    if (auto embedding = dyn_cast<EmbeddingOp>(op))
      lookup(embedding.getTable(), 0, embedding.getIds());
    else if (auto gather = dyn_cast<GatherOp>(op))
      lookup(gather.getData(), gather.getDim(), gather.getIndices());
    else if (auto gather = dyn_cast<GatherNDOp>(op);
             gather && getSizes(gather.getIndices()).back().isConstant(1))
      lookup(gather.getData(), gather.getBatchDims(), gather.getIndices());
    Value scale;
    if (auto norm = dyn_cast<LayerNormOp>(op))
      scale = norm.getScale();
    else if (auto norm = dyn_cast<RmsNormOp>(op))
      scale = norm.getScale();
    if (scale)
      for (auto [origin, part] : origins.find(scale))
        if (auto parameter = origin.getDefiningOp<ParameterOp>())
          facts.onesByDefault.insert(parameter.getWeightAttr().getAttr());
  });
  return facts;
}
