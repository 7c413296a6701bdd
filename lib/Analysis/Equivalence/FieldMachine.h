//===- FieldMachine.h - A program on all ranks, over a field ----*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_FIELDMACHINE_H
#define TPC_LIB_ANALYSIS_FIELDMACHINE_H

#include "Field.h"

#include "tpc/Dialect/Dist.h"

#include <deque>

namespace mlir::tpc::equivalence {

/// A tensor of which some elements may not be known yet.
struct Whole {
  Tensor tensor;
  std::vector<bool> known;
  explicit Whole(ArrayRef<int64_t> shape) : tensor(shape), known(tensor.data.size()) {}
};

class Machine {
public:
  Machine(ModuleOp module, const FieldContext &context, ArrayRef<Tensor> inputs)
      : module(module), context(context), inputs(inputs) {}
  LogicalResult run();

  std::vector<Whole> outputs;
  std::vector<Operation *> delivered;
  std::vector<std::string> where; // a rank that delivered each output

private:
  using Values = DenseMap<Value, std::vector<Tensor>>; // by rank

  void makeRanks(int64_t count);
  std::string describe(int rank) const;
  InFlightDiagnostic fail(Operation *op) {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): run at small sizes, ";
  }
  LogicalResult runBlock(Block &block, Values &values, ArrayRef<int> active,
                         SmallVectorImpl<Value> *returned);
  LogicalResult runOp(Operation *op, Values &values, ArrayRef<int> active);
  FailureOr<Tensor> communicate(Operation *op, const std::vector<Tensor> &operand, int rank,
                                ArrayRef<int> active);
  LogicalResult runPipeline(PipelineOp pipeline);
  LogicalResult runMain(func::FuncOp main);
  LogicalResult deliver(Operation *op, unsigned index, Value value, const Tensor &tensor, int rank);
  FailureOr<Tensor> extract(Operation *op, const Tensor &tensor, const Indices &from,
                            const Indices &to, int rank);

  ModuleOp module;
  const FieldContext &context;
  ArrayRef<Tensor> inputs;
  std::vector<Coordinates> ranks;
  std::map<std::pair<int, int64_t>, std::deque<Tensor>> messages; // to rank, from stage
  int depth = 0;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_ANALYSIS_FIELDMACHINE_H
