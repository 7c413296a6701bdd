//===- Machine.h - Interpreter of programs on all ranks ---------*- C++ -*-===//
//
// Runs a program of any level, with global values, local values, or pipeline stages. All ranks of
// the grid run in one process: each op is run on all ranks before the next op. Replicated
// computation is detected at run time: a result is computed once for all ranks with identical
// operands and slices, and a tensor that all members of a group receive from a collective is one
// object.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_MACHINE_H
#define TPC_LIB_VERIFY_INTERPRET_MACHINE_H

#include "Evaluation.h"
#include "InterpretOps.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/HeadReplication.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace mlir::tpc::interpret {

/// A cyclic shift of a dimension by `first` elements within runs of `every`.
struct Shift {
  int64_t dim = -1, first = 0, every = 0;
};

template <typename A> class Machine {
public:
  using Element = typename A::Element;
  using Data = Tensor<Element>;

  /// A tensor of which only some elements are known.
  struct Partial {
    Data tensor;
    std::vector<bool> known;
    explicit Partial(ArrayRef<int64_t> shape) : tensor(shape), known(tensor.data.size()) {}
  };
  struct Output : Partial {
    using Partial::Partial;
    Operation *delivered = nullptr; // the op that delivered the output
  };

  Machine(World &world, ArrayRef<Data> inputs);
  /// Runs @main or the pipeline. Errors: unknown ops, slices that do not match, deadlocks, messages
  /// that are not received, different values of an output's element on different ranks.
  LogicalResult run();

  SmallVector<Output> outputs;
  /// Whether the result of each op is rounded to its type.
  bool rounds = false;

  // For ops of all ranks (RankOpInterface).
  using Ref = std::shared_ptr<const Data>;
  using Values = DenseMap<Value, std::vector<Ref>>; // by rank
  using Ranks = ArrayRef<int>;

  World &getWorld() { return world; }
  std::string describe(int rank) const;
  InFlightDiagnostic fail(Operation *op) const {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << A::what;
  }
  LogicalResult runCall(func::CallOp call, Frame<A> &frame);
  void send(SendOp op, Frame<A> &frame);
  LogicalResult receive(RecvOp op, Frame<A> &frame);
  LogicalResult slice(LocalSliceOp op, Frame<A> &frame);
  /// Adds a value of each active rank to the rank's sum `index` over micro-batches.
  LogicalResult accumulate(Operation *op, int64_t index, Value value, Frame<A> &frame);
  /// Sets the result of an op to sum `index`.
  LogicalResult readSum(Operation *op, int64_t index, Frame<A> &frame);
  /// Calls `combine` for each group with active members. Arguments: the operand on all ranks, the
  /// group, and the results to set. Error: only some members of a group are active.
  LogicalResult
  communicate(Operation *op, Frame<A> &frame,
              llvm::function_ref<LogicalResult(ArrayRef<Ref>, Ranks, std::vector<Ref> &)> combine);
  /// Reduces the values of a group; each member gets its slice of the result.
  LogicalResult reduce(Operation *op, ArrayRef<Ref> value, Ranks group, std::vector<Ref> &results);
  /// Collects the elements of all members, and assigns to each member the slice of its result.
  LogicalResult gather(Operation *op, ArrayRef<Ref> value, Ranks group, std::vector<Ref> &results,
                       Shift shift);
  LogicalResult deliver(Operation *op, unsigned index, Value value, ArrayRef<Ref> tensors,
                        Ranks active, Copies copies);

private:
  const RankSlice &getSlice(Value value, int rank) {
    return world.getSlice(value.getType(), ranks[rank]);
  }

  LogicalResult runBlock(Block &block, Values &values, Ranks active,
                         SmallVectorImpl<Value> *returned);
  LogicalResult runOp(Operation *op, Values &values, Ranks active);
  LogicalResult compute(Operation *op, Frame<A> &frame);
  /// Stores the results of an op. The shape of each must be the shape of the rank's slice.
  LogicalResult finish(Operation *op, std::vector<Ref> results, Frame<A> &frame);
  FailureOr<Ref> extract(Operation *op, const Ref &tensor, const RankSlice &from,
                         const RankSlice &to, int rank);
  /// Returns all ranks in groups over `axes`, each in the order of ranks.
  const std::vector<SmallVector<int>> &getGroups(ArrayAttr axes);

  /// Progress of a stage whose events are in the order of a schedule.
  struct EventState {
    SmallVector<int> ranks;
    std::vector<::tpc::ScheduleEvent> events;
    size_t next;
    std::map<int64_t, MicroBatchesOp> loops;              // by chunk
    Values outside;                                       // inputs and the prologue's values
    std::map<std::pair<int64_t, int64_t>, Values> values; // by chunk and micro-batch
  };
  FailureOr<bool> runEvents(EventState &state);
  LogicalResult runSchedule(PipelineOp pipeline, ScheduleAttr schedule, const Values &values);
  SmallVector<int> getRanks(StageOp stage) const;
  /// Sets the micro-batch of all ranks. Returns the ranks that have samples in it.
  SmallVector<int> enterMicroBatch(MicroBatchesOp loop, int64_t mb, Ranks ofStage);

  LogicalResult runPipeline(PipelineOp pipeline);
  LogicalResult runStage(StageOp stage, Values values);
  LogicalResult runLoop(MicroBatchesOp loop, const Values &outside, Ranks ofStage);
  LogicalResult runMain(func::FuncOp main);

  World &world;
  std::vector<Ref> inputs;
  std::vector<Coordinates> ranks;
  DenseMap<Attribute, std::vector<SmallVector<int>>> groups;
  std::map<std::pair<int, int64_t>, std::deque<Ref>> messages; // by receiver and sending stage
  std::map<std::pair<int64_t, int>, Ref> sums; // over micro-batches, by index and rank
  bool inMicroBatch = true;                    // in a micro-batch loop
  int depth = 0;
};

/// Ranks that run an op, and the values computed before it.
template <typename A> struct Frame {
  typename Machine<A>::Values &values;
  ArrayRef<int> active;
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_MACHINE_H
