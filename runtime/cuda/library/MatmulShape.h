//===- MatmulShape.h - GEMM properties that select an algorithm -----------===//

#ifndef TPC_RT_CUDA_LIBRARY_MATMULSHAPE_H
#define TPC_RT_CUDA_LIBRARY_MATMULSHAPE_H

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace tpc::rt::cuda {

/// Tuning key of a MatmulCall (Matmuls.h). Alignments are in bytes: frames are aligned to 256
/// bytes, tensors within them are not.
struct MatmulShape {
  int64_t m = 0, k = 0, n = 0, batch = 1, xStride = 0, wStride = 0;
  int64_t wRow = 0, outRow = 0; ///< elements between rows; 0: rows are adjacent
  int32_t dtype = 0, outDtype = 0;
  bool tf32 = false, transposed = false, residual = false;
  uint32_t alignW = 0, alignX = 0, alignC = 0, alignD = 0, alignBias = 0; // 0: there is no bias
  /// Bias alignment of the original GEMM, if this GEMM replaces one whose bias has no epilogue. So
  /// each tuning key has its own result, independent of a rank's other pending tunings.
  uint32_t alignSeparateBias = 0;
  auto operator<=>(const MatmulShape &) const = default;

  /// Spells a whole GEMM as "f32 1 8 768 2304 …", or "f16>f32 …" if the two types differ. parse()
  /// is the inverse.
  std::string text() const;
  static std::optional<MatmulShape> parse(const std::string &text);
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_MATMULSHAPE_H
