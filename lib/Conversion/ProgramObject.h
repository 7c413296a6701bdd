//===- ProgramObject.h - Tables of a compiled program -----------*- C++ -*-===//
//
// The tpc_program struct for the runtime: the manifest, a function for each stage, and tables of
// kernels, constants and ONNX node names, which generated code refers to by index.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_PROGRAMOBJECT_H
#define TPC_LIB_CONVERSION_PROGRAMOBJECT_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinOps.h"

#include "llvm/ADT/MapVector.h"

namespace mlir::tpc {

class ProgramObject {
public:
  /// Returns the index of a kernel function.
  int32_t getKernel(StringAttr name) { return indexOf(kernels, name); }
  /// Returns the index of a constant tensor with these elements.
  int32_t getConstant(DenseElementsAttr value) { return indexOf(constants, value); }
  /// Returns the index of an op's ONNX node name, for error messages.
  int32_t getNode(Operation *op);
  int32_t getNode(StringAttr name) { return indexOf(nodes, name); }

  /// Emits the tpc_program and its tables; kernels and stages must be defined already. `gpuCode` is
  /// the symbol of the GPU code; empty if kernels are host functions.
  void emit(ModuleOp module, ArrayRef<std::string> stages, StringRef manifest,
            StringRef gpuCode) const;

private:
  using Table = llvm::MapVector<Attribute, int32_t>; // index by entry
  static int32_t indexOf(Table &table, Attribute entry) {
    return table.try_emplace(entry, static_cast<int32_t>(table.size())).first->second;
  }

  Table kernels, constants, nodes;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_PROGRAMOBJECT_H
