//===- RuntimeCallsAttention.cpp - Runtime calls of attention -------------===//

#include "AttentionModels.h"
#include "HostEmitter.h"
#include "tpc/Buffer/Training.h"
#include "tpc/attention_grad.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
/// Stores the arguments that attention and its gradient have in common. `out`, `outRow`, `sinks`,
/// `lengths`, `cacheStrides`: those of attention; null for the gradient.
template <typename OpT>
abi::Pointer storeArguments(OpT op, HostEmitter &e, abi::Pointer out, abi::I64 outRow, Value sinks,
                            Value lengths, std::optional<ArrayAttr> cacheStrides) {
  auto list = [&](std::optional<ArrayAttr> exprs, size_t i) {
    return exprs ? e.expr(cast<buffer::ExprAttr>((*exprs)[i])) : e.i64(0);
  };
  auto dtypeOf = [&](Value buffer) { return buffer ? e.dtype(buffer) : e.i32(TPC_F32); };
  ArrayAttr strides = op.getStrides();
  return e.store(abi::Values<tpc_attention_args>{
      .q = e.pointer(op.getQ()),
      .k = e.pointer(op.getK()),
      .v = e.pointer(op.getV()),
      .out = out,
      .batch = e.expr(op.getBatch()),
      .seq_q = e.expr(op.getQueries()),
      .seq_k = e.expr(op.getKeys()),
      .heads_q = e.expr(op.getHeads()),
      .heads_kv = e.expr(op.getKvHeads()),
      .head_size = e.expr(op.getHeadSize()),
      .value_size = e.expr(op.getValueSize()),
      .q_row_stride = list(strides, 0),
      .k_row_stride = list(strides, 1),
      .v_row_stride = list(strides, 2),
      .out_row_stride = outRow,
      .scale = e.f32(op.getScale().convertToDouble()),
      .softcap = e.f32(op.getSoftcap().convertToDouble()),
      .causal = e.i32(op.getCausal().has_value()),
      .causal_offset = op.getCausal() ? e.expr(*op.getCausal()) : e.i64(0),
      .key_mask = e.pointer(op.getKeyMask()),
      .mask = e.pointer(op.getMask()),
      .mask_batch_stride = list(op.getMaskStrides(), 0),
      .mask_head_stride = list(op.getMaskStrides(), 1),
      .bias = e.pointer(op.getBias()),
      .bias_batch_stride = list(op.getBiasStrides(), 0),
      .bias_head_stride = list(op.getBiasStrides(), 1),
      .masked_row = e.i32(op.getUniformRows()),
      .windowed = e.i32(op.getAfter().has_value()),
      .window_offset = op.getAfter() ? e.expr(*op.getAfter()) : e.i64(0),
      .slopes = e.pointer(op.getSlopes()),
      .slopes_offset = op.getSlopesAt() ? e.expr(*op.getSlopesAt()) : e.i64(0),
      .sinks = e.pointer(sinks),
      .lengths = e.pointer(lengths),
      .pages = e.null(),
      .k_batch_stride = list(cacheStrides, 0),
      .k_head_stride = list(cacheStrides, 1),
      .v_batch_stride = list(cacheStrides, 2),
      .v_head_stride = list(cacheStrides, 3),
      .dtype = e.dtype(op.getQ()),
      .bias_dtype = dtypeOf(op.getBias()),
      .slopes_dtype = dtypeOf(op.getSlopes()),
      .sinks_dtype = dtypeOf(sinks),
  });
}

struct AttentionCall : RuntimeCallOpInterface::ExternalModel<AttentionCall, buffer::AttentionOp> {
  void emit(Operation *base, HostEmitter &e) const {
    auto op = cast<buffer::AttentionOp>(base);
    abi::I64 row = e.expr(cast<buffer::ExprAttr>(op.getStrides()[3]));
    e.call(TPC_ABI(tpc_attention), storeArguments(op, e, e.pointer(op.getTo()), row, op.getSinks(),
                                                  op.getLengths(), op.getCacheStrides()));
  }
};

struct AttentionGradCall
    : RuntimeCallOpInterface::ExternalModel<AttentionGradCall, buffer::AttentionGradOp> {
  void emit(Operation *base, HostEmitter &e) const {
    auto op = cast<buffer::AttentionGradOp>(base);
    Value to[3] = {};
    for (auto [number, buffer] : llvm::zip_equal(op.getOf(), op.getTo()))
      to[number] = buffer;
    e.call(TPC_ABI(tpc_attention_grad),
           storeArguments(op, e, e.null(), e.i64(0), Value(), Value(), std::nullopt),
           e.pointer(op.getCotangent()), e.pointer(to[0]), e.pointer(to[1]), e.pointer(to[2]));
  }
};
} // namespace

void mlir::tpc::attachAttentionCalls(MLIRContext *context) {
  buffer::AttentionOp::attachInterface<AttentionCall>(*context);
  buffer::AttentionGradOp::attachInterface<AttentionGradCall>(*context);
}
