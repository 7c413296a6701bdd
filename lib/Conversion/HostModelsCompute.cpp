//===- HostModelsCompute.cpp - Calls of libraries, kernels, functions -----===//

#include "HostModels.h"
#include "tpc/Dialect/LocalIndex.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {
struct ParameterModel : HostOpInterface::ExternalModel<ParameterModel, ParameterOp> {
  bool needsMemory(Operation *) const { return false; }
  LogicalResult lower(Operation *, HostEmitter &) const { return success(); }
};

/// A cast that is done as a parameter is loaded. Others are kernels.
struct LoadedCastModel : HostOpInterface::ExternalModel<LoadedCastModel, CastOp> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kLoadedAttr); }
  bool needsMemory(Operation *op) const { return !isHostOp(op); }
  LogicalResult lower(Operation *, HostEmitter &) const { return success(); }
};

struct ConstantModel : HostOpInterface::ExternalModel<ConstantModel, ConstantOp> {
  bool needsMemory(Operation *) const { return false; }
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    auto constant = cast<ConstantOp>(op);
    auto elements = dyn_cast<DenseElementsAttr>(constant.getValue());
    if (!elements)
      return op->emitOpError() << "has elements of an unknown form";
    e.setPointer(constant.getResult(),
                 e.call(TPC_ABI(tpc_constant), e.i32(e.getHost().object.getConstant(elements))));
    return success();
  }
};

struct ReshapeModel : HostOpInterface::ExternalModel<ReshapeModel, ReshapeOp> {
  Value getAliased(Operation *op) const { return op->getOperand(0); }
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    e.setPointer(op->getResult(0), e.pointer(op->getOperand(0)));
    return success();
  }
};

/// A part of the outermost factor is contiguous: another address.
struct LocalSliceModel : HostOpInterface::ExternalModel<LocalSliceModel, LocalSliceOp> {
  bool isHostOp(Operation *op) const {
    auto slice = cast<LocalSliceOp>(op);
    auto from = getDist(slice.getOperand()).getDims();
    auto to = getDist(slice.getResult()).getDims();
    for (int64_t i = 0; i < (int64_t)slice.getDim(); ++i)
      if (!to[i].getExpr().isConstant(1))
        return false;
    DimAttr f = from[slice.getDim()], t = to[slice.getDim()];
    if (f.getFactors().empty() || t.getFactors().empty())
      return false;
    // Either the product is split further, or the first factor.
    if (f.getFactors() == t.getFactors())
      return true;
    return f.getAxes().empty() && t.getAxes().empty() &&
           llvm::all_of(t.getFactors().drop_front(), [&](FactorAttr factor) {
             return factor.getAxes().empty() || llvm::is_contained(f.getFactors(), factor);
           });
  }
  Value getAliased(Operation *op) const { return isHostOp(op) ? op->getOperand(0) : Value(); }
  bool isSameMemory(Operation *) const { return false; }
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    auto slice = cast<LocalSliceOp>(op);
    SizeEmitter &s = e.sizes();
    DimAttr f = getDist(slice.getOperand()).getDims()[slice.getDim()];
    DimAttr t = getDist(slice.getResult()).getDims()[slice.getDim()];
    // Of the first element, in rows behind the split.
    SymbolicIndices at;
    GridAttr grid = s.getLayout().grid;
    Value begin =
        s.expr(getLocalIndex<SymExpr>(at, f, grid, getGlobalIndex<SymExpr>(at, t, grid, 0)).index);
    SmallVector<Value> sizes = s.localSizes(slice.getType());
    for (Value size : llvm::drop_begin(sizes, slice.getDim() + 1))
      begin = s.mul(begin, size);
    e.setPointer(slice.getResult(),
                 e.offset(e.pointer(slice.getOperand()), begin, slice.getType()));
    return success();
  }
};

/// What the product before it computes as well.
template <typename OpT> struct FusedModel : HostOpInterface::ExternalModel<FusedModel<OpT>, OpT> {
  bool isHostOp(Operation *op) const { return op->hasAttr(kFusedAttr); }
  Value getAliased(Operation *op) const {
    auto attr = op->getAttrOfType<IntegerAttr>(kFusedAttr);
    return attr ? op->getOperand(attr.getInt()) : Value();
  }
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    e.setPointer(op->getResult(0), e.pointer(getAliased(op)));
    return success();
  }
};

