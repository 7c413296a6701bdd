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

  /// Values that are inputs, parameters or results of other ops.
  SmallVector<Value> find(Value value) {
    SmallVector<Value> found, work{value};
    llvm::DenseSet<Value> seen{value};
    auto push = [&](Value v) {
      if (seen.insert(v).second)
        work.push_back(v);
    };
    while (!work.empty()) {
      Value v = work.pop_back_val();
      Operation *op = v.getDefiningOp();
      if (auto arg = dyn_cast<BlockArgument>(v)) {
        auto function = dyn_cast<func::FuncOp>(arg.getOwner()->getParentOp());
        if (!function)
          found.push_back(v);
        else
          for (func::CallOp call : calls[function])
            push(call.getOperand(arg.getArgNumber()));
      } else if (auto call = dyn_cast<func::CallOp>(op)) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(
            call, call.getCalleeAttr());
        push(callee.front().getTerminator()->getOperand(
            cast<OpResult>(v).getResultNumber()));
      } else if (isa<ReshapeOp, CastOp, ExpandOp, LocalSliceOp, TransposeOp, SliceOp>(op)) {
        push(op->getOperand(0));
      } else {
        found.push_back(v);
      }
    }
    return found;
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
    for (Value origin : origins.find(v))
      if (auto parameter = origin.getDefiningOp<ParameterOp>())
        return parameter.getWeightAttr().getAttr();
    return {};
  };
  auto lookup = [&](Value table, int64_t dim, Value ids) {
    auto rows = getSizes(table)[dim].asConstant();
    if (!rows)
      return;
    StringAttr weight = weightOf(table);
    for (Value origin : origins.find(ids)) {
      auto arg = dyn_cast<BlockArgument>(origin);
      if (!arg || arg.getOwner()->getParentOp() != pipeline)
        continue;
      Range range{-*rows, *rows - 1, weight ? weight.str() : ""};
      auto [it, isNew] = facts.inputRanges.try_emplace(arg.getArgNumber(), range);
      if (!isNew && it->second.max > range.max)
        it->second = range;
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
      for (Value origin : origins.find(scale))
        if (auto parameter = origin.getDefiningOp<ParameterOp>())
          facts.onesByDefault.insert(parameter.getWeightAttr().getAttr());
  });
  return facts;
}
