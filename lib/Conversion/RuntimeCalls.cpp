//===- RuntimeCalls.cpp - Runtime call of each buffer op ------------------===//

#include "AttentionModels.h"
#include "HostEmitter.h"
#include "tpc/Buffer/Accumulate.h"
#include "tpc/Buffer/Async.h"
#include "tpc/accumulate.h"
#include "tpc/async.h"

#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;

static_assert(int(buffer::Epilogue::None) == TPC_EPILOGUE_NONE &&
              int(buffer::Epilogue::GeluErf) == TPC_EPILOGUE_GELU_ERF &&
              int(buffer::Epilogue::GeluTanh) == TPC_EPILOGUE_GELU_TANH &&
              int(buffer::Epilogue::Silu) == TPC_EPILOGUE_SILU &&
              int(buffer::Epilogue::Relu) == TPC_EPILOGUE_RELU);
static_assert(int(buffer::Norm::None) == TPC_NORM_NONE && int(buffer::Norm::Rms) == TPC_NORM_RMS &&
              int(buffer::Norm::Layer) == TPC_NORM_LAYER);
static_assert(int(ReductionKind::Sum) == TPC_SUM && int(ReductionKind::Max) == TPC_MAX &&
              int(ReductionKind::Min) == TPC_MIN);

namespace {
/// Model that calls the overload `emit(OpT, HostEmitter &)` below.
template <typename OpT> struct Call : RuntimeCallOpInterface::ExternalModel<Call<OpT>, OpT> {
  void emit(Operation *op, HostEmitter &e) const;
};
} // namespace

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

template <> void Call<buffer::PushOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::PushOp>(base);
  e.setValue(op.getFrame(), e.call(TPC_ABI(tpc_frame_push), e.expr(op.getBytes())));
}

template <> void Call<buffer::PopOp>::emit(Operation *base, HostEmitter &e) const {
  e.call(TPC_ABI(tpc_frame_pop), e.pointer(cast<buffer::PopOp>(base).getFrame()));
}

template <> void Call<buffer::SlotOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::SlotOp>(base);
  e.setValue(op.getBuffer(), e.offset(e.pointer(op.getFrame()), e.expr(op.getOffset())));
}

template <> void Call<buffer::PartOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::PartOp>(base);
  Value bytes = e.sizes().mul(e.expr(op.getFrom()), e.i64(e.elementBytes(op.getWhole())));
  e.setValue(op.getBuffer(), e.offset(e.pointer(op.getWhole()), bytes));
}

template <> void Call<buffer::ColumnsOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ColumnsOp>(base);
  Value bytes = e.sizes().mul(e.expr(op.getFrom()), e.i64(e.elementBytes(op.getWhole())));
  e.setValue(op.getBuffer(), e.offset(e.pointer(op.getWhole()), bytes));
}

template <> void Call<buffer::InputOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::InputOp>(base);
  e.setValue(op.getBuffer(), e.call(TPC_ABI(tpc_input), e.i32(op.getIndex())));
}

template <> void Call<buffer::StateOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::StateOp>(base);
  Value bytes = e.sizes().mul(e.expr(op.getExtent().getElements()),
                              e.i64(getElementBytes(op.getExtent().getElement())));
  e.setValue(op.getBuffer(),
             e.call(TPC_ABI(tpc_state), e.i32(e.getHost().getCache(op.getCacheAttr().getAttr())),
                    abi::I64(bytes)));
}

template <> void Call<buffer::ConstantOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ConstantOp>(base);
  int32_t index = e.getHost().object.getConstant(cast<DenseElementsAttr>(op.getValue()));
  e.setValue(op.getBuffer(), e.call(TPC_ABI(tpc_constant), e.i32(index)));
}

template <> void Call<buffer::ParameterOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ParameterOp>(base);
  e.setValue(op.getIndex(), e.i32(e.getHost().getEntry(op.getEntryAttr().getAttr())));
}

template <> void Call<buffer::DenseOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::DenseOp>(base);
  e.setValue(op.getBuffer(), e.call(TPC_ABI(tpc_parameter), abi::I32(e.value(op.getIndex()))));
}

//===----------------------------------------------------------------------===//
// Computation
//===----------------------------------------------------------------------===//

template <> void Call<buffer::CopyOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::CopyOp>(base);
  e.call(TPC_ABI(tpc_copy), e.pointer(op.getTo()), e.pointer(op.getFrom()), e.expr(op.getBytes()));
}

