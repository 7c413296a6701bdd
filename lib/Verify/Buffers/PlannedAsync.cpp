//===- PlannedAsync.cpp - Models of asynchronous communication on buffers -===//
//
// A started all-reduce has one call for each chunk of rows. While it is in flight, its operand must
// stay in memory, and its result is an intermediate content that no op reads. The wait finds both
// contents, written by the same ops as at the start: any write in between, also of the same
// content, is an error.
//
//===----------------------------------------------------------------------===//

#include "PlannedMatmuls.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

/// Step of the content of a result in flight.
static constexpr unsigned inFlight = 1;

Operation *PlanChecker::getWriter(Operation *call, Value buffer, Value tensor) {
  auto where = resolve(call, buffer);
  if (failed(where) || !isWritable(where->region))
    return nullptr;
  SymExpr offset(0);
  Value root = getRoot(tensor, offset);
  const Memory::Entry *entry =
      memory.find(*where, offset, [&](Content stored) { return stored == Content{root}; });
  return entry ? entry->writer : nullptr;
}

LogicalResult PlanChecker::checkUnchanged(Operation *call, Value buffer, Content content,
                                          Operation *writer) {
  auto where = resolve(call, buffer);
  if (failed(where))
    return failure();
  if (!writer && !isWritable(where->region))
    return success();
  SymExpr offset(0);
  Value root = content.step ? content.tensor : getRoot(content.tensor, offset);
  const Memory::Entry *entry = memory.find(
      *where, offset, [&](Content stored) { return stored == Content{root, content.step}; });
  if (entry && entry->writer == writer)
    return success();
  return call->emitOpError() << "waits for an operation whose "
                             << (content.step ? "result" : "operand")
                             << " was overwritten since its start: " << describe(content);
}

bool PlanChecker::isSameMemory(Operation *call, Value a, Value b) {
  auto x = resolve(call, a), y = resolve(call, b);
  return succeeded(x) && succeeded(y) && *x == *y;
}

FailureOr<Value> PlanChecker::checkPart(Operation *call, Value buffer, const SymExpr &from,
                                        const SymExpr &elements) {
  auto part = buffer.getDefiningOp<buffer::PartOp>();
  if (!part)
    return call->emitOpError("must use a part of a buffer for each chunk");
  if (part.getExtent().getElement() != buffer::getExtent(part.getWhole()).getElement())
    return call->emitOpError("uses a part of another element type");
  if (failed(compare(call, "a part from", part.getFrom(), from)) ||
      failed(compare(call, "a part of", part.getExtent().getElements(), elements)))
    return failure();
  return part.getWhole();
}

AllReduceStartOp PlanChecker::getChunkedStart(MatmulOp op) {
  auto start = op.getResult().hasOneUse() ? dyn_cast<AllReduceStartOp>(*op.getResult().user_begin())
                                          : AllReduceStartOp();
  if (!start || start.getChunks() == 1 || start->getBlock() != op->getBlock())
    return {};
  // The next call may compute the whole matmul.
  Operation *call = peek();
  if (isa_and_nonnull<buffer::QuantizedProductOp, buffer::BatchProductOp>(call))
    return {};
  auto product = dyn_cast_or_null<buffer::ProductOp>(call);
  if (!product || product.getMatmuls().front().to.getDefiningOp<buffer::PartOp>())
    return start;
  Value weight = op.getRhs();
  if (auto cast = weight.getDefiningOp<CastOp>(); cast && cast->hasAttr(kLoadedAttr))
    weight = cast.getOperand();
  for (const buffer::ProductOp::Matmul &part : product.getMatmuls())
    if (succeeded(checkParameter(nullptr, part.parameter, weight, buffer::ParameterUse::Packed)))
      return {};
  return start;
}

