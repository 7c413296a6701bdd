//===- PartitionProblem.cpp - Program that tactics partition --------------===//

#include "tpc/Transforms/Tactics/PartitionProblem.h"

#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Transforms/Tactics/Passes.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::tpc;

PartitionProblem::PartitionProblem(ModuleOp module, const ::tpc::ShardSpec &spec,
                                   FactorClasses &classes)
    : module(module), spec(spec), classes(classes), mesh(makeMeshAttr(module.getContext(), spec)) {
  refresh();
}

void PartitionProblem::refresh() {
  ops.clear();
  uses.clear();
  calls.clear();
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (auto call = dyn_cast<func::CallOp>(op))
      if (auto callee =
              SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr()))
        calls[callee].push_back(call);
    if (!isa<ShardingRuleOpInterface>(op))
      return;
    ops.push_back(op);
    for (unsigned factor = 0; factor < classes.getRule(op).factors.size(); ++factor)
      for (int cls : classes.getFactorClasses(op, factor))
        uses[cls].push_back({op, factor});
  });
}

SmallVector<StringAttr> PartitionProblem::getAtoms(StringRef view) const {
  SmallVector<StringAttr> atoms;
  for (const ::tpc::MeshAtom &atom : spec.getView(view))
    atoms.push_back(StringAttr::get(module.getContext(), atom.name));
  return atoms;
}

ArrayRef<ClassUse> PartitionProblem::getUses(int cls) const {
  auto it = uses.find(cls);
  return it == uses.end() ? ArrayRef<ClassUse>() : ArrayRef<ClassUse>(it->second);
}

ArrayRef<func::CallOp> PartitionProblem::getCalls(func::FuncOp function) const {
  auto it = calls.find(function);
  return it == calls.end() ? ArrayRef<func::CallOp>() : ArrayRef<func::CallOp>(it->second);
}

int64_t PartitionProblem::getCallCount(Operation *op) const {
  auto function = op->getParentOfType<func::FuncOp>();
  auto it = calls.find(function);
  if (it == calls.end())
    return 1;
  int64_t count = 0;
  for (func::CallOp call : it->second)
    count += getCallCount(call);
  return count;
}

SmallVector<Operation *> PartitionProblem::getParameters(Value value) const {
  while (isa_and_nonnull<TransposeOp, ReshapeOp, SliceOp, CastOp>(value.getDefiningOp()))
    value = value.getDefiningOp()->getOperand(0);
  SmallVector<Operation *> result;
  if (auto quantized = value.getDefiningOp<DequantizeOp>()) {
    for (Value operand : quantized->getOperands()) {
      // Scales of blocks may be repeated for parts of a block.
      auto repeated = operand.getDefiningOp<GatherOp>();
      result.append(getParameters(repeated ? repeated.getData() : operand));
    }
    return result;
  }
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<ScalarOpInterface>(op)) { // numbers that are decoded
    llvm::SetVector<Value> open(op->operand_begin(), op->operand_end());
    for (size_t i = 0; i < open.size() && open.size() < 256; ++i) {
      Operation *from = open[i].getDefiningOp();
      if (isa_and_nonnull<ConstantOp>(from))
        continue;
      if (isa_and_nonnull<ScalarOpInterface>(from)) {
        open.insert(from->operand_begin(), from->operand_end());
        continue;
      }
      SmallVector<Operation *> own = getParameters(open[i]);
      if (own.empty())
        return {};
      result.append(own);
    }
    return result;
  }
  if (op)
    return isa<ParameterOp>(op) ? SmallVector<Operation *>{op} : SmallVector<Operation *>{};
  auto argument = cast<BlockArgument>(value);
  if (auto it = calls.find(argument.getOwner()->getParentOp()); it != calls.end())
    for (func::CallOp call : it->second)
      result.append(getParameters(call.getOperand(argument.getArgNumber())));
  return result;
}

