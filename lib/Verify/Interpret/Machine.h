//===- Machine.h - A program on all ranks -----------------------*- C++ -*-===//
//
// Runs a program of any stage: a whole one, one rank's, or pipeline stages; all ranks of the grid
// in one process, one op at a time on all of them. It is not told who has the same as whom: what
// ranks compute is computed once where they have the very same operands and the same parts of
// them, and so a tensor that all members of a group got of a collective is one object.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_ANALYSIS_INTERPRET_MACHINE_H
#define TPC_LIB_ANALYSIS_INTERPRET_MACHINE_H

#include "Evaluation.h"

#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <deque>

namespace mlir::tpc::interpret {

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

private:
  using Ref = std::shared_ptr<const Data>;
  using Values = DenseMap<Value, std::vector<Ref>>; // by rank
  using Ranks = ArrayRef<int>;

  std::string describe(int rank) const;
  InFlightDiagnostic fail(Operation *op) const {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << A::what;
  }
  const Part &getPart(Value value, int rank) { return world.getPart(value.getType(), ranks[rank]); }

  LogicalResult runBlock(Block &block, Values &values, Ranks active,
                         SmallVectorImpl<Value> *returned);
  LogicalResult runOp(Operation *op, Values &values, Ranks active);
  LogicalResult runCall(func::CallOp call, Values &values, Ranks active);
  void send(SendOp op, ArrayRef<Ref> value, Ranks active);
  LogicalResult receive(RecvOp op, Ranks active, std::vector<Ref> &results);
  LogicalResult compute(Operation *op, Values &values, Ranks active, std::vector<Ref> &results);
  LogicalResult slice(LocalSliceOp op, ArrayRef<Ref> value, Ranks active,
                      std::vector<Ref> &results);
  LogicalResult communicate(Operation *op, ArrayRef<Ref> value, Ranks active,
                            std::vector<Ref> &results);
  FailureOr<Ref> reduce(Operation *op, ArrayRef<Ref> value, Ranks group);
  LogicalResult gather(Operation *op, ArrayRef<Ref> value, Ranks group, std::vector<Ref> &results);
  FailureOr<Ref> extract(Operation *op, const Ref &tensor, const Part &from, const Part &to,
                         int rank);
  LogicalResult deliver(Operation *op, unsigned index, Value value, ArrayRef<Ref> tensors,
                        Ranks active, Copies copies);
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

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_ANALYSIS_INTERPRET_MACHINE_H
