//===- DataEmitter.h - Constant data of the object --------------*- C++ -*-===//
//
// What the runtime reads of a program: texts, tensors, and tables of structs (RuntimeAbi.h) that
// refer to each other and to functions by name.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_ENV_DATAEMITTER_H
#define TPC_CONVERSION_ENV_DATAEMITTER_H

#include "tpc/Conversion/Env/RuntimeAbi.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc {

/// Defines constants of a module, at its end.
class DataEmitter {
public:
  explicit DataEmitter(ModuleOp module)
      : b(OpBuilder::atBlockEnd(module.getBody())), loc(module.getLoc()) {}

  abi::I32 i32(int64_t n);
  abi::I64 i64(int64_t n);
  abi::Pointer address(StringRef symbol);
  abi::Pointer null();

  /// A text, with a NUL behind it.
  void text(StringRef name, StringRef value);
  /// Bytes as they are, 64-byte aligned.
  void bytes(StringRef name, StringRef value);
  /// A tensor's elements, 64-byte aligned. LLVM wants signless ones, and a boolean takes a byte.
  void elements(StringRef name, DenseElementsAttr value);

  /// Values that are addresses and numbers, built in the initializer.
  void aggregate(StringRef name, Type type, LLVM::Linkage linkage,
                 function_ref<Value(Value undefined)> build);
  Value insert(Value into, ArrayRef<Value> values);
  /// An array of as many entries.
  void array(StringRef name, Type element, size_t count,
             function_ref<Value(Value undefined, size_t place)> entry);

private:
  OpBuilder b;
  Location loc;
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_ENV_DATAEMITTER_H
