//===- RunBuffers.h - A program on buffers, on all ranks --------*- C++ -*-===//
//
// Runs the text of `--emit=buffers` with the kernels that it launches, all ranks of a grid in one
// process, one op at a time on all of them. Memory is bytes, as in a real run; what is in a frame
// before it is written is nothing.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H
#define TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H

#include "../Interpret/World.h"
#include "RunKernel.h"

#include "tpc/Buffer/Buffer.h"

#include <deque>

namespace mlir::tpc::lowered {

class BufferMachine;
using Numbers = std::vector<Scalar>;
using Ranks = ArrayRef<int>;

/// What a value of the program is on one rank: memory, a frame, or the index of a parameter.
struct Held {
  Place place;
  buffer::EntryOp entry;
};
using Values = DenseMap<Value, std::vector<Held>>; // by rank

/// Ranks that run an op, and what they have so far.
struct Frame {
  Values &values;
  Ranks active;
};

} // namespace mlir::tpc::lowered

#include "RunOps.h.inc"

namespace mlir::tpc::lowered {

/// The value of an expression on a rank: of a size, or of a name in one (RankSizes.h).
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
  /// `world` is that of the staged program that `program` was made of. `rounds`: numbers are
  /// rounded to their types.
  BufferMachine(ModuleOp program, interpret::World &world,
                ArrayRef<interpret::Tensor<double>> inputs, uint64_t seed, bool rounds);
  /// Errors: everything that an op must not do, messages that nobody sends or receives, ranks that
  /// deliver an output twice. Ends without one as soon as an index is reported to be missing.
  LogicalResult run();
  std::string reported; // which
  /// Compares each kernel, where it is launched first, with its function of tensors as well: at
  /// the run's sizes, and at those of other worlds: with numbers of all magnitudes in the first.
  bool comparesKernels = false;
  SmallVector<interpret::World *> alone;

  struct Output {
    interpret::Shape shape;
    Numbers data;
    std::vector<bool> known;
    bool isFloat = true;
    Operation *delivered = nullptr; // by
  };
  std::vector<Output> outputs;

  //===--- for ops --------------------------------------------------------===//

  interpret::World &getWorld() { return world; }
  bool rounds() const { return roundsNumbers; }
  GridAttr getGrid() { return world.getGrid(); }
  InFlightDiagnostic fail(Operation *op, int rank) const;
  std::string describe(int rank) const;
  const interpret::Coordinates &getCoordinates(int rank) const { return ranks[rank]; }
  int64_t coordinate(StringRef axis, int rank) const;
  int64_t evaluate(buffer::ExprAttr expr, int rank);
  SmallVector<int64_t> evaluate(ArrayAttr exprs, int rank);

  const Held &get(Frame &frame, Value value, int rank) { return frame.values[value][rank]; }
  void set(Frame &frame, Value value, int rank, Held held);
  /// A place of so many elements, which must be in its memory.
  LogicalResult setPlace(Operation *op, Frame &frame, int rank, std::shared_ptr<Memory> memory,
                         int64_t begin, buffer::ExtentAttr extent);
  /// The first `count` elements, all of which somebody has written.
  FailureOr<Numbers> read(Operation *op, Frame &frame, Value value, int rank, int64_t count);
  LogicalResult write(Operation *op, Frame &frame, Value value, int rank, const Numbers &numbers);

  LogicalResult runBlock(Block &block, Frame frame);
  LogicalResult runCall(buffer::CallOp call, Frame &frame);
  LogicalResult runRounds(buffer::RoundsOp rounds, Frame &frame);
  LogicalResult launch(buffer::LaunchOp op, Frame &frame);
  FailureOr<Place> getInput(Operation *op, int64_t index);
  /// A rank's part of a cache.
  FailureOr<Place> getState(Operation *op, FlatSymbolRefAttr cache, int rank);
  /// Null where there is none.
  buffer::EntryOp getEntry(StringRef name) const { return symbols.lookup<buffer::EntryOp>(name); }
  FailureOr<Place> getParameter(Operation *op, buffer::EntryOp entry, int rank, Type element);
  /// Calls `body` for each group over these axes of which members come, in the order of ranks. All
  /// members must come.
  LogicalResult forEachGroup(Operation *op, Frame &frame, ArrayRef<StringRef> axes,
                             function_ref<LogicalResult(Ranks)> body);
  LogicalResult send(buffer::SendOp op, Frame &frame);
  LogicalResult receive(buffer::RecvOp op, Frame &frame);

private:
  ModuleOp program;
  SymbolTable symbols;
  LogicalResult runStage(buffer::FuncOp function);
  /// What caches hold is outputs.
  LogicalResult deliverStates();
  const KernelProgram *getKernel(buffer::LaunchOp op);
  LogicalResult compareAlone(const KernelProgram &kernel, ArrayRef<Place> memory, int rank);

  interpret::World &world;
  RankSizesEvaluator sizes;
  std::vector<interpret::Coordinates> ranks;
  std::vector<Place> inputs;
  uint64_t seed;
  bool roundsNumbers;
  DenseMap<Attribute, std::unique_ptr<KernelProgram>> kernels; // by name
  DenseSet<const KernelProgram *> compared;
  std::map<std::pair<const void *, interpret::Coordinates>, int64_t> evaluated;
  std::map<std::pair<Operation *, interpret::Coordinates>, Place> parameters;
  DenseMap<std::pair<Attribute, int>, Place> states;               // by cache and rank
  std::map<std::pair<int, int64_t>, std::deque<Numbers>> messages; // to rank, from stage
  int depth = 0;
};

void attachMemoryRuns(MLIRContext *context);        // RunMemory.cpp
void attachComputeRuns(MLIRContext *context);       // RunCompute.cpp
void attachStateRuns(MLIRContext *context);         // RunState.cpp
void attachCommunicationRuns(MLIRContext *context); // RunCommunication.cpp

template <typename Model, typename OpT> using RunModel = RunOpInterface::ExternalModel<Model, OpT>;

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_RUNBUFFERS_H
