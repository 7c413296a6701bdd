//===- Indices.cpp - 32-bit indices where ranges permit -------------------===//
//
// Each index into a dimension, and each size of a loop, is less than 2^31 (the launcher checks
// Launch::extents). Values computed from them may be larger: an id from an input, an offset in a
// reshaped tensor. MLIR's integer range interface infers the ranges op by op.
//
//===----------------------------------------------------------------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::cuda;
using ::tpc::SymExpr;

static constexpr int64_t kMaxIndex = std::numeric_limits<int32_t>::max();

static ConstantIntRanges signedRange(int64_t minimum, int64_t maximum) {
  return ConstantIntRanges::fromSigned(APInt(64, minimum, /*isSigned=*/true),
                                       APInt(64, maximum, /*isSigned=*/true));
}

/// Returns whether all values fit into a signed 32-bit integer.
static bool fits(const ConstantIntRanges &range) {
  return range.smin().isSignedIntN(32) && range.smax().isSignedIntN(32);
}

static bool isNegative(const ConstantIntRanges &range) { return range.smin().isNegative(); }

ConstantIntRanges KernelLowering::getRange(Value value) {
  if (auto it = ranges.find(value); it != ranges.end())
    return it->second;
  return ConstantIntRanges::maxRange(ConstantIntRanges::getStorageBitwidth(value.getType()));
}

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

Value KernelLowering::number(int32_t value) {
  return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
}

/// Constants are materialized at each use and not in the entry block.
Value KernelLowering::extent(const SymExpr &expr) {
  Value full = sizes->expr(expr);
  if (auto known = asConstant(full); known && llvm::isInt<32>(*known))
    return number(*known);
  Value &slot = extentValues[expr.str()];
  if (!slot)
    slot = LLVM::TruncOp::create(sizes->builder(), loc, b.getI32Type(), full);
  return slot;
}

/// Returns whether all terms are nonnegative, which holds for sums and products of nonnegative
/// sizes.
static bool isNeverNegative(const SymExpr &expr) {
  return llvm::all_of(expr.getTerms(), [](const SymExpr::Term &term) {
    return term.coefficient >= 0 && llvm::all_of(term.atoms, [](const SymExpr::Atom &atom) {
             return atom.kind == SymExpr::AtomKind::Symbol ||
                    (isNeverNegative(atom.args->first) && isNeverNegative(atom.args->second));
           });
  });
}

void KernelLowering::lowerSize(kernel::SizeOp op) {
  Value value = extent(op.getExpr());
  map.map(op.getResult(), value);
  auto known = asConstant(value);
  int64_t minimum = known ? *known : isNeverNegative(op.getExpr()) ? 0 : -kMaxIndex - 1;
  ranges.insert({op.getResult(), signedRange(minimum, known.value_or(kMaxIndex))});
}

void KernelLowering::mapIndex(Value index, Value value, Value size) {
  map.map(index, value);
  int64_t maximum = std::max<int64_t>(asConstant(size).value_or(kMaxIndex) - 1, 0);
  ranges.erase(index);
  ranges.insert({index, signedRange(0, maximum)});
}

//===----------------------------------------------------------------------===//
// Arithmetic
//===----------------------------------------------------------------------===//

Value KernelLowering::toWidth(Value value, unsigned width) {
  if (value.getType().isInteger(width))
    return value;
  if (width == 64)
    return wide(value);
  if (auto known = asConstant(value))
    return number(*known);
  return LLVM::TruncOp::create(b, loc, b.getI32Type(), value);
}

Value KernelLowering::quotient(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy)
    return indexLike(x, *cx / *cy);
  return cy == 1 ? x : LLVM::UDivOp::create(b, loc, x, y).getResult();
}

Value KernelLowering::remainder(Value x, Value y) {
  auto cx = asConstant(x), cy = asConstant(y);
  if (cx && cy && *cy)
    return indexLike(x, *cx % *cy);
  return cy == 1 ? indexLike(x, 0) : LLVM::URemOp::create(b, loc, x, y).getResult();
}

Value KernelLowering::product(ValueRange values) {
  Value result = number(1);
  for (Value value : values)
    result = mul(result, value);
  return result;
}

Value KernelLowering::ceilDiv(Value x, Value y) {
  Value yMinusOne = LLVM::SubOp::create(b, loc, y, indexLike(y, 1));
  if (auto known = asConstant(y))
    yMinusOne = indexLike(y, *known - 1);
  return quotient(add(x, yMinusOne), y);
}

Value KernelLowering::both(Value x, Value y) {
  return !x ? y : !y ? x : LLVM::AndOp::create(b, loc, x, y).getResult();
}

Value KernelLowering::isEqual(Value x, Value y) {
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, x, y);
}

/// Returns whether an op reads its operands as unsigned numbers.
static bool isUnsignedOp(Operation *op) {
  if (auto compare = dyn_cast<arith::CmpIOp>(op))
    return compare.getPredicate() >= arith::CmpIPredicate::ult;
  return isa<arith::DivUIOp, arith::RemUIOp, arith::MinUIOp, arith::MaxUIOp, arith::CeilDivUIOp,
             arith::ShRUIOp>(op);
}

