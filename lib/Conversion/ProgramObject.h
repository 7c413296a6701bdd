//===- ProgramObject.h - What a compiled program is made of -----*- C++ -*-===//
//
// The tpc_program that the runtime gets: the manifest, a function for each stage, and tables of
// what code names by its place: kernels, constants, ONNX nodes.
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
  /// The place of a kernel, a function of the module.
  int32_t getKernel(StringAttr name) { return place(kernels, name); }
  /// The place of a tensor with these elements.
  int32_t getConstant(DenseElementsAttr value) { return place(constants, value); }
  /// The place of the name that messages give an operation.
  int32_t getNode(Operation *op);
  int32_t getNode(StringAttr name) { return place(nodes, name); }

  /// Defines the program, and all that its tables refer to but kernels and stages. `gpuCode`: where
  /// the module has kernels for GPUs; empty: they are functions of the host.
  void emit(ModuleOp module, ArrayRef<std::string> stages, StringRef manifest,
            StringRef gpuCode) const;

private:
  using Table = llvm::MapVector<Attribute, int32_t>; // entries to places
  static int32_t place(Table &table, Attribute entry) {
    return table.try_emplace(entry, static_cast<int32_t>(table.size())).first->second;
  }

  Table kernels, constants, nodes;
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_PROGRAMOBJECT_H
