//===- Import.h - Import of ONNX files ------------------------------------===//
//
// Reads an ONNX model and creates the program of the import level (see docs/dev/architecture.md):
// `@main` with model ops on global tensors of symbolic sizes, folded shape subgraphs,
// and one `tpc.weight` for each tensor of the file that the program uses. The bytes of weights are
// not read.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_IMPORT_ONNX_IMPORT_H
#define TPC_IMPORT_ONNX_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

namespace tpc {

struct OnnxImportOptions {
  /// Accepts missing data files with a remark: weights may be located or generated when the program
  /// runs.
  bool allowMissingData = true;
  /// Overrides the location of external data: its folder, or the file itself.
  std::string weights = {};
};

/// Imports the model in the file `path`. On failure emits diagnostics and returns null. Loads the
/// dialects that it needs.
mlir::OwningOpRef<mlir::ModuleOp> importOnnxModel(llvm::StringRef path, mlir::MLIRContext *context,
                                                  const OnnxImportOptions &options = {});

/// Registers `tpc-translate --import-onnx`. Its output has locations, so that messages of later
/// passes name the ONNX nodes.
void registerOnnxTranslation();

/// Prints docs/reference/onnx-operators.md: the operators that are imported, with their operator
/// sets and limits.
void printOnnxOps(llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_IMPORT_ONNX_IMPORT_H
