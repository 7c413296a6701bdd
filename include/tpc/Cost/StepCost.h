//===- StepCost.h - Seconds of a step of a compiled program -----*- C++ -*-===//
//
// Estimates the time of one step on a machine, from a program at the buffers level: each library
// call, generated kernel, collective and message has a time of the machine's tables at its local
// sizes. The simulator (Simulator.h) arranges the runs of stages in time. Ranks of a stage are one
// class: the estimate is for coordinate 0 on every other axis, which has the largest shards.
// Transfers of inputs and outputs between host and device are not included.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_COST_STEPCOST_H
#define TPC_COST_STEPCOST_H

#include "tpc/Analysis/Report.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Cost/LocalSizes.h"
#include "tpc/Cost/Machine.h"
#include "tpc/Cost/Simulator.h"

namespace mlir::tpc {

/// Seconds by cause. `compute`: calls that are limited by arithmetic; `memory`: by memory
/// bandwidth; `launch`: the constant part of all calls; `tensor`: collectives; `pipeline`: messages
/// between stages, and the time that the busiest stage waits.
struct Seconds {
  double compute = 0, memory = 0, launch = 0, tensor = 0, pipeline = 0;

  double total() const { return compute + memory + launch + tensor + pipeline; }
  Seconds &operator+=(const Seconds &o);
  Seconds operator*(double factor) const;
};

/// Names of the causes, and their values.
constexpr const char *causeNames[] = {"compute", "memory", "launch", "tensor", "pipeline"};
std::array<double, 5> getCauses(const Seconds &seconds);
inline std::array<double, 5> getCauses(const ::tpc::Machine::Errors &errors) {
  return {errors.compute, errors.memory, errors.launch, errors.tensor, errors.pipeline};
}

/// Work of matmuls with weights, for lower bounds.
struct MatmulWork {
  double flops = 0, weightBytes = 0;
};

/// Estimate of one step.
struct StepCost {
  Seconds seconds;       // of the step; `total` is the time until the last stage is done
  double bubble = 0;     // fraction of the time of all stages in which they wait
  unsigned measured = 0; // distinct times within tables
  unsigned extrapolated = 0;
  double derivedError = 0;     // maximum relative error of derived times of collectives
  std::vector<Seconds> stages; // busy time of each stage in a step
  MatmulWork work;             // of one rank of each stage, in the first micro-batch
};

/// One call of a run, in program order. `kind` and `what` are those of the runtime's profile
/// (runtime/core/Profile.h); of collectives, `what` is the axes.
struct OpEvent {
  std::string kind, what;
  std::string node;  // ONNX node; may be empty
  int64_t bytes = 0; // of collectives and messages: the whole buffer, as in the report
  Seconds seconds;
  int64_t liveBytes = 0; // of the stack
};

/// Runs of one chunk. Runs with the same calls share a list.
struct ChunkEvents {
  std::vector<OpEvent> prologue;
  std::vector<std::vector<OpEvent>> bodies; // the last event may be a message
  std::vector<size_t> bodyOf;               // by micro-batch

  const std::vector<OpEvent> &getRun(const ::tpc::ScheduledRun &run) const {
    return run.isPrologue() ? prologue : bodies[bodyOf[size_t(run.microBatch)]];
  }
};

/// Simulation of a step, with all calls of each chunk.
struct StepTimeline {
  ::tpc::Simulation simulation;
  std::vector<ChunkEvents> chunks;
};

/// Busy time of one rank of a program with one stage and one micro-batch.
struct BusySeconds {
  Seconds prologue, microBatch;
};

/// Functions of a module at the buffers level, which the estimates of many grids share.
struct LoweredProgram {
  explicit LoweredProgram(ModuleOp lowered);

  /// An op that may take time. Calls of one function are one entry, unless an asynchronous
  /// collective runs next to them.
  struct TimedOp {
    Operation *op;
    int64_t count;
  };

