//===- PlanChecker.h - Comparison of tensor and buffer functions -*- C++ -*-===//
//
// Walks a tensor function and its buffer function in parallel. The types of each tensor op
// determine the next runtime calls and their sizes. A call's operands must be in the memory that it
// reads; its results are in the memory that it writes.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H
#define TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H

#include "Memory.h"
#include "tpc/Buffer/Accumulate.h"
#include "tpc/Buffer/Async.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Async.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {
class PlanChecker;
} // namespace mlir::tpc

#include "PlannedOp.h.inc"

namespace mlir::tpc {

/// Describes a content for error messages.
std::string describe(Content content);

class PlanChecker {
public:
  using SymExpr = ::tpc::SymExpr;

  PlanChecker(ModuleOp module, buffer::FuncOp function, SymbolTableCollection &symbols)
      : module(module), function(function), grid(MeshAttr::lookup(module)), partSizes(grid),
        bounds(grid), memory(bounds), symbols(symbols) {}

  LogicalResult checkFunction(func::FuncOp tensors);
  LogicalResult checkStage(StageOp stage);

  //===--- for op models --------------------------------------------------===//

  ModuleOp module;
  buffer::FuncOp function;
  MeshAttr grid;

  const PartSizes &sizes() const { return partSizes; }
  SymExpr value(buffer::ExprAttr expr) const { return partSizes.normalize(expr.getExpr()); }
  template <typename OpT> OpT lookup(Operation *from, SymbolRefAttr symbol) {
    return symbols.lookupNearestSymbolFrom<OpT>(from, symbol);
  }

  /// Returns the next call if it is an OpT; else emits an error and returns null.
  template <typename OpT> OpT next(Operation *op) {
    return cast_or_null<OpT>(next(op, OpT::getOperationName()));
  }
  /// Returns whether the next call is of this kind.
  template <typename OpT> bool isNext() { return isa_and_nonnull<OpT>(peek()); }

  /// Form in which a call accesses a buffer: dense, or also as columns, with a row stride.
  enum class Access { Dense, ByRows };
  /// Columns of a larger buffer that a buffer consists of, in elements.
  struct Columns {
    SymExpr first, width, stride;
  };
  /// Returns nothing for dense buffers.
  std::optional<Columns> getColumns(Value buffer) const;
  /// Returns the distance between rows of a buffer with these sizes, the first `rowDims` of which
  /// count rows. Error: a row of `sizes` is not as long as the columns are wide.
  FailureOr<SymExpr> getRowStride(Operation *call, Value buffer, ArrayRef<SymExpr> sizes,
                                  unsigned rowDims) const;

  /// Checks that the memory range that the call reads contains `tensor`. `over`: memory of the
  /// call's result, which may be the same range.
  LogicalResult read(Operation *call, Value buffer, Value tensor, Value over = {},
                     Access access = Access::Dense);
  /// Like read for a tensor, but for an intermediate result of a collective.
  LogicalResult read(Operation *call, Value buffer, Content content, const SymExpr &elements,
                     Type element, Value over = {}, Access access = Access::Dense);
  /// Records a write. Must be called after all reads of the call.
  LogicalResult write(Operation *call, Value buffer, Value tensor, Access access = Access::Dense);
  LogicalResult write(Operation *call, Value buffer, Content content, const SymExpr &elements,
                      Type element, Access access = Access::Dense);
  /// Checks that a cache's memory has the value of its output at the end of a step.
  LogicalResult checkCacheResult(OutputOp op, FlatSymbolRefAttr cache);
  /// Checks that the next call replaces a parameter by the value of its output, after the last read
  /// of parameters.
  LogicalResult checkUpdate(OutputOp op, const Update &update);
  /// Checks that the called functions read no parameter that was updated before.
  LogicalResult checkCalleesOf(buffer::CallOp call);
  /// Checks that a launch may write a result to the memory of a parameter: the result updates this
  /// parameter, its kernel may overwrite it, and no other op of the step reads or updates it later.
  /// Must be called after all reads of the call.
  LogicalResult checkUpdateInPlace(buffer::LaunchOp call, unsigned number, OpResult result);
  /// Starts the reads and writes of a call.
  void beginCall() { reads.clear(), writes.clear(); }
  /// Checks that `index` is the index of the parameter that defines `tensor`.
  LogicalResult checkParameter(Operation *call, Value index, Value tensor,
                               buffer::ParameterUse use);
  LogicalResult checkLoad(Operation *call, Value index, buffer::LoadAttr load);
  LogicalResult compare(Operation *call, StringRef what, buffer::ExprAttr have,
                        const SymExpr &wanted);
  LogicalResult compare(Operation *call, StringRef what, ArrayAttr have, ArrayRef<SymExpr> wanted);
  bool isPositive(buffer::ExprAttr expr) {
    return bounds.isNeverNegative(value(expr) - SymExpr(1));
  }
  /// Compares attributes that are not expressions.
  LogicalResult compare(Operation *call, StringRef what, Attribute have, Attribute wanted);

  //===--- operations in flight -------------------------------------------===//

