//===- ProductShape.h - what the choice of an algorithm depends on --------===//

#ifndef TPC_RT_CUDA_LIBRARY_PRODUCTSHAPE_H
#define TPC_RT_CUDA_LIBRARY_PRODUCTSHAPE_H

#include <compare>
#include <cstdint>
#include <optional>
#include <string>

namespace tpc::rt::cuda {

/// Of a ProductCall (Products.h). Alignments in bytes: frames are aligned to 256, and what lies in
/// them is not.
struct ProductShape {
  int64_t m = 0, k = 0, n = 0, batch = 1, xStride = 0, wStride = 0;
  int32_t dtype = 0, outDtype = 0;
  bool tf32 = false, transposed = false, residual = false;
  uint32_t alignW = 0, alignX = 0, alignC = 0, alignD = 0, alignBias = 0; // 0: there is no bias
  /// The bias of the product that this is a part of, where that has no epilogue for it: so each
  /// question has an answer of its own, whatever other pendingTunings a rank has.
  uint32_t alignBiasApart = 0;
  auto operator<=>(const ProductShape &) const = default;

  /// Of a whole product: "f32 1 8 768 2304 …", "f16>f32 …" where two types differ, what parse()
  /// reads.
  std::string text() const;
  static std::optional<ProductShape> parse(const std::string &text);
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_PRODUCTSHAPE_H