template <> void Call<buffer::AccumulateOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AccumulateOp>(base);
  e.call(TPC_ABI(tpc_accumulate), e.pointer(op.getTo()), e.pointer(op.getFrom()),
         e.expr(op.getCount()), abi::I64(e.sizes().coordinate(kMicroBatchAxis)));
}

template <> void Call<buffer::UpdateOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::UpdateOp>(base);
  abi::Pointer to = e.call(TPC_ABI(tpc_parameter), abi::I32(e.value(op.getIndex())));
  e.call(TPC_ABI(tpc_copy), to, e.pointer(op.getFrom()), e.expr(op.getBytes()));
}

template <> void Call<buffer::LaunchOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::LaunchOp>(base);
  SmallVector<Value> pointers;
  for (Value buffer : base->getOperands())
    pointers.push_back(e.pointer(buffer));
  Type pointer = LLVM::LLVMPointerType::get(base->getContext());
  abi::Pointer operands = e.scratch(pointer, llvm::PowerOf2Ceil(pointers.size()));
  for (auto [i, value] : llvm::enumerate(pointers))
    e.storeAt(operands, pointer, i, value);
  int32_t kernel = e.getHost().object.getKernel(op.getKernelAttr().getAttr());
  e.call(TPC_ABI(tpc_launch), e.i32(kernel), operands, e.i32(pointers.size()), e.expr(op.getRows()),
         e.expr(op.getGrain()));
}

template <> void Call<buffer::CallOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::CallOp>(base);
  HostModule &host = e.getHost();
  auto callee = host.symbols.lookupNearestSymbolFrom<buffer::FuncOp>(op, op.getCalleeAttr());
  SmallVector<Value> args{e.context(), e.environment()};
  for (Value operand : base->getOperands())
    args.push_back(e.value(operand));
  LLVM::CallOp::create(e.builder(), e.getLoc(), host.getType(callee), host.getName(callee), args);
}

static abi::Pointer storeProducts(buffer::ProductOp op, HostEmitter &e) {
  SmallVector<abi::Values<tpc_product>> products;
  for (const buffer::ProductOp::Matmul &part : op.getMatmuls()) {
    auto columns = part.to.getDefiningOp<buffer::ColumnsOp>();
    products.push_back({.n = e.expr(part.n),
                        .out_stride = e.expr(columns ? columns.getStride() : part.n),
                        .bias = e.pointer(part.bias),
                        .residual = e.pointer(part.residual),
                        .out = e.pointer(part.to),
                        .parameter = abi::I32(e.value(part.parameter)),
                        .epilogue = e.i32(static_cast<int64_t>(part.epilogue)),
                        .dtype = e.dtype(op.getX()),
                        .out_dtype = e.dtype(part.to)});
  }
  return e.store<tpc_product>(products);
}

template <> void Call<buffer::ProductOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ProductOp>(base);
  e.call(TPC_ABI(tpc_products), e.pointer(op.getX()), e.expr(op.getM()), e.expr(op.getK()),
         storeProducts(op, e), e.i32(op.getParameters().size()));
}

template <> void Call<buffer::FusedOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::FusedOp>(base);
  buffer::ProductOp product = op.getProduct();
  abi::Pointer fusion = e.store(abi::Values<tpc_fusion>{
      .source = e.pointer(op.getSource()),
      .scale = e.pointer(op.getScale()),
      .shift = e.pointer(op.getShift()),
      .out = e.pointer(op.getTo()),
      .norm = e.i32(static_cast<int64_t>(op.getNorm())),
      .epsilon = e.f32(op.getEpsilon().convertToDouble()),
      .source_dtype = op.getSource() ? e.dtype(op.getSource()) : e.i32(TPC_F32),
      .scale_dtype = op.getScale() ? e.dtype(op.getScale()) : e.i32(TPC_F32),
      .activation = e.i32(static_cast<int64_t>(op.getActivation())),
      .gated = e.i32(op.getGated()),
  });
  abi::I32 isComputed = e.call(TPC_ABI(tpc_fused_products), fusion, e.pointer(product.getX()),
                               e.expr(product.getM()), e.expr(product.getK()),
                               storeProducts(product, e), e.i32(product.getParameters().size()));
  Value isNotComputed =
      LLVM::ICmpOp::create(e.builder(), e.getLoc(), LLVM::ICmpPredicate::eq, isComputed, e.i32(0));
  e.emitIf(isNotComputed, [&] { e.emitBlock(op.getBody().front()); });
}