void KernelLowering::lowerScalar(Operation *op) {
  auto isIndex = [](Type type) { return type.isIndex(); };
  if (auto literal = dyn_cast<arith::ConstantOp>(op); literal && literal.getType().isIndex()) {
    int64_t value = cast<IntegerAttr>(literal.getValue()).getInt();
    map.map(op->getResult(0), llvm::isInt<32>(value) ? number(value) : constant(value));
    ranges.erase(op->getResult(0));
    ranges.insert({op->getResult(0), signedRange(value, value)});
    return;
  }
  SmallVector<ConstantIntRanges> known;
  for (Value operand : op->getOperands())
    known.push_back(getRange(operand));
  std::optional<ConstantIntRanges> result;
  if (auto inferable = dyn_cast<InferIntRangeInterface>(op))
    inferable.inferResultRanges(known, [&](Value, const ConstantIntRanges &r) { result = r; });
  if (result) {
    ranges.erase(op->getResult(0));
    ranges.insert({op->getResult(0), *result});
  }
  if (llvm::none_of(op->getOperandTypes(), isIndex) &&
      llvm::none_of(op->getResultTypes(), isIndex)) {
    b.clone(*op, map);
    return;
  }
  bool resultFits = result && fits(*result);
  if (isa<arith::IndexCastOp, arith::IndexCastUIOp>(op)) {
    Value from = map.lookup(op->getOperand(0));
    Type to = op->getResult(0).getType();
    if (to.isIndex())
      to = resultFits ? b.getI32Type() : b.getI64Type();
    unsigned have = from.getType().getIntOrFloatBitWidth(), want = to.getIntOrFloatBitWidth();
    // A 32-bit index is a signed number, also for an unsigned cast.
    bool isSigned = isa<arith::IndexCastOp>(op) || op->getOperand(0).getType().isIndex();
    Value value = from;
    if (auto number = asConstant(from))
      value = LLVM::ConstantOp::create(b, loc, to, b.getIntegerAttr(to, *number));
    else if (want < have)
      value = LLVM::TruncOp::create(b, loc, to, from);
    else if (want > have)
      value = isSigned ? LLVM::SExtOp::create(b, loc, to, from).getResult()
                       : LLVM::ZExtOp::create(b, loc, to, from).getResult();
    map.map(op->getResult(0), value);
    return;
  }
  bool narrow = !op->getResult(0).getType().isIndex() || resultFits;
  // The low bits of a sum do not depend on the operands' high bits.
  if (!isa<arith::AddIOp, arith::SubIOp, arith::MulIOp, arith::AndIOp, arith::OrIOp>(op))
    for (auto [operand, range] : llvm::zip_equal(op->getOperands(), known))
      if (operand.getType().isIndex())
        narrow &= fits(range) && !(isUnsignedOp(op) && isNegative(range));
  IRMapping local;
  for (Value operand : op->getOperands()) {
    Value value = map.lookup(operand);
    local.map(operand, operand.getType().isIndex() ? toWidth(value, narrow ? 32 : 64) : value);
  }
  Operation *copy = b.clone(*op, local);
  if (op->getResult(0).getType().isIndex())
    copy->getResult(0).setType(narrow ? b.getI32Type() : b.getI64Type());
  Value value = copy->getResult(0);
  SmallVector<OpFoldResult> folded;
  if (succeeded(copy->fold(folded)) && folded.size() == 1) {
    if (auto attr = dyn_cast<Attribute>(folded[0]))
      value =
          isa<IntegerAttr>(attr)
              ? LLVM::ConstantOp::create(b, loc, value.getType(), cast<TypedAttr>(attr)).getResult()
              : value;
    else
      value = cast<Value>(folded[0]);
    if (value != copy->getResult(0))
      copy->erase();
  }
  map.map(op->getResult(0), value);
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

/// Row-major. Computed in 32 bits while the result is known to fit.
Value KernelLowering::elementAddress(Value memref, ValueRange indices) {
  Value linear;
  APInt maximum(64, 0);
  // Multiplies by a size or a stride, then adds an index.
  auto step = [&](Value size, const SymExpr &expr, Value index) {
    bool overflow = false;
    if (linear) {
      APInt count(64, asConstant(size).value_or(kMaxIndex));
      maximum = maximum.smul_ov(count, overflow);
    }
    bool narrow = !overflow;
    if (index) {
      ConstantIntRanges range = getRange(index);
      narrow = narrow && fits(range) && !isNegative(range);
      if (narrow)
        maximum += range.smax();
    }
    narrow = narrow && maximum.isSignedIntN(32);
    if (!narrow)
      maximum = APInt::getSignedMaxValue(64);
    unsigned width = narrow && (!linear || linear.getType().isInteger(32)) ? 32 : 64;
    Value i = index ? toWidth(map.lookup(index), width) : Value();
    if (linear)
      linear = mul(toWidth(linear, width), width == 32 ? extent(expr) : size);
    linear = !linear ? i : i ? add(linear, i) : linear;
  };
  auto rows = source.getRowStride(memref);
  for (auto [i, index, size, expr] :
       llvm::enumerate(indices, memorySizes(memref), source.getSizesOf(memref)))
    if (!rows || i < rows->dims)
      step(size, expr, index);
  if (rows) {
    step(sizes->expr(rows->stride), rows->stride, {});
    Value row = linear;
    APInt rowMaximum = maximum;
    linear = {};
    maximum = APInt(64, 0);
    for (auto [i, index, size, expr] :
         llvm::enumerate(indices, memorySizes(memref), source.getSizesOf(memref)))
      if (i >= rows->dims)
        step(size, expr, index);
    bool narrow = row.getType().isInteger(32) && (!linear || linear.getType().isInteger(32)) &&
                  (rowMaximum + maximum).isSignedIntN(32);
    linear = linear ? add(toWidth(row, narrow ? 32 : 64), toWidth(linear, narrow ? 32 : 64)) : row;
  }
  Type type = cast<MemRefType>(memref.getType()).getElementType();
  return address(map.lookup(memref), type, linear ? wide(linear) : constant(0));
}
