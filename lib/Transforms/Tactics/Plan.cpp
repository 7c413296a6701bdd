//===- Plan.cpp - Sharding plan of the tactics ----------------------------===//

#include "Plan.h"

#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/Sharding.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/SmallSet.h"

using namespace mlir;
using namespace mlir::tpc;

Plan::Plan(ModuleOp module, const ::tpc::ShardSpec &spec, FactorClasses &classes)
    : module(module), spec(spec), classes(classes) {
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

SmallVector<StringAttr> Plan::getAxes(int cls, Site site, int index) const {
  SmallVector<StringAttr> list;
  if (auto it = axes.find(cls); it != axes.end())
    list.assign(it->second.begin(), it->second.end());
  if (!site)
    return list;
  llvm::erase_if(list, [&](StringAttr axis) { return removedAxes.contains({site, {cls, axis}}); });
  if (auto it = locals.find(site); it != locals.end())
    for (const Local &local : it->second)
      if (local.cls == cls && (index < 0 || local.index == unsigned(index)) &&
          !llvm::is_contained(list, local.axis))
        list.push_back(local.axis);
  if (auto it = orders.find({site, cls}); it != orders.end()) {
    SmallVector<StringAttr> ordered;
    for (StringAttr axis : it->second)
      if (llvm::is_contained(list, axis))
        ordered.push_back(axis);
    for (StringAttr axis : list)
      if (!llvm::is_contained(ordered, axis))
        ordered.push_back(axis);
    return ordered;
  }
  return list;
}

SmallVector<StringAttr> Plan::getAtoms(StringRef view) const {
  SmallVector<StringAttr> atoms;
  for (const ::tpc::MeshAtom &atom : spec.getView(view))
    atoms.push_back(StringAttr::get(module.getContext(), atom.name));
  return atoms;
}

bool Plan::hasAxis(ArrayRef<int> list, StringAttr axis, Site site, int index) const {
  return llvm::any_of(list,
                      [&](int cls) { return llvm::is_contained(getAxes(cls, site, index), axis); });
}

bool Plan::hasAxis(ArrayRef<int> list, StringRef view, Site site, int index) const {
  return llvm::any_of(list, [&](int cls) {
    return llvm::any_of(getAxes(cls, site, index),
                        [&](StringAttr axis) { return ::tpc::isInView(axis.getValue(), view); });
  });
}

void Plan::splitAt(Site site, unsigned index, int cls, StringAttr axis) {
  locals[site].push_back({index, cls, axis});
}

bool Plan::usesAxis(StringAttr axis) const {
  return llvm::any_of(axes, [&](auto &e) { return llvm::is_contained(e.second, axis); }) ||
         llvm::any_of(storedSplits, [&](auto &e) {
           return llvm::any_of(e.second,
                               [&](const StoredSplit &split) { return split.axis == axis; });
         });
}

bool Plan::isWanted(int cls, StringAttr axis) const {
  return hasAxis({cls}, axis) || llvm::any_of(storedSplits, [&](auto &e) {
           return llvm::any_of(e.second, [&](const StoredSplit &split) {
             return split.cls == cls && split.axis == axis;
           });
         });
}

TacticRecord &Plan::getRecord(StringRef name) {
  auto it = llvm::find_if(records, [&](const TacticRecord &r) { return r.name == name; });
  if (it != records.end())
    return *it;
  records.push_back({name.str()});
  return records.back();
}

SmallVector<StringAttr> Plan::getFreeAtoms(int cls, StringRef view) const {
  if (decided.contains(cls) || classes.getPreventingOp(cls) || axes.contains(cls))
    return {};
  SmallVector<StringAttr> atoms = getAtoms(view);
  for (ClassUse use : getUses(cls))
    for (unsigned factor = 0; factor < classes.getRule(use.op).factors.size(); ++factor)
      llvm::erase_if(atoms, [&](StringAttr axis) {
        return hasAxis(classes.getFactorClasses(use.op, factor), axis);
      });
  return atoms;
}

DimAttr Plan::getDim(ArrayRef<int> list, bool splitTokens, Site site, int index) const {
  MLIRContext *context = module.getContext();
  SmallVector<FactorAttr> factors;
  for (int cls : list)
    factors.push_back(FactorAttr::get(context, classes.getSize(cls), getAxes(cls, site, index)));
  if (factors.empty())
    factors.push_back(FactorAttr::get(context, ::tpc::SymExpr(1)));
  SmallVector<StringAttr> product;
  if (splitTokens)
    product = tokenAxes;
  return DimAttr::get(context, factors, product);
}

ArrayRef<ClassUse> Plan::getUses(int cls) const {
  auto it = uses.find(cls);
  return it == uses.end() ? ArrayRef<ClassUse>() : ArrayRef<ClassUse>(it->second);
}

ArrayRef<func::CallOp> Plan::getCalls(func::FuncOp function) const {
  auto it = calls.find(function);
  return it == calls.end() ? ArrayRef<func::CallOp>() : ArrayRef<func::CallOp>(it->second);
}

int64_t Plan::getCallCount(Operation *op) const {
  auto function = op->getParentOfType<func::FuncOp>();
  auto it = calls.find(function);
  if (it == calls.end())
    return 1;
  int64_t count = 0;
  for (func::CallOp call : it->second)
    count += getCallCount(call);
  return count;
}

SmallVector<Operation *> Plan::getParameters(Value value) const {
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

bool Plan::isUnreduced(Value value, StringRef view) const {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<ShardingRuleOpInterface>(op))
    return false;
  const ShardingRule &rule = classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (getReduction(rule.factors[factor].kind) &&
        hasAxis(classes.getFactorClasses(op, factor), view, getSite(op), factor))
      return true;
  return false;
}

Value Plan::getMatrix(Operation *op) const {
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

SmallVector<int> Plan::getRows(Operation *op) const {
  Value matrix = getMatrix(op);
  auto rowAxis = StringAttr::get(module.getContext(), "tpx");
  SmallVector<int> rows;
  bool hasColumn = false;
  for (unsigned dim = 0; matrix && dim < cast<RankedTensorType>(matrix.getType()).getRank(); ++dim)
    for (int cls : classes.getClasses(matrix, dim)) {
      bool column = columns.contains(cls);
      hasColumn |= column;
      if (!column && (isWanted(cls, rowAxis) || (!spec.manual && !decided.contains(cls))))
        rows.push_back(cls);
    }
  return hasColumn ? rows : SmallVector<int>();
}

bool Plan::isNormWidth(int cls) const {
  return llvm::any_of(getUses(cls), [&](ClassUse use) {
    return use.op->hasAttr(kNormAttr) &&
           classes.getRule(use.op).factors[use.factor].kind == FactorKind::ReductionSum;
  });
}

std::string Plan::describe(int cls) const {
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

std::string Plan::describeParts(int cls) const {
  std::string text = describe(cls);
  if (StringRef(text).contains(' '))
    return text;
  for (ClassUse use : getUses(cls))
    if (isa<MatmulOp, EmbeddingOp>(use.op))
      return text + " of '" + getSourceName(use.op->getLoc()) + "'";
  return text;
}

std::string Plan::describeSites(int cls) const {
  std::string sites;
  llvm::SmallSet<std::string, 4> seen;
  for (ClassUse use : getUses(cls)) {
    if (!isa<MatmulOp, EmbeddingOp, AttentionOp>(use.op))
      continue;
    std::string site = getSourceName(use.op->getLoc());
    if (!seen.insert(site).second || seen.size() > 6)
      continue;
    sites += (sites.empty() ? "" : ", ") + site;
    if (isa<MatmulOp>(use.op)) {
      FactorKind kind = classes.getRule(use.op).factors[use.factor].kind;
      sites += kind != FactorKind::Parallel ? " (rows)" : " (columns)";
    }
  }
  return sites;
}

SmallVector<int> Plan::getPermuted(Operation *op, unsigned factor) const {
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

void Plan::expectPermutation(Operation *op, ArrayRef<StringAttr> axes, StringRef by,
                             TacticRecord &record) const {
  for (Value result : op->getResults())
    record.expected.push_back({result, op, SmallVector<StringAttr>(axes),
                               "shifts along a dimension that " + by.str() + " splits"});
}

void Plan::expectCommunication(int cls, ArrayRef<StringAttr> axes, const std::string &what,
                               StringRef by, TacticRecord &record) const {
  for (ClassUse use : getUses(cls)) {
    if (isPermuted(use, cls))
      expectPermutation(use.op, axes, by, record);
    if (!getReduction(classes.getRule(use.op).factors[use.factor].kind))
      continue;
    for (Value result : use.op->getResults())
      record.expected.push_back({result, nullptr, SmallVector<StringAttr>(axes),
                                 "sums over the " + what + " that " + by.str() + " splits"});
  }
}

void Plan::expectOp(Operation *op, const std::string &why, TacticRecord &record) const {
  for (Value operand : op->getOperands())
    record.expected.push_back({operand, op, {}, why});
  for (Value result : op->getResults())
    record.expected.push_back({result, nullptr, {}, why});
}
