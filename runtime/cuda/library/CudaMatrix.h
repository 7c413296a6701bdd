//===- CudaMatrix.h - Right-hand side of GEMMs in GPU memory --------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H
#define TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H

#include "core/DType.h"
#include "core/Device.h"
#include "cuda/library/Block.h"
#include <functional>
#include <numeric>

namespace tpc::rt::cuda {

/// A right-hand side: [k, n] as in weight files, or a dense [n, k] that another object owns.
/// Several [k, n] may be columns of one matrix, so that one GEMM multiplies by all of them.
class CudaMatrix : public Matrix {
public:
  CudaMatrix(int64_t k, int64_t n, int32_t dtype, Address rows, bool transposed,
             std::shared_ptr<Block> block)
      : Matrix(k, n, dtype), rows(rows), transposed(transposed), rowStride(transposed ? k : n),
        block(std::move(block)) {}
  /// Columns [column, column + n) of `whole`.
  CudaMatrix(std::shared_ptr<const CudaMatrix> whole, int64_t column, int64_t n)
      : Matrix(whole->k, n, whole->dtype),
        rows(whole->rows + static_cast<Address>(column * sizeOf(whole->dtype))), transposed(false),
        rowStride(whole->n), column(column), whole(std::move(whole)) {}

  const Address rows;
  const bool transposed;
  const int64_t rowStride; ///< elements between rows
  const int64_t column = 0;
  const std::shared_ptr<const CudaMatrix> whole; ///< null: not columns of a matrix

private:
  std::shared_ptr<Block> block; // null: another object owns it
};

/// Makes matrices of these widths that are columns of one matrix at address `rows`. Calls `add` for
/// each, and for the whole. `block`: the memory, or null if another object owns it.
inline std::vector<std::shared_ptr<Matrix>>
makeColumns(Address rows, int64_t k, std::span<const int64_t> widths, int32_t dtype,
            std::shared_ptr<Block> block,
            const std::function<void(const std::shared_ptr<CudaMatrix> &)> &add) {
  int64_t n = std::accumulate(widths.begin(), widths.end(), int64_t(0)), column = 0;
  auto whole = std::make_shared<CudaMatrix>(k, n, dtype, rows, false, std::move(block));
  add(whole);
  if (widths.size() == 1)
    return {whole};
  std::vector<std::shared_ptr<Matrix>> made;
  for (int64_t width : widths) {
    auto matrix = std::make_shared<CudaMatrix>(whole, column, width);
    add(matrix);
    made.push_back(std::move(matrix));
    column += width;
  }
  return made;
}

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H
