//===- OpHelpers.cpp - Helpers for op implementations ---------------------===//

#include "OpHelpers.h"

using namespace mlir;
using namespace mlir::tpc;

FailureOr<Sizes> mlir::tpc::broadcastSizes(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b) {
  if (a.size() < b.size())
    std::swap(a, b);
  Sizes result(a.begin(), a.end());
  size_t shift = a.size() - b.size();
  for (size_t i = 0; i < b.size(); ++i) {
    if (result[shift + i] == b[i] || b[i].isConstant(1))
      continue;
    if (!result[shift + i].isConstant(1))
      return failure();
    result[shift + i] = b[i];
  }
  return result;
}

LogicalResult mlir::tpc::inferError(std::optional<Location> loc, const Twine &message) {
  if (loc)
    emitError(*loc) << message;
  return failure();
}

bool mlir::tpc::isLengths(Value v) {
  Type element = getElementTypeOrSelf(v);
  return element.isSignlessInteger(64) || element.isSignlessInteger(32);
}

LogicalResult mlir::tpc::checkSize(Operation *op, const SymExpr &size, StringRef name) {
  if (size.isOverflow())
    return op->emitOpError() << name << ": a coefficient does not fit in 64 bits";
  return success();
}

std::string mlir::tpc::describe(ArrayRef<SymExpr> sizes) {
  std::string text = "[";
  for (const SymExpr &s : sizes)
    text += (text.size() > 1 ? ", " : "") + s.str();
  return text + "]";
}

ShardingRule::Dims mlir::tpc::addDims(ShardingRule &rule, ArrayRef<SymExpr> sizes,
                                      FactorKind kind) {
  ShardingRule::Dims dims;
  for (const SymExpr &size : sizes)
    dims.push_back({rule.addFactor(size, kind)});
  return dims;
}

ShardingRule::Dims mlir::tpc::broadcastDims(ArrayRef<SymExpr> operand, ArrayRef<SymExpr> result,
                                            const ShardingRule::Dims &resultDims) {
  ShardingRule::Dims dims;
  size_t shift = result.size() - operand.size();
  for (size_t i = 0; i < operand.size(); ++i) {
    bool same = operand[i] == result[shift + i];
    dims.push_back(same ? resultDims[shift + i] : ShardingRule::Dim());
  }
  return dims;
}

bool mlir::tpc::compatibleTypes(TypeRange a, TypeRange b) {
  if (a.size() != b.size())
    return false;
  for (auto [x, y] : llvm::zip(a, b)) {
    auto tx = dyn_cast<RankedTensorType>(x), ty = dyn_cast<RankedTensorType>(y);
    if (!tx || !ty || tx.getElementType() != ty.getElementType() || getSizes(tx) != getSizes(ty))
      return false;
  }
  return true;
}

LogicalResult mlir::tpc::checkDim(Operation *op, Value v, int64_t dim, StringRef name) {
  if (dim >= 0 && dim < rankOf(v))
    return success();
  return op->emitOpError() << name << " " << dim << " is not a dimension of " << v.getType();
}
