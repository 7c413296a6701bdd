//===- TensorSource.h - Tensors of an ONNX file ----------------*- C++ -*-===//
//
// References to tensors of an ONNX file (an initializer, or the value of a Constant node): type,
// shape, and location of the elements. Elements are read on demand, and only those of small
// tensors.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_IMPORT_ONNX_TENSORSOURCE_H
#define TPC_IMPORT_ONNX_TENSORSOURCE_H

#include "tpc/Import/ONNX/WireReader.h"
#include "tpc/Support/Ramp.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"

namespace onnx {
class TensorProto;
}

namespace mlir::tpc::frontend {

struct TensorSource {
  std::string name;
  RankedTensorType type;
  uint64_t bytes = 0; // of all elements; fits in 63 bits
  /// The file name in tpc.weight: relative to the model's folder, or absolute. Empty: the elements
  /// are in `memory`.
  std::string file;
  std::string path; // the same file as a path to open
  uint64_t offset = 0;
  bool fileExists = true;
  /// Dense, row-major, little-endian.
  std::string memory;

  int64_t elements() const { return type.getNumElements(); }
};

/// Returns the element type for a TensorProto.DataType; null if tpc does not support it.
Type getElementType(MLIRContext *context, int32_t dataType);
/// Returns TensorProto's name of a data type, for messages.
std::string getDataTypeName(int64_t dataType);

/// A matrix of one-byte elements that are `value` where first <= column - row <= last, and zero
/// elsewhere. With only one of the bounds, it is a triangle.
struct Band {
  std::optional<int64_t> first, last;
  uint8_t value;
};

/// Reads TensorProto messages of one model.
class TensorReader {
public:
  /// `path` is the model's file; `weights` overrides the location of its external data, if not
  /// empty.
  TensorReader(MLIRContext *context, llvm::StringRef path, std::vector<ByteRange> ranges,
               llvm::StringRef weights);

  /// Whether data was read from an external file.
  bool hasExternalData() const { return !location.empty(); }

  /// Checks the type, the shape, and that the number of bytes matches the shape.
  llvm::Expected<TensorSource> read(const ::onnx::TensorProto &proto);

  /// Loads the elements as an attribute. The caller has checked that the tensor is small.
  llvm::Expected<DenseElementsAttr> load(const TensorSource &source);

  /// Recognizes a table of bytes that is a triangle or a band: stored masks of causal or local
  /// attention. Reads tables of up to 64 MiB, once.
  std::optional<Band> findBand(const TensorSource &source);
  /// Recognizes a table [.., 1, columns] of floats, with one row for each head, that is a ramp.
  std::optional<::tpc::Ramp> findRamp(const TensorSource &source);

private:
  llvm::Expected<std::string> readBytes(const TensorSource &source);
  llvm::Error readExternal(const ::onnx::TensorProto &proto, TensorSource &source);
  llvm::Error readRange(const ::onnx::TensorProto &proto, llvm::StringRef index,
                        TensorSource &source);
  llvm::Error readFields(const ::onnx::TensorProto &proto, TensorSource &source);

  MLIRContext *context;
  std::string path, fileName, weights;
  std::vector<ByteRange> ranges;
  std::string location; ///< location of the external data that was read last
};

/// Finds the data file `location` of the model `modelPath`. Sets `file` to its name relative to the
/// model's folder, or to its absolute path if it is elsewhere; `path` to the path to open; and
/// `exists` to false if the file is missing (then `path` is its expected path).
///
/// Locations are relative, without `..`. Symbolic links are followed if they stay in the folder of
/// the model or, for a model in a Hugging Face cache (`models--x--y/snapshots/<revision>/`), in the
/// `blobs` of the same cache. The data of a model that is itself a symbolic link is next to the
/// link or next to its target.
///
/// A non-empty `weights` is the user's override: the data file itself, or a folder that contains it
/// at the same relative path or directly. Then the file must exist.
llvm::Error resolveDataFile(llvm::StringRef modelPath, llvm::StringRef location, std::string &file,
                            std::string &path, bool &exists, llvm::StringRef weights = {});

} // namespace mlir::tpc::frontend

#endif
