//===- AnnotatedHeads.cpp - Annotations of grouped heads ------------------===//

#include "AnnotatedHeads.h"
#include "BuiltinTactics.h"
#include "tpc/Dialect/Sharding.h"

using namespace mlir;
using namespace mlir::tpc;

/// Returns the annotation's factor whose index changes by a step of `stride` elements in the
/// row-major weight, and the change of that index. The factor is null if the annotation leaves the
/// dimension to other tactics.
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
  // Adds one annotation to the summary. `isKv`: of a dimension of keys or values, not of queries.
  // `isRepeatable`: repeated kv heads can satisfy it.
  auto note = [&](FactorAttr factor, bool isKv, bool isRepeatable, StringRef name,
                  ArrayAttr sharding) {
    if (!factor)
      return;
    bool tp = llvm::any_of(factor.getAxes(),
                           [&](StringAttr axis) { return llvm::is_contained(tensorAxes, axis); });
    if (factor.getAxes().empty())
      (isKv ? summary.whole : summary.other) = true;
    else if (!tp || !isRepeatable)
      summary.other = true;
    else if (isKv)
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
      bool isKv = minor.empty() || minor.front() != group;
      if (!parameter) {
        if (auto entry = dyn_cast_or_null<DimAttr>(dim < sharding.size() ? sharding[dim] : nullptr))
          note(entry.getFactors()[0], isKv, !isKv && entry.getFactors().size() == 1,
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
      // Without repetition, a query annotation must have kv heads and group in one factor. Other
      // annotations divide the group: each kv head is then repeated `steps` times.
      auto [factor, steps] = getFactor(minor);
      bool isRepeatable = isKv || factor == getFactor(minor.drop_front()).first;
      if (!isRepeatable && factor && !factor.getAxes().empty()) {
        auto heads = classes.getSize(group).asConstant(), kv = classes.getSize(cls).asConstant();
        isRepeatable = heads && kv && *heads % steps == 0 &&
                       factor.getExpr().isConstant(*kv * steps) &&
                       summary.repeats.value_or(steps) == steps;
        summary.repeats = steps;
      }
      note(factor, isKv, isRepeatable, weight.getSymName(), sharding);
    }
  });
  return summary;
}
