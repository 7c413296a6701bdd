//===- FuseEpilogues.cpp - Epilogues; legal matmuls and attention ---------===//

#include "BufferPlanner.h"
#include "tpc/Conversion/Passes.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/LocalIndex.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_FUSEEPILOGUES
#include "tpc/Conversion/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct FuseEpilogues : mlir::tpc::impl::FuseEpiloguesBase<FuseEpilogues> {
  void runOnOperation() override;
  void fuse(MatmulOp matmul);
  void normalize(MatmulOp matmul);
  void normalize(AttentionOp attention);
};
} // namespace

static void mark(Operation *op, unsigned operand) {
  op->setAttr(kFusedAttr, IntegerAttr::get(IntegerType::get(op->getContext(), 32), operand));
}

void FuseEpilogues::fuse(MatmulOp matmul) {
  const TargetTraits &target = TargetTraits::get(matmul);
  Value last = matmul.getResult();
  bool hasBias = static_cast<bool>(matmul.getBias()), hasActivation = false;
  DistAttr dist = getDist(last);
  for (;;) {
    if (!last.hasOneUse())
      return;
    OpOperand &use = *last.use_begin();
    Operation *user = use.getOwner();
    if (user->getBlock() != matmul->getBlock() || user->getNumResults() != 1 ||
        getDist(user->getResult(0)).getDims() != dist.getDims())
      return;
    if (auto add = dyn_cast<AddOp>(user)) {
      Value other = add.getOperand(1 - use.getOperandNumber());
      auto type = cast<RankedTensorType>(other.getType());
      if (other == last)
        return;
      // A bias that is cast to this type needs a kernel for the cast; the kernel adds the bias as
      // well.
      if (type.getRank() == 1 && target.addsBias && !hasBias && !hasActivation &&
          !other.getDefiningOp<CastOp>() && getDist(other).getDims()[0] == dist.getDims().back()) {
        mark(add, use.getOperandNumber());
        hasBias = true;
        last = add.getResult();
        continue;
      }
      if (target.addsResidual && getDist(other).getDims() == dist.getDims())
        mark(add, use.getOperandNumber());
      return;
    }
    if (hasActivation || !target.isActivation(user))
      return;
    mark(user, 0);
    hasActivation = true;
    last = user->getResult(0);
  }
}

void FuseEpilogues::normalize(MatmulOp matmul) {
  OpBuilder b(matmul);
  Location loc = matmul.getLoc();
  if (Value bias = matmul.getBias()) {
    matmul.getBiasMutable().clear();
    b.setInsertionPointAfter(matmul);
    auto add = AddOp::create(b, loc, matmul.getType(), matmul.getResult(), bias);
    matmul.getResult().replaceAllUsesExcept(add.getResult(), add);
    b.setInsertionPoint(matmul);
  }
  // A product of vectors, such as that of positions and frequencies, has no reduction. It becomes
  // an element-wise op, which is fused into a kernel.
  Type type = matmul.getType();
  auto isF32Matrix = [](Value v) {
    auto cast = v.getDefiningOp<CastOp>(); // perhaps of 16-bit operands (tpc-widen-matmuls)
    return getSizes(v).size() >= 2 && getElementTypeOrSelf(v).isF32() &&
           !(cast && isa<FloatType>(getElementTypeOrSelf(cast.getOperand())));
  };
  if (getElementTypeOrSelf(type).isF32() && isF32Matrix(matmul.getLhs()) &&
      isF32Matrix(matmul.getRhs()) && getSizes(matmul.getLhs()).back().isConstant(1)) {
    // An operand may be unreduced over axes over which the other one is replicated.
    auto expand = [&](Value v) -> Value {
      DistAttr dist = getDist(type).withPartial(getDist(v).getPartial());
      return ExpandOp::create(
          b, loc, makeTensorType(getElementTypeOrSelf(v), dist, MeshAttr::lookup(matmul)), v);
    };
    Value lhs = expand(matmul.getLhs()), rhs = expand(matmul.getRhs());
    matmul.getResult().replaceAllUsesWith(MulOp::create(b, loc, type, lhs, rhs).getResult());
    return matmul.erase();
  }
  // The library supports operands with the batch of the result or without a batch.
  DistAttr result = getDist(matmul.getResult());
  for (OpOperand *operand : {&matmul.getLhsMutable(), &matmul.getRhsMutable()}) {
    Value v = operand->get();
    DistAttr dist = getDist(v);
    unsigned batch = std::max<int64_t>(dist.getDims().size() - 2, 0);
    unsigned wanted = result.getDims().size() - 2;
    bool hasNoBatch = true, hasFullBatch = batch == wanted;
    for (unsigned i = 0; i < batch; ++i) {
      hasNoBatch &= dist.getDims()[i].getExpr().isConstant(1);
      hasFullBatch &= dist.getDims()[i] == result.getDims()[i];
    }
    if (hasNoBatch || hasFullBatch)
      continue;
    SmallVector<DimAttr> dims(result.getDims().drop_back(2));
    llvm::append_range(dims, dist.getDims().take_back(2));
    Type type =
        makeTensorType(getElementTypeOrSelf(v), dist.withDims(dims), MeshAttr::lookup(matmul));
    operand->set(ExpandOp::create(b, loc, type, v));
  }
}

