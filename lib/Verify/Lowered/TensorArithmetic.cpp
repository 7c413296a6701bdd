//===- TensorArithmetic.cpp - Integer arithmetic of tensors ---------------===//

#include "TensorArithmetic.h"

#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using ::tpc::SymExpr;

static bool hasIntegers(Value tensor) {
  return isa<IntegerType>(getElementTypeOrSelf(tensor)) &&
         !getElementTypeOrSelf(tensor).isInteger(1);
}
static bool hasFloats(Value tensor) { return isa<FloatType>(getElementTypeOrSelf(tensor)); }

/// Returns whether a dimension is a product of factors, so that indices are delinearized.
static bool hasProducts(Type type) {
  return isa<RankedTensorType>(type) && llvm::any_of(getDist(type).getDims(), [](DimAttr dim) {
           return dim.getFactors().size() > 1;
         });
}

/// Records the value of an op that depends only on sizes and constants.
void TensorArithmetic::addUniform(Operation *op) {
  if (op->getNumResults() != 1 || !isa<RankedTensorType>(op->getResult(0).getType()))
    return;
  Value result = op->getResult(0);
  auto set = [&](const SymExpr &value) {
    values[result] = value;
    uniform.insert(key(value));
  };
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    auto dense = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (dense && dense.isSplat() && isa<IntegerType>(dense.getElementType()) &&
        dense.getElementType().getIntOrFloatBitWidth() <= 64)
      set(SymExpr(dense.getSplatValue<APInt>().getSExtValue()));
    return;
  }
  if (auto size = dyn_cast<SizeOp>(op))
    return set(size.getExpr());
  if (op->getNumOperands() == 0)
    return;
  SmallVector<SymExpr> operands;
  for (Value operand : op->getOperands()) {
    auto it = values.find(operand);
    if (it == values.end())
      return;
    operands.push_back(it->second);
  }
  llvm::TypeSwitch<Operation *>(op)
      .Case<ReshapeOp, ExpandOp, TransposeOp, LocalSliceOp, SliceOp, CastOp>([&](auto) {
        if (hasIntegers(result))
          set(operands[0]);
      })
      .Case([&](AddOp) { set(operands[0] + operands[1]); })
      .Case([&](SubOp) { set(operands[0] - operands[1]); })
      .Case([&](MulOp) { set(operands[0] * operands[1]); })
      .Case([&](NegOp) { set(-operands[0]); })
      .Case([&](MinOp) { set(SymExpr::min(operands[0], operands[1])); })
      .Case([&](MaxOp) { set(SymExpr::max(operands[0], operands[1])); })
      .Default([&](Operation *) { combinesUniform = true; });
}

void TensorArithmetic::addUniformFloat(Operation *op) {
  if (op->getNumResults() != 1 || !hasFloats(op->getResult(0)))
    return;
  if (auto constant = dyn_cast<ConstantOp>(op)) {
    if (auto dense = dyn_cast<DenseElementsAttr>(constant.getValue()); dense && dense.isSplat())
      floats.insert(op->getResult(0));
    return;
  }
  bool isUniform = isa<SizeOp>(op) ||
                   (op->getNumOperands() > 0 && llvm::all_of(op->getOperands(), [&](Value operand) {
                      return floats.contains(operand) || values.contains(operand);
                    }));
  if (!isUniform)
    return;
  floats.insert(op->getResult(0));
  computesFloats |= !isa<SizeOp, CastOp, ReshapeOp, ExpandOp, TransposeOp, LocalSliceOp>(op);
}

/// Records the sizes of dimensions that are indexed by ids or by lengths of sequences.
void TensorArithmetic::addIndexed(Operation *op) {
  auto add = [&](Value table, int64_t d) {
    DimAttr dim = getDist(table).getDims()[d];
    SymExpr local, global;
    for (auto [i, factor] : llvm::enumerate(dim.getFactors())) {
      bool joins = i > 0 && factor.getAxes().empty();
      local = joins ? local * factor.getExpr() : parts.size(factor);
      global = joins ? global * factor.getExpr() : factor.getExpr();
      indexed.insert({key(local), key(global), key(factor.getExpr())});
    }
    indexed.insert({key(dim.getExpr()), key(parts.size(dim)), key(parts.inner(dim))});
  };
  // A table may be computed in the kernel. An index into a concatenation is compared with the sizes
  // of its operands.
  auto addTable = [&](Value table, int64_t first, int64_t count) {
    for (int64_t d = first; d < first + count; ++d)
      add(table, d);
    SmallVector<Value> work{table};
    DenseSet<Value> seen;
    while (!work.empty())
      if (Operation *from = work.pop_back_val().getDefiningOp())
        for (Value operand : from->getOperands()) {
          if (!seen.insert(operand).second)
            continue;
          work.push_back(operand);
          for (int64_t d = 0; d < cast<RankedTensorType>(operand.getType()).getRank(); ++d)
            add(operand, d);
        }
  };
  if (auto embedding = dyn_cast<EmbeddingOp>(op))
    addTable(embedding.getTable(), 0, 1);
  else if (auto gather = dyn_cast<GatherOp>(op))
    addTable(gather.getData(), gather.getDim(), 1);
  else if (auto gather = dyn_cast<GatherNDOp>(op))
    addTable(gather.getData(), gather.getBatchDims(),
             cast<RankedTensorType>(gather.getIndices().getType()).getShape().back());
  else if (auto scatter = dyn_cast<ScatterAddOp>(op))
    add(scatter.getResult(), 0);
  else if (auto append = dyn_cast<AppendOp>(op))
    add(append.getCache(), 2);
}

