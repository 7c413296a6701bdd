//===- PackedMatrix.h - Quantization of one matrix --------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_PACKEDMATRIX_H
#define TPC_LIB_TRANSFORMS_MODEL_PACKEDMATRIX_H

#include "tpc/Transforms/Model/QuantizeWeights.h"

#include "llvm/Support/Error.h"
#include "llvm/Support/MemoryBuffer.h"

namespace mlir::tpc {

/// A matrix [rows, columns] in a weight file.
class FileMatrix {
public:
  /// Maps the file. `view` has two dimensions, of a weight of `type` at `offset` of the file.
  static llvm::Expected<FileMatrix> open(StringRef path, uint64_t offset, RankedTensorType type,
                                         ViewAttr view);

  int64_t getRows() const { return rows.size(); }
  int64_t getColumns() const { return columns.size(); }
  /// Reads columns [column, column + count): `to` is [count, rows].
  void read(int64_t column, int64_t count, float *to) const;

private:
  template <typename Load> void read(int64_t column, int64_t count, float *to, Load load) const;

  std::unique_ptr<llvm::MemoryBuffer> file;
  Type element;
  /// Numbers of elements between the begin of the weight and an element of row 0 or column 0.
  std::vector<int64_t> rows, columns;
};

/// Signed numbers of a matrix and their scales, column by column.
struct PackedMatrix {
  std::vector<char> numbers; ///< [columns, rows * bits / 8]; the first number in the lowest bits
  std::vector<char> scales;  ///< [columns, blocks]
  double error = 0;          ///< see QuantizationReport
};

/// Quantizes blocks of columns symmetrically: the number with the largest magnitude of a block
/// becomes -2^(bits - 1). `scale` is the type of the scales. Returns an error if a number is not
/// finite.
llvm::Expected<PackedMatrix> quantize(const FileMatrix &matrix, int64_t bits, int64_t block,
                                      Type scale);

/// Rounds columns to E4M3, each with a scale of f32: the number with the largest magnitude becomes
/// 448 or -448. Returns an error if a number is not finite.
llvm::Expected<PackedMatrix> quantizeToFloat8(const FileMatrix &matrix);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_PACKEDMATRIX_H
