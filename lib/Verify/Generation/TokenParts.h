//===- TokenParts.h - Slices of tensors by token ----------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_TOKENPARTS_H
#define TPC_LIB_VERIFY_GENERATION_TOKENPARTS_H

#include "../Interpret/Tensor.h"

#include <optional>

namespace mlir::tpc::generation {

/// Returns a slice of `count` elements of a dimension, beginning at `from`. Without a dimension,
/// returns the tensor.
inline interpret::Tensor<uint64_t> take(const interpret::Tensor<uint64_t> &whole,
                                        std::optional<unsigned> dim, int64_t from, int64_t count) {
  if (!dim)
    return whole;
  interpret::Shape shape = whole.shape;
  shape[*dim] = count;
  interpret::Tensor<uint64_t> part(shape);
  size_t next = 0;
  interpret::forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    interpret::Shape at(index);
    at[*dim] += from;
    part.data[next++] = whole.data[interpret::linearize(at, whole.shape)];
  });
  return part;
}

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_TOKENPARTS_H