/// Returns the number of rows before chunk `i`: each chunk has the same number of units of `grain`
/// rows, the first ones one more; the last unit may be smaller.
static SymExpr getRowsBefore(const SymExpr &rows, int64_t i, int64_t chunks, int64_t grain) {
  if (i == 0 || i == chunks)
    return i == 0 ? SymExpr(0) : rows;
  SymExpr units = SymExpr::floorDiv(rows + SymExpr(grain - 1), SymExpr(grain));
  SymExpr before = SymExpr::floorDiv(SymExpr(i) * units + SymExpr(chunks - 1), SymExpr(chunks));
  return SymExpr::min(rows, SymExpr(grain) * before);
}

namespace {
struct AllReduceStart : PlannedOpInterface::ExternalModel<AllReduceStart, AllReduceStartOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<AllReduceStartOp>(base);
    auto matmul = op.getOperand().getDefiningOp<MatmulOp>();
    if (matmul && c.getChunkedStart(matmul) != op)
      matmul = {};
    ArrayRef<DimAttr> dims = getDist(op.getType()).getDims();
    SymExpr width = dims.empty() ? SymExpr(1) : c.sizes().size(dims.back());
    SymExpr rows = dims.empty() ? SymExpr(1) : c.sizes().size(dims.drop_back());
    int64_t chunks = op.getChunks();

    PlanChecker::Started started;
    SmallVector<buffer::ProductOp> products;
    Value x;
    for (int64_t i = 0; i < chunks; ++i) {
      SymExpr first = getRowsBefore(rows, i, chunks, op.getGrain());
      SymExpr size = getRowsBefore(rows, i + 1, chunks, op.getGrain()) - first;
      // Sets `whole` to the buffer of which `buffer` is a part. It must be the same for all chunks.
      auto getWhole = [&](Operation *call, Value buffer, const SymExpr &row, Value &whole) {
        FailureOr<Value> found =
            chunks == 1 ? buffer : c.checkPart(call, buffer, first * row, size * row);
        if (failed(found))
          return failure();
        if (whole && whole != *found)
          return LogicalResult(call->emitOpError("uses another buffer than the previous chunk"));
        whole = *found;
        return success();
      };
      if (matmul) {
        auto call = c.next<buffer::ProductOp>(matmul);
        if (!call)
          return failure();
        SymExpr k = c.sizes().size(getDist(matmul.getLhs()).getDims().back());
        if (failed(checkChunk(matmul, call, size, k, c)) ||
            failed(getWhole(call, call.getX(), k, x)) ||
            failed(getWhole(call, call.getMatmuls()[0].to, width, started.from)))
          return failure();
        products.push_back(call);
      }
      auto call = c.next<buffer::AllReduceStartOp>(op);
      if (!call)
        return failure();
      PartialAttr partial = getDist(op.getOperand()).getPartial();
      ReductionKind kind = partial ? partial.getKind() : ReductionKind::Sum;
      if (call.getKind() != kind)
        return call.emitOpError() << "reduces by " << stringifyReductionKind(call.getKind())
                                  << ", not by " << stringifyReductionKind(kind);
      if (failed(c.compare(call, "axes", call.getAxes(), op.getAxes())) ||
          failed(c.compare(call, "count", call.getCount(), size * width)) ||
          failed(getWhole(call, call.getFrom(), width, started.from)) ||
          failed(getWhole(call, call.getTo(), width, started.to)))
        return failure();
      started.calls.push_back(call);
    }
    // Chunks are disjoint ranges of rows. All calls are therefore checked like one call, if no copy
    // and no change of frames is among them.
    Operation *firstCall = matmul ? products.front() : started.calls.front();
    for (Operation *between = firstCall; between != started.calls.back();
         between = between->getNextNode())
      if (!between || isa<buffer::CopyOp, buffer::PushOp, buffer::PopOp>(between))
        return (between ? between : firstCall)
            ->emitOpError("must not be between the chunks of a collective");
    if (matmul) {
      c.beginCall();
      if (failed(c.read(firstCall, x, matmul.getLhs())))
        return failure();
      for (buffer::ProductOp call : products)
        if (failed(checkOptional(c, call, "bias", call.getMatmuls()[0].bias, matmul.getBias())))
          return failure();
      if (failed(c.write(firstCall, started.from, op.getOperand())))
        return failure();
      if (c.isSameMemory(firstCall, started.from, started.to))
        c.beginCall();
    }
    buffer::AllReduceStartOp call = started.calls.front();
    if (failed(c.read(call, started.from, op.getOperand(), started.to)))
      return failure();
    started.isInPlace = c.isSameMemory(call, started.from, started.to);
    if (!started.isInPlace)
      started.writer = c.getWriter(call, started.from, op.getOperand());
    if (failed(c.write(call, started.to, Content{op.getResult(), inFlight},
                       c.sizes().elements(op.getType()), getElementTypeOrSelf(op.getType()))))
      return failure();
    c.started[op.getResult()] = std::move(started);
    return success();
  }

  /// Checks the matmul of one chunk, except for its buffers.
  static LogicalResult checkChunk(MatmulOp op, buffer::ProductOp call, const SymExpr &rows,
                                  const SymExpr &k, PlanChecker &c) {
    SmallVector<buffer::ProductOp::Matmul> parts = call.getMatmuls();
    if (parts.size() != 1 || parts[0].residual || parts[0].epilogue != buffer::Epilogue::None)
      return call.emitOpError("must compute one matmul without residual and activation");
    ArrayRef<DimAttr> w = getDist(op.getRhs()).getDims();
    Type element = getElementTypeOrSelf(op.getLhs());
    if (w.size() != 2 || getElementTypeOrSelf(op.getRhs()) != element ||
        (op.getBias() && getElementTypeOrSelf(op.getBias()) != getElementTypeOrSelf(op.getType())))
      return op.emitOpError("must be a matmul with a packed parameter, of one type");
    Value weight = op.getRhs();
    if (auto cast = weight.getDefiningOp<CastOp>(); cast && cast->hasAttr(kLoadedAttr))
      weight = cast.getOperand();
    return failure(
        failed(c.compare(call, "m", call.getM(), rows)) ||
        failed(c.compare(call, "k", call.getK(), k)) ||
        failed(c.compare(call, "k", call.getK(), c.sizes().size(w[0]))) ||
        failed(c.compare(call, "n", parts[0].n, c.sizes().size(w[1]))) ||
        failed(c.checkParameter(call, parts[0].parameter, weight, buffer::ParameterUse::Packed)));
  }
};

