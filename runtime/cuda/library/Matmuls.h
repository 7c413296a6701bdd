//===- Matmuls.h - GEMMs by cuBLASLt and GEMV kernels ---------------------===//
//
// cuBLASLt's matrices are column-major. A [rows, columns] matrix here is [columns, rows] there, so
// the operands of a GEMM are exchanged:
//   out[m, n] = x[m, k] w[k, n]     is     out'[n, m] = w'[n, k] x'[k, m]
// with A = w', B = x', and D = out', none of them transposed. A right-hand side stored as [n, k] is
// A' and is transposed. The bias is added to each column of D, as cuBLASLt's epilogue does. This
// mapping is defined here only.
//
// A GEMM is computed by an algorithm of cuBLASLt or by a GEMV kernel (GemvKernels.h): by the
// fastest measured method (measure, applyTuning), or else by the first recommendation that the
// library accepts. Each result is shared between ranks, so that all compute the same bits
// (Device::applyTuning).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_MATMULS_H
#define TPC_RT_CUDA_LIBRARY_MATMULS_H

#include "cuda/library/Block.h"
#include "cuda/library/CublasLt.h"
#include "cuda/library/GemvKernels.h"
#include "cuda/library/MatmulShape.h"
#include "tpc/runtime.h"
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <vector>

namespace tpc::rt::cuda {

/// out[b, m, n] = x[b, m, k] w[b, k, n] + bias[n] + residual[b, m, n]. No dimension is 0, except
/// possibly k. Sums are f32. x and w have the same type: f32, f16 or bf16. bias, residual and out
/// have that type or f32. `out` may alias the residual.
struct MatmulCall {
  int64_t m, k, n;
  const void *x, *w;
  void *out;
  bool transposed = false; ///< w is [n, k]
  const void *bias = nullptr, *residual = nullptr;
  int64_t batch = 1, xStride = 0, wStride = 0; ///< number of matrices, and elements between them
  /// Elements between rows of w, and of out and the residual; 0: they are adjacent. Only for a
  /// batch of 1 and a w that is not transposed.
  int64_t wRow = 0, outRow = 0;
  int32_t dtype = TPC_F32, outDtype = TPC_F32;
  bool isExact = false;               ///< disables TF32
  bool isWeight = false;              ///< no kernel of a step writes w
  const void *separateBias = nullptr; ///< bias that an earlier call added to the residual
};

/// A norm before and an activation after a GEMM, as defined by tpc_fused_products. `x` and `out`
/// replace those of the GEMM.
struct MatmulFusion {
  const void *x, *scale = nullptr, *shift = nullptr;
  void *out;
  int64_t outRow; ///< elements between rows of out
  int32_t norm = TPC_NORM_NONE, activation = TPC_EPILOGUE_NONE;
  bool gated = false;
  float epsilon = 0;
  int32_t xDtype, scaleDtype;
};

/// An implementation of a GEMM.
struct MatmulMethod {
  bool isGemv = false;         ///< a GEMV kernel of tpc
  blas::Algorithm algorithm{}; ///< cuBLASLt's algorithm, if not a GEMV kernel
};

/// GEMMs in the current context.
class Matmuls {
public:
  /// Maximum number of cached plans. Steps of growing sizes add new shapes all the time.
  static constexpr size_t maxPlans = 1024;

  Matmuls(const Driver &driver, const blas::Library &library, GemvKernels &gemv, Address workspace,
          int64_t workspaceBytes, Stream stream);
  Matmuls(const Matmuls &) = delete;
  Matmuls &operator=(const Matmuls &) = delete;
  ~Matmuls();

  void compute(const MatmulCall &call);
  /// Computes the GEMM with a norm and an activation if a GEMV kernel computes it, else returns
  /// false.
  bool compute(const MatmulCall &call, const MatmulFusion &fusion);
  /// A number that changes when memory that calls have used is freed.
  uint64_t memoryVersion() const { return moves; }
  /// Enables or disables TF32 for f32 GEMMs of later calls.
  void useTf32(bool use) { tf32 = use; }

  /// Returns the shapes that have plans.
  std::vector<MatmulShape> shapes() const;
  /// Returns the bytes needed to measure a GEMM. They include a right-hand side only if none is
  /// `reusable`.
  static int64_t bytesToMeasure(const MatmulShape &shape, bool reusable);
  /// Returns the fastest method, measured in `memory`. `reusable`: right-hand sides to read in
  /// turn, as successive layers do, so that none is cached. Returns nullopt if there is at most one
  /// method.
  std::optional<MatmulMethod> measure(const MatmulShape &shape, Address memory,
                                      std::span<const Address> reusable);
  /// Uses this method from now on. Returns false if the library rejects the algorithm, or if no
  /// GEMV kernel computes the shape.
  bool applyTuning(const MatmulShape &shape, const MatmulMethod &method);

private:
  struct Plan;

  MatmulShape shapeOf(const MatmulCall &call) const;
  Plan &planOf(const MatmulShape &shape);
  /// Returns the GEMM that needs an algorithm: `shape` itself or, if its bias has no epilogue, the
  /// GEMM that is added to the bias (compute).
  MatmulShape computed(const MatmulShape &shape);
  std::unique_ptr<Plan> makePlan(const MatmulShape &shape);
  blas::Status run(Plan &plan, const MatmulCall &call, const blas::Algorithm &algorithm);
  /// Returns the time of the fastest of several runs, in milliseconds; nullopt if a run is not
  /// supported. `compute` enqueues a run.
  template <class Compute>
  std::optional<float> time(MatmulCall &call, std::span<const Address> reusable, Compute compute);
  /// Throws an error that names the GEMM if it failed.
  void checkComputed(blas::Status status, const MatmulCall &call) const;
  /// Returns false if the library does not support the GEMM.
  bool run(const MatmulCall &call);
  /// out[b, m, n] = bias[n] + residual[b, m, n]
  void addBias(const MatmulCall &call);
  /// Returns a column of at least `rows` ones.
  const void *onesOf(int64_t rows, int32_t dtype);

  const Driver &driver;
  const blas::Library &library;
  GemvKernels &gemv;
  blas::Handle handle = nullptr;
  Address workspace;
  int64_t workspaceBytes;
  Stream stream;
  bool tf32 = false;
  std::list<std::unique_ptr<Plan>> plans; // most recently used first
  std::map<MatmulShape, std::list<std::unique_ptr<Plan>>::iterator> planAt;
  std::map<MatmulShape, blas::Algorithm> tuned;
  std::set<MatmulShape> tunedToGemv; // computed by GEMV kernels, as measured
  struct Ones {
    std::unique_ptr<Block> block;
    int64_t count = 0;
  };
  std::map<int32_t, Ones> ones; // by type
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_MATMULS_H
