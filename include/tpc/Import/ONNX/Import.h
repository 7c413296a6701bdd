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

#include <map>
#include <string>

namespace tpc {

struct OnnxImportOptions {
  /// Whether missing data files are only a remark: the location of weights may be specified at
  /// launch, or weights may be generated.
  bool allowMissingData = true;
  /// Location of external data if it is not next to the model, a folder or a file; or a checkpoint
  /// of safetensors that replaces initializers (lib/Import/ONNX/MatchCheckpoint.h).
  std::string weights = {};
  /// File that names tensors of the checkpoint for initializers. Empty: none.
  std::string weightsMap = {};
  /// Values of integer or boolean inputs, which become constants.
  std::map<std::string, int64_t> inputs = {};
  /// Whether inputs that select a form of the model become constants, with the values that
  /// generation needs: logits of the last token only, and the branch with a cache.
  bool forGeneration = false;
};

/// Imports the model in the file `path`. On failure emits diagnostics and returns null. Loads the
/// dialects of the program.
mlir::OwningOpRef<mlir::ModuleOp> importOnnxModel(llvm::StringRef path, mlir::MLIRContext *context,
                                                  const OnnxImportOptions &options = {});

/// Registers `tpc-translate --import-onnx`, which prints the program with locations, so that
/// diagnostics of later passes name ONNX nodes.
void registerOnnxTranslation();

/// Prints docs/reference/onnx-operators.md: the operators that are imported, with their operator
/// sets and limits.
void printOnnxOps(llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_IMPORT_ONNX_IMPORT_H
