//===- KeyExtension.cpp - Attention biases with keys of the past ----------===//

#include "KeyExtension.h"

#include "../Model/Movement.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

static SymExpr multiply(ArrayRef<SymExpr> sizes) {
  SymExpr all(1);
  for (const SymExpr &size : sizes)
    all = all * size;
  return all;
}

/// Clones an op after itself, with these operands and sizes of the result.
FailureOr<Value> KeyExtension::clone(Operation *op, ArrayRef<SymExpr> sizes,
                                     ArrayRef<Value> operands) {
  OpBuilder builder(op->getContext());
  builder.setInsertionPointAfter(op);
  Operation *made = builder.clone(*op);
  made->setOperands(operands);
  made->getResult(0).setType(makeTensorType(elementTypeOf(op->getResult(0)), sizes));
  return made->getResult(0);
}

/// Extends the operand of a reshape. In row-major order, the tokens have the same numbers of
/// elements before and after them in operand and result.
FailureOr<Value> KeyExtension::extendReshape(ReshapeOp op, SmallVector<SymExpr> sizes, unsigned dim,
                                             const SymExpr &major, const SymExpr &minor) {
  SmallVector<SymExpr> from = getSizes(op.getOperand()), to = getSizes(op.getResult());
  SymExpr before = multiply(ArrayRef(to).take_front(dim)) * major;
  SymExpr after = minor * multiply(ArrayRef(to).drop_front(dim + 1));
  for (unsigned d = 0; d < from.size(); ++d) {
    auto newMajor = before.divideExact(multiply(ArrayRef(from).take_front(d)));
    auto newMinor = after.divideExact(multiply(ArrayRef(from).drop_front(d + 1)));
    if (!newMajor || !newMinor || from[d] != *newMajor * tokens * *newMinor)
      continue;
    FailureOr<Value> operand = extend(op.getOperand(), d, *newMajor, *newMinor);
    if (failed(operand))
      return failure();
    OpBuilder builder(op.getContext());
    builder.setInsertionPointAfter(op);
    return createReshape(builder, op.getLoc(), *operand, sizes);
  }
  return emitNodeError(op) << "merges tokens that are keys with other elements", failure();
}

FailureOr<Value> KeyExtension::extend(Value value, unsigned dim, const SymExpr &major,
                                      const SymExpr &minor) {
  auto known = extended.find({value.getAsOpaquePointer(), dim});
  if (known != extended.end())
    return known->second;
  SmallVector<SymExpr> sizes = getSizes(value);
  Operation *op = value.getDefiningOp();
  auto make = [&]() -> FailureOr<Value> {
    sizes[dim] = major * (past + tokens) * minor;
    unsigned rank = sizes.size();
    // Extends an operand that broadcasts to the result.
    auto broadcast = [&](Value operand) -> FailureOr<Value> {
      SmallVector<SymExpr> own = getSizes(operand);
      unsigned missing = rank - own.size();
      if (dim < missing || own[dim - missing].isConstant(1))
        return operand;
      return extend(operand, dim - missing, major, minor);
    };
    SmallVector<Value> operands(op->getOperands());
    if (auto iota = dyn_cast<IotaOp>(op)) {
      FailureOr<Value> made = clone(op, sizes, {});
      if (iota.getDim() != dim && sizes[iota.getDim()] == tokens)
        positions.push_back(*made);
      if (iota.getDim() != dim || (major.isConstant(1) && minor.isConstant(1)))
        return made;
    } else if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      return extendReshape(reshape, sizes, dim, major, minor);
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      FailureOr<Value> operand = extend(operands[0], transpose.getPermutation()[dim], major, minor);
      return failed(operand) ? operand : clone(op, sizes, {*operand});
    } else if (isa<ExpandOp, CastOp, ScalarOpInterface>(op)) {
      for (Value &operand : operands) {
        FailureOr<Value> made = broadcast(operand);
        if (failed(made))
          return failure();
        operand = *made;
      }
      return clone(op, sizes, operands);
    } else if (auto gather = dyn_cast<GatherOp>(op);
               isa<EmbeddingOp>(op) || (gather && gather.getDim() == 0)) {
      if (dim < static_cast<unsigned>(rankOf(operands[1]))) {
        FailureOr<Value> ids = extend(operands[1], dim, major, minor);
        return failed(ids) ? ids : clone(op, sizes, {operands[0], *ids});
      }
    } else if (auto slice = dyn_cast<SliceOp>(op); slice && slice.getDim() != dim) {
      FailureOr<Value> operand = extend(operands[0], dim, major, minor);
      return failed(operand) ? operand : clone(op, sizes, {*operand});
    }
    return emitNodeError(op) << "is part of a bias of queries and keys, and its value for keys of "
                                "the past is unknown",
           failure();
  };
  if (!op)
    return emitError(value.getLoc()) << "an input is a bias of queries and keys: its value for "
                                        "keys of the past is unknown",
           failure();
  FailureOr<Value> result = make();
  if (succeeded(result))
    extended[{value.getAsOpaquePointer(), dim}] = *result;
  return result;
}
