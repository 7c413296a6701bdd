//===- BufferPlanner.h - Conversion of tensor functions to buffers --------===//
//
// For each tensor function and each stage, the planner creates an equivalent buffer function (see
// Buffer.h). Results are in the caller's buffers; other values are in one frame of the runtime's
// stack. Values with disjoint live ranges share a slot of the frame, whose size is the maximum of
// their sizes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_BUFFERPLANNER_H
#define TPC_LIB_CONVERSION_BUFFERPLANNER_H

#include "ParameterTable.h"
#include "ProductFusion.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc {
class BufferPlanner;
} // namespace mlir::tpc

#include "tpc/Interfaces/HostInterfaces.h.inc"

namespace mlir::tpc {

/// State shared by all functions of a module.
class BufferModule {
public:
  BufferModule(ModuleOp module, ParameterTable &parameters)
      : module(module), grid(MeshAttr::lookup(module)), parameters(parameters), symbols(module) {}

  /// Returns the buffer function of a tensor function. It may not have a body yet.
  buffer::FuncOp getFunction(func::FuncOp function);
  /// Creates an empty function for a stage.
  buffer::FuncOp makeStage(PipelineOp pipeline, StageOp stage);
  /// Returns the cache argument that result `result` aliases because the function appends to it;
  /// nothing for other results.
  std::optional<unsigned> getAppended(func::FuncOp function, unsigned result);
  /// Returns the parameter-table entry of a parameter.
  FlatSymbolRefAttr getEntry(int64_t stage, const Parameter &parameter, ParameterUse use);
  func::FuncOp getCallee(func::CallOp call) {
    return symbols.lookup<func::FuncOp>(call.getCallee());
  }

  buffer::ExprAttr expr(const ::tpc::SymExpr &e) {
    return buffer::ExprAttr::get(module.getContext(), e);
  }
  buffer::ExtentAttr extent(Type tensor);
  buffer::LoadAttr load(const Parameter &parameter, ParameterUse use);

  ModuleOp module;
  MeshAttr grid;
  ParameterTable &parameters;

private:
  SymbolTable symbols;
  DenseMap<Operation *, buffer::FuncOp> functions;
  DenseMap<std::pair<int64_t, Attribute>, FlatSymbolRefAttr> entries;
};

/// Plans the buffers of one block.
class BufferPlanner {
public:
  explicit BufferPlanner(BufferModule &shared)
      : shared(shared), b(shared.module.getContext()), loc(b.getUnknownLoc()) {}

  /// Creates the body of the buffer function of `function` (or of a stage).
  LogicalResult planFunction(func::FuncOp function);
  LogicalResult planStage(PipelineOp pipeline, StageOp stage);

  //===--- interface for ops ----------------------------------------------===//

  using SymExpr = ::tpc::SymExpr;

