//===- AnnotatedHeads.cpp - Annotations of grouped heads ------------------===//

#include "AnnotatedHeads.h"
#include "BuiltinTactics.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the factor of an annotated weight that contains elements at distance `stride`, and
/// `stride` in units of that factor. The factor is null if the annotation leaves the dimension to
/// other tactics.
static std::pair<FactorAttr, int64_t> getFactorAt(ArrayAttr sharding, ArrayRef<int64_t> shape,
                                                  int64_t stride) {
  for (size_t i = shape.size(); i-- > 0; stride /= shape[i]) {
    if (stride >= shape[i])
      continue;
    auto dim = dyn_cast<DimAttr>(sharding[i]);
    if (!dim)
      return {};
    for (FactorAttr factor : llvm::reverse(dim.getFactors())) {
      int64_t size = factor.getExpr().asConstant().value_or(1);
      if (stride < size)
        return {factor, stride};
      stride /= size;
    }
    return {};
  }
  return {};
}

AnnotatedHeads mlir::tpc::getAnnotatedHeads(ModuleOp module, FactorClasses &classes, int cls,
                                            int group, ArrayRef<StringAttr> tensorAxes) {
  AnnotatedHeads summary;
  auto note = [&](FactorAttr factor, bool keys, bool fits, StringRef name, ArrayAttr sharding) {
    if (!factor)
      return;
    bool tp = llvm::any_of(factor.getAxes(),
                           [&](StringAttr axis) { return llvm::is_contained(tensorAxes, axis); });
    if (factor.getAxes().empty())
      (keys ? summary.whole : summary.other) = true;
    else if (!tp || !fits)
      summary.other = true;
    else if (keys)
      summary.split = true;
    if (summary.by.empty())
      summary.by = "'" + name.str() + "' " + printSharding(sharding);
  };
  SymbolTableCollection tables;
  module.walk([&](Operation *op) {
    auto parameter = dyn_cast<ParameterOp>(op);
    Operation *annotated =
        parameter ? tables.lookupNearestSymbolFrom(op, parameter.getWeightAttr()) : op;
    auto sharding = annotated ? annotated->getAttrOfType<ArrayAttr>(kShardingAttr) : ArrayAttr();
    if (!sharding || op->getNumResults() != 1)
      return;
    Value value = op->getResult(0);
    for (unsigned dim = 0; dim < getSizes(value).size(); ++dim) {
      FactorClasses::Classes list = classes.getClasses(value, dim);
      auto *found = llvm::find(list, cls);
      if (found == list.end())
        continue;
      ArrayRef<int> minor = ArrayRef<int>(list).drop_front(found - list.begin() + 1);
      bool keys = minor.empty() || minor.front() != group;
      if (!parameter) {
        if (auto entry = dyn_cast_or_null<DimAttr>(dim < sharding.size() ? sharding[dim] : nullptr))
          note(entry.getFactors()[0], keys, !keys && entry.getFactors().size() == 1,
               getSourceName(op->getLoc()), sharding);
        continue;
      }
      auto weight = cast<WeightOp>(annotated);
      SmallVector<StridedFactorAttr> factors = parameter.getViewOrDense().getFactors(dim);
      auto getFactor = [&](ArrayRef<int> inner) {
        int64_t steps = 1;
        for (int leaf : inner)
          steps *= classes.getSize(leaf).asConstant().value_or(1);
        return getFactorAt(sharding, cast<RankedTensorType>(weight.getType()).getShape(),
                           getStride(factors, steps));
      };
      // If the group is divided, annotations of kv heads must also cover the group.
      auto [factor, steps] = getFactor(minor);
      bool fits = keys || factor == getFactor(minor.drop_front()).first;
      if (!fits && factor && !factor.getAxes().empty()) {
        auto heads = classes.getSize(group).asConstant(), kv = classes.getSize(cls).asConstant();
        fits = heads && kv && *heads % steps == 0 && factor.getExpr().isConstant(*kv * steps) &&
               summary.repeats.value_or(steps) == steps;
        summary.repeats = steps;
      }
      note(factor, keys, fits, weight.getSymName(), sharding);
    }
  });
  return summary;
}
