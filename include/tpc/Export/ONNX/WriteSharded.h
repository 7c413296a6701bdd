//===- WriteSharded.h - Export of shardings to ONNX files -------*- C++ -*-===//
//
// Copies an ONNX file and adds a device configuration (IR version 11): the devices of each shard of
// weights, inputs and values, and the pipeline stage of each node. All other bytes are unchanged,
// including weights in the file. External data files are referenced, not copied.
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

/// Sharding of a tensor: for each dimension its factors, major to minor, with their number of
/// shards.
struct OnnxSharding {
  struct Factor {
    std::string size; // a number, or a symbol
    int64_t shards = 1;
    /// Returns the index of the shard that a rank has.
    std::function<int64_t(int64_t rank)> shardOf;
  };
  std::vector<std::vector<Factor>> dims;
};

struct OnnxDevices {
  std::string name; // of the configuration
  int64_t ranks = 1;
  int64_t stages = 1;
  std::function<int64_t(int64_t rank)> stageOf;
  /// Initializers, inputs and values, by name.
  std::map<std::string, OnnxSharding> tensors;
  /// Nodes with a known stage, by name. Any other node is in the first stage that uses its results.
  std::map<std::string, int64_t> nodes;
};

/// Writes the file `input` with `devices` to `os`. Existing device configurations are replaced.
/// Errors: external data, and `outputPath` in another folder than `input`.
llvm::Error writeShardedOnnx(llvm::StringRef input, llvm::StringRef outputPath,
                             const OnnxDevices &devices, llvm::raw_ostream &os);

} // namespace tpc

#endif // TPC_EXPORT_ONNX_WRITESHARDED_H
