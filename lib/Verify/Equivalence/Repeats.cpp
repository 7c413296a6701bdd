//===- Repeats.cpp - Values with repeated slices --------------------------===//

#include "Repeats.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

std::string equivalence::toText(const Repeats &repeats) {
  std::string text;
  for (auto &[dim, repeat] : repeats)
    text += (text.empty() ? "" : ", ") + std::to_string(dim) + ": " + std::to_string(repeat.major) +
            " x " + std::to_string(repeat.times) + " x " + std::to_string(repeat.minor);
  return text;
}

Type equivalence::removeRepeats(Type whole, const Repeats &repeats) {
  if (repeats.empty())
    return whole;
  DistAttr dist = getDist(whole);
  SmallVector<DimAttr> dims(dist.getDims());
  for (auto &[dim, repeat] : repeats)
    dims[dim] = DimAttr::get(whole.getContext(), SymExpr(repeat.major * repeat.minor));
  return makeTensorType(cast<RankedTensorType>(whole).getElementType(), dist.withDims(dims));
}

Repeats equivalence::getRepeats(GatherOp gather) {
  Value indices = gather.getIndices();
  while (isa_and_nonnull<LocalSliceOp, ReshardOp>(indices.getDefiningOp()))
    indices = indices.getDefiningOp()->getOperand(0);
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto values = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  std::optional<int64_t> n = getSizes(gather.getData())[gather.getDim()].asConstant();
  if (!values || values.getType().getRank() != 1 || !n || *n < 1)
    return {};
  int64_t count = values.getNumElements(), times = count / *n, at = 0;
  if (times < 2 || count % *n != 0)
    return {};
  for (const APInt &index : values)
    if (!index.isSignedIntN(64) || index.getSExtValue() != at++ / times)
      return {};
  return {{unsigned(gather.getDim()), {*n, times, 1}}};
}

Repeats equivalence::takeRepeats(ViewAttr &view) {
  Repeats repeats;
  SmallVector<ArrayAttr> dims(view.getDims());
  for (unsigned dim = 0; dim < dims.size(); ++dim) {
    Repeat repeat = {1, 0, 1};
    SmallVector<Attribute> others;
    bool plain = true;
    for (StridedFactorAttr factor : view.getFactors(dim)) {
      if (factor.getStride() == 0 && factor.getSize() > 1) {
        plain &= repeat.times == 0;
        repeat.times = factor.getSize();
        continue;
      }
      int64_t &side = repeat.times == 0 ? repeat.major : repeat.minor;
      plain &= !llvm::MulOverflow(side, factor.getSize(), side);
      others.push_back(factor);
    }
    if (repeat.times == 0 || !plain)
      continue;
    if (others.empty())
      others.push_back(StridedFactorAttr::get(view.getContext(), 1, 1));
    dims[dim] = ArrayAttr::get(view.getContext(), others);
    repeats[dim] = repeat;
  }
  view = ViewAttr::get(view.getContext(), view.getOffset(), dims);
  return repeats;
}
