//===- BufferModelsCompute.cpp - Computation ops on buffers ---------------===//

#include "AttentionModels.h"
#include "KernelClusters.h"
#include "QuantizedMatrices.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/LocalIndex.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
/// Model of ops that are fused into the preceding matmul as its epilogue.
template <typename OpT> struct FusedModel : HostOpInterface::ExternalModel<FusedModel<OpT>, OpT> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kFusedAttr); }
  Value getAliased(Operation *op) const {
    auto attr = op->getAttrOfType<IntegerAttr>(kFusedAttr);
    return attr ? op->getOperand(attr.getInt()) : Value();
  }
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    p.setBuffer(op->getResult(0), p.getBuffer(getAliased(op)));
    return success();
  }
};

struct MatmulModel : HostOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  bool isHostOp(Operation *op) const {
    auto matmul = cast<MatmulOp>(op);
    return TargetTraits::get(op).computesMatmuls(getElementTypeOrSelf(matmul.getType()));
  }

  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    auto matmul = cast<MatmulOp>(op);
    Operation *rhs = matmul.getRhs().getDefiningOp();
    if (rhs && rhs->hasAttr(kQuantizedAttr))
      return planQuantized(matmul, p);
    if (!p.getShared().parameters.isPackedMatmul(matmul))
      return planBatch(matmul, p);
    if (p.getChunkedStart(matmul)) // its plan computes the chunks
      return success();
    SmallVector<MatmulOp> merged = getMerged(matmul);
    return matmul == merged.front() ? planPacked(merged, p) : success();
  }

  static buffer::Epilogue getEpilogue(Operation *op) {
    if (auto gelu = dyn_cast<GeluOp>(op))
      return gelu.getApproximate() == GeluApproximation::Tanh ? buffer::Epilogue::GeluTanh
                                                              : buffer::Epilogue::GeluErf;
    return isa<SiluOp>(op) ? buffer::Epilogue::Silu : buffer::Epilogue::Relu;
  }

  static LogicalResult planPacked(ArrayRef<MatmulOp> merged, BufferPlanner &p) {
    MatmulOp first = merged.front();
    SmallVector<SymExpr> x = p.sizes(first.getLhs().getType());
    // Get all buffers first, because the ops that define them must precede the matmul.
    Value from = p.getBuffer(first.getLhs());
    SmallVector<buffer::ProductOp::Matmul> parts;
    for (MatmulOp op : merged)
      parts.push_back(planPart(op, p));
    buffer::ProductOp::create(p.builder(), p.getLoc(), from,
                              p.expr(product(ArrayRef(x).drop_back())), p.expr(x.back()), parts);
    return success();
  }

  /// Operands of a matmul's epilogue, on tensors.
  struct Fused {
    Value bias, residual;
    buffer::Epilogue epilogue = buffer::Epilogue::None;
  };

  static Fused getFused(MatmulOp op) {
    Fused fused{op.getBias(), {}};
    Value last = op.getResult();
    for (;;) {
      Operation *user = last.hasOneUse() ? *last.user_begin() : nullptr;
      auto attr = user ? user->getAttrOfType<IntegerAttr>(kFusedAttr) : IntegerAttr();
      if (!attr || user->getOperand(attr.getInt()) != last)
        break;
      if (auto add = dyn_cast<AddOp>(user)) {
        Value other = add.getOperand(1 - attr.getInt());
        bool isVector = cast<RankedTensorType>(other.getType()).getRank() == 1;
        (isVector ? fused.bias : fused.residual) = other;
      } else {
        fused.epilogue = getEpilogue(user);
      }
      last = user->getResult(0);
    }
    return fused;
  }

  static buffer::ProductOp::Matmul planPart(MatmulOp op, BufferPlanner &p) {
    Fused fused = getFused(op);
    return {p.parameter(getLoadedParameter(op.getRhs()), ParameterUse::Packed),
            fused.bias ? p.getBuffer(fused.bias) : Value(),
            fused.residual ? p.getBuffer(fused.residual) : Value(),
            p.getBuffer(op.getResult()),
            p.expr(p.sizes(op.getRhs().getType())[1]),
            fused.epilogue};
  }

  static LogicalResult planQuantized(MatmulOp op, BufferPlanner &p) {
    auto matrix = getQuantizedMatrix(op.getRhs(), p.getShared().parameters);
    if (!matrix)
      return op.emitOpError(
          "multiplies by a quantized matrix in a form that no runtime call reads");
    Fused fused = getFused(op);
    auto bufferOf = [&](Value tensor) { return tensor ? p.getBuffer(tensor) : Value(); };
    Value x = p.getBuffer(op.getLhs()), packed = p.getBuffer(matrix->packed),
          scale = p.getBuffer(matrix->scale), zeros = bufferOf(matrix->zeros),
          bias = bufferOf(fused.bias), residual = bufferOf(fused.residual),
          to = p.getBuffer(op.getResult());
    SmallVector<SymExpr> lhs = p.sizes(op.getLhs().getType());
    buffer::QuantizedProductOp::create(
        p.builder(), p.getLoc(), x, packed, scale, zeros, bias, residual, to,
        p.expr(product(ArrayRef(lhs).drop_back())), p.expr(lhs.back()),
        p.expr(p.sizes(op.getRhs().getType())[1]), matrix->numbers.getBits(),
        int64_t(matrix->numbers.getZeroPoint()), p.expr(matrix->rowBytes), matrix->byRows,
        p.exprs(matrix->scaleStrides), p.expr(matrix->block), matrix->zeroBits,
        zeros ? p.exprs(matrix->zeroStrides) : ArrayAttr(), fused.epilogue);
    return success();
  }

  // Plans a matmul of two computed values. Each operand has either no batch (or batch size 1) or
  // the batch of the result, as ensured by tpc-fuse-epilogues.
  static LogicalResult planBatch(MatmulOp op, BufferPlanner &p) {
    SmallVector<SymExpr> x = p.sizes(op.getLhs().getType());
    SmallVector<SymExpr> y = p.sizes(op.getRhs().getType());
    if (x.size() == 1)
      x.insert(x.begin(), SymExpr(1));
    auto hasBatch = [](Value v) {
      auto sizes = getSizes(v);
      for (unsigned i = 0; i + 2 < sizes.size(); ++i)
        if (!sizes[i].isConstant(1))
          return true;
      return false;
    };
    auto batchOf = [&](ArrayRef<SymExpr> sizes) { return product(sizes.drop_back(2)); };
    SymExpr m = x[x.size() - 2], k = x.back(), n = y.back();
    bool left = hasBatch(op.getLhs()), right = hasBatch(op.getRhs());
    SymExpr batch = right ? batchOf(y) : left ? batchOf(x) : SymExpr(1);
    if (left && !right) { // the batch is merged into m
      m = batch * m;
      batch = SymExpr(1);
    }
    Value a = p.getBuffer(op.getLhs()), b = p.getBuffer(op.getRhs()),
          to = p.getBuffer(op.getResult());
    buffer::BatchProductOp::create(p.builder(), p.getLoc(), a, b, to, p.expr(batch), p.expr(m),
                                   p.expr(k), p.expr(n), p.expr(left && right ? m * k : SymExpr(0)),
                                   p.expr(right ? k * n : SymExpr(0)));
    return success();
  }
};

