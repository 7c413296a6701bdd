//===- BufferModelsAsync.cpp - Asynchronous communication on buffers ------===//
//
// An asynchronous all-reduce of c chunks becomes c operations on consecutive ranges of rows. If the
// operand is the result of a matmul that is neither merged nor fused with other ops, each operation
// follows the matmul of its rows:
//
//   product rows 0 to 63;  %t0 = all_reduce_start of these rows
//   product rows 64 to 127;  %t1 = all_reduce_start of these rows
//   ...
//   wait %t0;  wait %t1
//
//===----------------------------------------------------------------------===//

#include "BufferPlanner.h"
#include "tpc/Buffer/Async.h"
#include "tpc/Dialect/Async.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

AllReduceStartOp BufferPlanner::getChunkedStart(MatmulOp matmul) const {
  Operation *rhs = matmul.getRhs().getDefiningOp();
  if (!matmul.getResult().hasOneUse() || (rhs && rhs->hasAttr(kQuantizedAttr)) ||
      !shared.parameters.isPackedMatmul(matmul) || matmul->hasAttr(kMergedAttr) ||
      fusionOf.contains(matmul))
    return {};
  auto start = dyn_cast<AllReduceStartOp>(*matmul.getResult().user_begin());
  return start && start.getChunks() > 1 && start->getBlock() == matmul->getBlock()
             ? start
             : AllReduceStartOp();
}

/// Returns the first row of chunk `i` of `chunks`. Chunks consist of units of `grain` rows.
static SymExpr getFirstRow(const SymExpr &rows, int64_t i, int64_t chunks, int64_t grain) {
  if (i == 0)
    return SymExpr(0);
  if (i == chunks)
    return rows;
  SymExpr units = SymExpr::floorDiv(rows + SymExpr(grain - 1), SymExpr(grain));
  SymExpr unit = SymExpr::floorDiv(i * units + SymExpr(chunks - 1), SymExpr(chunks));
  return SymExpr::min(rows, grain * unit);
}

namespace {
struct AllReduceStartModel : HostOpInterface::ExternalModel<AllReduceStartModel, AllReduceStartOp> {
  Value getReusable(Operation *op) const { return op->getOperand(0); }

  LogicalResult plan(Operation *base, BufferPlanner &p) const {
    auto op = cast<AllReduceStartOp>(base);
    PartialAttr partial = getDist(op.getOperand()).getPartial();
    ReductionKind kind = partial ? partial.getKind() : ReductionKind::Sum;
    auto matmul = op.getOperand().getDefiningOp<MatmulOp>();
    if (matmul && p.getChunkedStart(matmul) != op)
      matmul = {};
    SmallVector<SymExpr> sizes = p.sizes(op.getType());
    SymExpr width = sizes.empty() ? SymExpr(1) : sizes.pop_back_val();
    SymExpr rows = product(sizes);
    Value from = p.getBuffer(op.getOperand()), to = p.getBuffer(op.getResult());
    Value x, parameter, bias;
    SymExpr k;
    if (matmul) {
      x = p.getBuffer(matmul.getLhs());
      bias = matmul.getBias() ? p.getBuffer(matmul.getBias()) : Value();
      parameter = p.parameter(getLoadedParameter(matmul.getRhs()), ParameterUse::Packed);
      k = p.sizes(matmul.getLhs().getType()).back();
    }
    OpBuilder &b = p.builder();
    int64_t chunks = op.getChunks();
    for (int64_t i = 0; i < chunks; ++i) {
      SymExpr first = getFirstRow(rows, i, chunks, op.getGrain());
      SymExpr size = getFirstRow(rows, i + 1, chunks, op.getGrain()) - first;
      auto part = [&](Value whole, const SymExpr &row) -> Value {
        if (chunks == 1)
          return whole;
        auto extent = buffer::ExtentAttr::get(b.getContext(), p.expr(size * row),
                                              buffer::getExtent(whole).getElement());
        return buffer::PartOp::create(b, p.getLoc(), whole, p.expr(first * row), extent);
      };
      Value chunk = part(from, width);
      if (matmul)
        buffer::ProductOp::create(
            b, matmul.getLoc(), part(x, k), p.expr(size), p.expr(k),
            {{parameter, bias, Value(), chunk, p.expr(p.sizes(matmul.getRhs().getType())[1]),
              buffer::Epilogue::None}});
      Value result = from == to ? chunk : part(to, width);
      auto start = buffer::AllReduceStartOp::create(b, p.getLoc(), chunk, result, op.getAxes(),
                                                    kind, p.expr(size * width));
      p.tokens[op.getResult()].push_back(start.getToken());
    }
    return success();
  }
};

struct WaitModel : HostOpInterface::ExternalModel<WaitModel, WaitOp> {
  Value getAliased(Operation *op) const { return op->getOperand(0); }
  LogicalResult plan(Operation *op, BufferPlanner &p) const {
    for (Value token : p.tokens.lookup(op->getOperand(0)))
      buffer::WaitOp::create(p.builder(), p.getLoc(), token);
    p.setBuffer(op->getResult(0), p.getBuffer(op->getOperand(0)));
    return success();
  }
};
} // namespace

void mlir::tpc::attachAsyncModels(MLIRContext *context) {
  AllReduceStartOp::attachInterface<AllReduceStartModel>(*context);
  WaitOp::attachInterface<WaitModel>(*context);
}
