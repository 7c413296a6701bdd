//===- CudaMatrix.h - right-hand side of GEMMs in GPU memory --------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H
#define TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H

#include "core/Device.h"
#include "cuda/library/Block.h"

namespace tpc::rt::cuda {

/// A right-hand side: [k, n] as in weight files, or a dense [n, k] that another object owns.
class CudaMatrix : public Matrix {
public:
  CudaMatrix(int64_t k, int64_t n, int32_t dtype, Address rows, bool transposed,
             std::shared_ptr<Block> block)
      : Matrix(k, n, dtype), rows(rows), transposed(transposed), block(std::move(block)) {}
  const Address rows;
  const bool transposed;

private:
  std::shared_ptr<Block> block; // null: another object owns it
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CUDAMATRIX_H
