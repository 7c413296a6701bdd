//===- RuntimeAbi.cpp - C ABI of the runtime as LLVM types ----------------===//

#include "tpc/Conversion/Env/RuntimeAbi.h"

using namespace mlir;
using namespace mlir::tpc;

Type abi::getType(MLIRContext *context, Kind kind) {
  switch (kind) {
  case Kind::Void:
    return LLVM::LLVMVoidType::get(context);
  case Kind::I32:
    return IntegerType::get(context, 32);
  case Kind::I64:
    return IntegerType::get(context, 64);
  case Kind::F32:
    return Float32Type::get(context);
  case Kind::Pointer:
    return LLVM::LLVMPointerType::get(context);
  }
  llvm_unreachable("all kinds are above");
}

LLVM::LLVMFunctionType abi::Function::getType(MLIRContext *context) const {
  auto types = llvm::map_to_vector(parameters, [&](Kind k) { return abi::getType(context, k); });
  return LLVM::LLVMFunctionType::get(abi::getType(context, result), types);
}

LLVM::LLVMStructType abi::getStructType(MLIRContext *context, ArrayRef<Field> fields) {
  auto types = llvm::map_to_vector(fields, [&](Field f) { return getType(context, f.kind); });
  return LLVM::LLVMStructType::getLiteral(context, types);
}