struct MatmulModel : HostOpInterface::ExternalModel<MatmulModel, MatmulOp> {
  bool isHostOp(Operation *op) const {
    auto matmul = cast<MatmulOp>(op);
    return getElementTypeOrSelf(matmul.getType()).isF32();
  }

  LogicalResult lower(Operation *op, HostEmitter &e) const {
    auto matmul = cast<MatmulOp>(op);
    if (e.getHost().parameters.isPackedProduct(matmul))
      return lowerPacked(matmul, e);
    return lowerBatch(matmul, e);
  }

  static int64_t activation(Operation *op) {
    if (auto gelu = dyn_cast<GeluOp>(op))
      return gelu.getApproximate() == GeluApproximation::Tanh ? TPC_EPILOGUE_GELU_TANH
                                                              : TPC_EPILOGUE_GELU_ERF;
    return isa<SiluOp>(op) ? TPC_EPILOGUE_SILU : TPC_EPILOGUE_RELU;
  }

  static LogicalResult lowerPacked(MatmulOp op, HostEmitter &e) {
    Value bias = op.getBias(), residual, last = op.getResult();
    int64_t epilogue = TPC_EPILOGUE_NONE;
    for (;;) {
      Operation *user = last.hasOneUse() ? *last.user_begin() : nullptr;
      auto attr = user ? user->getAttrOfType<IntegerAttr>(kFusedAttr) : IntegerAttr();
      if (!attr || user->getOperand(attr.getInt()) != last)
        break;
      if (auto add = dyn_cast<AddOp>(user)) {
        Value other = add.getOperand(1 - attr.getInt());
        bool isVector = cast<RankedTensorType>(other.getType()).getRank() == 1;
        (isVector ? bias : residual) = other;
      } else {
        epilogue = activation(user);
      }
      last = user->getResult(0);
    }
    SizeEmitter &s = e.sizes();
    SmallVector<Value> x = s.localSizes(op.getLhs().getType());
    Value m = s.product(ArrayRef<Value>(x).drop_back());
    Value n = s.localSizes(op.getRhs().getType())[1];
    e.call(TPC_ABI(tpc_matmul), e.parameterIndex(getLoaded(op.getRhs()), ParameterUse::Packed),
           e.pointer(op.getLhs()), bias ? e.pointer(bias) : e.null(),
           residual ? e.pointer(residual) : e.null(), e.pointer(op.getResult()), abi::I64(m),
           abi::I64(x.back()), abi::I64(n), e.i32(epilogue));
    return success();
  }

  // Products of two computed values. Either one side has no batch (or one of
  // size 1), or both have the result's: tpc-fuse-epilogues sees to that.
  static LogicalResult lowerBatch(MatmulOp op, HostEmitter &e) {
    SizeEmitter &s = e.sizes();
    SmallVector<Value> x = s.localSizes(op.getLhs().getType());
    SmallVector<Value> y = s.localSizes(op.getRhs().getType());
    if (x.size() == 1)
      x.insert(x.begin(), e.i64(1));
    auto hasBatch = [](Value v) {
      auto sizes = getSizes(v);
      for (unsigned i = 0; i + 2 < sizes.size(); ++i)
        if (!sizes[i].isConstant(1))
          return true;
      return false;
    };
    auto batchOf = [&](ArrayRef<Value> sizes) { return s.product(sizes.drop_back(2)); };
    Value m = x[x.size() - 2], k = x.back(), n = y.back();
    bool left = hasBatch(op.getLhs()), right = hasBatch(op.getRhs());
    Value batch = right ? batchOf(y) : left ? batchOf(x) : e.i64(1);
    if (left && !right) { // one taller product
      m = s.mul(batch, m);
      batch = e.i64(1);
    }
    e.call(TPC_ABI(tpc_batch_matmul), e.pointer(op.getLhs()), e.pointer(op.getRhs()),
           e.pointer(op.getResult()), abi::I64(batch), abi::I64(m), abi::I64(k), abi::I64(n),
           abi::I64(left && right ? s.mul(m, k) : s.constant(0)),
           abi::I64(right ? s.mul(k, n) : s.constant(0)));
    return success();
  }
};