struct Wait : PlannedOpInterface::ExternalModel<Wait, WaitOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<WaitOp>(base);
    auto found = c.started.find(op.getOperand());
    if (found == c.started.end())
      return op.emitOpError("waits for a value that is not in flight");
    PlanChecker::Started started = found->second;
    c.started.erase(found);
    buffer::WaitOp call;
    for (buffer::AllReduceStartOp start : started.calls) {
      call = c.next<buffer::WaitOp>(op);
      if (!call)
        return failure();
      if (call.getToken() != start.getToken())
        return call.emitOpError("waits for another operation than the next one of this collective");
    }
    Operation *firstStart = started.calls.front();
    if (failed(c.checkUnchanged(call, started.to, Content{op.getOperand(), inFlight}, firstStart)))
      return failure();
    if (!started.isInPlace) {
      Value operand = cast<AllReduceStartOp>(op.getOperand().getDefiningOp()).getOperand();
      if (failed(c.checkUnchanged(call, started.from, Content{operand}, started.writer)))
        return failure();
    }
    return c.write(call, started.to, op.getResult());
  }
};
} // namespace

void mlir::tpc::attachPlannedAsync(MLIRContext *context) {
  AllReduceStartOp::attachInterface<AllReduceStart>(*context);
  WaitOp::attachInterface<Wait>(*context);
}
