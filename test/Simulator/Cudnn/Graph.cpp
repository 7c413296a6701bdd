//===- Graph.cpp - Supported graphs ---------------------------------------===//

#include "Graph.h"

#include <algorithm>

namespace sim::dnn {

unsigned bytesOf(DataType type) { return type == F32 || type == I32 ? 4 : type == Boolean ? 1 : 2; }

Status Graph::add(const Operation &operation, std::string &why) {
  auto refuse = [&](Status status, const std::string &what) {
    why = what;
    return status;
  };
  auto use = [&](const Tensor &tensor) {
    auto [found, isNew] = tensors.try_emplace(tensor.id, tensor);
    return isNew || found->second == tensor;
  };
  for (const Tensor *tensor : {&operation.x, operation.b ? &*operation.b : nullptr,
                               operation.t ? &*operation.t : nullptr}) {
    if (!tensor)
      continue;
    bool isMade = std::any_of(operations.begin(), operations.end(),
                              [&](const Operation &o) { return o.y.id == tensor->id; });
    if (tensor->isVirtual && !isMade)
      return refuse(BAD_PARAM, "virtual tensor " + std::to_string(tensor->id) +
                                   " is read before an operation makes it");
    if (!use(*tensor))
      return refuse(BAD_PARAM_DUPLICATED_ENTRIES,
                    "two tensors have the same number, " + std::to_string(tensor->id));
  }
  if (tensors.contains(operation.y.id))
    return refuse(BAD_PARAM_DUPLICATED_ENTRIES,
                  "two tensors have the same number, " + std::to_string(operation.y.id));
  use(operation.y);
  const auto &x = operation.x.dims, &y = operation.y.dims;
  if (operation.kind == KindMatmulOp) {
    const auto &b = operation.b->dims;
    bool isProduct = x[3] == b[2] && y[2] == x[2] && y[3] == b[3] && y[0] == x[0] && y[1] == x[1] &&
                     (b[0] == x[0] || b[0] == 1) && b[1] > 0 && x[1] % b[1] == 0;
    if (!isProduct)
      return refuse(BAD_PARAM_SHAPE_MISMATCH, "the sizes of a matmul do not match");
  } else if (operation.kind == KindReductionOp) {
    for (unsigned i = 0; i < 4; ++i)
      if (y[i] != x[i] && y[i] != 1)
        return refuse(BAD_PARAM_SHAPE_MISMATCH, "the result of a reduction has wrong sizes");
  } else {
    for (const Tensor *tensor : {&operation.x, operation.b ? &*operation.b : nullptr,
                                 operation.t ? &*operation.t : nullptr})
      for (unsigned i = 0; tensor && i < 4; ++i)
        if (tensor->dims[i] != y[i] && tensor->dims[i] != 1)
          return refuse(BAD_PARAM_SHAPE_MISMATCH, "operands do not broadcast to their result");
  }
  operations.push_back(operation);
  return SUCCESS;
}

// cuDNN's pattern matcher requires the logarithm of the sums in the graph, although inference does
// not use it.
bool Graph::isAttention() const {
  std::vector<int> order; // a matmul: -1; reductions: -2 - mode
  for (const Operation &operation : operations)
    order.push_back(operation.kind == KindMatmulOp      ? -1
                    : operation.kind == KindReductionOp ? -2 - operation.mode
                                                        : operation.mode);
  const std::vector<int> end = {-2 - ReduceMax, Sub, Exp, -2 - ReduceAdd, Log, Add, Div, -1};
  if (order.size() <= end.size() || order.front() != -1 ||
      !std::equal(end.begin(), end.end(), order.end() - int64_t(end.size())))
    return false;
  for (size_t i = 1; i + end.size() < order.size(); ++i)
    if (order[i] != Mul && order[i] != Add && order[i] != GenIndex && order[i] != CmpGe &&
        order[i] != Select)
      return false;
  const Operation &first = operations.front(), &last = operations.back();
  int64_t size = first.x.dims[3], valueSize = last.y.dims[3];
  bool isHalf = first.x.type == F16 || first.x.type == Bf16;
  for (const Tensor *tensor : {&*first.b, &*last.b, &last.x, &last.y})
    isHalf &= tensor->type == first.x.type;
  // Rows of q, v and the result must be contiguous, and so must the rows of k before its
  // transposition.
  bool isDense = first.x.strides[3] == 1 && last.b->strides[3] == 1 && last.y.strides[3] == 1 &&
                 first.b->strides[2] == 1;
  return isHalf && isDense && size % 8 == 0 && valueSize % 8 == 0 && size <= 256 &&
         valueSize <= 256;
}

uint64_t Graph::hash() const {
  uint64_t hash = operations.size();
  auto mix = [&](int64_t value) {
    hash ^= uint64_t(value) + 0x9e3779b97f4a7c15 + (hash << 6) + (hash >> 2);
    hash *= 0xff51afd7ed558ccd;
    hash ^= hash >> 33;
  };
  for (const auto &[id, tensor] : tensors) {
    mix(tensor.type);
    for (int64_t size : tensor.dims)
      mix(size);
  }
  return hash;
}

} // namespace sim::dnn
