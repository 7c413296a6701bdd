//===- WidenMatmuls.cpp - Widening of matmuls, attention and experts ------===//

#include "BufferPlanner.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Experts.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_WIDENMATMULS
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

static bool isHalf(Value v) {
  Type type = getElementTypeOrSelf(v);
  return type.isF16() || type.isBF16();
}

namespace {
struct WidenMatmuls : mlir::tpc::impl::WidenMatmulsBase<WidenMatmuls> {
  void runOnOperation() override;
  void widen(Operation *op, const ParameterTable &parameters);
  Value inSingle(Value v, bool isLoaded);

  /// Existing f32 casts of a value: computed casts, and casts at load time.
  DenseMap<Value, Value> computed, loaded;
};
} // namespace

static Type withElements(Type tensor, Type element) {
  return cast<RankedTensorType>(tensor).clone(element);
}

Value WidenMatmuls::inSingle(Value v, bool isLoaded) {
  Value &copy = (isLoaded ? loaded : computed)[v];
  if (!copy) {
    OpBuilder b(&getContext());
    b.setInsertionPointAfterValue(v);
    auto cast = CastOp::create(b, v.getLoc(), withElements(v.getType(), b.getF32Type()), v);
    if (isLoaded)
      cast->setAttr(kLoadedAttr, b.getUnitAttr());
    copy = cast;
  }
  return copy;
}

/// Rounds the result of a matmul to 16 bits and widens it again. Used for matmuls without packed
/// parameters, which cannot return f32 for 16-bit operands.
static void roundResult(MatmulOp op) {
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  Value result = op.getResult();
  Type single = result.getType();
  result.setType(withElements(single, getElementTypeOrSelf(op.getLhs())));
  auto widened = CastOp::create(b, op.getLoc(), single, result);
  result.replaceAllUsesExcept(widened.getResult(), widened);
}

/// Returns the matrices of experts, which all targets read in 16 bits.
static SmallVector<OpOperand *> getHalfMatrices(Operation *base) {
  auto op = dyn_cast<MoeOp>(base);
  if (!op)
    return {};
  SmallVector<OpOperand *> matrices{&op.getUpMutable(), &op.getDownMutable()};
  for (OpOperand &gate : op.getGateMutable())
    matrices.push_back(&gate);
  return matrices;
}

/// Removes casts from 16 bits to f32 of the matrices of experts.
static void readInHalves(MoeOp op) {
  SmallVector<OpOperand *> matrices = getHalfMatrices(op);
  Type half;
  for (OpOperand *matrix : matrices) {
    auto cast = matrix->get().getDefiningOp<CastOp>();
    if (!cast || !isHalf(cast.getOperand()) ||
        (half && getElementTypeOrSelf(cast.getOperand()) != half))
      return;
    half = getElementTypeOrSelf(cast.getOperand());
  }
  for (OpOperand *matrix : matrices)
    matrix->set(matrix->get().getDefiningOp<CastOp>().getOperand());
}

void WidenMatmuls::widen(Operation *op, const ParameterTable &parameters) {
  SmallVector<OpOperand *> halfMatrices = getHalfMatrices(op);
  for (OpOperand &operand : op->getOpOperands()) {
    Value v = operand.get();
    if (!isHalf(v) || llvm::is_contained(halfMatrices, &operand))
      continue;
    bool isLoaded = isa<MatmulOp>(op) && operand.getOperandNumber() == 1 && parameters.lookup(v) &&
                    cast<RankedTensorType>(v.getType()).getRank() == 2;
    operand.set(inSingle(v, isLoaded));
  }
  Value result = op->getResult(0);
  if (!isHalf(result))
    return;
  Type half = result.getType();
  OpBuilder b(op->getContext());
  b.setInsertionPointAfter(op);
  result.setType(withElements(half, b.getF32Type()));
  auto rounded = CastOp::create(b, op->getLoc(), half, result);
  // Marks the cast that rounds the result, which may be unreduced.
  rounded->setAttr(kRoundsPartsAttr, b.getUnitAttr());
  result.replaceAllUsesExcept(rounded.getResult(), rounded);
}

/// Returns true for a cast of a 16-bit parameter to f32 whose users are matmuls in f32 on a target
/// that loads such parameters in f32.
static bool isLoadedInSingle(CastOp op, const ParameterTable &parameters) {
  auto isRhs = [&](OpOperand &use) {
    auto matmul = dyn_cast<MatmulOp>(use.getOwner());
    return matmul && use.getOperandNumber() == 1 && !isHalf(matmul.getLhs()) &&
           !TargetTraits::get(matmul).computesMatmuls(getElementTypeOrSelf(op.getOperand()));
  };
  return isHalf(op.getOperand()) && getElementTypeOrSelf(op.getResult()).isF32() &&
         cast<RankedTensorType>(op.getType()).getRank() == 2 &&
         parameters.lookup(op.getOperand()) && !op->use_empty() &&
         llvm::all_of(op->getUses(), isRhs);
}

void WidenMatmuls::runOnOperation() {
  // This is the first pass that reads the target, so it checks the name.
  if (failed(TargetTraits::verify(getOperation())))
    return signalPassFailure();
  ParameterTable parameters(getOperation());
  SmallVector<Operation *> ops;
  SmallVector<MatmulOp> unpacked;
  getOperation().walk([&](CastOp op) {
    if (isLoadedInSingle(op, parameters))
      op->setAttr(kLoadedAttr, UnitAttr::get(&getContext()));
  });
  getOperation().walk([&](Operation *op) {
    if (auto moe = dyn_cast<MoeOp>(op); moe && getElementTypeOrSelf(moe.getX()).isF32())
      readInHalves(moe);
    if (!isa<MatmulOp, AttentionOp, MoeOp>(op) || !isHalf(op->getOperand(0)))
      return;
    // Experts are computed in f32 by all libraries.
    if (isa<MoeOp>(op) ||
        !TargetTraits::get(op).computesMatmuls(getElementTypeOrSelf(op->getOperand(0))))
      ops.push_back(op);
    else if (auto matmul = dyn_cast<MatmulOp>(op);
             matmul && !isHalf(matmul.getResult()) && !parameters.isPackedMatmul(matmul))
      unpacked.push_back(matmul);
  });
  llvm::for_each(unpacked, roundResult);
  for (Operation *op : ops)
    widen(op, parameters);
}
