//===- HostEmitter.h - Emitter of runtime calls -----------------*- C++ -*-===//
//
// A buffer function becomes
//
//   void f(tpc_context *ctx, const int64_t *env, arguments.., results..)
//
// A buffer becomes a pointer, a parameter its index (i32). Expressions become arithmetic on env;
// the symbols of static sizes are replaced by their values.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_HOSTEMITTER_H
#define TPC_LIB_CONVERSION_HOSTEMITTER_H

#include "NumberChecks.h"
#include "ProgramObject.h"
#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Env/RuntimeAbi.h"
#include "tpc/Conversion/Env/SizeEmitter.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::tpc {
class HostEmitter;
} // namespace mlir::tpc

#include "RuntimeCallOp.h.inc"

namespace mlir::tpc {

/// State shared by all functions of a module.
class HostModule {
public:
  HostModule(ModuleOp module, const EnvLayout &layout);

  /// Returns the declaration of a runtime function, which is created at its first use.
  LLVM::LLVMFuncOp getRuntimeFunction(const abi::Function &function);
  /// Returns the LLVM name and type of a buffer function.
  std::string getName(buffer::FuncOp function);
  LLVM::LLVMFunctionType getType(buffer::FuncOp function);
  /// Returns the index of an entry of the parameter table.
  int32_t getEntry(StringAttr name) const { return entries.lookup(name); }

  /// Returns the index of a cache in the manifest.
  int32_t getCache(StringAttr name) const { return caches.lookup(name); }

  ModuleOp module;
  const EnvLayout &layout;
  ProgramObject object;
  const NumberChecks checks;
  SymbolTableCollection symbols;

private:
  DenseMap<StringAttr, int32_t> entries, caches;
};

class HostEmitter {
public:
  HostEmitter(HostModule &host, Location loc) : host(host), loc(loc), b(loc.getContext()) {}

  void emit(buffer::FuncOp function);
  /// Emits a loop over micro-batches, which sets the micro-batch index in `env`.
  void emitMicroBatches(buffer::MicroBatchesOp iterations);

  //===--- interface for ops ----------------------------------------------===//

  HostModule &getHost() { return host; }
  OpBuilder &builder() { return b; }
  Location getLoc() const { return loc; }
  SizeEmitter &sizes() { return *sizeEmitter; }
  abi::Pointer context() { return abi::Pointer(ctx); }
  abi::Pointer environment() { return abi::Pointer(env); }

  /// Returns the LLVM value of a buffer, a frame or a parameter index.
  Value value(Value buffer) { return values.lookup(buffer); }
  void setValue(Value buffer, Value value) { values[buffer] = value; }
  abi::Pointer pointer(Value buffer) { return buffer ? abi::Pointer(value(buffer)) : null(); }
  /// Returns the tpc_dtype of the buffer's elements, and their size in bytes.
  abi::I32 dtype(Value buffer);
  int64_t elementBytes(Value buffer);

  abi::I32 i32(int64_t value);
  abi::I64 i64(int64_t value) { return abi::I64(sizes().constant(value)); }
  abi::F32 f32(double value);
  abi::Pointer null();
  abi::I64 expr(buffer::ExprAttr attr);
  SmallVector<Value> exprs(ArrayAttr list);
  abi::Pointer offset(abi::Pointer pointer, Value bytes);
  /// Returns a bit mask of axes; bit i is the axis with index i in the grid's order.
  abi::I32 axes(ArrayAttr axes);
  /// Returns the index of an axis in the grid's order; 0 if the grid lacks the axis.
  int64_t axis(StringRef axis);

  /// Returns stack memory of the generated function.
  abi::Pointer scratch(Type type, int64_t count = 1);
  void storeAt(Value base, Type elementOrStruct, unsigned index, Value value);
  /// Stores values consecutively in scratch memory.
  abi::Pointer store(Type type, ArrayRef<Value> list);
  /// Stores structs of the C ABI in scratch memory.
  template <typename Struct> abi::Pointer store(ArrayRef<abi::Values<Struct>> list) {
    Type type = abi::getStructType<Struct>(b.getContext());
    abi::Pointer memory = scratch(type, std::max<size_t>(1, list.size()));
    for (auto [i, values] : llvm::enumerate(list)) {
      abi::Pointer at = i ? offset(memory, i64(i * sizeof(Struct))) : memory;
      for (auto [field, value] : llvm::enumerate(values.list()))
        storeAt(at, type, field, value);
    }
    return memory;
  }
  template <typename Struct> abi::Pointer store(const abi::Values<Struct> &values) {
    return store(ArrayRef(values));
  }
  /// Emits a runtime call. The context is prepended to the arguments.
  template <typename R, typename... Ps>
  auto call(abi::Prototyped<R(tpc_context *, Ps...)> function, abi::ValueOf<Ps>... args) {
    Value result = call(static_cast<const abi::Function &>(function), {ctx, args...});
    if constexpr (!std::is_void_v<R>)
      return abi::ValueOf<R>(result);
  }
  /// Emits a runtime call; `args` include the context. Returns null for functions without a result.
  Value call(const abi::Function &function, ArrayRef<Value> args);
  /// Emits a communication call, after a call that sets the ONNX node for error messages.
  template <typename R, typename... Ps>
  auto communicate(Operation *op, abi::Prototyped<R(tpc_context *, Ps...)> function,
                   abi::ValueOf<Ps>... args) {
    setNode(op);
    return call(function, args...);
  }
  /// Emits `body` in a block that runs only if `condition` is true.
  void emitIf(Value condition, function_ref<void()> body);

  /// Emits the calls of a block.
  void emitBlock(Block &block);

private:
  void setNode(Operation *op);
  Block *makeBlock();

  HostModule &host;
  Location loc;
  OpBuilder b;
  LLVM::LLVMFuncOp target;
  std::unique_ptr<SizeEmitter> sizeEmitter;
  Value ctx, env;
  DenseMap<Value, Value> values;
  std::map<std::pair<void *, int64_t>, Value> scratches;
};

/// Registers the emitter of each buffer op.
void attachRuntimeCalls(MLIRContext *context);

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_HOSTEMITTER_H
