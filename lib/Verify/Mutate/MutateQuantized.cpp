//===- MutateQuantized.cpp - Faults in quantized weights ------------------===//

#include "Mutate.h"
#include "tpc/Dialect/Quantized.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::mutate;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Programs on tensors
//===----------------------------------------------------------------------===//

static DequantizeOp pickWeight(Mutator &m, llvm::function_ref<bool(DequantizeOp)> fits) {
  // Skips constant zero points, which are dequantized with a constant scale of 1.
  return m.pick<DequantizeOp>(
      [&](DequantizeOp op) { return !op.getScale().getDefiningOp<ConstantOp>() && fits(op); });
}
static bool isAny(DequantizeOp) { return true; }

static bool otherZeroPoint(Mutator &m) {
  auto op = pickWeight(m, [](DequantizeOp op) { return !op.getZero(); });
  if (!op)
    return false;
  int64_t zero = op.getZeroPoint();
  op.setZeroPoint(zero == 0 || m.draw(2) ? zero + 1 : zero - 1);
  return true;
}

/// Replaces the zero points of blocks by the middle of the range.
static bool dropZeros(Mutator &m) {
  auto op = pickWeight(m, [](DequantizeOp op) { return bool(op.getZero()); });
  if (!op)
    return false;
  op.getZeroMutable().clear();
  op.setZeroPoint(int64_t(1) << (op.getBits() - 1));
  return true;
}

/// Replaces operand `index` by that of an earlier op, of the same type.
static bool takeOther(Mutator &m, unsigned index) {
  auto others = [&](DequantizeOp op) {
    SmallVector<Value> found;
    if (op->getNumOperands() <= index)
      return found;
    for (auto other : op->getBlock()->getOps<DequantizeOp>())
      if (other->getNumOperands() > index && other->isBeforeInBlock(op) &&
          other->getOperand(index) != op->getOperand(index) &&
          other->getOperand(index).getType() == op->getOperand(index).getType())
        found.push_back(other->getOperand(index));
    return found;
  };
  auto op = pickWeight(m, [&](DequantizeOp op) { return !others(op).empty(); });
  if (!op)
    return false;
  auto found = others(op);
  op->setOperand(index, m.drawFrom(found));
  return true;
}
static bool otherBytes(Mutator &m) { return takeOther(m, 0); }
static bool otherScales(Mutator &m) { return takeOther(m, 1); }
static bool otherZeros(Mutator &m) { return takeOther(m, 2); }

/// Moves the view of a parameter by one element.
static bool shift(Mutator &m, unsigned index) {
  auto parameterOf = [&](DequantizeOp op) {
    Value v = op->getNumOperands() > index ? op->getOperand(index) : Value();
    while (auto reshape = v ? v.getDefiningOp<ReshapeOp>() : ReshapeOp())
      v = reshape.getOperand();
    return v ? v.getDefiningOp<ParameterOp>() : ParameterOp();
  };
  auto op = pickWeight(m, [&](DequantizeOp op) { return bool(parameterOf(op)); });
  if (!op)
    return false;
  ParameterOp parameter = parameterOf(op);
  ViewAttr view = parameter.getViewOrDense();
  parameter.setViewAttr(ViewAttr::get(m.context, view.getOffset() + 1, view.getDims()));
  return true;
}
static bool shiftBytes(Mutator &m) { return shift(m, 0); }
static bool shiftScales(Mutator &m) { return shift(m, 1); }

static bool squareScales(Mutator &m) {
  auto op = pickWeight(m, isAny);
  if (!op)
    return false;
  Value scale = op.getScale();
  op.getScaleMutable().assign(MulOp::create(m.builder, op.getLoc(), scale.getType(), scale, scale));
  return true;
}

static bool negateScales(Mutator &m) {
  auto op = pickWeight(m, isAny);
  if (!op)
    return false;
  Value scale = op.getScale();
  op.getScaleMutable().assign(NegOp::create(m.builder, op.getLoc(), scale.getType(), scale));
  return true;
}

/// Rounds dequantized numbers to bf16.
static bool roundNumbers(Mutator &m) {
  auto op = pickWeight(m, [](DequantizeOp op) { return elementTypeOf(op).isF32(); });
  if (!op)
    return false;
  m.builder.setInsertionPointAfter(op);
  auto type = cast<RankedTensorType>(op.getType());
  Value half =
      CastOp::create(m.builder, op.getLoc(), type.clone(m.builder.getBF16Type()), op.getResult());
  Value single = CastOp::create(m.builder, op.getLoc(), type, half);
  op.getResult().replaceAllUsesExcept(single, half.getDefiningOp());
  return true;
}

//===----------------------------------------------------------------------===//
// Programs on buffers
//===----------------------------------------------------------------------===//

using Call = buffer::QuantizedProductOp;

static bool isAnyCall(Call) { return true; }
static buffer::ExprAttr expr(Mutator &m, const SymExpr &e) {
  return buffer::ExprAttr::get(m.context, e);
}
/// Returns `e` plus or minus one.
static buffer::ExprAttr next(Mutator &m, buffer::ExprAttr e) {
  return expr(m, m.draw(2) ? e.getExpr() + SymExpr(1) : e.getExpr() - SymExpr(1));
}

static bool otherBits(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setBits(call.getBits() == 8 ? 4 : 8);
  return bool(call);
}

static bool otherCallZero(Mutator &m) {
  Call call = m.pick<Call>([](Call call) { return !call.getZeros(); });
  if (call)
    call.setZeroPoint(call.getZeroPoint() + (m.draw(2) ? 1 : -1));
  return bool(call);
}

