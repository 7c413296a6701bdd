//===- StackWeights.cpp - Weights of experts as one weight ----------------===//

#include "StackedWeights.h"
#include "tpc/Dialect/Sharding.h"
#include "tpc/Dialect/WeightParts.h"
#include "tpc/Transforms/Model/Passes.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_STACKWEIGHTS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

ParameterOp mlir::tpc::getStackedParameter(Value v) {
  if (auto cast = v.getDefiningOp<CastOp>())
    v = cast.getOperand();
  return v.getDefiningOp<ParameterOp>();
}

std::string mlir::tpc::explainNotStacked(ArrayRef<Value> values) {
  SmallVector<ParameterOp> parameters;
  for (Value v : values) {
    ParameterOp parameter = getStackedParameter(v);
    if (!parameter || v.getType() != values[0].getType() ||
        parameter.getType() != getStackedParameter(values[0]).getType())
      return "they are not weights of one type";
    parameters.push_back(parameter);
  }
  ParameterOp first = parameters[0];
  WeightOp weight = first.getWeightOp();
  ViewAttr view = first.getViewOrDense();
  bool isOne = parameters.back().getWeightAttr() == first.getWeightAttr();
  llvm::DenseSet<Attribute> seen;
  for (auto [i, parameter] : llvm::enumerate(parameters)) {
    ViewAttr own = parameter.getViewOrDense();
    WeightOp other = parameter.getWeightOp();
    if (own.getDims() != view.getDims())
      return "they are different views of their weights";
    if (isOne) {
      int64_t distance = parameters[1].getViewOrDense().getOffset() - view.getOffset();
      if (other != weight || distance <= 0 ||
          own.getOffset() != view.getOffset() + int64_t(i) * distance)
        return "they are not at equal distances of one weight";
      continue;
    }
    if (own.getOffset() != view.getOffset() || other.getType() != weight.getType())
      return "they are different views of their weights";
    if (other.getFile() != weight.getFile() || other.getFile().empty())
      return "they are in different files";
    if (!seen.insert(parameter.getWeightAttr()).second)
      return "some share a weight";
    if (other->hasAttr(kShardingAttr) || !getParts(other).empty())
      return "a weight has an annotation of its own";
  }
  return "";
}

namespace {

struct StackWeights : public mlir::tpc::impl::StackWeightsBase<StackWeights> {
  void runOnOperation() override;
  void stack(ConcatOp op);
  WeightOp getStacked(ArrayRef<ParameterOp> parameters);

  /// New weights by the symbols of their parts.
  DenseMap<Attribute, WeightOp> stacked;
  llvm::SetVector<Operation *> parts;
};

/// Returns the values without their first dimension of size 1; nothing if one has another size.
SmallVector<Value> getOperands(ConcatOp op) {
  SmallVector<Value> values;
  if (op.getDim() != 0 || op.getOperands().size() < 2)
    return values;
  for (Value v : op.getOperands()) {
    if (!getSizes(v)[0].isConstant(1) || !getStackedParameter(v))
      return {};
    values.push_back(v);
  }
  return values;
}

WeightOp StackWeights::getStacked(ArrayRef<ParameterOp> parameters) {
  SmallVector<Attribute> symbols;
  for (ParameterOp parameter : parameters)
    symbols.push_back(parameter.getWeightAttr());
  WeightOp &found = stacked[ArrayAttr::get(&getContext(), symbols)];
  if (found)
    return found;
  SmallVector<int64_t> offsets;
  for (ParameterOp parameter : parameters) {
    WeightOp weight = parameter.getWeightOp();
    offsets.push_back(int64_t(weight.getOffset()));
    parts.insert(weight);
  }
  WeightOp first = ParameterOp(parameters[0]).getWeightOp();
  auto type = cast<RankedTensorType>(first.getType());
  SmallVector<int64_t> shape{int64_t(parameters.size())};
  llvm::append_range(shape, type.getShape());
  OpBuilder b(first);
  found =
      WeightOp::create(b, first.getLoc(), (first.getSymName() + ".stacked").str(), first.getFile(),
                       first.getOffset(), RankedTensorType::get(shape, type.getElementType()));
  found->setAttr(kPartsAttr, b.getDenseI64ArrayAttr(offsets));
  SymbolTable(getOperation()).insert(found);
  return found;
}

void StackWeights::stack(ConcatOp op) {
  SmallVector<Value> values = getOperands(op);
  if (values.empty() || !explainNotStacked(values).empty())
    return;
  SmallVector<ParameterOp> parameters = llvm::map_to_vector(values, getStackedParameter);
  ParameterOp first = parameters[0];
  WeightOp weight = first.getWeightOp();
  ViewAttr view = first.getViewOrDense();
  int64_t distance = parameters[1].getViewOrDense().getOffset() - view.getOffset();
  if (parameters[1].getWeightAttr() != first.getWeightAttr()) {
    distance = cast<RankedTensorType>(weight.getType()).getNumElements();
    weight = getStacked(parameters);
  }
  SmallVector<ArrayAttr> dims(view.getDims());
  dims[0] = ArrayAttr::get(
      &getContext(), {StridedFactorAttr::get(&getContext(), int64_t(values.size()), distance)});
  OpBuilder b(op);
  auto type = cast<RankedTensorType>(op.getType());
  Type element = cast<RankedTensorType>(first.getType()).getElementType();
  Value all = ParameterOp::create(b, first.getLoc(), type.clone(element),
                                  FlatSymbolRefAttr::get(weight.getSymNameAttr()),
                                  ViewAttr::get(&getContext(), view.getOffset(), dims));
  if (element != type.getElementType())
    all = CastOp::create(b, op.getLoc(), type, all);
  op.replaceAllUsesWith(all);
  op.erase();
  for (Value v : values)
    for (Operation *unused = v.getDefiningOp(); unused && isOpTriviallyDead(unused);) {
      Operation *next = unused->getNumOperands() ? unused->getOperand(0).getDefiningOp() : nullptr;
      unused->erase();
      unused = next;
    }
}

void StackWeights::runOnOperation() {
  SmallVector<ConcatOp> ops;
  getOperation().walk([&](ConcatOp op) { ops.push_back(op); });
  llvm::for_each(ops, [&](ConcatOp op) { stack(op); });
  DenseSet<Attribute> used;
  getOperation().walk([&](ParameterOp op) { used.insert(op.getWeightAttr()); });
  for (Operation *part : parts)
    if (!used.contains(FlatSymbolRefAttr::get(cast<WeightOp>(part).getSymNameAttr())))
      part->erase();
}

} // namespace