  /// A started collective: its calls in order, and its memory.
  struct Started {
    SmallVector<buffer::AllReduceStartOp> calls;
    Value from, to;
    bool isInPlace = false;
    Operation *writer = nullptr; ///< of the operand; null for read-only memory
  };
  /// By the result of the op on tensors. Empty at the end of a block.
  DenseMap<Value, Started> started;
  /// Returns the op that wrote a tensor to this memory; null if the memory is read-only.
  Operation *getWriter(Operation *call, Value buffer, Value tensor);
  /// Checks that memory has a content that `writer` wrote, and that no op wrote since.
  LogicalResult checkUnchanged(Operation *call, Value buffer, Content content, Operation *writer);
  /// Returns whether two buffers are the same range of memory.
  bool isSameMemory(Operation *call, Value a, Value b);
  /// Checks that a buffer is a part of another one, and returns that one.
  FailureOr<Value> checkPart(Operation *call, Value buffer, const SymExpr &from,
                             const SymExpr &elements);
  /// Returns the start that reduces the matmul's result, if the calls compute it in chunks.
  AllReduceStartOp getChunkedStart(MatmulOp op);

  /// Marks an op as computed by the call of another op.
  void setDone(Operation *op) { done.insert(op); }
  /// Checks a loop over all micro-batches and its body.
  LogicalResult checkLoop(MicroBatchesOp loop);
  /// Number of passes over the body of a loop. The second pass starts with the memory contents
  /// after the first.
  static constexpr int loopPasses = 2;
  /// Returns whether an iteration of the current loop precedes the one that is checked.
  bool isRepeated() const { return loopPass > 0; }

private:
  struct Read {
    MemoryRange range;
    Value over;
  };

  LogicalResult checkBlock(Block &tensors, Block &buffers);
  /// Checks the calls of some ops of a block.
  LogicalResult checkOps(ArrayRef<Operation *> tensors, Block &buffers);
  LogicalResult checkEvent(MicroBatchesOp loop, const ::tpc::ScheduleEvent &event);
  LogicalResult checkMicroBatches(MicroBatchesOp loop, buffer::MicroBatchesOp iterations);
  /// Adds the micro-batch of the event that is checked to a value of its loop.
  Content ofEvent(Content content) const {
    if (event && content.tensor.getParentBlock() == event)
      content.microBatch = eventMicroBatch;
    return content;
  }
  Operation *peek();
  Operation *next(Operation *op, StringRef name);
  LogicalResult skipMemoryOps();
  LogicalResult leaveFused();
  /// Checks that the kernel of a `tpc_buffer.fused` computes the ops on tensors that its body
  /// computes. Afterwards their other results are in no buffer.
  LogicalResult checkFused(buffer::FusedOp op, ArrayRef<Operation *> tensors);
  LogicalResult checkFusedNorm(buffer::FusedOp op, func::CallOp norm);
  LogicalResult checkFusedActivation(buffer::FusedOp op, func::CallOp activation,
                                     ArrayRef<Value> results);
  LogicalResult checkMemoryOp(Operation *op);
  LogicalResult checkCopy(buffer::CopyOp copy);
  LogicalResult checkSignature(func::FuncOp tensors);
  FailureOr<MemoryRange> resolve(Operation *call, Value buffer, Access access = Access::Dense);
  FailureOr<MemoryRange> resolveColumns(Operation *call, buffer::ColumnsOp op);
  LogicalResult checkBounds(Operation *call, const MemoryRange &range);
  /// Returns whether read-only memory (such as an argument or a constant) contains a value.
  bool isGiven(Operation *call, Value region, Value tensor);
  bool isWritable(Value region);
  /// Returns whether a region is updated in place: a cache, or an argument that becomes a result.
  bool isInPlace(Value region);
  /// Returns the parameter whose index this is; null if it is no index of a parameter's entry.
  buffer::LoadAttr getLoad(Value index);
  /// Checks that the memory of a parameter still has the elements before the step.
  LogicalResult checkNotUpdated(Operation *call, buffer::LoadAttr load);
  /// Checks that no other parameter has a copy of elements that are updated.
  LogicalResult checkCopies(Operation *call, buffer::LoadAttr load);
  LogicalResult checkState(Operation *call, buffer::StateOp state, const MemoryRange &where,
                           Value tensor);
  SymExpr getMicroBatchOffset(Value tensor);
  Value getRoot(Value tensor, SymExpr &offset);

  PartSizes partSizes;
  Bounds bounds;
  Memory memory;
  SymbolTableCollection &symbols;
  Region *source = nullptr;         // body of the function on tensors; null in stages
  Block::iterator at, end;          // next buffer op, and end of the block
  buffer::FusedOp fused;            // whose body is checked
  SmallVector<Operation *> inFused; // ops on tensors that its body computes
  std::pair<Block::iterator, Block::iterator> afterFused;
  SmallVector<Read> reads;
  SmallVector<MemoryRange> writes;
  DenseSet<Operation *> done;
  bool isInLoop = false;             // in a loop over several micro-batches
  int loopPass = 0;                  // pass over the body of the current loop
  Block *event = nullptr;            // body of the loop whose event is checked
  int64_t eventMicroBatch = -1;      // of that event
  DenseMap<Value, DistAttr> layouts; // distributions of caches that were read
  DenseMap<Value, int64_t> copiesOf; // number of copies of each kv head, by cache
  /// Parameters that have been updated, and results of kernels that did so in place.
  llvm::MapVector<buffer::LoadAttr, Operation *> updated;
  DenseSet<Value> inPlace;
};

/// Attach the models of the ops of a tensor program.
void attachPlannedCompute(MLIRContext *context); // attaches those of experts too
void attachPlannedExperts(MLIRContext *context);
void attachPlannedCalls(MLIRContext *context);
void attachPlannedCommunication(MLIRContext *context);
void attachPlannedAsync(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H
