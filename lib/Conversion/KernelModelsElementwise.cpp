//===- KernelModelsElementwise.cpp - Element-wise ops in kernels ----------===//

#include "KernelModels.h"
#include "tpc/Dialect/AttachModels.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;

bool mlir::tpc::haveSameRows(Value a, Value b, int64_t rank) {
  if (rank == 0)
    return true;
  ArrayRef<DimAttr> x = getDist(a).getDims(), y = getDist(b).getDims();
  if ((int64_t)x.size() < rank || (int64_t)y.size() < rank)
    return false;
  return x.take_front(rank) == y.take_front(rank);
}

SmallVector<Value> mlir::tpc::broadcastIndex(KernelEmitter &e, Value operand, ValueRange index) {
  SmallVector<Value> result;
  auto sizes = getSizes(operand);
  for (auto [size, i] : llvm::zip_equal(sizes, index.take_back(sizes.size())))
    result.push_back(size.isConstant(1) ? e.constant(0) : i);
  return result;
}

Value mlir::tpc::toIndex(KernelEmitter &e, Value integer, Type tensor) {
  OpBuilder &b = e.builder();
  if (integer.getType().isInteger(64))
    return integer;
  if (isUnsigned(tensor))
    return arith::ExtUIOp::create(b, e.getLoc(), b.getI64Type(), integer);
  return arith::ExtSIOp::create(b, e.getLoc(), b.getI64Type(), integer);
}

Value mlir::tpc::fromIndex(KernelEmitter &e, Value index, Type tensor) {
  OpBuilder &b = e.builder();
  Type type = getScalarType(tensor);
  if (isa<FloatType>(type))
    return arith::SIToFPOp::create(b, e.getLoc(), type, index);
  if (type.isInteger(64))
    return index;
  if (type.isInteger(1))
    return LLVM::ICmpOp::create(b, e.getLoc(), LLVM::ICmpPredicate::ne, index, e.constant(0));
  return arith::TruncIOp::create(b, e.getLoc(), type, index);
}

namespace {
/// An op with a scalar body: the body, on operands that broadcast.
template <typename OpT>
struct ScalarModel : KernelOpInterface::ExternalModel<ScalarModel<OpT>, OpT> {
  Value buildElement(Operation *op, KernelEmitter &e, ValueRange index) const {
    SmallVector<Value> operands;
    for (Value operand : op->getOperands())
      operands.push_back(e.wide(operand, broadcastIndex(e, operand, index)));
    Value y = cast<ScalarOpInterface>(op).buildScalar(e.builder(), e.getLoc(), operands);
    return e.narrow(y, op->getResult(0).getType());
  }
  bool isRowAligned(Operation *op, unsigned operand, int64_t rank) const {
    Value x = op->getOperand(operand), y = op->getResult(0);
    return cast<RankedTensorType>(x.getType()).getRank() ==
               cast<RankedTensorType>(y.getType()).getRank() &&
           haveSameRows(x, y, rank);
  }
  bool isCheap(Operation *op) const { return cast<ScalarOpInterface>(op).isCheapScalar(); }
};
} // namespace

void mlir::tpc::attachElementwiseModels(MLIRContext *context) {
  attachToScalarOps<ScalarModel>(context);
}