  llvm::StringMap<buffer::FuncOp> functions; // by name
  std::vector<buffer::FuncOp> stages;        // in program order
  int64_t topK = 1;                          // maximum experts of a token
  /// By block, in order. Views and allocations take no time.
  DenseMap<Block *, std::vector<TimedOp>> timedOps;
};

/// Work of the rank whose experts the most tokens select, on average over layers.
struct ExpertLoad {
  double selectedPerToken = 0; // pairs of a token and a selected expert of the rank
  double activeExperts = 0;    // that some token selects
};

/// Times of the ops of a module at the buffers level, at given sizes and on a given grid.
class StepEstimator {
public:
  /// Symbolic sizes of the program are evaluated with `grid`, which may differ from the grid that
  /// it was compiled for in the sizes of axes. `copies`: copies of the grid that run at the same
  /// time on the machine.
  StepEstimator(const LoweredProgram &program, MeshAttr grid, const Symbols &symbols,
                const ::tpc::Machine &machine, int64_t copies);
  /// Returns the step's cost. An error names what the machine has no time of. Sets `timeline` if it
  /// is not null.
  llvm::Expected<StepCost> run(const Report &report, StepTimeline *timeline = nullptr);
  /// Returns the busy time on a rank with `numThreads` threads, of a program with one stage and one
  /// micro-batch. Exchanges, whose sizes are in reports, count as 0.
  llvm::Expected<BusySeconds> getBusySeconds(int64_t numThreads);
  /// Number of valid keys in caches; 0: attention with caches reads their whole capacity.
  int64_t validKeys = 0;
  /// Without a value, tokens select all experts equally often.
  std::optional<ExpertLoad> expertLoad;

private:
  struct OpCost {
    Seconds seconds;
    MatmulWork work;
    double message = 0; // seconds of messages to the next stage
    OpEvent event;      // of one collective or message

    OpCost &operator+=(const OpCost &o);
    OpCost operator*(double factor) const;
  };
  OpCost visitBlock(Block &block);
  OpCost visit(Operation &op);
  OpCost visitCall(Operation &op);
  OpCost visitProduct(buffer::ProductOp op);
  OpCost visitQuantizedProduct(buffer::QuantizedProductOp op);
  OpCost visitExperts(buffer::ExpertsOp op);
  Seconds visitAttention(buffer::AttentionOp op);
  Seconds visitLaunch(buffer::LaunchOp op);
  OpCost visitCommunication(Operation &op);
  OpCost addCollective(StringRef kind, ArrayRef<StringRef> axes, double bytes);
  /// Appends the calls of a block and its callees.
  void expand(Block &block, std::vector<OpEvent> &events);
  OpEvent describe(Operation &op);
  /// `weightBits`: bits of an element of the [k, n] matrix; 0: those of `element`.
  Seconds addMatmul(Type element, int64_t m, int64_t n, int64_t k, int64_t weightBits = 0);
  Seconds addKernel(double bytes);
  Seconds split(double seconds, bool isCompute) const;
  int64_t evaluate(const ::tpc::SymExpr &size) {
    return std::max<int64_t>(values.evaluate(size).value_or(0), 0);
  }
  int64_t evaluate(SymExprAttr size) { return evaluate(size.getExpr()); }
  double getBytes(Value buffer);
  bool isCache(Value buffer);
  std::string getLabel(ArrayRef<StringRef> axes);
  int64_t getStride(StringRef axis);
  int64_t getRanksPerNode() const;
  void count(bool extrapolates) { ++(extrapolates ? extrapolated : measured); }
  void fail(const llvm::Twine &what) {
    if (problem.empty())
      problem = "machine '" + machine.name + "' has no times of " + what.str();
  }

  const LoweredProgram &program;
  MeshAttr grid;
  LocalSizes values; // symbols, coordinates, and the micro-batch
  const ::tpc::Machine &machine;
  int64_t copies;
  int64_t threads = 1;
  const Report *report = nullptr;           // null: exchanges count as 0
  int64_t stage = 0;                        // current stage
  int64_t live = 0, liveInMicroBatches = 0; // bytes of the stack in `expand`
  DenseMap<Operation *, OpCost> functions;  // at the current micro-batch
  std::string problem;
  unsigned measured = 0, extrapolated = 0;
  double derivedError = 0;
};

} // namespace mlir::tpc

#endif // TPC_COST_STEPCOST_H