struct AttentionModel : HostOpInterface::ExternalModel<AttentionModel, AttentionOp> {
  bool isHostOp(Operation *op) const {
    auto isF32 = [](Value v) { return !v || getElementTypeOrSelf(v).isF32(); };
    auto attention = cast<AttentionOp>(op);
    return isF32(attention.getQ()) && isF32(attention.getK()) && isF32(attention.getV()) &&
           isF32(attention.getBias());
  }

  LogicalResult lower(Operation *base, HostEmitter &e) const {
    auto op = cast<AttentionOp>(base);
    SizeEmitter &s = e.sizes();
    SmallVector<Value> q = s.localSizes(op.getQ().getType());
    SmallVector<Value> k = s.localSizes(op.getK().getType());
    SmallVector<Value> v = s.localSizes(op.getV().getType());
    // A rank has the same kv heads in q as in k, and of each group the same part: [2 * 4{tp}] query
    // heads are not consecutive in the whole, but they are in groups again.
    auto offset = SymExpr::parse(op.getCausalOffset().str());
    SymbolicIndices at;
    SymExpr firstQuery =
        getGlobalIndex<SymExpr>(at, getDist(op.getQ()).getDims()[1], s.getLayout().grid, 0);
    auto pointer = [&](Value tensor) { return tensor ? e.pointer(tensor) : e.null(); };
    // Of a mask [batch or 1, heads or 1, seq_q, seq_k].
    auto strides = [&](Value mask) -> std::pair<abi::I64, abi::I64> {
      Value batch = e.i64(0), head = e.i64(0);
      if (mask) {
        SmallVector<Value> m = s.localSizes(mask.getType());
        auto sizes = getSizes(mask);
        if (!sizes[1].isConstant(1))
          head = s.mul(m[2], m[3]);
        if (!sizes[0].isConstant(1))
          batch = s.mul(m[1], s.mul(m[2], m[3]));
      }
      return {abi::I64(batch), abi::I64(head)};
    };
    auto maskStrides = strides(op.getMask()), biasStrides = strides(op.getBias());
    abi::Pointer args = e.store(abi::Values<tpc_attention_args>{
        .q = e.pointer(op.getQ()),
        .k = e.pointer(op.getK()),
        .v = e.pointer(op.getV()),
        .out = e.pointer(op.getResult()),
        .batch = abi::I64(q[0]),
        .seq_q = abi::I64(q[1]),
        .seq_k = abi::I64(k[1]),
        .heads_q = abi::I64(q[2]),
        .heads_kv = abi::I64(k[2]),
        .head_size = abi::I64(q[3]),
        .value_size = abi::I64(v[3]),
        .q_row_stride = abi::I64(s.mul(q[2], q[3])),
        .k_row_stride = abi::I64(s.mul(k[2], k[3])),
        .v_row_stride = abi::I64(s.mul(v[2], v[3])),
        .out_row_stride = abi::I64(s.mul(q[2], v[3])),
        .scale = e.f32(op.getScale().convertToDouble()),
        .softcap = e.f32(op.getSoftcap().convertToDouble()),
        .causal = e.i32(op.getCausal()),
        .causal_offset = abi::I64(s.expr(*offset + firstQuery)),
        .key_mask = pointer(op.getKeyMask()),
        .mask = pointer(op.getMask()),
        .mask_batch_stride = maskStrides.first,
        .mask_head_stride = maskStrides.second,
        .bias = pointer(op.getBias()),
        .bias_batch_stride = biasStrides.first,
        .bias_head_stride = biasStrides.second,
        .masked_row = e.i32(static_cast<int64_t>(op.getMaskedRow())),
    });
    e.call(TPC_ABI(tpc_attention), args);
    return success();
  }
};