struct MoeModel : HostOpInterface::ExternalModel<MoeModel, MoeOp> {
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<MoeOp>(base);
    const TargetTraits &target = TargetTraits::get(op);
    DimAttr experts = getDist(op.getUp()).getDims()[0];
    if (!target.computesExperts || !getElementTypeOrSelf(op.getType()).isF32() || !isRange(experts))
      return op.emitError() << "'" << getSourceName(op.getLoc()) << "' (" << op->getName()
                            << "): no runtime call of the target " << target.name
                            << " computes it: its elements must be f32, and a rank's experts "
                               "adjacent";
    SmallVector<SymExpr> up = p.sizes(op.getUp().getType()), x = p.sizes(op.getX().getType());
    auto bufferOf = [&](Value tensor) { return tensor ? p.getBuffer(tensor) : Value(); };
    Value from[] = {p.getBuffer(op.getX()), p.getBuffer(op.getRouting()), p.getBuffer(op.getUp()),
                    p.getBuffer(op.getDown())};
    Value gate = bufferOf(op.getGate()), upBias = bufferOf(op.getUpBias()),
          gateBias = bufferOf(op.getGateBias()), to = p.getBuffer(op.getResult());
    buffer::ExpertsOp::create(
        p.builder(), p.getLoc(), from[0], from[1], from[2], from[3], gate, upBias, gateBias, to,
        p.expr(x[0]), p.expr(x[1]), p.expr(up[0]), p.expr(p.sizes(op.getRouting().getType())[1]),
        p.expr(getFirstIndex(experts, p.grid())), p.expr(up[1]), p.expr(p.sizes(op.getType())[1]),
        op.getActivationAttr(), op.getAlphaAttr(), op.getBetaAttr(), op.getLimitAttr());
    return success();
  }
};

/// Appends in place. Not used if a kernel computes the new entries and writes them directly.
struct AppendModel : HostOpInterface::ExternalModel<AppendModel, AppendOp> {
  bool isHostOp(Operation *op) const {
    auto append = cast<AppendOp>(op);
    return !append.getCache().hasOneUse() || !isComputedByKernel(append.getFresh().getDefiningOp());
  }
  Value getAliased(Operation *op) const { return cast<AppendOp>(op).getCache(); }
  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AppendOp>(base);
    if (!getElementTypeOrSelf(op.getLengths()).isInteger(64))
      return op.emitOpError("must have lengths of type i64");
    SmallVector<SymExpr> cache = p.sizes(op.getType()), fresh = p.sizes(op.getFresh().getType());
    // `fresh` is stored as [b, s, h, d] if it is an aliased transpose, else as [b, h, s, d].
    SmallVector<SymExpr> strides = getElementStrides(op.getFresh(), p.grid());
    Value from = p.getBuffer(op.getFresh()), lengths = p.getBuffer(op.getLengths()),
          to = p.getBuffer(op.getCache());
    buffer::AppendOp::create(p.builder(), p.getLoc(), from, lengths, to, p.expr(cache[0]),
                             p.expr(cache[1]), p.expr(fresh[2]), p.expr(cache[2]), p.expr(cache[3]),
                             p.exprs(ArrayRef(strides).drop_back()));
    p.setBuffer(op.getResult(), to);
    return success();
  }
};

