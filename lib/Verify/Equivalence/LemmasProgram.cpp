//===- LemmasProgram.cpp - Lemmas of functions, stages and outputs --------===//

#include "../Interpret/World.h"
#include "Models.h"
#include "RelationChecker.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;

namespace {
struct CallLemma : LemmaOpInterface::ExternalModel<CallLemma, func::CallOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    auto call = cast<func::CallOp>(op);
    auto callee = c.getModule().lookupSymbol<func::FuncOp>(call.getCallee());
    if (!callee || callee.isExternal())
      return c.fail(call) << "@" << call.getCallee() << " has no body";
    auto agree = [&](TypeRange here, TypeRange there, StringRef what) -> LogicalResult {
      if (here.size() != there.size())
        return c.fail(call) << "@" << call.getCallee() << " has another number of " << what << "s";
      for (auto [i, a, b] : llvm::enumerate(here, there))
        if (a != b)
          return c.fail(call) << what << " " << i << " of @" << call.getCallee() << " has type "
                              << b << ", but the call has " << a;
      return success();
    };
    if (failed(agree(call.getOperandTypes(), callee.getArgumentTypes(), "argument")))
      return failure();
    return agree(call.getResultTypes(), callee.getResultTypes(), "result");
  }
};

struct FuncLemma : LemmaOpInterface::ExternalModel<FuncLemma, func::FuncOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    auto function = cast<func::FuncOp>(op);
    if (function.isExternal())
      return success();
    for (Type type : function.getArgumentTypes())
      if (failed(c.checkType(function, type)))
        return failure();
    if (function.front().getArgumentTypes() != TypeRange(function.getArgumentTypes()))
      return c.fail(function) << "its arguments have other types than its signature";
    if (function.getName() != "main")
      return success();
    for (auto [i, type] : llvm::enumerate(function.getArgumentTypes()))
      if (!c.get(type).isWhole())
        return c.fail(function) << "input " << i << " must be whole on every rank, but its type is "
                                << type;
    for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
      if (!c.get(type).partial.empty())
        return c.fail(function) << "output " << i << " is delivered unreduced over {"
                                << toText(c.get(type).partial) << "}";
    return success();
  }
};

struct ReturnLemma : LemmaOpInterface::ExternalModel<ReturnLemma, func::ReturnOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    auto function = cast<func::FuncOp>(op->getParentOp());
    if (TypeRange(op->getOperandTypes()) != TypeRange(function.getResultTypes()))
      return c.fail(op) << "its operand types differ from the result types of @"
                        << function.getName();
    return success();
  }
};

struct PipelineLemma : LemmaOpInterface::ExternalModel<PipelineLemma, PipelineOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    for (BlockArgument input : cast<PipelineOp>(op).getBody().front().getArguments()) {
      if (failed(c.checkType(op, input.getType())))
        return failure();
      if (!c.get(input).isWhole())
        return c.fail(op) << "input " << input.getArgNumber()
                          << " must be whole on every rank, but its type is " << input.getType();
    }
    return success();
  }
};

struct OutputLemma : LemmaOpInterface::ExternalModel<OutputLemma, OutputOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    auto output = cast<OutputOp>(op);
    if (!c.get(output.getValue()).partial.empty())
      return c.fail(op) << "output " << output.getIndex() << " is delivered unreduced over {"
                        << toText(c.get(output.getValue()).partial) << "}";
    return success();
  }
};

/// The sum over all micro-batches is the reduction over mb only if each adds its value once.
struct AccumulateLemma : LemmaOpInterface::ExternalModel<AccumulateLemma, AccumulateOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    auto loop = dyn_cast<MicroBatchesOp>(op->getParentOp());
    if (!loop ||
        (c.getGrid().getMicroBatches() > 1 && !interpret::runsEveryMicroBatch(loop, c.getGrid())))
      return c.fail(op) << "it is in a loop that does not run every micro-batch";
    const Relation &in = c.get(op->getOperand(0));
    bool isSum =
        llvm::any_of(in.partial, [](StringAttr a) { return a.getValue() == kMicroBatchAxis; });
    if (c.getGrid().getMicroBatches() > 1 && (!isSum || in.kind != ReductionKind::Sum))
      return c.fail(op) << "it adds over 'mb', but the operand is no part of a sum over it";
    return success();
  }
};

struct AccumulatedLemma : LemmaOpInterface::ExternalModel<AccumulatedLemma, AccumulatedOp> {
  LogicalResult checkRelation(Operation *op, RelationChecker &c) const {
    AccumulateOp source = cast<AccumulatedOp>(op).getSource();
    if (!source)
      return c.fail(op) << "no op adds to this sum";
    const Relation &in = c.get(source.getValue()), &out = c.get(op->getResult(0));
    Axes left;
    for (StringAttr axis : in.partial)
      if (axis.getValue() != kMicroBatchAxis)
        left.push_back(axis);
    if (in.dims != out.dims || left != out.partial || (!left.empty() && in.kind != out.kind))
      return c.fail(op) << "the sum of " << source.getValue().getType() << " over micro-batches is "
                        << "not " << op->getResult(0).getType();
    return success();
  }
};

/// Model of ops without a result, and of recv. ReadProgram.cpp proves that a received value and the
/// sent value have the same type.
template <typename OpT> struct NoLemma : LemmaOpInterface::ExternalModel<NoLemma<OpT>, OpT> {
  LogicalResult checkRelation(Operation *, RelationChecker &) const { return success(); }
};
} // namespace

void equivalence::attachProgramLemmas(MLIRContext *context) {
  func::CallOp::attachInterface<CallLemma>(*context);
  func::FuncOp::attachInterface<FuncLemma>(*context);
  func::ReturnOp::attachInterface<ReturnLemma>(*context);
  PipelineOp::attachInterface<PipelineLemma>(*context);
  OutputOp::attachInterface<OutputLemma>(*context);
  AccumulateOp::attachInterface<AccumulateLemma>(*context);
  AccumulatedOp::attachInterface<AccumulatedLemma>(*context);
  attachModels<NoLemma, ModuleOp, WeightOp, CacheOp, StageOp, MicroBatchesOp, SendOp, RecvOp>(
      context);
}
