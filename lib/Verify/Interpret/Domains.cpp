//===- Domains.cpp - Domains of values ------------------------------------===//

#include "Domains.h"
#include "Models.h"
#include "tpc/Dialect/Async.h"

#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

void Domains::narrow(Value value, Domain domain) {
  Domain both = get(value).intersect(domain);
  if (both.lowest <= both.highest)
    domains[value] = both;
}

LogicalResult Domains::runBlock(Block &block) {
  for (Operation &op : llvm::reverse(block)) {
    if (op.getNumOperands() == 0 || isa<func::ReturnOp>(op))
      continue;
    auto known = dyn_cast<DomainOpInterface>(op);
    if (!known)
      return op.emitError() << "'" << getSourceName(op.getLoc()) << "' (" << op.getName()
                            << "): the verifier has no domain for its operands";
    if (failed(known.narrowOperands(*this)))
      return failure();
  }
  return success();
}

LogicalResult Domains::runCall(func::CallOp call) {
  auto callee = world.getModule().lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal() || depth > 64)
    return call.emitError() << "@" << call.getCallee() << " cannot be called";
  Domains inner(world);
  inner.depth = depth + 1;
  Block &body = callee.front();
  for (auto [result, value] : llvm::zip(call.getResults(), body.getTerminator()->getOperands()))
    inner.narrow(value, get(result));
  if (failed(inner.runBlock(body)))
    return failure();
  for (auto [argument, operand] : llvm::zip(body.getArguments(), call.getOperands()))
    narrow(operand, inner.get(argument));
  return success();
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

// Element-wise ops accept all numbers, unless a specialization below restricts them.
static void narrow(ScalarOpInterface, Domains &) {}

/// Propagates the result's domain to operands whose elements the op copies to the result.
static void pass(Operation *op, ValueRange operands, Domains &domains) {
  for (Value operand : operands)
    domains.narrow(operand, domains.get(op->getResult(0)));
}

static void narrow(SelectOp op, Domains &d) { pass(op, op->getOperands().drop_front(), d); }
static void narrow(MaxOp op, Domains &d) { pass(op, op->getOperands(), d); }
static void narrow(MinOp op, Domains &d) { pass(op, op->getOperands(), d); }
static void narrow(NegOp op, Domains &d) { d.narrow(op.getOperand(), -d.get(op)); }

/// An integer must be in the range of the result type, or the cast would change it.
static void narrow(CastOp op, Domains &d) {
  Type element = getElementTypeOrSelf(op.getType());
  if (element.isInteger(1))
    return;
  pass(op, op->getOperands(), d);
  if (auto type = dyn_cast<IntegerType>(element); type && type.getWidth() < 64)
    d.narrow(op.getOperand(), Domain::ofType(type));
}

/// Returns the number of a splat constant.
static std::optional<double> getNumber(Value value) {
  SplatElementsAttr splat;
  if (!matchPattern(value, m_Constant(&splat)))
    return std::nullopt;
  if (isa<FloatType>(splat.getElementType()))
    return splat.getSplatValue<APFloat>().convertToDouble();
  APInt x = splat.getSplatValue<APInt>();
  return isUnsigned(splat.getElementType()) ? double(x.getZExtValue()) : double(x.getSExtValue());
}

static void narrow(AddOp op, Domains &d) {
  for (unsigned i : {0, 1})
    if (auto number = getNumber(op->getOperand(1 - i)))
      d.narrow(op->getOperand(i), d.get(op) + -*number);
}

static void narrow(SubOp op, Domains &d) {
  if (auto number = getNumber(op.getRhs()))
    d.narrow(op.getLhs(), d.get(op) + *number);
  if (auto number = getNumber(op.getLhs()))
    d.narrow(op.getRhs(), -d.get(op) + *number);
}

/// Division of an integer by zero is undefined.
static void narrowDivisor(Value divisor, Domains &d) {
  if (isa<IntegerType>(getElementTypeOrSelf(divisor)))
    d.narrow(divisor, {1, INFINITY});
}

static void narrow(DivOp op, Domains &d) { narrowDivisor(op.getRhs(), d); }
static void narrow(ModOp op, Domains &d) { narrowDivisor(op.getRhs(), d); }