void TensorArithmetic::addOp(Operation *op) {
  addUniform(op);
  addIndexed(op);
  addUniformFloat(op);
  TypeID id = op->getName().getTypeID();
  all.insert(id);
  auto values = llvm::concat<Value>(SmallVector<Value>(op->getOperands()),
                                    SmallVector<Value>(op->getResults()));
  bool onIntegers = llvm::any_of(values, hasIntegers);
  if (onIntegers)
    integer.insert(id);
  if (llvm::any_of(op->getOperands(), hasFloats)) {
    onFloats.insert(id);
    comparesFloats |= isa<CmpOp, IsNanOp, ReluOp, ScatterAddOp>(op) ||
                      (isa<CastOp>(op) && getElementTypeOrSelf(op->getResult(0)).isInteger(1));
  }
  divides |= isa<ReshapeOp, RollOp>(op) || (isa<IotaOp, LocalSliceOp, LookupOpInterface>(op) &&
                                            (llvm::any_of(op->getOperandTypes(), hasProducts) ||
                                             llvm::any_of(op->getResultTypes(), hasProducts)));
  hasPositions |= isa<IotaOp>(op);
  looksUp |= isa<LookupOpInterface, ScatterAddOp>(op);
  scatters |= isa<ScatterAddOp>(op);
  unpacks |= isa<DequantizeOp>(op);
  accumulates |= isa<CumSumOp>(op);
  reduces |= onIntegers && isa<ReduceOp, MatmulOp>(op);
  chooses |= onIntegers &&
             isa<ConcatOp, EmbeddingOp, GatherOp, GatherNDOp, LocalSliceOp, RotaryOp, AppendOp>(op);
  makesFloats |=
      (isa<CastOp>(op) && !hasFloats(op->getOperand(0)) && hasFloats(op->getResult(0))) ||
      isa<PowOp, DequantizeOp>(op) || (isa<IotaOp, SizeOp>(op) && hasFloats(op->getResult(0)));
  if (auto rotary = dyn_cast<RotaryOp>(op)) { // the last dimension is rotated in halves or pairs
    divides |= rotary.getInterleaved();
    uniform.insert(key(2 * parts.size(getDist(rotary.getCos()).getDims().back())));
  }
  if (auto reduce = dyn_cast<ReduceOp>(op)) { // a mean divides by the number of elements
    SymExpr count(1);
    for (int64_t dim : reduce.getDims())
      count = count * parts.size(getDist(reduce.getOperand()).getDims()[dim]);
    uniform.insert(key(count));
    uniform.insert(key(SymExpr::max(count, 1)));
  }
}

bool TensorArithmetic::has(Operation *op) const {
  auto of = [&]<typename... OpTs>() { return (integer.contains(TypeID::get<OpTs>()) || ...); };
  auto any = [&]<typename... OpTs>() { return (all.contains(TypeID::get<OpTs>()) || ...); };
  auto ofFloats = [&]<typename... OpTs>() {
    return (onFloats.contains(TypeID::get<OpTs>()) || ...);
  };
  bool isBool = op->getResult(0).getType().isInteger(1);
  return llvm::TypeSwitch<Operation *, bool>(op)
      .Case([&](arith::AddIOp) {
        return of.template operator()<AddOp, ModOp, CumSumOp, MatmulOp, DequantizeOp>();
      })
      .Case([&](arith::SubIOp) { return of.template operator()<SubOp, NegOp, DivOp>(); })
      .Case([&](arith::MulIOp) { return of.template operator()<MulOp, MatmulOp, DequantizeOp>(); })
      .Case<arith::DivSIOp, arith::DivUIOp>(
          [&](auto) { return of.template operator()<DivOp, ReduceOp>(); })
      .Case<arith::RemSIOp, arith::RemUIOp>(
          [&](auto) { return of.template operator()<ModOp, DequantizeOp>(); })
      .Case([&](arith::ShRUIOp) { return of.template operator()<DequantizeOp>(); })
      .Case<arith::MinSIOp, arith::MinUIOp>([&](auto) {
        return isBool ? any.template operator()<MinOp>() : of.template operator()<MinOp>();
      })
      .Case<arith::MaxSIOp, arith::MaxUIOp>([&](auto) {
        return isBool ? any.template operator()<MaxOp>()
                      : of.template operator()<MaxOp, ReluOp, ReduceOp>();
      })
      .Case([&](math::AbsIOp) { return of.template operator()<AbsOp>(); })
      .Case([&](arith::CmpIOp) { return any.template operator()<CmpOp, CastOp, DivOp, ModOp>(); })
      .Case([&](arith::SelectOp) {
        return any.template operator()<SelectOp, DivOp, ModOp, TriluOp>();
      })
      .Case([&](arith::AndIOp) {
        return any
            .template operator()<AndOp, MulOp, MinOp, ModOp, EmbeddingOp, GatherOp, GatherNDOp>();
      })
      .Case([&](arith::OrIOp) { return any.template operator()<OrOp, AddOp, MaxOp>(); })
      .Case([&](arith::XOrIOp) { return any.template operator()<XorOp, NotOp, ModOp>(); })
      .Case<arith::ExtSIOp, arith::ExtUIOp, arith::TruncIOp>(
          [&](auto) { return any.template operator()<CastOp, DequantizeOp>(); })
      .Case<arith::MinimumFOp, arith::MinNumFOp>(
          [&](auto) { return ofFloats.template operator()<MinOp>(); })
      .Case<arith::MaximumFOp, arith::MaxNumFOp>(
          [&](auto) { return ofFloats.template operator()<MaxOp>(); })
      .Case([&](arith::RemFOp) { return ofFloats.template operator()<ModOp>(); })
      .Case([&](arith::CmpFOp) { return comparesFloats; })
      .Default([](Operation *) { return false; });
}
