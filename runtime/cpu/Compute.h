//===- Compute.h - packed matrices of a rank ------------------------------===//

#ifndef TPC_RT_CPU_COMPUTE_H
#define TPC_RT_CPU_COMPUTE_H

#include "core/Context.h"
#include <cstdint>
#include <memory>

namespace tpc::rt {

/// The right side of a product, f32[k, n], in the layout of the machine's kernels. Rows are handed
/// over in pieces, so that a dense copy of the whole matrix never exists.
class PackedMatrix {
public:
  /// Throws std::bad_alloc.
  PackedMatrix(int64_t k, int64_t n);

  /// The transpose of a dense [n, k] that outlives it. Nothing is copied; products pack panels as
  /// they go, which costs them little if they have more than a few rows.
  static std::shared_ptr<PackedMatrix> transposeOf(const float *rows, int64_t k, int64_t n);

  /// Copies rows [row0, row1), dense, from `rows`.
  void setRows(int64_t row0, int64_t row1, const float *rows);

  int64_t k() const { return numRows; }
  int64_t n() const { return numColumns; }
  const float *data() const { return panels.get(); }
  /// Null unless this is the transpose of something.
  const float *transposed() const { return dense; }

  /// Bytes that a packed matrix takes: those of the matrix, and of the padding.
  static int64_t bytesFor(int64_t k, int64_t n);

private:
  PackedMatrix() = default;
  struct Free {
    void operator()(float *p) const;
  };
  int64_t numRows = 0, numColumns = 0;
  const float *dense = nullptr;
  std::unique_ptr<float, Free> panels;
};

/// Makes `matrix` what tpc_matmul finds under the index of a parameter.
void setPackedParameter(tpc_context &ctx, int32_t index, std::shared_ptr<PackedMatrix> matrix);
/// Null if there is none.
std::shared_ptr<PackedMatrix> packedParameter(tpc_context &ctx, int32_t index);

} // namespace tpc::rt

#endif // TPC_RT_CPU_COMPUTE_H
