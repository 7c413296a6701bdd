//===- WidenResidual.cpp - Residual sums in f32 ---------------------------===//
//
// In a 16-bit model, each addition to the residual rounds the sum of all earlier layers. These
// rounding errors accumulate over the depth, and are the largest contribution to the difference
// from f32 results. This pass converts residual sums to f32, without rounding their addends to 16
// bits:
//
//     %p = tpc.matmul %a, %w : … f16            %p = tpc.matmul %a, %w : … f16 -> … f32
//     %y = tpc.add %x, %p : … f16        ->     %y = tpc.add %x, %p : … f32
//     %n = tpc.rms_norm %y, %s : … f16          %n = tpc.rms_norm %y, %s : … f32, … f16 -> … f16
//
//===----------------------------------------------------------------------===//

#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/EquivalenceClasses.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_WIDENRESIDUAL
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;

static bool isHalf(Value v) {
  Type element = getElementTypeOrSelf(v);
  return element.isF16() || element.isBF16();
}

static Type withElements(Value v, Type element) {
  return cast<RankedTensorType>(v.getType()).clone(element);
}

/// Follows reshapes back to their source.
static Value skipReshapes(Value v) {
  while (auto reshape = v.getDefiningOp<ReshapeOp>())
    v = reshape.getOperand();
  return v;
}

/// Returns the defining add of a residual sum: an add of [rows, width] tensors, or of a vector to
/// each row.
static AddOp getSum(Value v) {
  auto add = skipReshapes(v).getDefiningOp<AddOp>();
  if (!add || !isHalf(add.getResult()) || getSizes(add.getResult()).size() < 2)
    return {};
  auto sizes = getSizes(add.getResult());
  bool fits = llvm::all_of(add->getOperands(), [&](Value operand) {
    auto own = getSizes(operand);
    return own == sizes || (own.size() == 1 && own.back() == sizes.back());
  });
  return fits ? add : AddOp();
}

static bool addsRows(AddOp add) {
  return llvm::all_of(add->getOperands(), [&](Value operand) {
    return getSizes(operand).size() > 1 && !operand.getDefiningOp<ParameterOp>();
  });
}

/// Returns the defining matmul if its library call can return f32 results.
static MatmulOp getProduct(Value v) {
  auto product = v.getDefiningOp<MatmulOp>();
  return product && isHalf(v) && product.getRhs().getDefiningOp<ParameterOp>() &&
                 getSizes(product.getRhs()).size() == 2
             ? product
             : MatmulOp();
}

/// Returns true if a norm reads the value, possibly through a cast to f32.
static bool isReadByNorm(Value v) {
  return llvm::any_of(v.getUses(), [](OpOperand &use) {
    Operation *user = use.getOwner();
    if (isa<ReshapeOp>(user) || (isa<CastOp>(user) && isFloatTensor(user->getResult(0))))
      return isReadByNorm(user->getResult(0));
    return isa<NormOpInterface>(user) && use.getOperandNumber() == 0;
  });
}

namespace {
struct WidenResidual : public mlir::tpc::impl::WidenResidualBase<WidenResidual> {
  void runOnOperation() override;
  llvm::SetVector<Operation *> findSums();
  Value inSingle(Value v);
  Value widen(Value v);
  void replace(Value v);

  /// Values converted to f32, in order of conversion.
  llvm::MapVector<Value, Value> wide;
};
} // namespace

/// Returns the connected sets of residual adds in which a norm reads at least one result.
llvm::SetVector<Operation *> WidenResidual::findSums() {
  llvm::EquivalenceClasses<Operation *> connected;
  SmallVector<AddOp> sums;
  getOperation().walk([&](AddOp op) {
    AddOp add = getSum(op.getResult());
    if (!add)
      return;
    sums.push_back(add);
    connected.insert(add);
    for (Value operand : add->getOperands())
      if (AddOp other = getSum(operand))
        connected.unionSets(add, other);
  });
  DenseSet<Operation *> withRows, withNorm;
  for (AddOp add : sums) {
    if (addsRows(add))
      withRows.insert(connected.getLeaderValue(add));
    if (isReadByNorm(add.getResult()))
      withNorm.insert(connected.getLeaderValue(add));
  }
  llvm::SetVector<Operation *> found;
  for (AddOp add : sums)
    if (Operation *leader = connected.getLeaderValue(add);
        withRows.contains(leader) && withNorm.contains(leader))
      found.insert(add);
  return found;
}

Value WidenResidual::inSingle(Value v) {
  if (!isHalf(v))
    return v;
  if (Value known = wide.lookup(v))
    return known;
  Value widened = widen(v);
  wide[v] = widened;
  return widened;
}

Value WidenResidual::widen(Value v) {
  OpBuilder b(&getContext());
  b.setInsertionPointAfterValue(v);
  Type type = withElements(v, b.getF32Type());
  if (auto reshape = v.getDefiningOp<ReshapeOp>();
      reshape && (getProduct(skipReshapes(v)) || wide.count(skipReshapes(v))))
    return ReshapeOp::create(b, v.getLoc(), type, inSingle(reshape.getOperand()));
  MatmulOp product = getProduct(v);
  if (!product)
    return CastOp::create(b, v.getLoc(), type, v);
  Value sums =
      MatmulOp::create(b, v.getLoc(), type, product.getLhs(), product.getRhs(), /*bias=*/Value());
  if (Value bias = product.getBias())
    sums = AddOp::create(b, v.getLoc(), type, sums, inSingle(bias));
  return sums;
}

/// Replaces the uses of a widened value. Users other than norms read it in its original type.
void WidenResidual::replace(Value v) {
  Value single = wide.lookup(v), half;
  for (OpOperand &use : llvm::make_early_inc_range(v.getUses())) {
    Operation *user = use.getOwner();
    auto cast = dyn_cast<CastOp>(user);
    if (cast && cast.getType() == single.getType()) {
      if (cast.getResult() == single)
        continue;
      cast.getResult().replaceAllUsesWith(single);
      cast.erase();
      continue;
    }
    if (isa<AnnotationOp>(user)) {
      use.set(single);
      continue;
    }
    if (!half) {
      OpBuilder b(&getContext());
      b.setInsertionPointAfterValue(single);
      half = CastOp::create(b, v.getLoc(), v.getType(), single);
    }
    use.set(half);
  }
}

void WidenResidual::runOnOperation() {
  wide.clear();
  llvm::SetVector<Operation *> sums = findSums();
  for (Operation *add : sums) {
    OpBuilder b(add);
    Value x = inSingle(add->getOperand(0)), y = inSingle(add->getOperand(1));
    Value v = add->getResult(0);
    wide[v] = AddOp::create(b, add->getLoc(), withElements(v, b.getF32Type()), x, y);
  }
  getOperation().walk([&](NormOpInterface norm) {
    OpOperand &x = norm->getOpOperand(0);
    if (isHalf(x.get()) && wide.count(skipReshapes(x.get())))
      x.set(inSingle(x.get()));
  });
  // Replace values in reverse order, so that earlier values have no remaining users.
  SmallVector<Value> widened;
  for (auto &[v, single] : wide)
    widened.push_back(v);
  for (Value v : llvm::reverse(widened)) {
    Operation *op = v.getDefiningOp();
    // Skips values that were only cast.
    if (!op || !(sums.contains(op) || getProduct(v) || isa<ReshapeOp>(op)) ||
        wide.lookup(v).getDefiningOp<CastOp>())
      continue;
    replace(v);
    if (op->use_empty())
      op->erase();
  }
}