struct CallModel : HostOpInterface::ExternalModel<CallModel, func::CallOp> {
  LogicalResult lower(Operation *op, HostEmitter &e) const {
    auto call = cast<func::CallOp>(op);
    auto callee =
        e.getHost().symbols.lookupNearestSymbolFrom<func::FuncOp>(call, call.getCalleeAttr());
    if (auto rows = callee->getAttrOfType<IntegerAttr>(kKernelAttr))
      return lowerKernel(call, callee, rows.getInt(), e);

    SmallVector<Value> args{e.context(), e.environment()};
    for (auto [arg, value] : llvm::zip_equal(callee.getArguments(), call.getOperands())) {
      const ParameterNeeds *n = e.getHost().parameters.lookup(arg);
      if (n && n->packed)
        args.push_back(e.parameterIndex(value, ParameterUse::Packed));
      if (n && n->dense)
        args.push_back(e.parameterIndex(value, ParameterUse::Dense));
      if (!n)
        args.push_back(e.pointer(value));
    }
    for (auto &[parameter, use] : e.getHost().parameters.getHidden(callee))
      args.push_back(e.parameterIndex(parameter, use));
    for (Value result : call.getResults())
      args.push_back(e.pointer(result));
    LLVM::CallOp::create(e.builder(), e.getLoc(), e.getHost().getType(callee), callee.getName(),
                         args);
    return success();
  }

  static LogicalResult lowerKernel(func::CallOp call, func::FuncOp callee, int64_t rank,
                                   HostEmitter &e) {
    SizeEmitter &s = e.sizes();
    Type pointer = LLVM::LLVMPointerType::get(call.getContext());
    SmallVector<Value> values;
    for (Value v : call.getOperands())
      values.push_back(e.pointer(v));
    for (Value v : call.getResults())
      values.push_back(e.pointer(v));
    abi::Pointer operands = e.scratch(pointer, llvm::PowerOf2Ceil(values.size()));
    for (auto [i, value] : llvm::enumerate(values))
      e.storeAt(operands, pointer, i, value);

    Value result = call.getResult(0);
    SmallVector<Value> sizes = s.localSizes(result.getType());
    Value rows = s.product(ArrayRef<Value>(sizes).take_front(rank));
    // A thread is worth waking for some ten thousand elements.
    ArrayRef<DimAttr> dims = getDist(result).getDims().take_front(rank);
    Value perRow = e.i64(1);
    auto consider = [&](Value v) {
      ArrayRef<DimAttr> other = getDist(v).getDims();
      if ((int64_t)other.size() >= rank && other.take_front(rank) == dims)
        perRow =
            s.max(perRow, s.product(ArrayRef<Value>(s.localSizes(v.getType())).drop_front(rank)));
    };
    llvm::for_each(call.getOperands(), consider);
    llvm::for_each(call.getResults(), consider);
    Value grain = s.add(s.floorDiv(e.i64(8192), perRow), e.i64(1));
    int32_t kernel = e.getHost().object.getKernel(callee.getSymNameAttr());
    e.call(TPC_ABI(tpc_launch), e.i32(kernel), operands, e.i32(values.size()), abi::I64(rows),
           abi::I64(grain));
    return success();
  }
};
} // namespace

void mlir::tpc::attachComputeModels(MLIRContext *context) {
  ParameterOp::attachInterface<ParameterModel>(*context);
  CastOp::attachInterface<LoadedCastModel>(*context);
  ConstantOp::attachInterface<ConstantModel>(*context);
  ReshapeOp::attachInterface<ReshapeModel>(*context);
  LocalSliceOp::attachInterface<LocalSliceModel>(*context);
  MatmulOp::attachInterface<MatmulModel>(*context);
  AttentionOp::attachInterface<AttentionModel>(*context);
  AddOp::attachInterface<FusedModel<AddOp>>(*context);
  GeluOp::attachInterface<FusedModel<GeluOp>>(*context);
  SiluOp::attachInterface<FusedModel<SiluOp>>(*context);
  ReluOp::attachInterface<FusedModel<ReluOp>>(*context);
  func::CallOp::attachInterface<CallModel>(*context);
}
