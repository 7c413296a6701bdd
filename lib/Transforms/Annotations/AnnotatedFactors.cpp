//===- AnnotatedFactors.cpp - Factor classes that match annotations -------===//

#include "tpc/Transforms/Annotations/AnnotatedFactors.h"

#include "tpc/Dialect/Sharding.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

SmallVector<StringAttr> AnnotatedFactors::getAxes(FactorAttr factor) const {
  SmallVector<StringAttr> axes;
  for (StringAttr axis : factor.getAxes())
    if (grid.getAxisSize(axis) > 1)
      axes.push_back(axis);
  return axes;
}

int64_t AnnotatedFactors::countShards(FactorAttr factor) const {
  int64_t parts = 1;
  for (StringAttr axis : getAxes(factor))
    parts *= grid.getAxisSize(axis);
  return parts;
}

std::optional<AnnotatedClass> AnnotatedFactors::find(Value value, unsigned dim, DimAttr annotation,
                                                     unsigned factor) {
  FactorAttr named = annotation.getFactors()[factor];
  SymExpr parts(countShards(named)), size = named.getExpr(), steps(1);
  for (FactorAttr inner : annotation.getFactors().drop_front(factor + 1))
    steps = steps * inner.getExpr();
  SymExpr clsSteps(1);
  FactorClasses::Classes list = classes.getClasses(value, dim);
  for (int cls : llvm::reverse(list)) {
    const SymExpr &clsSize = classes.getSize(cls);
    if (clsSteps == steps && clsSize == size)
      return AnnotatedClass{cls, dim};
    // A class of another size matches if its shards cover equally many elements of the dimension.
    auto part = size.divideExact(parts), clsPart = clsSize.divideExact(parts);
    if (part && clsPart && *part * steps == *clsPart * clsSteps)
      return AnnotatedClass{cls, dim};
    clsSteps = clsSteps * clsSize;
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Views of weights
//===----------------------------------------------------------------------===//

namespace {
/// Indices of one dimension of a weight that a view contains.
class WeightDim {
public:
  WeightDim(ParameterOp parameter, WeightOp weight, unsigned dim)
      : view(parameter.getViewOrDense()) {
    ArrayRef<int64_t> shape = cast<RankedTensorType>(weight.getType()).getShape();
    for (int64_t inner : shape.drop_front(dim + 1))
      stride *= inner;
    size = shape[dim];
    for (unsigned d = 0; d < view.getDims().size(); ++d) {
      int64_t count = 1;
      factors.push_back(view.getFactors(d));
      for (StridedFactorAttr factor : factors.back()) {
        count *= factor.getSize();
        int64_t step = std::abs(factor.getStride());
        if (factor.getSize() > 1 && step >= stride && step < stride * size &&
            (dims.empty() || dims.back() != d))
          dims.push_back(d);
      }
      counts.push_back(count);
    }
  }

  /// Calls `fn` with indices of the view's dimensions and the corresponding index of the weight,
  /// until it returns false. Indices of other dimensions of the view are 0.
  bool walk(function_ref<bool(ArrayRef<int64_t>, int64_t)> fn) const {
    SmallVector<int64_t> indices(counts.size());
    while (true) {
      int64_t element = view.getOffset();
      for (unsigned d : dims) {
        int64_t rest = indices[d];
        for (StridedFactorAttr factor : llvm::reverse(factors[d])) {
          element += rest % factor.getSize() * factor.getStride();
          rest /= factor.getSize();
        }
      }
      if (!fn(indices, element / stride % size))
        return false;
      size_t next = dims.size();
      while (next > 0 && ++indices[dims[next - 1]] == counts[dims[next - 1]])
        indices[dims[--next]] = 0;
      if (next == 0)
        return true;
    }
  }

  ViewAttr view;
  int64_t stride = 1, size = 1;
  SmallVector<unsigned> dims; // view dimensions that vary the weight's index
  SmallVector<SmallVector<StridedFactorAttr>> factors; // per view dimension
  SmallVector<int64_t> counts;                         // product of the factors, per view dimension
};
} // namespace

/// Returns the shard of element `index` of a dimension that is split over axes of sizes `ranks`,
/// one after the other. Shards are numbered with the last axis varying fastest.
static int64_t partOf(int64_t index, int64_t size, ArrayRef<int64_t> ranks) {
  int64_t part = 0;
  for (int64_t count : ranks) {
    int64_t c = 0;
    while (index >= ::tpc::shardBegin(size, count, c) + ::tpc::shardSize(size, count, c))
      ++c;
    index -= ::tpc::shardBegin(size, count, c);
    size = ::tpc::shardSize(size, count, c);
    part = part * count + c;
  }
  return part;
}

bool AnnotatedFactors::varies(ParameterOp parameter, WeightOp weight, unsigned dim) {
  return !WeightDim(parameter, weight, dim).dims.empty();
}

std::optional<AnnotatedClass> AnnotatedFactors::find(ParameterOp parameter, WeightOp weight,
                                                     unsigned dim, DimAttr annotation,
                                                     unsigned factor) {
  WeightDim read(parameter, weight, dim);
  FactorAttr named = annotation.getFactors()[factor];
  int64_t steps = 1, size = named.getExpr().asConstant().value_or(1);
  for (FactorAttr inner : annotation.getFactors().drop_front(factor + 1))
    steps *= inner.getExpr().asConstant().value_or(1);
  SmallVector<int64_t> ranks;
  for (StringAttr axis : getAxes(named))
    ranks.push_back(grid.getAxisSize(axis));
  for (unsigned d : read.dims) {
    int64_t clsSteps = 1;
    FactorClasses::Classes list = classes.getClasses(parameter.getResult(), d);
    for (int cls : llvm::reverse(list)) {
      int64_t clsSize = classes.getSize(cls).asConstant().value_or(1);
      if (read.walk([&](ArrayRef<int64_t> indices, int64_t index) {
            return partOf(index / steps % size, size, ranks) ==
                   partOf(indices[d] / clsSteps % clsSize, clsSize, ranks);
          }))
        return AnnotatedClass{cls, d};
      clsSteps *= clsSize;
    }
  }
  return std::nullopt;
}

//===----------------------------------------------------------------------===//
// Division
//===----------------------------------------------------------------------===//

void AnnotatedFactors::divide(ParameterOp parameter, WeightOp weight, ArrayAttr sharding) {
  for (auto [i, entry] : llvm::enumerate(sharding)) {
    auto dim = dyn_cast<DimAttr>(entry);
    if (!isExact(dim))
      continue;
    WeightDim read(parameter, weight, i);
    int64_t begin = read.stride;
    for (unsigned f = dim.getFactors().size(); f-- > 0;) {
      FactorAttr factor = dim.getFactors()[f];
      int64_t end = begin * factor.getExpr().asConstant().value_or(1);
      if (!getAxes(factor).empty() && !find(parameter, weight, i, dim, f))
        // Collects the begin and end of the factor in the view's dimensions.
        for (unsigned d : read.dims) {
          int64_t inner = 1;
          std::set<int64_t> at;
          for (StridedFactorAttr strided : llvm::reverse(read.factors[d])) {
            int64_t stride = std::abs(strided.getStride());
            for (int64_t border : {begin, end})
              if (stride > 0 && border % stride == 0 && border > stride &&
                  border < stride * strided.getSize())
                at.insert(inner * (border / stride));
            inner *= strided.getSize();
          }
          at.insert(inner);
          SmallVector<SymExpr> sizes;
          int64_t last = 1;
          bool divides = true;
          for (int64_t border : at) {
            divides &= border % last == 0;
            sizes.insert(sizes.begin(), SymExpr(border / last));
            last = border;
          }
          if (divides && sizes.size() > 1)
            classes.divide(parameter.getResult(), d, sizes);
        }
      begin = end;
    }
  }
}

void AnnotatedFactors::divide(Value value, ArrayAttr sharding) {
  for (auto [i, entry] : llvm::enumerate(sharding)) {
    auto dim = dyn_cast<DimAttr>(entry);
    if (!isExact(dim))
      continue;
    bool found = true;
    SmallVector<SymExpr> sizes;
    for (auto [f, factor] : llvm::enumerate(dim.getFactors())) {
      sizes.push_back(factor.getExpr());
      found &= getAxes(factor).empty() || find(value, i, dim, f);
    }
    if (!found)
      classes.divide(value, i, sizes);
  }
}

void AnnotatedFactors::divide(ModuleOp module) {
  SymbolTableCollection tables;
  module.walk([&](Operation *op) {
    if (auto parameter = dyn_cast<ParameterOp>(op)) {
      auto weight = tables.lookupNearestSymbolFrom<WeightOp>(op, parameter.getWeightAttr());
      if (auto sharding = weight->getAttrOfType<ArrayAttr>(kShardingAttr))
        divide(parameter, weight, sharding);
    } else if (auto sharding = op->getAttrOfType<ArrayAttr>(kShardingAttr)) {
      if (!isa<WeightOp>(op) && op->getNumResults() == 1)
        divide(op->getResult(0), sharding);
    }
  });
  auto main = module.lookupSymbol<func::FuncOp>("main");
  for (BlockArgument input : main.getArguments())
    if (auto sharding = main.getArgAttrOfType<ArrayAttr>(input.getArgNumber(), kShardingAttr))
      divide(input, sharding);
}