static bool otherZeroBits(Mutator &m) {
  Call call = m.pick<Call>([](Call call) { return call.getZeros() && call.getZeroBits(); });
  if (call)
    call.setZeroBits(call.getZeroBits() == 8 ? 4 : 8);
  return bool(call);
}

static bool dropCallZeros(Mutator &m) {
  Call call = m.pick<Call>([](Call call) { return bool(call.getZeros()); });
  if (!call)
    return false;
  call.getZerosMutable().clear();
  call.removeZeroStridesAttr();
  call.setZeroBits(0);
  call.setZeroPoint(int64_t(1) << (call.getBits() - 1));
  return true;
}

static bool otherRowBytes(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setRowBytesAttr(next(m, call.getRowBytes()));
  return bool(call);
}

static bool otherOrder(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setByRows(!call.getByRows());
  return bool(call);
}

static bool otherBlock(Mutator &m) {
  Call call = m.pick<Call>([](Call call) { return call.getBlock() != call.getK(); });
  if (call)
    call.setBlockAttr(expr(m, call.getBlock().getExpr() * SymExpr(2)));
  return bool(call);
}

/// Changes the stride of columns, the first of `strides`, by one.
static ArrayAttr otherStrides(Mutator &m, ArrayAttr strides) {
  SmallVector<Attribute> list(strides.begin(), strides.end());
  list[0] = next(m, cast<buffer::ExprAttr>(list[0]));
  return m.builder.getArrayAttr(list);
}
static bool otherScaleStrides(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setScaleStridesAttr(otherStrides(m, call.getScaleStrides()));
  return bool(call);
}
static bool otherZeroStrides(Mutator &m) {
  Call call = m.pick<Call>([](Call call) { return bool(call.getZeros()); });
  if (call)
    call.setZeroStridesAttr(otherStrides(m, *call.getZeroStrides()));
  return bool(call);
}

static bool fewerRows(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setKAttr(expr(m, call.getK().getExpr() - SymExpr(1)));
  return bool(call);
}
static bool fewerColumns(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setNAttr(expr(m, call.getN().getExpr() - SymExpr(1)));
  return bool(call);
}

static bool otherEpilogue(Mutator &m) {
  Call call = m.pick<Call>(isAnyCall);
  if (call)
    call.setEpilogue(call.getEpilogue() == buffer::Epilogue::None ? buffer::Epilogue::Relu
                                                                  : buffer::Epilogue::None);
  return bool(call);
}

/// Replaces operand `index` (bytes or scales) of a call by that of an earlier call.
static bool otherCallOperand(Mutator &m, unsigned index) {
  auto others = [&](Call call) {
    SmallVector<Value> found;
    for (auto other : call->getBlock()->getOps<Call>())
      if (other != call && other->isBeforeInBlock(call) &&
          other->getOperand(index) != call->getOperand(index))
        found.push_back(other->getOperand(index));
    return found;
  };
  Call call = m.pick<Call>([&](Call call) { return !others(call).empty(); });
  if (!call)
    return false;
  auto found = others(call);
  call->setOperand(index, m.drawFrom(found));
  return true;
}
static bool otherCallBytes(Mutator &m) { return otherCallOperand(m, 1); }
static bool otherCallScales(Mutator &m) { return otherCallOperand(m, 2); }

ArrayRef<Mutation> mutate::getQuantizedMutations() {
  static constexpr Mutation mutations[] = {
      {"quantized-zero-point", "the zero point of all numbers differs by one", otherZeroPoint},
      {"quantized-drop-zeros", "all blocks have the middle of the range as zero point", dropZeros},
      {"quantized-bytes", "a matrix has the numbers of another", otherBytes},
      {"quantized-scales", "a matrix has the scales of another", otherScales},
      {"quantized-zeros", "a matrix has the zero points of another", otherZeros},
      {"quantized-shift-bytes", "numbers begin one byte later", shiftBytes},
      {"quantized-shift-scales", "blocks have the scale of the next block", shiftScales},
      {"quantized-square-scales", "scales are squared", squareScales},
      {"quantized-negate-scales", "scales are negated", negateScales},
      {"quantized-round", "numbers are rounded to bf16", roundNumbers},
      {"quantized-call-bits", "numbers have another width", otherBits},
      {"quantized-call-zero-point", "the zero point differs by one", otherCallZero},
      {"quantized-call-zero-bits", "zero points have another width", otherZeroBits},
      {"quantized-call-drop-zeros", "all blocks have the middle of the range as zero point",
       dropCallZeros},
      {"quantized-call-row-bytes", "rows are one byte longer or shorter", otherRowBytes},
      {"quantized-call-order", "packed rows are columns of the matrix, or the reverse", otherOrder},
      {"quantized-call-block", "blocks are twice as long", otherBlock},
      {"quantized-call-scale-strides", "scales of columns are at another distance",
       otherScaleStrides},
      {"quantized-call-zero-strides", "zero points of columns are at another distance",
       otherZeroStrides},
      {"quantized-call-rows", "one row less is multiplied", fewerRows},
      {"quantized-call-columns", "one column less is computed", fewerColumns},
      {"quantized-call-epilogue", "an activation is added or removed", otherEpilogue},
      {"quantized-call-bytes", "a call reads the numbers of another call", otherCallBytes},
      {"quantized-call-scales", "a call reads the scales of another call", otherCallScales},
  };
  return mutations;
}
