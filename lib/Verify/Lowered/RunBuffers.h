//===- RunBuffers.h - Interpreter of programs on buffers --------*- C++ -*-===//
//
// Runs a program on buffers (the output of `--emit=buffers`) and its kernels. All ranks of a grid
// run in one process: each op is run on all ranks before the next op. Memory has the layout of the
// executable; the contents of a frame are undefined until they are written.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H
#define TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H

#include "../Interpret/World.h"
#include "KernelChoices.h"

#include "tpc/Buffer/Buffer.h"

#include <deque>

namespace mlir::tpc::lowered {

class BufferMachine;
using Numbers = std::vector<Scalar>;
using Ranks = ArrayRef<int>;

/// A value of the program on one rank: memory, a frame, or the index of a parameter.
struct BufferValue {
  MemoryView view;
  buffer::EntryOp entry;
};
using Values = DenseMap<Value, std::vector<BufferValue>>; // by rank

/// Ranks that run an op, and the values computed before it.
struct Frame {
  Values &values;
  Ranks active;
};

} // namespace mlir::tpc::lowered

#include "RunOps.h.inc"

namespace mlir::tpc::lowered {

/// Evaluates expressions over sizes, and over the names of RankSizes.h, on a rank.
class RankSizesEvaluator {
public:
  RankSizesEvaluator(interpret::World &world) : world(world) {}
  int64_t evaluate(const ::tpc::SymExpr &expr, const interpret::Coordinates &at) const;

private:
  int64_t getSymbol(StringRef name, const interpret::Coordinates &at) const;
  interpret::World &world;
};

class BufferMachine {
public:
  /// `world`: the world of the staged program from which `program` was created. `rounds`: whether
  /// numbers are rounded to their types.
  BufferMachine(ModuleOp program, interpret::World &world,
                ArrayRef<interpret::Tensor<double>> inputs, uint64_t seed, bool rounds);
  /// Errors: invalid accesses, messages without a send or a recv, outputs that are delivered twice.
  /// Succeeds, with `reported` set, if the program reports an index out of bounds.
  LogicalResult run();
  std::string reported; // the report of an index out of bounds
  /// Whether each kernel is compared with its tensor function at its first launch: at the sizes of
  /// the run, and at those of each world in `alone`. Operands have several magnitudes at the run's
  /// sizes and in the first of these worlds, and one magnitude in the others.
  bool comparesKernels = false;
  SmallVector<interpret::World *> alone;
  /// The world of the original static sizes, for kernels that have few elements in it.
  interpret::World *real = nullptr;
  /// Receives the outcomes of the choices of compared kernels.
  ChoiceCoverage *choices = nullptr;

  struct Output {
    interpret::Shape shape;
    Numbers data;
    std::vector<bool> known;
    bool isFloat = true;
    Operation *delivered = nullptr; // the op that delivered the output
  };
  std::vector<Output> outputs;

  //===--- for op models --------------------------------------------------===//

  interpret::World &getWorld() { return world; }
  bool rounds() const { return roundsNumbers; }
  MeshAttr getGrid() { return world.getGrid(); }
  InFlightDiagnostic fail(Operation *op, int rank) const;
  std::string describe(int rank) const;
  const interpret::Coordinates &getCoordinates(int rank) const { return ranks[rank]; }
  int64_t coordinate(StringRef axis, int rank) const;
  int64_t evaluate(buffer::ExprAttr expr, int rank);
  SmallVector<int64_t> evaluate(ArrayAttr exprs, int rank);

  const BufferValue &get(Frame &frame, Value value, int rank) { return frame.values[value][rank]; }
  void set(Frame &frame, Value value, int rank, BufferValue bufferValue);
  /// Sets the value to a view of `extent` elements, which must be within the memory.
  LogicalResult setView(Operation *op, Frame &frame, int rank, std::shared_ptr<Memory> memory,
                        int64_t begin, buffer::ExtentAttr extent);
  /// Reads the first `count` elements. Errors: an element is undefined; one is unspecified, unless
  /// `mayBeUnspecified`.
  FailureOr<Numbers> read(Operation *op, Frame &frame, Value value, int rank, int64_t count,
                          bool mayBeUnspecified = false);
  /// Reads all elements. If the value is columns of a buffer, the result also has the elements
  /// between their rows, as NaN or the integer 0.
  FailureOr<Numbers> readSpan(Operation *op, Frame &frame, Value value, int rank);
  LogicalResult write(Operation *op, Frame &frame, Value value, int rank, const Numbers &numbers);

