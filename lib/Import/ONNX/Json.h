//===- Json.h - JSON of untrusted files -------------------------*- C++ -*-===//
//
// Parses headers and indices of weight files. Rejects repeated keys, and limits nesting and the
// number of values.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_IMPORT_ONNX_JSON_H
#define TPC_LIB_IMPORT_ONNX_JSON_H

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"

#include <optional>
#include <string>
#include <vector>

namespace mlir::tpc::frontend {

struct Json {
  enum Kind { Null, Boolean, Number, String, Array, Object } kind = Null;
  /// Content of a string; otherwise the text of a number or boolean.
  std::string text;
  std::vector<Json> items;        ///< elements of an array, or values of an object
  std::vector<std::string> names; ///< of an object's values, in the order of the file

  const Json *find(llvm::StringRef name) const;
  /// Returns an integer from 0 to 2^63 - 1.
  std::optional<int64_t> asSize() const;
};

/// Parses one JSON value with nlohmann::json. Syntax errors begin with the byte: "byte 17: …".
llvm::Expected<Json> parseJson(llvm::StringRef text);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_JSON_H
