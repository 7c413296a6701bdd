//===- Import.h - From an ONNX file to the import level --------------------===//
//
// Reads an ONNX model and gives the program of the import level (see
// docs/dev/architecture.md, section 2): `@main` with model ops on global tensors
// of symbolic sizes, shape subgraphs folded away, and one `tpc.weight` for each
// tensor of the file that the program uses. The bytes of weights are not read.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_IMPORT_ONNX_IMPORT_H
#define TPC_IMPORT_ONNX_IMPORT_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/StringRef.h"

namespace tpc {

struct OnnxImportOptions {
  /// Data files that do not exist are accepted with a remark: weights may be
  /// found, or made up, when the program is run.
  bool allowMissingData = true;
  /// Where the external data is, if not where the model says: its folder, or the file itself.
  std::string weights = {};
};

/// Imports the model in the file `path`. Where it cannot, it says why through
/// the context's diagnostics and returns null. Loads the dialects that it needs.
mlir::OwningOpRef<mlir::ModuleOp> importOnnxModel(llvm::StringRef path, mlir::MLIRContext *context,
                                                  const OnnxImportOptions &options = {});

/// Registers `tpc-translate --import-onnx`. The text that it prints has
/// locations, so that messages of later passes name the ONNX nodes.
void registerOnnxTranslation();

} // namespace tpc

#endif // TPC_IMPORT_ONNX_IMPORT_H
