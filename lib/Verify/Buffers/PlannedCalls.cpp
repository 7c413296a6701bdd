//===- PlannedCalls.cpp - Models of calls and kernels on buffers ----------===//

#include "PlanChecker.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;

namespace {
struct Call : PlannedOpInterface::ExternalModel<Call, func::CallOp> {
  LogicalResult checkPlan(Operation *base, PlanChecker &c) const {
    auto op = cast<func::CallOp>(base);
    auto callee = c.lookup<func::FuncOp>(op, op.getCalleeAttr());
    if (auto rows = callee->getAttrOfType<IntegerAttr>(kKernelAttr))
      return checkKernel(op, callee, rows.getInt(), c);
    auto call = c.next<buffer::CallOp>(op);
    if (!call)
      return failure();
    auto function = c.lookup<buffer::FuncOp>(call, call.getCalleeAttr());
    if (failed(c.checkCalleesOf(call)))
      return failure();
    if (function.getOf() != op.getCallee() || function.getStage())
      return call.emitOpError() << "calls @" << function.getOf() << " on buffers, not @"
                                << op.getCallee();
    for (auto [attr, value] :
         llvm::zip_equal(function.getArgs().getAsRange<buffer::ArgumentAttr>(), call.getArgs())) {
      if (!attr.getArgument()) {
        if (failed(c.checkLoad(call, value, attr.getLoad())))
          return failure();
        continue;
      }
      int64_t index = attr.getArgument().getInt();
      if (index < 0 || index >= op.getNumOperands())
        return call.emitOpError() << "calls @" << call.getCallee() << ", which has an argument for "
                                  << "argument " << index << " of @" << op.getCallee()
                                  << ", which does not exist";
      Value tensor = op.getOperand(index);
      Value over = attr.getResult() ? value : Value();
      if (failed(attr.isBuffer() ? c.read(call, value, tensor, over)
                                 : c.checkParameter(call, value, tensor, attr.getUse())))
        return failure();
    }
    DenseSet<int64_t> inPlace;
    for (auto [attr, value] :
         llvm::zip_equal(function.getArgs().getAsRange<buffer::ArgumentAttr>(), call.getArgs())) {
      if (!attr.getResult())
        continue;
      int64_t result = attr.getResult().getInt();
      if (result < 0 || result >= op.getNumResults() || !inPlace.insert(result).second)
        return call.emitOpError("calls a function whose argument becomes a result that does not "
                                "exist or has another argument");
      if (failed(c.write(call, value, op.getResult(result))))
        return failure();
    }
    if (call.getWrites().size() + inPlace.size() != op.getNumResults())
      return call.emitOpError("has another number of results than the op on tensors");
    auto buffer = call.getWrites().begin();
    for (OpResult result : op.getResults())
      if (!inPlace.contains(result.getResultNumber()) && failed(c.write(call, *buffer++, result)))
        return failure();
    return success();
  }

  /// Checks that the buffer consists of columns if and only if the kernel reads rows with a stride,
  /// and that the strides are equal.
  static LogicalResult checkRows(buffer::LaunchOp call, Value buffer, func::FuncOp kernel,
                                 BlockArgument argument, PlanChecker &c) {
    unsigned number = argument.getArgNumber();
    auto rows = kernel.getArgAttrOfType<ArrayAttr>(number, kRowStrideAttr);
    if (bool(rows) != c.getColumns(buffer).has_value())
      return call.emitOpError() << "passes " << (rows ? "a dense buffer" : "columns of a buffer")
                                << " for argument " << number << " of @" << kernel.getName()
                                << ", which reads " << (rows ? "rows with a stride" : "dense rows");
    if (!rows)
      return success();
    auto sizes = llvm::map_to_vector(getDist(argument).getDims(),
                                     [&](DimAttr dim) { return c.sizes().size(dim); });
    auto stride = c.getRowStride(call, buffer, sizes, cast<IntegerAttr>(rows[0]).getInt());
    return failure(failed(stride) ||
                   failed(c.compare(call, "a kernel that reads rows at a distance of",
                                    cast<SymExprAttr>(rows[1]), *stride)));
  }

  /// A kernel may append its result to an argument, which is then a written buffer.
  static LogicalResult checkKernel(func::CallOp op, func::FuncOp kernel, size_t rank,
                                   PlanChecker &c) {
    auto call = c.next<buffer::LaunchOp>(op);
    if (!call)
      return failure();
    if (call.getKernel() != op.getCallee())
      return call.emitOpError() << "launches @" << call.getKernel() << ", not @" << op.getCallee();
    SmallVector<Value> read(op.getOperands()), caches(op.getNumResults()), written;
    SmallVector<BlockArgument> arguments(kernel.getArguments());
    for (auto [i, value] : llvm::enumerate(kernel.front().getTerminator()->getOperands())) {
      auto append = value.getDefiningOp<AppendOp>();
      written.push_back(append ? append.getFresh() : value);
      auto cache = append ? dyn_cast<BlockArgument>(append.getCache()) : BlockArgument();
      if (append && (!cache || !cache.hasOneUse()))
        return append.emitOpError(
            "must append to an argument that the kernel does not use otherwise");
      if (!append)
        continue;
      caches[i] = op.getOperand(cache.getArgNumber());
      read[cache.getArgNumber()] = {};
      arguments[cache.getArgNumber()] = {};
    }
    llvm::erase(read, Value());
    llvm::erase(arguments, BlockArgument());
    if (call.getReads().size() != read.size() || call.getWrites().size() != op.getNumResults())
      return call.emitOpError("has another number of operands than the kernel");
    for (Value value : written)
      if (failed(c.compare(call, "rows", call.getRows(),
                           c.sizes().size(getDist(value).getDims().take_front(rank)))))
        return failure();
    if (!c.isPositive(call.getGrain()))
      return call.emitOpError("must have a grain of at least one row per thread");
    for (auto [buffer, tensor, argument] : llvm::zip_equal(call.getReads(), read, arguments))
      if (failed(checkRows(call, buffer, kernel, argument, c)) ||
          failed(c.read(call, buffer, tensor, {}, PlanChecker::Access::ByRows)))
        return failure();
    for (auto [buffer, cache] : llvm::zip_equal(call.getWrites(), caches))
      if (cache && failed(c.read(call, buffer, cache, buffer)))
        return failure();
    for (auto [buffer, result] : llvm::zip_equal(call.getWrites(), op.getResults()))
      if (failed(buffer.getDefiningOp<buffer::DenseOp>()
                     ? c.checkUpdateInPlace(call, result.getResultNumber(), result)
                     : c.write(call, buffer, result)))
        return failure();
    return success();
  }
};
} // namespace

void mlir::tpc::attachPlannedCalls(MLIRContext *context) {
  func::CallOp::attachInterface<Call>(*context);
}
