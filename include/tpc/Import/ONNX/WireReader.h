//===- WireReader.h - ONNX files without their weights ----------*- C++ -*-===//
//
// Parses the protobuf wire format of an ONNX file, skips the weights and records their byte ranges.
// Memory usage is therefore independent of the size of the weights, and files larger than
// protobuf's limit of 2 GiB can be read. The result is a small, valid ModelProto in which each
// tensor refers to its byte range.
//
// Files are untrusted: lengths are checked against the file size; nesting depth, number of messages
// and size of the resulting ModelProto are bounded.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_IMPORT_ONNX_WIREREADER_H
#define TPC_IMPORT_ONNX_WIREREADER_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <cstdint>
#include <string>
#include <vector>

namespace mlir::tpc::frontend {

/// Byte range of the model file with the little-endian elements of a tensor.
struct ByteRange {
  /// The field of TensorProto: raw_data, float_data, double_data.
  enum Field { Raw = 9, Float = 4, Double = 10 } field;
  uint64_t offset, size;
};

struct StrippedModel {
  std::string message; // serialized ModelProto without weights
  std::vector<ByteRange> ranges;
};

/// Key of the `external_data` entry of a tensor in the stripped model. The value is the decimal
/// index of its byte range.
inline constexpr llvm::StringLiteral kRangeKey = "\x01tpc.range";

/// Key of a node's metadata with the torch modules that contain it, outermost first, which
/// torch.onnx.export(dynamo=True) writes:
/// `['', 'model.layers.0', 'model.layers.0.mlp', 'linear_4']`.
inline constexpr llvm::StringLiteral kScopesKey = "pkg.torch.onnx.name_scopes";

/// Reads the file. Drops fields that the importer ignores: documentation, other metadata,
/// value_info, training information.
llvm::Expected<StrippedModel> readStrippedModel(llvm::StringRef path);

} // namespace mlir::tpc::frontend

#endif