Value PartitionProblem::getMatrix(Operation *op) const {
  if (isa<EmbeddingOp>(op) && !getParameters(op->getOperand(0)).empty())
    return op->getOperand(0);
  if (auto moe = dyn_cast<MoeOp>(op))
    return moe.getUp();
  if (isa<MatmulOp>(op))
    for (unsigned operand : {1, 0})
      if (!getParameters(op->getOperand(operand)).empty())
        return op->getOperand(operand);
  return {};
}

Operation *PartitionProblem::getPreventingOp(int cls, ArrayRef<StringAttr> axes) const {
  bool mayDecompose =
      llvm::any_of(axes, [&](StringAttr axis) { return isInView(axis, decomposable.view); });
  for (Operation *op : classes.getPreventingOps(cls))
    if (!mayDecompose || !decomposable.contains(op))
      return op;
  return nullptr;
}

bool PartitionProblem::isResidualWidth(int cls) const {
  return llvm::any_of(classes.getPreventingOps(cls),
                      [&](Operation *op) { return decomposable.residual.contains(op); });
}

std::string PartitionProblem::describe(int cls) const {
  std::string what;
  for (ClassUse use : getUses(cls))
    if (auto attention = dyn_cast<AttentionOp>(use.op)) {
      bool grouped = classes.getClasses(attention.getQ(), 2).size() > 1;
      if (llvm::is_contained(classes.getClasses(attention.getK(), 2), cls))
        what = grouped ? " groups of heads" : " heads";
      else if (llvm::is_contained(classes.getClasses(attention.getQ(), 2), cls))
        what = " heads of each group";
    }
  return classes.getSize(cls).str() + what;
}

std::string PartitionProblem::describeParts(int cls) const {
  std::string text = describe(cls);
  if (StringRef(text).contains(' '))
    return text;
  for (ClassUse use : getUses(cls))
    if (isa<MatmulOp, EmbeddingOp>(use.op))
      return text + " of '" + getSourceName(use.op->getLoc()) + "'";
  return text;
}

std::string PartitionProblem::describeSites(int cls) const {
  std::string sites;
  llvm::SmallSet<std::string, 4> seen;
  for (ClassUse use : getUses(cls)) {
    if (!isa<MatmulOp, EmbeddingOp, AttentionOp, MoeOp>(use.op))
      continue;
    std::string site = getSourceName(use.op->getLoc());
    if (!seen.insert(site).second || seen.size() > 6)
      continue;
    sites += (sites.empty() ? "" : ", ") + site;
    if (auto moe = dyn_cast<MoeOp>(use.op))
      sites += llvm::is_contained(classes.getClasses(moe.getUp(), 0), cls)
                   ? " (experts)"
                   : " (inner width of experts)";
    if (isa<MatmulOp>(use.op)) {
      FactorKind kind = classes.getRule(use.op).factors[use.factor].kind;
      sites += kind != FactorKind::Parallel ? " (rows)" : " (columns)";
    }
  }
  return sites;
}

SmallVector<int> PartitionProblem::getPermuted(Operation *op, unsigned factor) const {
  // Collects classes, minor to major, until the product of their sizes is the length of the run.
  SmallVector<int> run, all = classes.getFactorClasses(op, factor);
  auto left = classes.getRule(op).factors[factor].run;
  for (int cls : llvm::reverse(all)) {
    if (!left || left->isConstant(1) || left->isConstant(0))
      break;
    run.push_back(cls);
    if (classes.getSize(cls).isConstant(0))
      break;
    left = left->divideExact(classes.getSize(cls));
  }
  std::reverse(run.begin(), run.end());
  return run;
}

SmallVector<FactorClasses::Classes> PartitionProblem::getLists(Operation *op) const {
  SmallVector<FactorClasses::Classes> lists;
  for (unsigned factor = 0; factor < classes.getRule(op).factors.size(); ++factor)
    lists.push_back(classes.getFactorClasses(op, factor));
  return lists;
}

SmallVector<FactorClasses::Classes> PartitionProblem::getLists(Value value) const {
  SmallVector<FactorClasses::Classes> lists;
  auto type = dyn_cast<RankedTensorType>(value.getType());
  for (unsigned dim = 0; type && dim < type.getRank(); ++dim)
    lists.push_back(classes.getClasses(value, dim));
  return lists;
}
