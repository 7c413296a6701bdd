//===- WireReader.h - ONNX files without their weights ---------*- C++ -*-===//
//
// A first pass over the protobuf wire format. Weights make up nearly all of an ONNX file. This pass
// skips them and records their byte ranges, so that memory does not depend on their size, and files
// beyond protobuf's 2 GiB can be read. The result is a small, valid message in which each tensor
// names its range.
//
// Files are untrusted: lengths are checked against the size of the file; nesting, the number of
// messages and the size of the remaining message are bounded.
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

/// Bytes of the model file with a tensor's elements, little-endian.
struct ByteRange {
  /// The field of TensorProto: raw_data, float_data, double_data.
  enum Field { Raw = 9, Float = 4, Double = 10 } field;
  uint64_t offset, size;
};

struct StrippedModel {
  std::string message; // a ModelProto
  std::vector<ByteRange> ranges;
};

/// Key of the `external_data` entry with which a tensor of the stripped model names its range. The
/// value is the index in decimal.
inline constexpr llvm::StringLiteral kRangeKey = "\x01tpc.range";

/// Reads the file. Drops fields that the importer ignores: documentation, metadata, value_info,
/// training information.
llvm::Expected<StrippedModel> readStrippedModel(llvm::StringRef path);

} // namespace mlir::tpc::frontend

#endif
