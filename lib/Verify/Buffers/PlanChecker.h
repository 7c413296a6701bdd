//===- PlanChecker.h - A function of tensors and one on buffers -*- C++ -*-===//
//
// Goes through both, op by op. Each op of tensors says which runtime calls come next, with which
// sizes, derived from its types; what they read has to be there, and what they write is there
// afterwards.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H
#define TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H

#include "Memory.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {
class PlanChecker;
} // namespace mlir::tpc

#include "PlannedOp.h.inc"

namespace mlir::tpc {

/// For messages.
std::string describe(Content content);

class PlanChecker {
public:
  using SymExpr = ::tpc::SymExpr;

  PlanChecker(ModuleOp module, buffer::FuncOp function, SymbolTableCollection &symbols)
      : module(module), function(function), grid(GridAttr::lookup(module)), partSizes(grid),
        bounds(grid), memory(bounds), symbols(symbols) {}

  LogicalResult checkFunction(func::FuncOp tensors);
  LogicalResult checkStage(StageOp stage);

  //===--- for ops --------------------------------------------------------===//

  ModuleOp module;
  buffer::FuncOp function;
  GridAttr grid;

  const PartSizes &sizes() const { return partSizes; }
  SymExpr value(buffer::ExprAttr expr) const { return partSizes.normalize(expr.getExpr()); }
  template <typename OpT> OpT lookup(Operation *from, SymbolRefAttr symbol) {
    return symbols.lookupNearestSymbolFrom<OpT>(from, symbol);
  }

  /// The call that stands for `op`. Null, with an error, if another one or none comes next.
  template <typename OpT> OpT next(Operation *op) {
    return cast_or_null<OpT>(next(op, OpT::getOperationName()));
  }
  /// Whether a call of this kind comes next.
  template <typename OpT> bool isNext() { return isa_and_nonnull<OpT>(peek()); }

  /// The call reads a value. `over`: what it writes there may lie in just the same place.
  LogicalResult read(Operation *call, Value place, Value tensor, Value over = {});
  /// The same of what a collective has after a step.
  LogicalResult read(Operation *call, Value place, Content content, const SymExpr &elements,
                     Type element, Value over = {});
  /// After all that it reads.
  LogicalResult write(Operation *call, Value place, Value tensor);
  LogicalResult write(Operation *call, Value place, Content content, const SymExpr &elements,
                      Type element);
  /// At the end, a cache's memory holds the part of the value that is its next contents.
  LogicalResult checkKept(OutputOp op, FlatSymbolRefAttr cache);
  /// What one call writes does not overlap.
  void beginCall() { reads.clear(), writes.clear(); }
  /// The index is that of the parameter which a value is.
  LogicalResult checkParameter(Operation *call, Value index, Value tensor,
                               buffer::ParameterUse use);
  LogicalResult checkLoad(Operation *call, Value index, buffer::LoadAttr load);
  LogicalResult compare(Operation *call, StringRef what, buffer::ExprAttr have,
                        const SymExpr &wanted);
  LogicalResult compare(Operation *call, StringRef what, ArrayAttr have, ArrayRef<SymExpr> wanted);
  bool isPositive(buffer::ExprAttr expr) {
    return bounds.isNeverNegative(value(expr) - SymExpr(1));
  }
  /// Any other attribute.
  LogicalResult compare(Operation *call, StringRef what, Attribute have, Attribute wanted);

  /// Another op computes it as well; it has no call of its own.
  void setDone(Operation *op) { done.insert(op); }
  /// Goes through a block of a block.
  LogicalResult checkInner(Block &tensors, Block &buffers);
  /// How often the block that is being checked is gone through: 2 where it is repeated.
  static constexpr int rounds = 2;

private:
  struct Access {
    Place place;
    Value over;
  };

  LogicalResult checkBlock(Block &tensors, Block &buffers);
  Operation *peek();
  Operation *next(Operation *op, StringRef name);
  LogicalResult skipMemoryOps();
  LogicalResult checkMemoryOp(Operation *op);
  LogicalResult checkCopy(buffer::CopyOp copy);
  LogicalResult checkSignature(func::FuncOp tensors);
  FailureOr<Place> resolve(Operation *call, Value place);
  LogicalResult checkBounds(Operation *call, const Place &place);
  /// Whether a region that nobody writes holds a value.
  bool isGiven(Operation *call, Value region, Value tensor);
  bool isWritable(Value region);
  /// Whether a region holds a value before it is written in place: a cache's, or an argument that
  /// becomes a result.
  bool isInPlace(Value region);
  LogicalResult checkState(Operation *call, buffer::StateOp state, const Place &where,
                           Value tensor);
  SymExpr getRound(Value tensor);
  Value getRoot(Value tensor, SymExpr &offset);

  PartSizes partSizes;
  Bounds bounds;
  Memory memory;
  SymbolTableCollection &symbols;
  Region *source = nullptr; // of the tensors' function; null in stages
  Block::iterator at, end;  // the next op on buffers
  SmallVector<Access> reads;
  SmallVector<Place> writes;
  DenseSet<Operation *> done;
  bool isRepeated = false;           // what is checked is one of several rounds
  DenseMap<Value, DistAttr> layouts; // of states that were read: how they are split
  DenseMap<Value, int64_t> copiesOf; // and how often each kv head is there
};

/// What each op of the tensor program must have become.
void attachPlannedCompute(MLIRContext *context);
void attachPlannedCommunication(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_BUFFERS_PLANCHECKER_H
