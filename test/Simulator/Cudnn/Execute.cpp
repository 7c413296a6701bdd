//===- Execute.cpp - Execution of an attention graph, op by op ------------===//
//
// For each batch and head, a tensor is a matrix of f32. Intermediate results are rounded to their
// type, like values in a kernel's registers.
//
//===----------------------------------------------------------------------===//

#include "Cuda/Halves.h"
#include "Graph.h"

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

namespace sim::dnn {
namespace {

float toFloat(const uint8_t *from, DataType type) {
  if (type == F32) {
    float value;
    std::memcpy(&value, from, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, from, 2);
  return type == Bf16 ? fromBf16(bits) : fromF16(bits);
}

uint16_t toHalf(float value, DataType type) { return type == F16 ? toF16(value) : toBf16(value); }

struct Matrix {
  int64_t rows = 0, columns = 0;
  std::vector<float> values;
  /// Returns an element. A single row or column is broadcast.
  float at(int64_t row, int64_t column) const {
    return values[size_t((rows == 1 ? 0 : row) * columns + (columns == 1 ? 0 : column))];
  }
};

class Attention final : public Work {
public:
  Attention(const Plan &plan, const Operands &operands)
      : Work("attention"), plan(plan), operands(operands) {}

  Progress step(Execution &execution) override {
    if (plan.workspace)
      std::memset(execution.write(operands.workspace, uint64_t(plan.workspace), "the workspace"),
                  0xff, size_t(plan.workspace));
    const auto &scores = plan.graph->operations.front().y.dims;
    for (int64_t batch = 0; batch < scores[0]; ++batch)
      for (int64_t head = 0; head < scores[1]; ++head) {
        made.clear();
        for (const Operation &operation : plan.graph->operations)
          run(execution, operation, batch, head);
      }
    return Progress::Done;
  }

private:
  void run(Execution &execution, const Operation &o, int64_t batch, int64_t head) {
    Matrix x = get(execution, o.x, batch, head), b, t;
    if (o.b)
      b = get(execution, *o.b, batch, head);
    if (o.t)
      t = get(execution, *o.t, batch, head);
    Matrix y{o.y.dims[2], o.y.dims[3], std::vector<float>(size_t(o.y.dims[2] * o.y.dims[3]))};
    for (int64_t row = 0; row < y.rows; ++row)
      for (int64_t column = 0; column < y.columns; ++column)
        y.values[size_t(row * y.columns + column)] =
            round(element(o, x, b, t, row, column), o.y.type);
    if (o.y.isVirtual)
      made[o.y.id] = std::move(y);
    else
      put(execution, o.y, batch, head, y);
  }

  static float element(const Operation &o, const Matrix &x, const Matrix &b, const Matrix &t,
                       int64_t row, int64_t column) {
    if (o.kind == KindMatmulOp) {
      float sum = 0;
      for (int64_t k = 0; k < x.columns; ++k)
        sum += x.at(row, k) * b.at(k, column);
      return sum;
    }
    if (o.kind == KindReductionOp) {
      float result = o.mode == ReduceMax ? -std::numeric_limits<float>::infinity() : 0;
      for (int64_t i = 0; i < x.columns; ++i)
        result = o.mode == ReduceMax ? std::max(result, x.at(row, i)) : result + x.at(row, i);
      return result;
    }
    switch (o.mode) {
    case Add:
      return x.at(row, column) + b.at(row, column);
    case Mul:
      return x.at(row, column) * b.at(row, column);
    case Sub:
      return x.at(row, column) - b.at(row, column);
    case Div:
      return x.at(row, column) / b.at(row, column);
    case Exp:
      return std::exp(x.at(row, column));
    case Log:
      return std::log(x.at(row, column));
    case CmpGe:
      return x.at(row, column) >= b.at(row, column);
    case GenIndex:
      return float(o.axis == 2 ? row : column);
    case Select:
      return t.at(row, column) != 0 ? x.at(row, column) : b.at(row, column);
    }
    return std::numeric_limits<float>::quiet_NaN();
  }

  static float round(float value, DataType type) {
    if (type != F16 && type != Bf16)
      return value;
    uint16_t bits = toHalf(value, type);
    return toFloat(reinterpret_cast<const uint8_t *>(&bits), type);
  }

  /// Returns the address of a tensor's matrix. If the tensor has fewer heads, query heads share
  /// them.
  uint64_t addressOf(const Tensor &tensor, int64_t batch, int64_t head) const {
    int64_t heads = plan.graph->operations.front().y.dims[1];
    int64_t own = head / (heads / tensor.dims[1]);
    int64_t from = (tensor.dims[0] == 1 ? 0 : batch) * tensor.strides[0] + own * tensor.strides[1];
    return operands.addresses.at(tensor.id) + uint64_t(from) * bytesOf(tensor.type);
  }

  Matrix get(Execution &execution, const Tensor &tensor, int64_t batch, int64_t head) {
    if (tensor.isVirtual)
      return made.at(tensor.id);
    if (tensor.isByValue)
      return {1, 1, {operands.values.at(tensor.id)}};
    Matrix result{tensor.dims[2], tensor.dims[3], {}};
    result.values.resize(size_t(result.rows * result.columns));
    unsigned bytes = bytesOf(tensor.type);
    uint64_t base = addressOf(tensor, batch, head);
    // Lines, which are rows or columns, are contiguous.
    bool byRow = tensor.strides[3] == 1;
    int64_t lines = byRow ? result.rows : result.columns,
            length = byRow ? result.columns : result.rows,
            stride = byRow ? tensor.strides[2] : tensor.strides[3];
    std::string name = "tensor " + std::to_string(tensor.id);
    for (int64_t line = 0; line < lines; ++line) {
      const uint8_t *from = execution.read(base + uint64_t(line * stride) * bytes,
                                           uint64_t(length) * bytes, name.c_str());
      for (int64_t i = 0; i < length; ++i)
        result.values[size_t(byRow ? line * length + i : i * lines + line)] =
            toFloat(from + i * bytes, tensor.type);
    }
    return result;
  }

  void put(Execution &execution, const Tensor &tensor, int64_t batch, int64_t head,
           const Matrix &matrix) {
    for (int64_t row = 0; row < matrix.rows; ++row) {
      uint8_t *to =
          execution.write(addressOf(tensor, batch, head) + uint64_t(row * tensor.strides[2]) * 2,
                          uint64_t(matrix.columns) * 2, "the result");
      for (int64_t i = 0; i < matrix.columns; ++i) {
        uint16_t bits = toHalf(matrix.at(row, i), tensor.type);
        std::memcpy(to + i * 2, &bits, 2);
      }
    }
  }

  Plan plan;
  Operands operands;
  std::map<int64_t, Matrix> made;
};

} // namespace

std::shared_ptr<Work> makeAttentionKernels(const Plan &plan, const Operands &operands) {
  return std::make_shared<Attention>(plan, operands);
}

} // namespace sim::dnn
