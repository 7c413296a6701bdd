//===- SortedValues.cpp - Known values of experts with sorted rows --------===//

#include "SortedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using namespace mlir::tpc::frontend::sorted;

std::optional<int> SortedExperts::rankOf(StringRef name, int depth) {
  if (const Role *role = roleOf(name))
    return role->rank;
  if (const Tensor *tensor = scope.lookup(name))
    return int(tensor->rank());
  const NodeProto *node = producer(name);
  if (!node || depth > 8)
    return std::nullopt;
  if (node->op_type() == "Reshape") {
    if (auto shape = constant(node->input(1)))
      return int(shape->size());
  } else if (isOneOf(*node, {"Transpose", "Cast", "Identity"})) {
    return rankOf(node->input(0), depth + 1);
  } else if (isOneOf(*node, {"Mul", "Div", "Add"})) {
    auto a = rankOf(node->input(0), depth + 1), b = rankOf(node->input(1), depth + 1);
    if (a && b)
      return std::max(*a, *b);
  }
  return std::nullopt;
}

std::optional<double> SortedExperts::evaluate(StringRef name, double id, bool &isFloat, int depth) {
  const NodeProto *node = producer(name);
  const Role *role = roleOf(name);
  if (!node || !role || role->kind != Kind::Ids || depth > 16)
    return std::nullopt;
  if (node->op_type() == "TopK")
    return id;
  std::optional<double> x = evaluate(node->input(0), id, isFloat, depth + 1);
  if (!x || isOneOf(*node, {"Reshape", "Squeeze", "Unsqueeze", "Identity"}))
    return x;
  auto operand = [&](int i) -> std::optional<double> {
    return i < node->input_size() ? scalar(node->input(i)) : std::nullopt;
  };
  auto rounded = [&](double y) { return isFloat ? double(float(y)) : y; };
  if (node->op_type() == "Cast") {
    int64_t to = getInt(*node, "to", 0);
    isFloat = to == ::onnx::TensorProto::FLOAT;
    if (!isFloat && to != ::onnx::TensorProto::INT64 && to != ::onnx::TensorProto::INT32)
      return std::nullopt;
    return isFloat ? x : std::trunc(*x);
  }
  if (node->op_type() == "Div" && operand(1).value_or(0) != 0)
    return isFloat ? rounded(*x / *operand(1)) : std::trunc(*x / *operand(1));
  if (node->op_type() == "Clip" && operand(1) && operand(2))
    return std::min(std::max(*x, *operand(1)), *operand(2));
  return std::nullopt;
}
