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

SmallVector<Value> mlir::tpc::broadcastIndex(KernelBuilder &e, Value operand, ValueRange index) {
  SmallVector<Value> result;
  auto sizes = getSizes(operand);
  for (auto [size, i] : llvm::zip_equal(sizes, index.take_back(sizes.size())))
    result.push_back(size.isConstant(1) ? e.constant(0) : i);
  return result;
}

Value mlir::tpc::toIndex(KernelBuilder &e, Value integer, Type tensor) {
  OpBuilder &b = e.builder();
  if (auto cast = integer.getDefiningOp<arith::IndexCastOp>();
      cast && integer.getType().isInteger(64))
    return cast.getIn();
  if (isUnsigned(tensor))
    return arith::IndexCastUIOp::create(b, e.getLoc(), b.getIndexType(), integer);
  return arith::IndexCastOp::create(b, e.getLoc(), b.getIndexType(), integer);
}

Value mlir::tpc::fromIndex(KernelBuilder &e, Value index, Type tensor) {
  OpBuilder &b = e.builder();
  Type type = getScalarType(tensor);
  if (type.isInteger(1))
    return arith::CmpIOp::create(b, e.getLoc(), arith::CmpIPredicate::ne, index, e.constant(0));
  if (!isa<FloatType>(type))
    return arith::IndexCastOp::create(b, e.getLoc(), type, index);
  Value number = arith::IndexCastOp::create(b, e.getLoc(), b.getI64Type(), index);
  return arith::SIToFPOp::create(b, e.getLoc(), type, number);
}

namespace {
/// Model of ops with a scalar body: applies the body to operands that broadcast.
template <typename OpT>
struct ScalarModel : KernelOpInterface::ExternalModel<ScalarModel<OpT>, OpT> {
  Value buildElement(Operation *op, KernelBuilder &e, ValueRange index) const {
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
