//===- ParameterTable.cpp - Table of loaded parameters --------------------===//

#include "ParameterTable.h"

#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;

Value mlir::tpc::getLoadedParameter(Value rhs) {
  auto cast = rhs.getDefiningOp<CastOp>();
  return cast && cast->hasAttr(kLoadedAttr) ? cast.getOperand() : rhs;
}

ParameterTable::ParameterTable(ModuleOp module) {
  for (PipelineOp pipeline : module.getOps<PipelineOp>())
    for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
      areUpdated |= Update::get(output).has_value();
  findStages(module);
  findParameterArguments(module);
  findNeeds();
  findImplicitParameters();
}

// Orders functions topologically, callers first: the reverse post-order over callees. Calls are not
// recursive.
void ParameterTable::findStages(ModuleOp module) {
  DenseMap<Operation *, unsigned> seen;
  std::function<void(func::FuncOp)> visit = [&](func::FuncOp function) {
    if (!seen.try_emplace(function, 0).second)
      return;
    function.walk([&](func::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      calls[callee].push_back(call);
      visit(callee);
    });
    functions.push_back(function);
  };
  auto reach = [&](Operation *root, int64_t stage) {
    SmallVector<func::FuncOp> work;
    auto enter = [&](Operation *from, bool isRoot) {
      from->walk([&](func::CallOp call) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
        if (isRoot) {
          calls[callee].push_back(call);
          visit(callee);
        }
        if (!llvm::is_contained(stages[callee], stage)) {
          stages[callee].push_back(stage);
          work.push_back(callee);
        }
      });
    };
    enter(root, true);
    while (!work.empty())
      enter(work.pop_back_val(), false);
  };
  module.walk([&](StageOp stage) { reach(stage, stage.getIndex()); });
  // Functions of a module without a pipeline (tests of single passes).
  for (auto function : module.getOps<func::FuncOp>())
    visit(function);
  std::reverse(functions.begin(), functions.end());
}

void ParameterTable::findParameterArguments(ModuleOp module) {
  auto isParameter = [&](Value v) { return v.getDefiningOp<ParameterOp>() || needs.count(v); };
  for (func::FuncOp function : functions) {
    if (function.isExternal() || function->hasAttr(kKernelAttr))
      continue;
    auto found = calls.find(function);
    for (BlockArgument arg : function.getArguments())
      if (found != calls.end() && llvm::all_of(found->second, [&](func::CallOp call) {
            return isParameter(call.getOperand(arg.getArgNumber()));
          }))
        needs[arg] = {};
    function.walk([&](ParameterOp op) { needs[op.getResult()] = {}; });
  }
  for (PipelineOp pipeline : module.getOps<PipelineOp>())
    pipeline.walk([&](ParameterOp op) { needs[op.getResult()]; });
}

void ParameterTable::findNeeds() {
  auto visit = [&](Value value) {
    ParameterNeeds result;
    for (OpOperand &use : value.getUses()) {
      if (auto matmul = dyn_cast<MatmulOp>(use.getOwner());
          matmul && use.getOperandNumber() == 1 && isPackedMatmul(matmul)) {
        result.packed = true;
        continue;
      }
      if (use.getOwner()->hasAttr(kLoadedAttr)) { // a cast whose users are matmuls
        result.packed = true;
        continue;
      }
      if (auto call = dyn_cast<func::CallOp>(use.getOwner())) {
        auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
        if (auto it = needs.find(callee.getArgument(use.getOperandNumber())); it != needs.end()) {
          result.packed |= it->second.packed;
          result.dense |= it->second.dense;
          continue;
        }
      }
      result.dense = true;
    }
    needs[value] = result;
  };
  // Visits callees before callers, so that the needs of arguments are known.
  SmallVector<Value> values;
  for (func::FuncOp function : llvm::reverse(functions)) {
    values.clear();
    for (Value arg : function.getArguments())
      if (needs.count(arg))
        values.push_back(arg);
    function.walk([&](ParameterOp op) { values.push_back(op.getResult()); });
    for (Value v : values)
      visit(v);
  }
  values.clear();
  for (auto &[v, n] : needs)
    if (auto op = v.getDefiningOp(); op && !op->getParentOfType<func::FuncOp>())
      values.push_back(v);
  for (Value v : values)
    visit(v);
}

void ParameterTable::findImplicitParameters() {
  for (func::FuncOp function : llvm::reverse(functions)) {
    if (stages[function].size() < 2)
      continue;
    auto &list = implicitParameters[function];
    auto add = [&](const Parameter &p, ParameterUse use) {
      if (!llvm::is_contained(list, std::pair(p, use)))
        list.push_back({p, use});
    };
    function.walk([&](ParameterOp op) {
      ParameterNeeds n = needs.lookup(op.getResult());
      if (n.packed)
        add(get(op), ParameterUse::Packed);
      if (n.dense)
        add(get(op), ParameterUse::Dense);
    });
    function.walk([&](func::CallOp call) {
      auto callee = symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
      for (auto &[p, use] : getImplicitParameters(callee))
        add(p, use);
    });
  }
}

const ParameterNeeds *ParameterTable::lookup(Value value) const {
  auto it = needs.find(value);
  return it == needs.end() ? nullptr : &it->second;
}

bool ParameterTable::isPackedMatmul(MatmulOp op) const {
  if (areUpdated)
    return false;
  const TargetTraits &target = TargetTraits::get(op);
  auto isComputed = [&](Value v) { return target.computesMatmuls(getElementTypeOrSelf(v)); };
  return isComputed(op.getLhs()) && isComputed(op.getRhs()) &&
         cast<RankedTensorType>(op.getRhs().getType()).getRank() == 2 &&
         needs.count(getLoadedParameter(op.getRhs()));
}

std::optional<int64_t> ParameterTable::getStage(func::FuncOp function) const {
  auto it = stages.find(function);
  if (it == stages.end() || it->second.size() != 1)
    return std::nullopt;
  return it->second[0];
}

ArrayRef<std::pair<Parameter, ParameterUse>>
ParameterTable::getImplicitParameters(func::FuncOp function) const {
  auto it = implicitParameters.find(function);
  if (it == implicitParameters.end())
    return {};
  return it->second;
}