  BufferModule &getShared() { return shared; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  MeshAttr grid() const { return shared.grid; }

  /// Returns the buffer of a tensor.
  Value getBuffer(Value tensor);
  void setBuffer(Value tensor, Value buffer) { buffers[tensor] = buffer; }
  SmallVector<Value> getBuffers(ValueRange tensors);
  /// Returns the parameter-table index of a parameter.
  Value parameter(Value tensor, ParameterUse use);
  Value parameter(const Parameter &parameter, ParameterUse use);

  buffer::ExprAttr expr(const SymExpr &e) { return shared.expr(e); }
  ArrayAttr exprs(ArrayRef<SymExpr> list);
  SmallVector<SymExpr> sizes(Type tensor) { return getLocalSizes(tensor, shared.grid); }
  SymExpr elements(Type tensor) { return getNumElements(tensor, shared.grid); }
  SymExpr bytes(Type tensor) { return shared.extent(tensor).getBytes(); }

  /// Returns the slice of a cache's buffer that `tensor` aliases, following movement ops back to
  /// the cache's argument.
  Value getCacheSlice(Value tensor);

  /// Allocates a frame with one buffer, which `pop` frees.
  Value pushBuffer(Type tensor);
  void pop(Value buffer);
  /// Plans ops of a nested block, at the end of `into`.
  LogicalResult planInner(Block &block, ArrayRef<Operation *> ops, Block &into);

  /// Returns the op that starts an all-reduce of a matmul's result in chunks, if the chunks of the
  /// matmul are computed there; else null.
  AllReduceStartOp getChunkedStart(MatmulOp matmul) const;
  DenseMap<Value, SmallVector<Value>> tokens; // of asynchronous collectives, by result
  /// Returns whether a value is computed in the memory of the parameter that it updates.
  bool isUpdatedInPlace(Value value) const { return inPlace.contains(value); }

private:
  struct Slot {
    SmallVector<SymExpr> sizes; // bytes of the slot's values
    int64_t freeAt = -1;        // position of the last use
    SymExpr begin;
  };

  LogicalResult planBlock(Block &block, ArrayRef<Operation *> ops, ValueRange results);
  LogicalResult planOps(ArrayRef<Operation *> ops);
  Value allocateSums(StageOp stage);
  LogicalResult planEvents(StageOp stage, ScheduleAttr schedule);
  LogicalResult planEvent(MicroBatchesOp loop, const ::tpc::ScheduleEvent &event,
                          function_ref<std::optional<SymExpr>(Value)> getOffset, Value messages);
  void findSlots(Block &block, ArrayRef<Operation *> ops, ValueRange results);
  /// Gives the results of kernels that update a parameter the parameter's memory, if no op reads
  /// the parameter later.
  void updateInPlace(Block &block, ArrayRef<Operation *> ops,
                     const DenseMap<Operation *, int64_t> &position);
  /// Returns the parameter that the value of an output replaces, if the kernel that computes the
  /// value may overwrite it; else null.
  ParameterOp getOverwritten(OutputOp output) const;
  /// Returns whether all reads of a value and its aliases precede `call`, or are by `call`.
  bool isReadBefore(Value value, func::CallOp call,
                    const DenseMap<Operation *, int64_t> &position) const;
  /// `released`: position of the last op that reads the memory of `reusable` for this value.
  void assignSlot(Value value, const SymExpr &size, Value reusable, int64_t now, int64_t released,
                  int64_t end);
  /// Returns the columns with one merged matmul's result, in the buffer that the results of its
  /// group share.
  Value makeColumns(const ResultColumns &columns, Value tensor);
  /// Assigns the offsets of slots in a frame, and returns the size of the frame.
  static SymExpr assignOffsets(MutableArrayRef<Slot> slots);
  Block *beginFusion(const ProductFusion &fusion);
  Value getAliased(Value value) const;
  Value getAliasRoot(Value value) const;
  /// Returns a builder at the beginning of the function.
  OpBuilder entry();

  BufferModule &shared;
  OpBuilder b;
  Location loc;
  std::optional<int64_t> stage;
  func::FuncOp source;
  buffer::FuncOp target;
  DenseMap<Value, Value> buffers;
  DenseMap<Attribute, Value> constants;
  DenseMap<Attribute, Value> states;                // buffers by cache
  SmallVector<std::pair<Attribute, Value>> indices; // parameter indices by entry
  Operation *lastAtEntry = nullptr;
  // State of the current block:
  SmallVector<Slot> slots;
  DenseMap<Value, unsigned> slotOf;
  Value frame;
  std::vector<ProductFusion> fusions;
  DenseMap<Operation *, const ProductFusion *> fusionOf;
  DenseMap<Value, Value> wholes; // buffers of merged results, by the group's first result
  SmallVector<std::pair<Value, Value>> copies; // at the block's end: (destination, value)
  DenseSet<Value> inPlace;                     // values that are in a parameter's memory
};

/// Returns the type without `axis` in dimension `dim`. The axis must be the last one that splits a
/// factor of the dimension, or the last one that splits the product of its factors.
Type withoutAxis(Type type, int64_t dim, StringRef axis, MeshAttr grid);

/// Rounds up to the alignment of slots, 64 bytes.
::tpc::SymExpr roundUpToSlot(const ::tpc::SymExpr &bytes);

/// Returns the size after `of` of a tpc_buffer.micro_batches; null for a loop without a batch.
buffer::ExprAttr getMicroBatchSize(MicroBatchesOp loop, BufferPlanner &planner);

/// Returns all ops of a block.
SmallVector<Operation *> listOps(Block &block);

/// Returns the global index of a rank's first element, for a contiguous shard.
::tpc::SymExpr getFirstIndex(DimAttr dim, MeshAttr grid);

void attachViewModels(MLIRContext *context);
void attachComputeModels(MLIRContext *context);
void attachStageModels(MLIRContext *context);
void attachCommunicationModels(MLIRContext *context);
void attachAsyncModels(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_BUFFERPLANNER_H
