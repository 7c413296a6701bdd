//===- Products.h - matrix products by cuBLASLt ---------------------------===//
//
// cuBLASLt's matrices are column by column. What is [rows, columns] here is [columns, rows] there,
// so that a product's sides are exchanged:
//
//   out[m, n] = x[m, k] w[k, n]     is     out'[n, m] = w'[n, k] x'[k, m]
//
// with A = w', B = x', and D = out', of which nothing is transposed. A right side that lies as [n,
// k] is A' and is. The bias is one of A's rows, as cuBLASLt's epilogue wants it. This is said here,
// and nowhere else.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_PRODUCTS_H
#define TPC_RT_CUDA_LIBRARY_PRODUCTS_H

#include "cuda/library/Block.h"
#include "cuda/library/CublasLt.h"
#include "tpc/runtime.h"
#include <compare>
#include <map>
#include <memory>
#include <vector>

namespace tpc::rt::cuda {

/// out[b, m, n] = x[b, m, k] w[b, k, n] + bias[n] + residual[b, m, n], none of it empty but perhaps
/// k. Sums are f32, all elements of one type: f32, f16 or bf16. `out` may be the residual.
struct ProductCall {
  int64_t m, k, n;
  const void *x, *w;
  void *out;
  bool transposed = false; ///< w is [n, k]
  const void *bias = nullptr, *residual = nullptr;
  int64_t batch = 1, xStride = 0, wStride = 0; ///< in elements
  int32_t dtype = TPC_F32;
  bool isExact = false; ///< never in TF32
};

/// In the context that is current.
class Products {
public:
  Products(const Driver &driver, const blas::Library &library, Address workspace,
           int64_t workspaceBytes, Stream stream);
  Products(const Products &) = delete;
  Products &operator=(const Products &) = delete;
  ~Products();

  void compute(const ProductCall &call);
  /// Another number when memory that calls have used has gone.
  uint64_t memoryMoves() const { return moves; }
  /// From now on, whether products of f32 are computed in TF32.
  void useTf32(bool use) { tf32 = use; }

private:
  /// What the choice of an algorithm depends on. Alignments in bytes: frames are aligned to 64, and
  /// what lies in them is not.
  struct Shape {
    int64_t m, k, n, batch, xStride, wStride;
    int32_t dtype;
    bool tf32, transposed, residual;
    uint32_t alignW, alignX, alignC, alignD, alignBias; // 0: there is no bias
    auto operator<=>(const Shape &) const = default;
  };
  struct Plan;

  /// `bias`: one of this alignment, or null.
  Plan &planOf(const Shape &shape, const void *bias);
  /// False: the library does not compute that.
  bool run(const ProductCall &call);
  /// out[b, m, n] = bias[n] + residual[b, m, n]
  void addBias(const ProductCall &call);
  /// A column of ones, of at least so many.
  const void *onesOf(int64_t rows, int32_t dtype);

  const Driver &driver;
  const blas::Library &library;
  blas::Handle handle = nullptr;
  Address workspace;
  int64_t workspaceBytes;
  Stream stream;
  bool tf32 = false;
  std::map<Shape, std::unique_ptr<Plan>> plans;
  struct Ones {
    std::unique_ptr<Block> block;
    int64_t count = 0;
  };
  std::map<int32_t, Ones> ones; // of each type
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_PRODUCTS_H
