//===- TensorSource.h - References to tensors of an ONNX file ---*- C++ -*-===//
//
// Type, shape and location of the elements of a tensor in an ONNX file (an initializer, or the
// value of a Constant node). Elements are read on demand, and only for small tensors.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_IMPORT_ONNX_TENSORSOURCE_H
#define TPC_IMPORT_ONNX_TENSORSOURCE_H

#include "tpc/Import/ONNX/WireReader.h"
#include "tpc/Support/Ramp.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "llvm/ADT/DenseMap.h"

namespace onnx {
class TensorProto;
}

namespace mlir::tpc::frontend {

struct TensorSource {
  std::string name;
  RankedTensorType type;
  /// Type in the file of a tensor of a checkpoint, if it differs from `type`: the floating-point
  /// type may differ, there may be other dimensions of size 1, and with `isTransposed` the last two
  /// dimensions are swapped. Otherwise null.
  RankedTensorType storedType;
  bool isTransposed = false;
  /// Bits of an element if several elements share a byte; `type` is then the type of the bytes.
  /// Otherwise 0.
  int64_t packedBits = 0;
  /// Shape of packed elements whose rows do not end at a byte; `type` is then one row of bytes.
  std::optional<llvm::SmallVector<int64_t>> unalignedShape;
  uint64_t bytes = 0; // size of all elements in the file, less than 2^63
  /// Name of the file for tpc.weight: relative to the model's folder, or absolute. Empty if the
  /// elements are in `memory`.
  std::string file;
  std::string path; // path by which the file is opened
  uint64_t offset = 0;
  bool fileExists = true;
  /// Elements: dense, row-major, little-endian.
  std::string memory;

  int64_t elements() const { return type.getNumElements(); }
  RankedTensorType getStoredType() const { return storedType ? storedType : type; }
};

/// Returns the element type for a TensorProto.DataType; null if tpc does not support it.
Type getElementType(MLIRContext *context, int32_t dataType);
/// Returns the name of a TensorProto.DataType, for error messages.
std::string getDataTypeName(int64_t dataType);

/// A matrix of one-byte elements: `value` if first <= column - row <= last, else zero. A missing
/// bound is infinite.
struct Band {
  std::optional<int64_t> first, last;
  uint8_t value;
};

/// Reads TensorProto messages of one model.
class TensorReader {
public:
  /// `path`: the model's file. `weights`: location of external data, see OnnxImportOptions.
  TensorReader(MLIRContext *context, llvm::StringRef path, std::vector<ByteRange> ranges,
               llvm::StringRef weights);

  /// From now on, `read` returns `source` for `proto`.
  void replace(const ::onnx::TensorProto &proto, TensorSource source) {
    replacements[&proto] = std::move(source);
  }

  /// Whether data was read from an external file.
  bool hasExternalData() const { return !location.empty(); }

  /// Parses a tensor. Checks its type, its shape, and that the number of bytes matches the shape.
  llvm::Expected<TensorSource> read(const ::onnx::TensorProto &proto);

  /// Loads the elements as an attribute. The caller must check that the tensor is small.
  llvm::Expected<DenseElementsAttr> load(const TensorSource &source);
  /// Reads one floating-point number of a tensor that is in a file, by its index in the file.
  llvm::Expected<double> readNumber(const TensorSource &source, int64_t index);

  /// Recognizes a band matrix of one-byte elements: a stored mask of causal or local attention.
  /// Reads tensors of up to 64 MiB.
  std::optional<Band> findBand(const TensorSource &source);
  /// Recognizes a ramp (Ramp.h) in a tensor [.., 1, columns] of floats with one row for each head.
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
  llvm::DenseMap<const ::onnx::TensorProto *, TensorSource> replacements;
  std::string location; ///< location of the external data that was read last
};

/// Finds the external data file `location` of the model `modelPath`. Sets `file` to its path
/// relative to the model's folder, or to its absolute path if it is not in this folder; `path` to
/// the path by which it is opened; and `exists` to false if the file is missing (`path` is then its
/// expected path).
///
/// Locations are relative, without `..`. Symbolic links are followed if they stay in the folder of
/// the model or, for a model in a Hugging Face cache (`models--x--y/snapshots/<revision>/`), in the
/// `blobs` of the same cache. The data of a model that is itself a symbolic link is next to the
/// link or next to its target.
///
/// A non-empty `weights` (from the user) is the data file, or a folder that contains it at
/// `location` or under the file name of `location`. Then the file must exist.
llvm::Error resolveDataFile(llvm::StringRef modelPath, llvm::StringRef location, std::string &file,
                            std::string &path, bool &exists, llvm::StringRef weights = {});

/// Sets `file` to the path of an existing file `relative` below `folder`, both given by the user.
/// Symbolic links are followed as by `resolveDataFile`.
llvm::Error resolveInFolder(llvm::StringRef folder, llvm::StringRef relative, std::string &file);

} // namespace mlir::tpc::frontend

#endif
