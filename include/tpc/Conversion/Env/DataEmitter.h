//===- DataEmitter.h - Emission of constant data ----------------*- C++ -*-===//
//
// Emits constant data of a program for the runtime: strings, tensors, and tables of structs
// (RuntimeAbi.h) with the addresses of other data and of functions.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_ENV_DATAEMITTER_H
#define TPC_CONVERSION_ENV_DATAEMITTER_H

#include "tpc/Conversion/Env/RuntimeAbi.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc {

/// Appends constants to a module.
class DataEmitter {
public:
  explicit DataEmitter(ModuleOp module)
      : b(OpBuilder::atBlockEnd(module.getBody())), loc(module.getLoc()) {}

  abi::I32 i32(int64_t n);
  abi::I64 i64(int64_t n);
  abi::Pointer address(StringRef symbol);
  abi::Pointer null();

  /// Emits a NUL-terminated string.
  void text(StringRef name, StringRef value);
  /// Emits bytes unchanged, 64-byte aligned.
  void bytes(StringRef name, StringRef value);
  /// Emits a tensor's elements, 64-byte aligned. Integers become signless, as LLVM requires; a
  /// boolean takes a byte.
  void elements(StringRef name, DenseElementsAttr value);

  /// Emits a global whose initializer contains addresses and numbers.
  void aggregate(StringRef name, Type type, LLVM::Linkage linkage,
                 function_ref<Value(Value undefined)> build);
  Value insert(Value into, ArrayRef<Value> values);
  /// Emits an array of `count` entries.
  void array(StringRef name, Type element, size_t count,
             function_ref<Value(Value undefined, size_t index)> entry);

private:
  OpBuilder b;
  Location loc;
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_ENV_DATAEMITTER_H
