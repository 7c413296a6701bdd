//===- Tensor.h - Values of the reference interpreter -----------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_TENSOR_H
#define TPC_LIB_VERIFY_INTERPRET_TENSOR_H

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/STLExtras.h"

#include <vector>

namespace mlir::tpc::interpret {

using Shape = SmallVector<int64_t, 4>;

inline int64_t countElements(ArrayRef<int64_t> shape) {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

/// A tensor in row-major order.
template <typename Element> struct Tensor {
  Shape shape;
  std::vector<Element> data;

  Tensor() = default;
  explicit Tensor(ArrayRef<int64_t> shape, Element value = Element())
      : shape(shape), data(countElements(shape), value) {}
};

/// Calls `f` for all indices of a shape, in row-major order.
template <typename Function> void forEachIndex(ArrayRef<int64_t> shape, Function f) {
  if (llvm::is_contained(shape, 0))
    return;
  Shape index(shape.size(), 0);
  while (true) {
    f(ArrayRef<int64_t>(index));
    int64_t d = int64_t(shape.size()) - 1;
    for (; d >= 0 && ++index[d] == shape[d]; --d)
      index[d] = 0;
    if (d < 0)
      return;
  }
}

inline int64_t linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t at = 0;
  for (size_t d = 0; d < index.size(); ++d)
    at = at * shape[d] + index[d];
  return at;
}

/// Linearizes an index into a tensor that is broadcast: dimensions of size 1 are ignored, and
/// leading dimensions may be missing.
inline int64_t linearizeBroadcast(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  index = index.take_back(shape.size());
  int64_t at = 0;
  for (size_t d = 0; d < shape.size(); ++d)
    at = at * shape[d] + (shape[d] == 1 ? 0 : index[d]);
  return at;
}

/// Returns whether a tensor of shape `operand` broadcasts to `shape`.
inline bool broadcasts(ArrayRef<int64_t> operand, ArrayRef<int64_t> shape) {
  if (operand.size() > shape.size())
    return false;
  return llvm::all_of(llvm::zip(operand, shape.take_back(operand.size())), [](auto pair) {
    return std::get<0>(pair) == 1 || std::get<0>(pair) == std::get<1>(pair);
  });
}

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_TENSOR_H
