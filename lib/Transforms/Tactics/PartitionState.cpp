//===- PartitionState.cpp - Splits that tactics choose --------------------===//

#include "tpc/Transforms/Tactics/PartitionState.h"

#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Changes
//===----------------------------------------------------------------------===//

void PartitionState::decide(Decision::Kind kind, int cls, Site site, ArrayRef<StringAttr> list,
                            const Twine &why) {
  decisions.push_back({kind, records.empty() ? StringRef() : texts.save(getRecord().name), cls,
                       site, SmallVector<StringAttr, 1>(list), texts.save(why)});
}

void PartitionState::assign(int cls, ArrayRef<StringAttr> list, const Twine &why, Site seed) {
  llvm::append_range(axes[cls], list);
  decide(Decision::Assign, cls, {}, list, why);
  decisions.back().seed = seed;
}

void PartitionState::assign(Site site, unsigned index, int cls, StringAttr axis) {
  locals[site].push_back({index, cls, axis});
  decide(Decision::Assign, cls, site, axis, "");
}

void PartitionState::forbid(Site site, int cls, StringAttr axis, const Twine &why) {
  if (forbidden.insert({{site, cls}, axis}).second)
    decide(Decision::Forbid, cls, site, axis, why);
}

void PartitionState::place(Site site, unsigned index, ArrayRef<StringAttr> list, const Twine &why) {
  placements[site] = {index, SmallVector<StringAttr>(list)};
  decide(Decision::Place, -1, site, list, why);
}

void PartitionState::copySite(Site from, Site to) {
  SmallVector<std::pair<SiteClass, StringAttr>> copied;
  for (const auto &entry : forbidden)
    if (entry.first.first == from)
      copied.push_back({{to, entry.first.second}, entry.second});
  forbidden.insert_range(copied);
  if (SmallVector<LocalSplit, 1> own = locals.lookup(from); !own.empty())
    locals[to] = own;
}

void PartitionState::moveSite(Operation *from, Operation *to) {
  copySite(from, to);
  for (auto &[key, list] : llvm::to_vector(orders))
    if (key.first == Site(from))
      orders[{Site(to), key.second}] = list;
  for (auto [before, after] : llvm::zip_equal(from->getResults(), to->getResults()))
    if (auto it = stored.find(before); it != stored.end()) {
      auto splits = std::move(it->second);
      stored.erase(it);
      stored[after] = std::move(splits);
    }
  if (pinned.remove(from))
    pinned.insert(to);
  for (Decision &decision : decisions)
    for (Site *site : {&decision.site, &decision.seed})
      if (*site == Site(from))
        *site = to;
  for (TacticRecord &record : records)
    for (ExpectedCommunication &one : record.expected) {
      if (one.value && one.value.getDefiningOp() == from)
        one.value = to->getResult(cast<OpResult>(one.value).getResultNumber());
      if (one.reader == from)
        one.reader = to;
    }
}

void PartitionState::store(Value value, StoredSplit split) {
  stored[value].push_back(split);
  Site site =
      isa<BlockArgument>(value) ? Site(cast<BlockArgument>(value)) : Site(value.getDefiningOp());
  decide(Decision::Store, split.cls, site, split.axis, "");
}

void PartitionState::expect(Value value, Operation *reader, ArrayRef<StringAttr> list,
                            const Twine &why) {
  getRecord().expected.push_back({value, reader, SmallVector<StringAttr>(list), why.str()});
}

void PartitionState::expectPermutation(Operation *op, ArrayRef<StringAttr> list, StringRef by) {
  for (Value result : op->getResults())
    expect(result, op, list, "shifts along a dimension that " + by + " splits");
}

void PartitionState::expectOfClass(int cls, ArrayRef<StringAttr> list, const std::string &what,
                                   StringRef by) {
  ExpectedCommunication expected;
  expected.axes.assign(list.begin(), list.end());
  expected.cls = cls;
  expected.what = what;
  expected.by = by.str();
  getRecord().expected.push_back(std::move(expected));
}

void PartitionState::completeExpectations() {
  size_t before = current;
  for (TacticRecord &record : records) {
    current = &record - records.data();
    for (const ExpectedCommunication &one : std::exchange(record.expected, {})) {
      if (one.cls < 0) {
        record.expected.push_back(one);
        continue;
      }
      for (ClassUse use : problem.getUses(one.cls)) {
        if (problem.isPermuted(use, one.cls))
          expectPermutation(use.op, one.axes, one.by);
        if (!getReduction(problem.classes.getRule(use.op).factors[use.factor].kind))
          continue;
        for (Value result : use.op->getResults())
          expect(result, nullptr, one.axes,
                 "sums over the " + Twine(one.what) + " that " + one.by + " splits");
      }
    }
  }
  current = before;
}

void PartitionState::expectOfOp(Operation *op, const Twine &why) {
  for (Value operand : op->getOperands())
    expect(operand, op, {}, why);
  for (Value result : op->getResults())
    expect(result, nullptr, {}, why);
}

void PartitionState::explain(const std::string &text, const Twine &why) {
  getRecord().splits.push_back(text);
  getRecord().reasons.push_back(why.str());
}

void PartitionState::explainOnce(const std::string &text) {
  if (!llvm::is_contained(getRecord().splits, text))
    explain(text);
}