template <> void Call<buffer::BatchProductOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::BatchProductOp>(base);
  e.call(TPC_ABI(tpc_batch_matmul), e.dtype(op.getTo()), e.pointer(op.getA()), e.pointer(op.getB()),
         e.pointer(op.getTo()), e.expr(op.getBatch()), e.expr(op.getM()), e.expr(op.getK()),
         e.expr(op.getN()), e.expr(op.getAStride()), e.expr(op.getBStride()));
}

template <> void Call<buffer::QuantizedProductOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::QuantizedProductOp>(base);
  SmallVector<Value> scale = e.exprs(op.getScaleStrides());
  SmallVector<Value> zero{e.i64(0), e.i64(0)};
  if (op.getZeroStrides())
    zero = e.exprs(*op.getZeroStrides());
  abi::Pointer args = e.store(abi::Values<tpc_quantized_args>{
      .x = e.pointer(op.getX()),
      .packed = e.pointer(op.getPacked()),
      .scale = e.pointer(op.getScale()),
      .zero = e.pointer(op.getZeros()),
      .bias = e.pointer(op.getBias()),
      .residual = e.pointer(op.getResidual()),
      .out = e.pointer(op.getTo()),
      .m = e.expr(op.getM()),
      .k = e.expr(op.getK()),
      .n = e.expr(op.getN()),
      .row_bytes = e.expr(op.getRowBytes()),
      .block = e.expr(op.getBlock()),
      .scale_column_stride = abi::I64(scale[0]),
      .scale_block_stride = abi::I64(scale[1]),
      .zero_column_stride = abi::I64(zero[0]),
      .zero_block_stride = abi::I64(zero[1]),
      .bits = e.i32(op.getBits()),
      .zero_bits = e.i32(op.getZeroBits()),
      .zero_point = e.i32(op.getZeroPoint()),
      .is_signed = e.i32(!isUnsigned(buffer::getExtent(op.getPacked()).getElement())),
      .by_rows = e.i32(op.getByRows()),
      .scale_dtype = e.dtype(op.getScale()),
      .epilogue = e.i32(static_cast<int64_t>(op.getEpilogue())),
  });
  e.call(TPC_ABI(tpc_quantized_product), args);
}

template <> void Call<buffer::ExpertsOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ExpertsOp>(base);
  abi::Pointer args = e.store(abi::Values<tpc_experts_args>{
      .x = e.pointer(op.getX()),
      .routing = e.pointer(op.getRouting()),
      .up = e.pointer(op.getUp()),
      .up_bias = e.pointer(op.getUpBias()),
      .gate = e.pointer(op.getGate()),
      .gate_bias = e.pointer(op.getGateBias()),
      .down = e.pointer(op.getDown()),
      .out = e.pointer(op.getTo()),
      .tokens = e.expr(op.getTokens()),
      .hidden = e.expr(op.getHidden()),
      .experts = e.expr(op.getExperts()),
      .all = e.expr(op.getAll()),
      .first = e.expr(op.getFirst()),
      .inner = e.expr(op.getInner()),
      .outputs = e.expr(op.getOutputs()),
      .alpha = e.f32(op.getAlpha().convertToDouble()),
      .beta = e.f32(op.getBeta().convertToDouble()),
      .limit = e.f32(op.getLimit().convertToDouble()),
      .activation = e.i32(static_cast<int64_t>(op.getActivation())),
      .dtype = e.dtype(op.getUp()),
  });
  e.call(TPC_ABI(tpc_experts), args);
}

template <> void Call<buffer::AppendOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AppendOp>(base);
  SmallVector<Value> strides = e.exprs(op.getStrides());
  abi::Pointer args = e.store(abi::Values<tpc_append_args>{
      .cache = e.pointer(op.getCache()),
      .fresh = e.pointer(op.getFrom()),
      .lengths = e.pointer(op.getLengths()),
      .pages = e.null(),
      .batch = e.expr(op.getBatch()),
      .heads = e.expr(op.getHeads()),
      .sequence = e.expr(op.getTokens()),
      .capacity = e.expr(op.getCapacity()),
      .size = e.expr(op.getSize()),
      .fresh_batch_stride = abi::I64(strides[0]),
      .fresh_head_stride = abi::I64(strides[1]),
      .fresh_row_stride = abi::I64(strides[2]),
      .dtype = e.dtype(op.getCache()),
  });
  e.call(TPC_ABI(tpc_append), args);
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

