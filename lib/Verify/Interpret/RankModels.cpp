//===- RankModels.cpp - Interpretation of stages and communication --------===//

#include "EvaluateAttention.h"
#include "Machine.h"
#include "Models.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/Experts.h"

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

struct AccumulateModel : RankModel<AccumulateModel, AccumulateOp> {
  template <typename A>
  static LogicalResult run(AccumulateOp op, Machine<A> &machine, Frame<A> &frame) {
    return machine.accumulate(op, op.getIndex(), op.getValue(), frame);
  }
};

struct AccumulatedModel : RankModel<AccumulatedModel, AccumulatedOp> {
  template <typename A>
  static LogicalResult run(AccumulatedOp op, Machine<A> &machine, Frame<A> &frame) {
    return machine.readSum(op, op.getIndex(), frame);
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

/// A member gets the rows that have a nonzero weight for one of its experts, with the weights of
/// these experts, and zeros elsewhere.
struct DispatchModel : RankModel<DispatchModel, DispatchOp> {
  template <typename A>
  static LogicalResult run(DispatchOp op, Machine<A> &machine, Frame<A> &frame) {
    World &world = machine.getWorld();
    return machine.communicate(
        op, frame, [&](auto value, auto group, auto &results) -> LogicalResult {
          if (failed(machine.gather(op, value, group, results, {})))
            return failure();
          int64_t width = getSizes(op.getOperand())[1].asConstant().value_or(0);
          int64_t column = op.getColumn() ? world.getSizes().scale(op.getColumn(), width) : 0;
          for (int rank : group) {
            auto out = std::make_shared<typename Machine<A>::Data>(*results[rank]);
            Coordinates at = world.getCoordinates(rank);
            int64_t all = world.getIndices(op.getExperts(), at, /*split=*/false).size();
            std::vector<bool> isLocal(all);
            for (int64_t e : world.getIndices(op.getExperts(), at))
              isLocal[e] = true;
            int64_t columns = out->shape[1];
            if (column + all > columns)
              return machine.fail(op) << "there are no columns of experts at these sizes";
            for (int64_t row = 0; row < out->shape[0]; ++row) {
              auto *data = out->data.data() + row * columns;
              bool isUsed = false;
              for (int64_t e = 0; e < all; ++e)
                if (!isLocal[e])
                  data[column + e] = typename A::Element(0);
                else
                  isUsed |= data[column + e] != typename A::Element(0);
              if (!isUsed)
                std::fill_n(data, columns, typename A::Element(0));
            }
            results[rank] = out;
          }
          return success();
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

/// With `from`, the op also moves elements by an offset.
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
  AccumulateOp::attachInterface<AccumulateModel>(*context);
  AccumulatedOp::attachInterface<AccumulatedModel>(*context);
  LocalSliceOp::attachInterface<LocalSliceModel>(*context);
  tpc::attachModels<ReductionModel, AllReduceOp, ReduceScatterOp, AllReduceStartOp, CombineOp>(
      context);
  DispatchOp::attachInterface<DispatchModel>(*context);
  WaitOp::attachInterface<WaitModel>(*context);
  tpc::attachModels<MoveModel, AllGatherOp, AllToAllOp, ExchangeOp>(context);
  BroadcastOp::attachInterface<BroadcastModel>(*context);
  CollectivePermuteOp::attachInterface<PermuteModel>(*context);
}

void interpret::attachModels(MLIRContext *context) {
  attachScalarEvaluations(context);
  attachProductEvaluations(context);
  attachAttentionEvaluations(context);
  attachRowEvaluations(context);
  attachLookupEvaluations(context);
  attachMoveEvaluations(context);
  attachSourceEvaluations(context);
  attachRankModels(context);
  attachDomainModels(context);
}