/// For causality and windows, the runtime's attention requires contiguous query positions. If a
/// rank's queries are not contiguous ([3 * 8{tp}]), the mask becomes an operand.
void FuseEpilogues::normalize(AttentionOp attention) {
  DistAttr q = getDist(attention.getQ()), k = getDist(attention.getK());
  DimAttr queries = q.getDims()[1];
  std::optional<SymExpr> window = attention.getWindow();
  if ((!attention.getCausal() && !window) || isRange(queries))
    return;
  OpBuilder b(attention);
  Location loc = attention.getLoc();
  auto typed = [&](Type element, ArrayRef<DimAttr> dims) {
    return makeTensorType(element, q.withPartial({}).withDims(dims), MeshAttr::lookup(attention));
  };
  DimAttr one = DimAttr::get(b.getContext(), SymExpr(1));
  SmallVector<DimAttr> dims = {one, one, queries, k.getDims()[1]};
  Type indices = typed(b.getI64Type(), dims);
  Value query = IotaOp::create(b, loc, indices, 2), key = IotaOp::create(b, loc, indices, 3);
  Value offset = SizeOp::create(b, loc, typed(b.getI64Type(), {}), attention.getCausalOffset());
  Value position = AddOp::create(b, loc, indices, query, offset);
  Type truths = typed(b.getI1Type(), dims);
  Value visible = attention.getMask();
  auto require = [&](Predicate predicate, Value than) {
    Value isVisible = CmpOp::create(b, loc, truths, predicate, key, than);
    visible = visible ? AndOp::create(b, loc, visible.getType(), visible, isVisible) : isVisible;
  };
  if (attention.getCausal())
    require(Predicate::LE, position);
  if (window) {
    // A window has a different kind of named symbol than sizes, because it is compared with
    // positions.
    Value size = SizeOp::create(b, loc, typed(b.getI64Type(), {}), getNamedWindow(*window));
    require(Predicate::GT, SubOp::create(b, loc, indices, position, size));
  }
  attention.getMaskMutable().assign(visible);
  attention.setCausal(false);
  attention.removeWindowAttr();
  attention.setCausalOffset(SymExpr(0));
}

void FuseEpilogues::runOnOperation() {
  // The marks of this pass must not exist before, because op verifiers do not check them.
  WalkResult marked = getOperation().walk([](Operation *op) {
    if (!op->hasAttr(kFusedAttr))
      return WalkResult::advance();
    op->emitOpError() << "has '" << kFusedAttr << "' already: only this pass sets it";
    return WalkResult::interrupt();
  });
  if (marked.wasInterrupted())
    return signalPassFailure();
  ParameterTable parameters(getOperation());
  SmallVector<MatmulOp> packed, others;
  getOperation().walk([&](MatmulOp op) {
    Operation *rhs = op.getRhs().getDefiningOp();
    if (parameters.isPackedMatmul(op) || (rhs && rhs->hasAttr(kQuantizedAttr)))
      packed.push_back(op);
    else if (TargetTraits::get(op).computesMatmuls(getElementTypeOrSelf(op.getType())))
      others.push_back(op);
  });
  llvm::for_each(packed, [&](MatmulOp op) { fuse(op); });
  llvm::for_each(others, [&](MatmulOp op) { normalize(op); });
  getOperation().walk([&](AttentionOp op) { normalize(op); });
}