template <> void Call<buffer::AllReduceOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AllReduceOp>(base);
  e.communicate(op, TPC_ABI(tpc_all_reduce), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.i32(static_cast<int64_t>(op.getKind())), e.pointer(op.getFrom()),
                e.pointer(op.getTo()), e.expr(op.getCount()));
}

template <> void Call<buffer::AllReduceStartOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AllReduceStartOp>(base);
  e.setValue(op.getToken(),
             e.communicate(op, TPC_ABI(tpc_all_reduce_start), e.axes(op.getAxes()),
                           e.dtype(op.getTo()), e.i32(static_cast<int64_t>(op.getKind())),
                           e.pointer(op.getFrom()), e.pointer(op.getTo()), e.expr(op.getCount())));
}

template <> void Call<buffer::WaitOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::WaitOp>(base);
  e.communicate(op, TPC_ABI(tpc_wait), abi::I32(e.value(op.getToken())));
}

template <> void Call<buffer::AllGatherOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AllGatherOp>(base);
  e.communicate(op, TPC_ABI(tpc_all_gather), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.pointer(op.getFrom()), e.pointer(op.getTo()), e.expr(op.getOuter()),
                e.expr(op.getN()), e.expr(op.getInner()));
}

template <> void Call<buffer::ReduceScatterOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ReduceScatterOp>(base);
  e.communicate(op, TPC_ABI(tpc_reduce_scatter), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.i32(static_cast<int64_t>(op.getKind())), e.pointer(op.getFrom()),
                e.pointer(op.getTo()), e.expr(op.getOuter()), e.expr(op.getN()),
                e.expr(op.getInner()));
}

template <> void Call<buffer::AllToAllOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::AllToAllOp>(base);
  e.communicate(op, TPC_ABI(tpc_all_to_all), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.pointer(op.getFrom()), e.pointer(op.getTo()), e.expr(op.getOuter()),
                e.expr(op.getA()), e.expr(op.getMiddle()), e.expr(op.getB()), e.expr(op.getInner()),
                e.i32(op.getSplitsFirst()));
}

/// Appends lists of axes, as indices in the grid's order, each terminated by -1.
static void appendAxisIndices(HostEmitter &e, Attribute axes, SmallVectorImpl<Value> &out) {
  for (auto axis : cast<ArrayAttr>(axes).getAsValueRange<StringAttr>())
    out.push_back(e.i32(e.axis(axis)));
  out.push_back(e.i32(-1));
}

template <> void Call<buffer::CollectivePermuteOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::CollectivePermuteOp>(base);
  SmallVector<Value> list; // see tpc_collective_permute
  for (Attribute axes : op.getSplits())
    appendAxisIndices(e, axes, list);
  e.communicate(op, TPC_ABI(tpc_collective_permute), e.store(e.builder().getI32Type(), list),
                e.dtype(op.getTo()), e.pointer(op.getFrom()), e.pointer(op.getTo()),
                e.expr(op.getOuter()), e.expr(op.getBlocks()), e.expr(op.getN()),
                e.expr(op.getUnit()), e.expr(op.getInner()), e.expr(op.getFirst()));
}

template <> void Call<buffer::DispatchOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::DispatchOp>(base);
  SmallVector<Value> split;
  appendAxisIndices(e, op.getSplit(), split);
  e.communicate(op, TPC_ABI(tpc_dispatch), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.pointer(op.getFrom()), e.pointer(op.getTo()), e.expr(op.getN()),
                e.expr(op.getInner()), e.expr(op.getWidth()), e.expr(op.getColumn()),
                e.expr(op.getExperts()), e.store(e.builder().getI32Type(), split));
}

template <> void Call<buffer::CombineOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::CombineOp>(base);
  e.communicate(op, TPC_ABI(tpc_combine), e.axes(op.getAxes()), e.dtype(op.getTo()),
                e.pointer(op.getFrom()), e.pointer(op.getTo()), e.expr(op.getN()),
                e.expr(op.getInner()), e.expr(op.getWidth()));
}

template <> void Call<buffer::ExchangeOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::ExchangeOp>(base);
  SmallVector<Value> list{e.i32(op.getLayout().size())}; // see tpc_exchange
  for (auto lists : op.getLayout().getAsRange<ArrayAttr>()) {
    list.push_back(e.i32(lists.size() / 2 - 1));
    for (Attribute axes : lists)
      appendAxisIndices(e, axes, list);
  }
  abi::Pointer layout = e.store(e.builder().getI32Type(), list);
  e.communicate(op, TPC_ABI(tpc_exchange), layout, e.dtype(op.getTo()), e.pointer(op.getFrom()),
                e.pointer(op.getTo()), e.store(e.builder().getI64Type(), e.exprs(op.getSizes())));
}

