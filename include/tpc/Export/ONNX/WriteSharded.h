//===- WriteSharded.h - A file with its shardings added ---------*- C++ -*-===//
//
// Copies an ONNX file and adds a device configuration (IR version 11): which parts of weights,
// inputs and values are on which devices, and the pipeline stage of each node. Nothing else
// changes, byte for byte; weights are copied as they lie in the file, or stay in the files where
// they are.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_EXPORT_ONNX_WRITESHARDED_H
#define TPC_EXPORT_ONNX_WRITESHARDED_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/raw_ostream.h"

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tpc {

/// How a tensor is cut: factors of each dimension, major to minor, and for each into how many
/// parts.
struct OnnxSharding {
  struct Factor {
    std::string size; // a number, or a symbol
    int64_t shards = 1;
    /// Which part a rank has.
    std::function<int64_t(int64_t rank)> partOf;
  };
  std::vector<std::vector<Factor>> dims;
};

struct OnnxDevices {
  std::string name; // of the configuration
  int64_t ranks = 1;
  int64_t stages = 1;
  std::function<int64_t(int64_t rank)> stageOf;
  /// By name: initializers, inputs and values.
  std::map<std::string, OnnxSharding> tensors;
  /// By name: nodes whose stage is known. The others follow: a node is in the first stage that
  /// needs it.
  std::map<std::string, int64_t> nodes;
};

/// Writes the file `input` with `devices` to `os`; `outputPath` is where that goes (external data
/// is found relative to it). Configurations that the file has are replaced.
llvm::Error writeShardedOnnx(llvm::StringRef input, llvm::StringRef outputPath,
                             const OnnxDevices &devices, llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_EXPORT_ONNX_WRITESHARDED_H