static const Domain notNegative = {0, INFINITY};
static void narrow(SqrtOp op, Domains &d) { d.narrow(op.getOperand(), notNegative); }
static void narrow(RsqrtOp op, Domains &d) { d.narrow(op.getOperand(), notNegative); }
static void narrow(LogOp op, Domains &d) { d.narrow(op.getOperand(), notNegative); }

static void narrow(PowOp op, Domains &d) {
  auto exponent = getNumber(op.getRhs());
  if (!exponent || *exponent != std::trunc(*exponent))
    d.narrow(op.getLhs(), notNegative);
}

namespace {
template <typename OpT>
struct ScalarDomain : DomainOpInterface::ExternalModel<ScalarDomain<OpT>, OpT> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    narrow(cast<OpT>(op), domains);
    return success();
  }
};

/// Model of ops whose result consists of elements of the operands.
template <typename OpT>
struct PassesElements : DomainOpInterface::ExternalModel<PassesElements<OpT>, OpT> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    pass(op, op->getOperands(), domains);
    return success();
  }
};

/// Model of ops that are defined for all numbers. The domain of the result does not restrict the
/// operands.
template <typename OpT> struct AnyNumbers : DomainOpInterface::ExternalModel<AnyNumbers<OpT>, OpT> {
  LogicalResult narrowOperands(Operation *, Domains &) const { return success(); }
};

/// Packed numbers are bytes, and so are zero points that are integers.
struct DequantizeDomain : DomainOpInterface::ExternalModel<DequantizeDomain, DequantizeOp> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    for (Value operand : op->getOperands())
      if (auto type = dyn_cast<IntegerType>(getElementTypeOrSelf(operand)))
        domains.narrow(operand, Domain::ofType(type));
    return success();
  }
};

/// A maximum or minimum is one of the operand's elements.
struct ReduceDomain : DomainOpInterface::ExternalModel<ReduceDomain, ReduceOp> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    ReduceFunction function = cast<ReduceOp>(op).getFunction();
    if (function == ReduceFunction::Max || function == ReduceFunction::Min)
      pass(op, op->getOperands(), domains);
    return success();
  }
};

/// The length of a sequence is at most the capacity; new tokens beyond it are dropped. The cache
/// and the new tokens have the domain of the result.
struct AppendDomain : DomainOpInterface::ExternalModel<AppendDomain, AppendOp> {
  LogicalResult narrowOperands(Operation *base, Domains &domains) const {
    auto op = cast<AppendOp>(base);
    pass(op, {op.getCache(), op.getFresh()}, domains);
    int64_t capacity = domains.getWorld().getWholeShape(op.getCache().getType())[CacheOp::tokenDim];
    domains.narrow(op.getLengths(), {0, double(capacity)});
    return success();
  }
};

struct CallDomain : DomainOpInterface::ExternalModel<CallDomain, func::CallOp> {
  LogicalResult narrowOperands(Operation *op, Domains &domains) const {
    return domains.runCall(cast<func::CallOp>(op));
  }
};
} // namespace

void interpret::attachDomainModels(MLIRContext *context) {
  attachToScalarOps<ScalarDomain>(context);
  tpc::attachModels<PassesElements, ReshapeOp, ReshardOp, TransposeOp, ExpandOp, RollOp, SliceOp,
                    ConcatOp, TriluOp, LocalSliceOp, AllGatherOp, AllToAllOp, ExchangeOp,
                    CollectivePermuteOp, BroadcastOp, WaitOp, DispatchOp>(context);
  tpc::attachModels<AnyNumbers, MatmulOp, MoeOp, AttentionOp, AttentionGradOp, LayerNormOp,
                    RmsNormOp, SoftmaxOp, RotaryOp, CumSumOp, AllReduceOp, ReduceScatterOp,
                    AllReduceStartOp, CombineOp>(context);
  DequantizeOp::attachInterface<DequantizeDomain>(*context);
  ReduceOp::attachInterface<ReduceDomain>(*context);
  AppendOp::attachInterface<AppendDomain>(*context);
  func::CallOp::attachInterface<CallDomain>(*context);
}