  LogicalResult runBlock(Block &block, Frame frame);
  LogicalResult runCall(buffer::CallOp call, Frame &frame);
  LogicalResult runMicroBatches(buffer::MicroBatchesOp iterations, Frame &frame);
  LogicalResult launch(buffer::LaunchOp op, Frame &frame);
  FailureOr<MemoryView> getInput(Operation *op, int64_t index);
  /// Returns a rank's slice of a cache.
  FailureOr<MemoryView> getState(Operation *op, FlatSymbolRefAttr cache, int rank);
  /// Stores the new elements of a rank's shard of a parameter as an output.
  LogicalResult deliverUpdate(Operation *op, buffer::LoadAttr load, int rank,
                              const Numbers &numbers);
  /// Returns null if the entry does not exist.
  buffer::EntryOp getEntry(StringRef name) const { return symbols.lookup<buffer::EntryOp>(name); }
  FailureOr<MemoryView> getParameter(Operation *op, buffer::EntryOp entry, int rank, Type element);
  /// Calls `body` for each group over these axes that has active members. Members are in the order
  /// of ranks. Error: only some members of a group are active.
  LogicalResult forEachGroup(Operation *op, Frame &frame, ArrayRef<StringRef> axes,
                             function_ref<LogicalResult(Ranks)> body);
  LogicalResult send(buffer::SendOp op, Frame &frame);
  LogicalResult receive(buffer::RecvOp op, Frame &frame);

private:
  ModuleOp program;
  SymbolTable symbols;
  /// Progress of a stage.
  struct StageState {
    SmallVector<int> active;
    Block *block;
    Block::iterator next;
    Values values;
  };
  StageState startStage(buffer::FuncOp function);
  FailureOr<bool> advance(StageState &state);
  bool waits(buffer::MicroBatchesOp iterations, ArrayRef<int> ofStage);
  /// Stores the contents of caches as outputs.
  LogicalResult deliverStates();
  const KernelProgram *getKernel(buffer::LaunchOp op);
  LogicalResult deliverElements(Operation *op, Frame &frame, buffer::DenseOp dense, int rank);
  LogicalResult compareAlone(const KernelProgram &kernel, ArrayRef<MemoryView> memory, int rank);

  interpret::World &world;
  RankSizesEvaluator sizes;
  std::vector<interpret::Coordinates> ranks;
  std::vector<MemoryView> inputs;
  uint64_t seed;
  bool roundsNumbers;
  DenseMap<Attribute, std::unique_ptr<KernelProgram>> kernels; // by name
  DenseSet<const KernelProgram *> compared;
  std::map<std::pair<const void *, interpret::Coordinates>, int64_t> evaluated;
  std::map<std::pair<Operation *, interpret::Coordinates>, MemoryView> parameters;
  DenseMap<std::pair<Attribute, int>, MemoryView> states;          // by cache and rank
  std::map<std::pair<int, int64_t>, std::deque<Numbers>> messages; // by receiver, sender's stage
  int depth = 0;
};

/// Returns f(x) of the activation that follows a matmul.
double activate(buffer::Epilogue epilogue, double x);

inline Scalar number(double x) {
  Scalar value;
  value.f = x;
  return value;
}

/// Fails if the result of a library call is in a buffer that the call reads.
LogicalResult expectApart(Operation *op, BufferMachine &m, Frame &frame, int rank, Value to,
                          ValueRange from);

void attachMemoryRuns(MLIRContext *context);        // RunMemory.cpp
void attachComputeRuns(MLIRContext *context);       // RunCompute.cpp
void attachMatmulRuns(MLIRContext *context);        // RunMatmuls.cpp
void attachStateRuns(MLIRContext *context);         // RunState.cpp
void attachCommunicationRuns(MLIRContext *context); // RunCommunication.cpp

template <typename Model, typename OpT> using RunModel = RunOpInterface::ExternalModel<Model, OpT>;

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H