template <> void Call<buffer::BroadcastOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::BroadcastOp>(base);
  e.communicate(op, TPC_ABI(tpc_broadcast), e.axes(op.getAxes()), e.dtype(op.getData()),
                e.pointer(op.getData()), e.expr(op.getCount()), e.i64(op.getRoot()));
}

template <> void Call<buffer::SendOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::SendOp>(base);
  e.communicate(op, TPC_ABI(tpc_send), e.i32(e.axis(kPipelineAxis)), e.dtype(op.getData()),
                e.pointer(op.getData()), e.expr(op.getCount()), e.i64(op.getTo()));
}

template <> void Call<buffer::RecvOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::RecvOp>(base);
  e.communicate(op, TPC_ABI(tpc_recv), e.i32(e.axis(kPipelineAxis)), e.dtype(op.getData()),
                e.pointer(op.getData()), e.expr(op.getCount()), e.i64(op.getFrom()));
}

template <> void Call<buffer::OutputOp>::emit(Operation *base, HostEmitter &e) const {
  auto op = cast<buffer::OutputOp>(base);
  OpBuilder &b = e.builder();
  auto deliver = [&] {
    // Three consecutive lists.
    SmallVector<Value> box = e.exprs(op.getShape());
    llvm::append_range(box, e.exprs(op.getOffset()));
    llvm::append_range(box, e.exprs(op.getSize()));
    int32_t numDims = op.getShape().size();
    abi::Pointer shape = e.store(b.getI64Type(), box);
    abi::Pointer offset = e.offset(shape, e.i64(numDims * sizeof(int64_t)));
    abi::Pointer size = e.offset(shape, e.i64(2 * numDims * sizeof(int64_t)));
    abi::I32 index = e.i32(op.getIndex());
    abi::Pointer data = e.pointer(op.getData());
    if (op.getEvery())
      e.call(TPC_ABI(tpc_output_every), index, data, e.i32(numDims), shape, offset, size,
             e.i32(*op.getEvery()), e.expr(*op.getHeld()), e.expr(*op.getBegin()),
             e.i64(*op.getStep()));
    else
      e.call(TPC_ABI(tpc_output), index, data, e.i32(numDims), shape, offset, size);
  };
  Value condition;
  for (auto axis : op.getFirst().getAsValueRange<StringAttr>()) {
    Value isFirst = LLVM::ICmpOp::create(b, e.getLoc(), LLVM::ICmpPredicate::eq,
                                         e.sizes().coordinate(axis), e.i64(0));
    condition = condition ? LLVM::AndOp::create(b, e.getLoc(), condition, isFirst) : isFirst;
  }
  if (condition)
    e.emitIf(condition, deliver);
  else
    deliver();
}

template <> void Call<buffer::MicroBatchesOp>::emit(Operation *base, HostEmitter &e) const {
  e.emitMicroBatches(cast<buffer::MicroBatchesOp>(base));
}

template <typename... Ops> static void attach(MLIRContext *context) {
  (Ops::template attachInterface<Call<Ops>>(*context), ...);
}

void mlir::tpc::attachRuntimeCalls(MLIRContext *context) {
  attachAttentionCalls(context);
  using namespace buffer;
  attach<PushOp, PopOp, SlotOp, PartOp, ColumnsOp, InputOp, StateOp, buffer::AppendOp,
         buffer::ConstantOp, buffer::ParameterOp, DenseOp, CopyOp, LaunchOp, buffer::CallOp,
         ProductOp, FusedOp, BatchProductOp, QuantizedProductOp, ExpertsOp, buffer::AllReduceOp,
         buffer::AllGatherOp, buffer::ReduceScatterOp, buffer::AllToAllOp,
         buffer::CollectivePermuteOp, buffer::ExchangeOp, buffer::BroadcastOp, buffer::SendOp,
         buffer::RecvOp, buffer::DispatchOp, buffer::CombineOp, buffer::OutputOp,
         buffer::MicroBatchesOp, buffer::AllReduceStartOp, buffer::WaitOp, UpdateOp,
         buffer::AccumulateOp>(context);
}
