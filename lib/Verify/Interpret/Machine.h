//===- Machine.h - A program on all ranks -----------------------*- C++ -*-===//
//
// Runs a program of any stage: a whole one, one rank's, or pipeline stages; all ranks of the grid
// in one process, one op at a time on all of them. It is not told who has the same as whom: what
// ranks compute is computed once where they have the very same operands and the same parts of
// them, and so a tensor that all members of a group got of a collective is one object.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_MACHINE_H
#define TPC_LIB_VERIFY_INTERPRET_MACHINE_H

#include "Evaluation.h"
#include "InterpretOps.h"

#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace mlir::tpc::interpret {

/// A cyclic shift of a dimension: `first` elements within runs of `every`.
struct Shift {
  int64_t dim = -1, first = 0, every = 0;
};

template <typename A> class Machine {
public:
  using Element = typename A::Element;
  using Data = Tensor<Element>;

  /// A tensor of which some elements may not be known.
  struct Partial {
    Data tensor;
    std::vector<bool> known;
    explicit Partial(ArrayRef<int64_t> shape) : tensor(shape), known(tensor.data.size()) {}
  };
  struct Output : Partial {
    using Partial::Partial;
    Operation *delivered = nullptr; // by
  };

  Machine(World &world, ArrayRef<Data> inputs);
  /// Runs @main or the pipeline. Errors: ops that are not known, parts that do not fit,
  /// deadlocks, messages that nobody receives, ranks that disagree on an output.
  LogicalResult run();

  SmallVector<Output> outputs;
  /// Rounds what each op computes to the type of its result.
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
  /// Calls `combine` for each group of which members come, with the operand on all ranks, the group
  /// and the results to be set. All members must come.
  LogicalResult
  communicate(Operation *op, Frame<A> &frame,
              llvm::function_ref<LogicalResult(ArrayRef<Ref>, Ranks, std::vector<Ref> &)> combine);
  /// All parts of a group, combined; each member gets its part of that.
  LogicalResult reduce(Operation *op, ArrayRef<Ref> value, Ranks group, std::vector<Ref> &results);
  /// Each member takes what it needs of what all have together.
  LogicalResult gather(Operation *op, ArrayRef<Ref> value, Ranks group, std::vector<Ref> &results,
                       Shift shift);
  LogicalResult deliver(Operation *op, unsigned index, Value value, ArrayRef<Ref> tensors,
                        Ranks active, Copies copies);

private:
  const Part &getPart(Value value, int rank) { return world.getPart(value.getType(), ranks[rank]); }

  LogicalResult runBlock(Block &block, Values &values, Ranks active,
                         SmallVectorImpl<Value> *returned);
  LogicalResult runOp(Operation *op, Values &values, Ranks active);
  LogicalResult compute(Operation *op, Frame<A> &frame);
  /// The results of an op are there; they must have the parts that its type says.
  LogicalResult finish(Operation *op, std::vector<Ref> results, Frame<A> &frame);
  FailureOr<Ref> extract(Operation *op, const Ref &tensor, const Part &from, const Part &to,
                         int rank);
  /// All ranks by groups over `axes`, each in the order of ranks.
  const std::vector<SmallVector<int>> &getGroups(ArrayAttr axes);

  LogicalResult runPipeline(PipelineOp pipeline);
  LogicalResult runStage(StageOp stage, Values values);
  LogicalResult runLoop(MicroBatchesOp loop, const Values &outside, Ranks ofStage);
  LogicalResult runMain(func::FuncOp main);

  World &world;
  std::vector<Ref> inputs;
  std::vector<Coordinates> ranks;
  DenseMap<Attribute, std::vector<SmallVector<int>>> groups;
  std::map<std::pair<int, int64_t>, std::deque<Ref>> messages; // to rank, from stage
  bool inRound = true;                                         // there is a micro-batch
  int depth = 0;
};

/// Ranks that run an op, and what they have computed before it.
template <typename A> struct Frame {
  typename Machine<A>::Values &values;
  ArrayRef<int> active;
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_MACHINE_H
