//===- BufferPlanner.h - Tensors become places ------------------*- C++ -*-===//
//
// Beside each function of tensors, and each stage, comes a function on buffers (see Buffer.h) that
// computes the same. A value is a place: results of the function lie in memory of the caller's,
// others in one frame of the runtime's stack. There, values that do not live at the same time share
// a slot, whose size is the largest of theirs.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_BUFFERPLANNER_H
#define TPC_LIB_CONVERSION_BUFFERPLANNER_H

#include "ParameterTable.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Dialect/RankSizes.h"

namespace mlir::tpc {
class BufferPlanner;
} // namespace mlir::tpc

#include "tpc/Interfaces/HostInterfaces.h.inc"

namespace mlir::tpc {

/// What the functions of a module share.
class BufferModule {
public:
  BufferModule(ModuleOp module, ParameterTable &parameters)
      : module(module), grid(GridAttr::lookup(module)), parameters(parameters), symbols(module) {}

  /// The function beside a tensor function, which callers may ask for before it has a body.
  buffer::FuncOp getFunction(func::FuncOp function);
  /// An empty one for a stage.
  buffer::FuncOp makeStage(PipelineOp pipeline, StageOp stage);
  /// The entry of a parameter.
  /// The argument in whose memory a result is, as a function appends to it.
  std::optional<unsigned> getAppended(func::FuncOp function, unsigned result);
  FlatSymbolRefAttr getEntry(int64_t stage, const Parameter &parameter, ParameterUse use);
  func::FuncOp getCallee(func::CallOp call) {
    return cast<func::FuncOp>(SymbolTable::lookupNearestSymbolFrom(call, call.getCalleeAttr()));
  }

  buffer::ExprAttr expr(const ::tpc::SymExpr &e) {
    return buffer::ExprAttr::get(module.getContext(), e);
  }
  buffer::ExtentAttr extent(Type tensor);
  buffer::LoadAttr load(const Parameter &parameter, ParameterUse use);

  ModuleOp module;
  GridAttr grid;
  ParameterTable &parameters;

private:
  SymbolTable symbols;
  DenseMap<Operation *, buffer::FuncOp> functions;
  DenseMap<std::pair<int64_t, Attribute>, FlatSymbolRefAttr> entries;
};

/// Plans one block.
class BufferPlanner {
public:
  explicit BufferPlanner(BufferModule &shared)
      : shared(shared), b(shared.module.getContext()), loc(b.getUnknownLoc()) {}

  /// Fills the function beside `function`, or that of a stage.
  LogicalResult planFunction(func::FuncOp function);
  LogicalResult planStage(PipelineOp pipeline, StageOp stage);

  //===--- for ops --------------------------------------------------------===//

  using SymExpr = ::tpc::SymExpr;

  BufferModule &getShared() { return shared; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  GridAttr grid() const { return shared.grid; }

  /// Where a tensor lies.
  Value place(Value tensor);
  void setPlace(Value tensor, Value place) { places[tensor] = place; }
  SmallVector<Value> placesOf(ValueRange tensors);
  /// The index of a parameter.
  Value parameter(Value tensor, ParameterUse use);
  Value parameter(const Parameter &parameter, ParameterUse use);

  buffer::ExprAttr expr(const SymExpr &e) { return shared.expr(e); }
  ArrayAttr exprs(ArrayRef<SymExpr> list);
  SmallVector<SymExpr> sizes(Type tensor) { return getLocalSizes(tensor, shared.grid); }
  SymExpr elements(Type tensor) { return getNumElements(tensor, shared.grid); }
  SymExpr bytes(Type tensor) { return shared.extent(tensor).getBytes(); }

  /// The part of a cache that a value is, which moves from the cache's argument give.
  Value statePlace(Value tensor);

  /// A frame of its own with one place, until `pop`.
  Value pushPlace(Type tensor);
  void pop(Value place);
  /// Plans a block inside of the one that is being planned, at the end of `into`.
  LogicalResult planInner(Block &block, Block &into);

private:
  struct Slot {
    SmallVector<SymExpr> sizes; // of its values, in bytes
    int64_t freeAt = -1;
    SymExpr begin;
  };

  LogicalResult planBlock(Block &block, ValueRange results);
  void findSlots(Block &block, ValueRange results);
  void takeSlot(Value value, Value reusable, int64_t now, int64_t end);
  SymExpr placeSlots();
  Value getAliased(Value value) const;
  Value aliasRoot(Value value) const;
  /// At the beginning of the function.
  OpBuilder entry();

  BufferModule &shared;
  OpBuilder b;
  Location loc;
  std::optional<int64_t> stage;
  func::FuncOp source;
  buffer::FuncOp target;
  DenseMap<Value, Value> places;
  DenseMap<Attribute, Value> constants;
  DenseMap<Attribute, Value> states;                // by cache
  DenseMap<std::pair<Value, int>, Value> arguments; // of parameters
  SmallVector<std::pair<Attribute, Value>> indices; // of parameters that are loaded here
  Operation *lastAtEntry = nullptr;
  // Of the block:
  SmallVector<Slot> slots;
  DenseMap<Value, unsigned> slotOf;
  Value frame;
  SmallVector<std::pair<Value, Value>> copies; // at the end: to, value
};

/// The type with one axis less (the last one of a factor or product of `dim`).
Type withoutAxis(Type type, int64_t dim, StringRef axis, GridAttr grid);

/// The index in the whole dimension of a rank's first element, where what it has is in a row.
::tpc::SymExpr getFirstIndex(DimAttr dim, GridAttr grid);

void attachComputeModels(MLIRContext *context);
void attachStageModels(MLIRContext *context);
void attachCommunicationModels(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_BUFFERPLANNER_H
