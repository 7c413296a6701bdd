//===- RankModels.cpp - Interpretation of stages and communication --------===//

#include "Machine.h"
#include "Models.h"
#include "tpc/Dialect/Async.h"

#include "InterpretOps.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
struct CallModel : RankModel<CallModel, func::CallOp> {
  template <typename A>
  static LogicalResult run(func::CallOp call, Machine<A> &machine, Frame<A> &frame) {
    return machine.runCall(call, frame);
  }
};

//===----------------------------------------------------------------------===//
// Stages
//===----------------------------------------------------------------------===//

struct SendModel : RankModel<SendModel, SendOp> {
  template <typename A> static LogicalResult run(SendOp op, Machine<A> &machine, Frame<A> &frame) {
    machine.send(op, frame);
    return success();
  }
};

struct RecvModel : RankModel<RecvModel, RecvOp> {
  template <typename A> static LogicalResult run(RecvOp op, Machine<A> &machine, Frame<A> &frame) {
    return machine.receive(op, frame);
  }
};

struct OutputModel : RankModel<OutputModel, OutputOp> {
  template <typename A>
  static LogicalResult run(OutputOp op, Machine<A> &machine, Frame<A> &frame) {
    Copies copies = getCopies(op->template getParentOfType<PipelineOp>(), op.getIndex());
    return machine.deliver(op, op.getIndex(), op.getValue(), frame.values[op.getValue()],
                           frame.active, copies);
  }
};

//===----------------------------------------------------------------------===//
// Groups
//===----------------------------------------------------------------------===//

struct LocalSliceModel : RankModel<LocalSliceModel, LocalSliceOp> {
  template <typename A>
  static LogicalResult run(LocalSliceOp op, Machine<A> &machine, Frame<A> &frame) {
    return machine.slice(op, frame);
  }
};

/// Model of reductions: each member gets its slice of the reduced value.
template <typename OpT> struct ReductionModel : RankModel<ReductionModel<OpT>, OpT> {
  template <typename A> static LogicalResult run(OpT op, Machine<A> &machine, Frame<A> &frame) {
    return machine.communicate(op, frame,
                               [&](auto value, auto group, auto &results) -> LogicalResult {
                                 return machine.reduce(op, value, group, results);
                               });
  }
};

struct BroadcastModel : RankModel<BroadcastModel, BroadcastOp> {
  template <typename A>
  static LogicalResult run(BroadcastOp op, Machine<A> &machine, Frame<A> &frame) {
    return machine.communicate(
        op, frame, [&](auto value, auto group, auto &results) -> LogicalResult {
          if (op.getRoot() >= group.size())
            return machine.fail(op)
                   << "its root " << op.getRoot() << " is outside of a group of " << group.size();
          for (int rank : group)
            results[rank] = value[group[op.getRoot()]];
          return success();
        });
  }
};

/// Model of movement collectives: each member gets the elements of its result from any member.
template <typename OpT> struct MoveModel : RankModel<MoveModel<OpT>, OpT> {
  template <typename A> static LogicalResult run(OpT op, Machine<A> &machine, Frame<A> &frame) {
    return machine.communicate(op, frame,
                               [&](auto value, auto group, auto &results) -> LogicalResult {
                                 return machine.gather(op, value, group, results, {});
                               });
  }
};

struct WaitModel : RankModel<WaitModel, WaitOp> {
  template <typename A> static LogicalResult run(WaitOp op, Machine<A> &, Frame<A> &frame) {
    auto value = frame.values[op.getOperand()];
    frame.values[op.getResult()] = std::move(value);
    return success();
  }
};

/// A shift moves elements by an offset.
struct PermuteModel : RankModel<PermuteModel, CollectivePermuteOp> {
  template <typename A>
  static LogicalResult run(CollectivePermuteOp op, Machine<A> &machine, Frame<A> &frame) {
    Shift shift;
    const Sizes &sizes = machine.getWorld().getSizes();
    if (op.getFrom())
      shift = {int64_t(op.getDim()), sizes.evaluate(*op.getFrom()), sizes.evaluate(*op.getEvery())};
    return machine.communicate(op, frame,
                               [&](auto value, auto group, auto &results) -> LogicalResult {
                                 return machine.gather(op, value, group, results, shift);
                               });
  }
};
} // namespace

void interpret::attachRankModels(MLIRContext *context) {
  func::CallOp::attachInterface<CallModel>(*context);
  SendOp::attachInterface<SendModel>(*context);
  RecvOp::attachInterface<RecvModel>(*context);
  OutputOp::attachInterface<OutputModel>(*context);
  LocalSliceOp::attachInterface<LocalSliceModel>(*context);
  tpc::attachModels<ReductionModel, AllReduceOp, ReduceScatterOp, AllReduceStartOp>(context);
  WaitOp::attachInterface<WaitModel>(*context);
  tpc::attachModels<MoveModel, AllGatherOp, AllToAllOp, ExchangeOp>(context);
  BroadcastOp::attachInterface<BroadcastModel>(*context);
  CollectivePermuteOp::attachInterface<PermuteModel>(*context);
}

void interpret::attachModels(MLIRContext *context) {
  attachScalarEvaluations(context);
  attachProductEvaluations(context);
  attachRowEvaluations(context);
  attachLookupEvaluations(context);
  attachMoveEvaluations(context);
  attachSourceEvaluations(context);
  attachRankModels(context);
  attachDomainModels(context);
}
