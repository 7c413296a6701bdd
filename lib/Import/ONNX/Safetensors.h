//===- Safetensors.h - Headers of safetensors files -------------*- C++ -*-===//
//
// A checkpoint of Hugging Face: names, types and locations of tensors in safetensors files. The
// bytes of tensors are not read. Files are untrusted.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_IMPORT_ONNX_SAFETENSORS_H
#define TPC_LIB_IMPORT_ONNX_SAFETENSORS_H

#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <map>
#include <string>

namespace mlir::tpc::frontend {

struct StoredTensor {
  std::string file;  ///< absolute path
  std::string dtype; ///< as in the file: "BF16"
  llvm::SmallVector<int64_t> shape;
  uint64_t offset = 0, bytes = 0; ///< in the file
};

/// Tensors by name, in the order of names.
using Checkpoint = std::map<std::string, StoredTensor>;

/// Adds the tensors of one file to `tensors`. Checks the header: its length, names, types, and that
/// byte ranges have the size of their tensors, do not overlap and are in the file.
llvm::Error readSafetensors(llvm::StringRef path, Checkpoint &tensors);

/// Returns the file that lists the tensors of a checkpoint: `weights` itself if it is a
/// `.safetensors` or `.safetensors.index.json` file; in a folder, `model.safetensors`, or the only
/// index, or the only `.safetensors` file. The root of a repository in a Hugging Face cache
/// (`models--x--y`) denotes the snapshot of its `main`. Returns an empty string if there is none.
llvm::Expected<std::string> findCheckpoint(llvm::StringRef weights);

/// Reads the checkpoint that `findCheckpoint` returned. Symbolic links are followed as for external
/// data, see `resolveDataFile`.
llvm::Expected<Checkpoint> readCheckpoint(llvm::StringRef path);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_SAFETENSORS_H
