//===- HostEmitter.h - Code around kernels ----------------------*- C++ -*-===//
//
// A function of tensors becomes
//
//   void f(tpc_context *ctx, const int64_t *env, arguments.., results..)
//
// An argument is a pointer, or for a value that is a parameter in every call
// its indices (i32: packed, dense, as far as they are needed); a result is a
// pointer to memory of the caller. Values in between lie in one frame of the
// runtime's stack: values that do not live at the same time share a slot, whose
// size is the largest of theirs, computed at run time.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_HOSTEMITTER_H
#define TPC_LIB_CONVERSION_HOSTEMITTER_H

#include "ParameterTable.h"
#include "ProgramObject.h"
#include "tpc/Conversion/Env/RuntimeAbi.h"
#include "tpc/Conversion/Env/SizeEmitter.h"

namespace mlir::tpc {
class HostEmitter;
} // namespace mlir::tpc

#include "tpc/Interfaces/HostInterfaces.h.inc"

namespace mlir::tpc {

/// What the functions of a module share.
class HostModule {
public:
  HostModule(ModuleOp module, const EnvLayout &layout, ParameterTable &parameters)
      : module(module), layout(layout), parameters(parameters) {}

  /// A function of the runtime, declared at its first use.
  LLVM::LLVMFuncOp getRuntimeFunction(const abi::Function &function);
  /// A function of tensors in its lowered form.
  LLVM::LLVMFunctionType getType(func::FuncOp function);

  ModuleOp module;
  const EnvLayout &layout;
  ParameterTable &parameters;
  ProgramObject object;
  SymbolTableCollection symbols;
};

class HostEmitter {
public:
  HostEmitter(HostModule &host, Location loc) : host(host), loc(loc), b(loc.getContext()) {}

  /// Emits a function beside its source, under the same name.
  LogicalResult emitFunction(func::FuncOp function);
  /// Emits `void name(ctx, env)`, which runs a stage for a step. `env` has no
  /// micro-batch: the stage's ops and rounds get a copy that has.
  LogicalResult emitStage(StringRef name, StageOp stage);
  /// Emits `void name(ctx, env, shared..)`, a round of a loop. `shared` are
  /// values of the stage around it. Does nothing where this rank's part of the
  /// batch is empty.
  LogicalResult emitRound(StringRef name, MicroBatchesOp loop, ArrayRef<Value> shared);

  //===--- for ops --------------------------------------------------------===//

  HostModule &getHost() { return host; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  void setLoc(Location l) { loc = l; }
  SizeEmitter &sizes() { return *sizeEmitter; }
  abi::Pointer context() { return abi::Pointer(ctx); }
  abi::Pointer environment() { return abi::Pointer(env); }

  /// Where a tensor lies, and its size.
  abi::Pointer pointer(Value tensor);
  abi::I64 count(Type tensor) { return abi::I64(sizes().numElements(tensor)); }
  abi::I64 bytes(Type tensor);
  void setPointer(Value tensor, Value pointer) { pointers[tensor] = pointer; }
  StringRef getName() { return target.getName(); }
  /// The index of a parameter.
  abi::I32 parameterIndex(Value tensor, ParameterUse use);
  abi::I32 parameterIndex(const Parameter &parameter, ParameterUse use);

  abi::I32 i32(int64_t value);
  abi::I64 i64(int64_t value) { return abi::I64(sizes().constant(value)); }
  abi::F32 f32(double value);
  abi::Pointer null();
  abi::Pointer offset(abi::Pointer pointer, Value elements, Type tensor);
  /// Stack memory that lives as long as the function's call.
  abi::Pointer scratch(Type type, int64_t count = 1);
  void storeAt(Value base, Type elementOrStruct, unsigned place, Value value);
  /// A struct of the interface, in scratch memory.
  template <typename Struct> abi::Pointer store(const abi::Values<Struct> &values) {
    Type type = abi::getStructType<Struct>(b.getContext());
    abi::Pointer memory = scratch(type);
    for (auto [i, value] : llvm::enumerate(values.list()))
      storeAt(memory, type, i, value);
    return memory;
  }
  /// Calls the runtime. The context is added to the arguments.
  template <typename R, typename... Ps>
  auto call(abi::Prototyped<R(tpc_context *, Ps...)> function, abi::ValueOf<Ps>... args) {
    Value result = call(static_cast<const abi::Function &>(function), {ctx, args...});
    if constexpr (!std::is_void_v<R>)
      return abi::ValueOf<R>(result);
  }
  /// The same for a list of arguments that has the context already; null where nothing comes back.
  Value call(const abi::Function &function, ArrayRef<Value> args);
  /// The tpc_dtype of a tensor.
  abi::I32 dtype(Type tensor);
  void copy(Value to, Value from, Type tensor);

private:
  struct Slot {
    SmallVector<Value> sizes;
    int64_t freeAt = -1;
    Value begin;
  };

  void begin(StringRef name, LLVM::LLVMFunctionType type, LLVM::Linkage linkage,
             bool copiesEnvironment = false);
  void loadInputs(StageOp stage, Block &block);
  LogicalResult emitBody(Block &block, ValueRange results);
  void planFrame(Block &block, ValueRange results);
  Value aliasRoot(Value value) const;

  HostModule &host;
  Location loc;
  OpBuilder b;
  LLVM::LLVMFuncOp target;
  std::unique_ptr<SizeEmitter> sizeEmitter;
  std::optional<OpBuilder> entry; // before the entry block's branch
  std::optional<int64_t> stage;
  func::FuncOp source;
  Value ctx, env;
  DenseMap<Value, Value> pointers;
  DenseMap<Value, Value> packed, dense; // indices of parameter arguments
  SmallVector<Value> hiddenArguments;
  SmallVector<Slot> slots;
  DenseMap<Value, unsigned> slotOf;
  SmallVector<std::pair<Value, Value>> copies; // at the end: to, value
  std::map<std::pair<void *, int64_t>, Value> scratches;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_HOSTEMITTER_H
