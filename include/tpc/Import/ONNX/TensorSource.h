//===- TensorSource.h - Tensors of an ONNX file ----------------*- C++ -*-===//
//
// A tensor of the file (an initializer, or the value of a Constant node) as a
// reference: type, shape, and where its elements lie. Elements are read on
// demand, and only those of small tensors.
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
  /// The file as tpc.weight names it: relative to the model's folder, or absolute. Empty: the
  /// elements are in `memory`.
  std::string file;
  std::string path; // the same, to be opened
  uint64_t offset = 0;
  bool fileExists = true;
  /// Dense, row-major, little-endian.
  std::string memory;

  int64_t elements() const { return type.getNumElements(); }
};

/// The element type for a TensorProto.DataType; null if tpc has none.
Type getElementType(MLIRContext *context, int32_t dataType);
/// TensorProto's name of a data type, for messages.
std::string getDataTypeName(int64_t dataType);

/// A matrix of one-byte elements that are `value` where first <= column - row <= last, and zero
/// elsewhere; with one of the bounds, it is a triangle.
struct Band {
  std::optional<int64_t> first, last;
  uint8_t value;
};

/// Reads TensorProto messages of one model.
class TensorReader {
public:
  /// `path` is the model's file, `weights` where its external data is, if not beside it.
  TensorReader(MLIRContext *context, llvm::StringRef path, std::vector<ByteRange> ranges,
               llvm::StringRef weights);

  /// Has a tensor been read whose data is in another file?
  bool hasExternalData() const { return !location.empty(); }

  /// Checks type, shape, and that as many bytes are there as the shape says.
  llvm::Expected<TensorSource> read(const ::onnx::TensorProto &proto);

  /// The elements as an attribute. The caller has checked that they are few.
  llvm::Expected<DenseElementsAttr> load(const TensorSource &source);

  /// What a table of bytes is, if it is a triangle or a band: the masks that exporters store, of
  /// attention that is causal or local. Reads tables of up to 64 MiB, once.
  std::optional<Band> findBand(const TensorSource &source);
  /// Whether it is a table [.., 1, columns] of floats, a row for each head, that is a ramp.
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
  std::string location; ///< of the external data that was read last
};

/// Finds the data file `location` of the model `modelPath`. `file` becomes its name relative to
/// the model's folder, or its absolute path if it lies elsewhere; `path` what to open; `exists`
/// is false where nothing is found (then `path` is where it should be).
///
/// Locations are relative, without `..`. Symbolic links are followed if they stay in the folder
/// of the model, or, where the model lies in a Hugging Face cache
/// (`models--x--y/snapshots/<revision>/`), in the `blobs` of the same cache. A model that is
/// itself a symbolic link has its data beside the link or beside what it points to.
///
/// `weights`, if it is not empty, is what the user says: the data file itself, or a folder to find
/// it in, where it is below the model's own or by its name alone. Then it must be there.
llvm::Error resolveDataFile(llvm::StringRef modelPath, llvm::StringRef location, std::string &file,
                            std::string &path, bool &exists, llvm::StringRef weights = {});

} // namespace mlir::tpc::frontend

#endif
