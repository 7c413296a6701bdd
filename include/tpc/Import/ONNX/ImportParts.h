//===- ImportParts.h - Import of models in several files --------*- C++ -*-===//

#ifndef TPC_IMPORT_ONNX_IMPORTPARTS_H
#define TPC_IMPORT_ONNX_IMPORTPARTS_H

#include "tpc/Import/ONNX/Import.h"

#include <optional>
#include <vector>

namespace tpc {

/// Other files of a model, whose programs become part of the model's.
struct OnnxParts {
  /// Encoders in order. Each returns inputs of the next one; the last returns inputs of the model:
  /// `encoder_hidden_states`, or keys and values of cross-attention. With `embedding`: one encoder
  /// of images.
  std::vector<std::string> encoders = {};
  /// Embedding whose output is the model's input `inputs_embeds`. Empty: none.
  std::string embedding = {};
  /// Token id in prompts that stands for a row of an image's features. Null: that of config.json.
  std::optional<int64_t> imageToken = std::nullopt;
};

/// Imports the model in the file `path` with its other files. On failure emits diagnostics and
/// returns null.
mlir::OwningOpRef<mlir::ModuleOp> importOnnxParts(llvm::StringRef path, mlir::MLIRContext *context,
                                                  const OnnxImportOptions &options,
                                                  const OnnxParts &parts);

} // namespace tpc

#endif // TPC_IMPORT_ONNX_IMPORTPARTS_H