struct CallModel : HostOpInterface::ExternalModel<CallModel, func::CallOp> {
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    auto call = cast<func::CallOp>(op);
    func::FuncOp callee = p.getShared().getCallee(call);
    if (auto numRowDims = callee->getAttrOfType<IntegerAttr>(kKernelAttr))
      return planKernel(call, callee, numRowDims.getInt(), p);

    ParameterTable &parameters = p.getShared().parameters;
    SmallVector<Value> args;
    for (auto [arg, value] : llvm::zip_equal(callee.getArguments(), call.getOperands())) {
      const ParameterNeeds *n = parameters.lookup(arg);
      if (n && n->packed)
        args.push_back(p.parameter(value, ParameterUse::Packed));
      if (n && n->dense)
        args.push_back(p.parameter(value, ParameterUse::Dense));
      if (!n)
        args.push_back(p.getBuffer(value));
    }
    for (auto &[parameter, use] : parameters.getImplicitParameters(callee))
      args.push_back(p.parameter(parameter, use));
    SmallVector<Value> results;
    for (OpResult result : call.getResults())
      if (auto argument = p.getShared().getAppended(callee, result.getResultNumber()))
        p.setBuffer(result, p.getBuffer(call.getOperand(*argument)));
      else
        results.push_back(p.getBuffer(result));
    buffer::CallOp::create(p.builder(), p.getLoc(), p.getShared().getFunction(callee).getSymName(),
                           args, results);
    return success();
  }

  static LogicalResult planKernel(func::CallOp call, func::FuncOp callee, int64_t numRowDims,
                                  BufferPlanner &p) {
    SmallVector<Value> writes;
    DenseSet<Value> appended;
    for (OpResult result : call.getResults()) {
      auto argument = p.getShared().getAppended(callee, result.getResultNumber());
      if (argument) {
        appended.insert(call.getOperand(*argument));
        p.setBuffer(result, p.getBuffer(call.getOperand(*argument)));
      }
      writes.push_back(p.getBuffer(result));
    }
    SmallVector<Value> read(llvm::make_filter_range(
        call.getOperands(), [&](Value v) { return !appended.contains(v); }));
    Value written = getWritten(callee.front().getTerminator()->getOperand(0));
    SymExpr rows = product(ArrayRef(p.sizes(written.getType())).take_front(numRowDims));

    ArrayRef<DimAttr> dims = getDist(written).getDims().take_front(numRowDims);
    SmallVector<SymExpr> perRow{SymExpr(1)};
    auto consider = [&](Value v) {
      ArrayRef<DimAttr> other = getDist(v).getDims();
      if ((int64_t)other.size() < numRowDims || other.take_front(numRowDims) != dims)
        return;
      SymExpr size = product(ArrayRef(p.sizes(v.getType())).drop_front(numRowDims));
      if (!llvm::is_contained(perRow, size))
        perRow.push_back(size);
    };
    llvm::for_each(read, consider);
    for (Value result : callee.front().getTerminator()->getOperands())
      consider(getWritten(result));
    SymExpr maxPerRow = perRow.front();
    for (const SymExpr &size : ArrayRef(perRow).drop_front())
      maxPerRow = SymExpr::max(maxPerRow, size);
    SymExpr grain =
        SymExpr::floorDiv(TargetTraits::get(call).elementsPerTask, maxPerRow) + SymExpr(1);
    buffer::LaunchOp::create(p.builder(), p.getLoc(), callee.getName(), p.getBuffers(read), writes,
                             p.expr(rows), p.expr(grain));
    return success();
  }
};
} // namespace

void mlir::tpc::attachComputeModels(MLIRContext *context) {
  attachAttentionModels(context);
  MatmulOp::attachInterface<MatmulModel>(*context);
  MoeOp::attachInterface<MoeModel>(*context);
  AppendOp::attachInterface<AppendModel>(*context);
  AddOp::attachInterface<FusedModel<AddOp>>(*context);
  GeluOp::attachInterface<FusedModel<GeluOp>>(*context);
  SiluOp::attachInterface<FusedModel<SiluOp>>(*context);
  ReluOp::attachInterface<FusedModel<ReluOp>>(*context);
  func::CallOp::attachInterface<CallModel>(*context);
}