void PartitionState::attributeTo(StringRef name, function_ref<void()> run) {
  size_t before = current;
  auto found = llvm::find_if(records, [&](const TacticRecord &r) { return r.name == name; });
  current = found - records.begin();
  if (current == records.size())
    records.push_back({name.str()});
  run();
  current = before;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

SmallVector<StringAttr> PartitionState::getAxes(int cls, Site site, int index) const {
  SmallVector<StringAttr> list;
  if (auto it = axes.find(cls); it != axes.end())
    list.assign(it->second.begin(), it->second.end());
  if (!site)
    return list;
  llvm::erase_if(list, [&](StringAttr axis) { return forbidden.contains({{site, cls}, axis}); });
  if (auto it = locals.find(site); it != locals.end())
    for (const LocalSplit &local : it->second)
      if (local.cls == cls && (index < 0 || local.index == unsigned(index)) &&
          !llvm::is_contained(list, local.axis))
        list.push_back(local.axis);
  auto it = orders.find({site, cls});
  if (it == orders.end())
    return list;
  SmallVector<StringAttr> ordered;
  for (StringAttr axis : it->second)
    if (llvm::is_contained(list, axis))
      ordered.push_back(axis);
  for (StringAttr axis : list)
    if (!llvm::is_contained(ordered, axis))
      ordered.push_back(axis);
  return ordered;
}

bool PartitionState::hasAxis(ArrayRef<int> list, StringAttr axis, Site site, int index) const {
  return llvm::any_of(list,
                      [&](int cls) { return llvm::is_contained(getAxes(cls, site, index), axis); });
}

bool PartitionState::hasAxis(ArrayRef<int> list, StringRef view, Site site, int index) const {
  return llvm::any_of(list, [&](int cls) {
    return llvm::any_of(getAxes(cls, site, index),
                        [&](StringAttr axis) { return problem.isInView(axis, view); });
  });
}

SmallVector<StringAttr> PartitionState::getFreeAtoms(int cls, StringRef view) const {
  FactorClasses &classes = problem.classes;
  SmallVector<StringAttr> atoms = problem.getAtoms(view);
  if (isFixed(cls) || problem.getPreventingOp(cls, atoms) || axes.contains(cls))
    return {};
  for (ClassUse use : problem.getUses(cls))
    for (unsigned factor = 0; factor < classes.getRule(use.op).factors.size(); ++factor)
      llvm::erase_if(atoms, [&](StringAttr axis) {
        return hasAxis(classes.getFactorClasses(use.op, factor), axis);
      });
  return atoms;
}

DimAttr PartitionState::getDim(ArrayRef<int> list, Site site, int index) const {
  MLIRContext *context = problem.module.getContext();
  SmallVector<FactorAttr> factors;
  for (int cls : list)
    factors.push_back(
        FactorAttr::get(context, problem.classes.getSize(cls), getAxes(cls, site, index)));
  if (factors.empty())
    factors.push_back(FactorAttr::get(context, ::tpc::SymExpr(1)));
  const Placement *placement = getPlacement(site);
  if (placement && int(placement->index) == index)
    return DimAttr::get(context, factors, placement->axes);
  return DimAttr::get(context, factors, {});
}

bool PartitionState::usesAxis(StringAttr axis) const {
  return llvm::any_of(axes, [&](auto &e) { return llvm::is_contained(e.second, axis); }) ||
         llvm::any_of(stored, [&](auto &e) {
           return llvm::any_of(e.second,
                               [&](const StoredSplit &split) { return split.axis == axis; });
         });
}

bool PartitionState::usesView(StringRef view) const {
  return llvm::any_of(axes, [&](auto &entry) { return hasAxis({entry.first}, view); });
}

bool PartitionState::isWanted(int cls, StringAttr axis) const {
  return hasAxis({cls}, axis) || llvm::any_of(stored, [&](auto &e) {
           return llvm::any_of(e.second, [&](const StoredSplit &split) {
             return split.cls == cls && split.axis == axis;
           });
         });
}

bool PartitionState::isUnreduced(Value value, StringRef view) const {
  Operation *op = value.getDefiningOp();
  if (!isa_and_nonnull<ShardingRuleOpInterface>(op))
    return false;
  const ShardingRule &rule = problem.classes.getRule(op);
  for (unsigned factor = 0; factor < rule.factors.size(); ++factor)
    if (getReduction(rule.factors[factor].kind) &&
        hasAxis(problem.classes.getFactorClasses(op, factor), view, op, factor))
      return true;
  return false;
}

const PartitionState::Placement *PartitionState::getPlacement(Site site) const {
  auto it = placements.find(site);
  return it == placements.end() ? nullptr : &it->second;
}

ArrayRef<PartitionState::StoredSplit> PartitionState::getStored(Value value) const {
  auto it = stored.find(value);
  return it == stored.end() ? ArrayRef<StoredSplit>() : ArrayRef<StoredSplit>(it->second);
}

ArrayRef<int> PartitionState::getMarked(StringRef role) const {
  auto it = roles.find(role);
  return it == roles.end() ? ArrayRef<int>() : it->second.getArrayRef();
}

bool PartitionState::isMarked(int cls, StringRef role) const {
  auto it = roles.find(role);
  return it != roles.end() && it->second.contains(cls);
}
