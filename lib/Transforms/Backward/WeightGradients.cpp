//===- WeightGradients.cpp - Gradients of weights from their uses ---------===//

#include "WeightGradients.h"

#include "llvm/ADT/BitVector.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// The gradient of the elements of one view.
struct ViewGradient {
  ParameterOp parameter;
  ViewAttr view;
  Value gradient;
};
} // namespace

/// Returns the permutation that transposes `from` to `to`: dimension i of `to` is dimension
/// permutation[i] of `from`. Nothing if there is none.
static std::optional<SmallVector<int64_t>> findPermutation(ViewAttr from, ViewAttr to) {
  if (from.getOffset() != to.getOffset() || from.getDims().size() != to.getDims().size())
    return std::nullopt;
  SmallVector<int64_t> permutation;
  for (ArrayAttr dim : to.getDims()) {
    auto it = llvm::find_if(llvm::seq<int64_t>(0, from.getDims().size()), [&](int64_t i) {
      return from.getDims()[i] == dim && !llvm::is_contained(permutation, i);
    });
    if (it == llvm::seq<int64_t>(0, from.getDims().size()).end())
      return std::nullopt;
    permutation.push_back(*it);
  }
  return permutation;
}

/// Marks the elements of a view. Returns false if one is already marked.
static bool mark(ViewAttr view, llvm::BitVector &elements) {
  SmallVector<int64_t> offsets = {view.getOffset()};
  for (unsigned dim = 0; dim < view.getDims().size(); ++dim)
    for (StridedFactorAttr factor : view.getFactors(dim)) {
      SmallVector<int64_t> next;
      next.reserve(offsets.size() * factor.getSize());
      for (int64_t offset : offsets)
        for (int64_t i = 0; i < factor.getSize(); ++i)
          next.push_back(offset + i * factor.getStride());
      offsets = std::move(next);
    }
  for (int64_t offset : offsets) {
    if (offset < 0 || offset >= int64_t(elements.size()) || elements.test(offset))
      return false;
    elements.set(offset);
  }
  return true;
}

/// Checks that the views of a weight have no element in common.
static LogicalResult checkDisjoint(WeightOp weight, MutableArrayRef<ViewGradient> list) {
  bool isDense = list.size() == 1 && !list.front().parameter.getView();
  if (isDense)
    return success();
  llvm::BitVector elements(cast<RankedTensorType>(weight.getType()).getNumElements());
  for (ViewGradient &entry : list)
    if (!mark(entry.view, elements))
      return emitError(entry.parameter.getLoc())
             << "weight '" << weight.getSymName()
             << "' is read through overlapping views, whose gradients cannot be separated";
  return success();
}

LogicalResult mlir::tpc::collectWeightGradients(GradientBuilder &b, ModuleOp module,
                                                func::FuncOp main,
                                                SmallVectorImpl<NamedValue> &results) {
  llvm::MapVector<WeightOp, SmallVector<ViewGradient>> gradients;
  for (auto weight : module.getOps<WeightOp>())
    gradients[weight];
  for (auto parameter : main.getOps<ParameterOp>()) {
    Value gradient = b.getCotangent(parameter.getResult());
    if (!gradient)
      continue;
    b.setLoc(parameter.getLoc());
    ViewAttr view = parameter.getViewOrDense();
    SmallVector<ViewGradient> &list = gradients[parameter.getWeightOp()];
    bool added = false;
    for (ViewGradient &entry : list)
      if (auto permutation = findPermutation(view, entry.view)) {
        if (!llvm::is_sorted(*permutation))
          gradient = b.transpose(gradient, *permutation);
        entry.gradient = b.add(entry.gradient, gradient);
        added = true;
        break;
      }
    if (!added)
      list.push_back({parameter, view, gradient});
  }
  for (auto &[weight, list] : gradients) {
    if (list.empty())
      continue;
    if (failed(checkDisjoint(weight, list)))
      return failure();
    llvm::stable_sort(list, [](const ViewGradient &x, const ViewGradient &y) {
      return x.view.getOffset() < y.view.getOffset();
    });
    std::string name = ("grad." + weight.getSymName()).str();
    for (const ViewGradient &entry : list)
      results.push_back(
          {list.size() == 1 ? name : name + ".at" + std::to_string(entry.view.getOffset()),
           entry.gradient});
  }
  return success();
}
