//===- ManifestJson.h - JSON of types, sizes and names ----------*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_MANIFESTJSON_H
#define TPC_LIB_CONVERSION_MANIFESTJSON_H

#include "Manifest.h"

namespace mlir::tpc {

/// Returns "f32", "bf16", "i64", "u8", "bool", … for the element type of `tensor`.
std::string getDtypeName(Type tensor);

/// Returns `name` as valid UTF-8, which JSON requires. Names in ONNX files may contain arbitrary
/// bytes.
std::string toUtf8(StringRef name);

llvm::json::Array getAxisNames(ArrayRef<StringAttr> axes);

/// Parameters and weight files of the program, in the order of its entry table.
struct ManifestParameters {
  llvm::json::Array parameters, files;

  static FailureOr<ManifestParameters> make(ModuleOp module, const WeightTable &weights,
                                            const ProgramFacts &facts, bool digestWeights);
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_MANIFESTJSON_H
