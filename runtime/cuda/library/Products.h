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
// Which algorithm computes a product: the one that was measured to be the fastest (measure,
// applyTuning), or else the first that the library recommends and then takes. Ranks measure for
// each other, so that they compute the same bits (Device::answer).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_PRODUCTS_H
#define TPC_RT_CUDA_LIBRARY_PRODUCTS_H

#include "cuda/library/Block.h"
#include "cuda/library/CublasLt.h"
#include "cuda/library/ProductShape.h"
#include "tpc/runtime.h"
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

namespace tpc::rt::cuda {

/// out[b, m, n] = x[b, m, k] w[b, k, n] + bias[n] + residual[b, m, n], none of it empty but perhaps
/// k. Sums are f32. x and w are of one type, f32, f16 or bf16, and bias, residual and out as well,
/// that one or f32. `out` may be the residual.
struct ProductCall {
  int64_t m, k, n;
  const void *x, *w;
  void *out;
  bool transposed = false; ///< w is [n, k]
  const void *bias = nullptr, *residual = nullptr;
  int64_t batch = 1, xStride = 0, wStride = 0; ///< in elements
  int32_t dtype = TPC_F32, outDtype = TPC_F32;
  bool isExact = false;            ///< never in TF32
  const void *biasApart = nullptr; ///< what the residual has begun with
};

/// In the context that is current.
class Products {
public:
  /// Shapes whose plans are kept. Steps whose sizes grow have new ones all the time.
  static constexpr size_t mostPlans = 1024;

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

  /// Those of which there are plans.
  std::vector<ProductShape> shapes() const;
  /// Bytes that it takes to measure one: of its right side only if none can be `lent`.
  static int64_t bytesToMeasure(const ProductShape &shape, bool lent);
  /// The fastest algorithm, found in `memory`. `lent`: right sides to read by turns, as layers have
  /// them, so that none is found in a cache. Null: there is no choice.
  std::optional<blas::Algorithm> measure(const ProductShape &shape, Address memory,
                                         std::span<const Address> lent);
  /// From now on it is the one. False: the library does not take it.
  bool applyTuning(const ProductShape &shape, const blas::Algorithm &algorithm);

private:
  struct Plan;

  Plan &planOf(const ProductShape &shape);
  /// What of a product has an algorithm: itself or, where there is no epilogue for its bias, what
  /// is added to the bias (compute).
  ProductShape computed(const ProductShape &shape);
  std::unique_ptr<Plan> makePlan(const ProductShape &shape);
  blas::Status run(Plan &plan, const ProductCall &call, const blas::Algorithm &algorithm);
  /// Says of a product that was refused which it is.
  void checkComputed(blas::Status status, const ProductCall &call) const;
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
  std::list<std::unique_ptr<Plan>> plans; // the last one that was used is first
  std::map<ProductShape, std::list<std::unique_ptr<Plan>>::iterator> planAt;
  std::map<ProductShape, blas::Algorithm> adopted;
  struct Ones {
    std::unique_ptr<Block> block;
    int64_t count = 0;
  };
  std::map<int32_t, Ones> ones; // of each type
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_PRODUCTS_H
