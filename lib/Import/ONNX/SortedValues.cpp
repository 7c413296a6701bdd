//===- SortedValues.cpp - Known values of experts with sorted rows --------===//

#include "SortedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using namespace mlir::tpc::frontend::sorted;

int64_t sorted::getInt(const NodeProto &node, StringRef name, int64_t otherwise) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.i();
  return otherwise;
}

bool sorted::isOneOf(const NodeProto &node, std::initializer_list<StringRef> types) {
  return llvm::is_contained(types, StringRef(node.op_type()));
}

std::optional<SmallVector<double>> SortedExperts::constant(StringRef name) {
  const Tensor *tensor = scope.lookup(name);
  Tensor read;
  if (const NodeProto *node = producer(name); node && node->op_type() == "Constant") {
    for (const auto &attribute : node->attribute()) {
      if (attribute.name() == "value_int")
        return SmallVector<double>{double(attribute.i())};
      if (attribute.name() == "value_float")
        return SmallVector<double>{attribute.f()};
      if (attribute.name() == "value_ints")
        return SmallVector<double>(attribute.ints().begin(), attribute.ints().end());
      if (attribute.name() != "value")
        return std::nullopt;
      FailureOr<Tensor> value =
          importer.readTensor(attribute.t(), "constant", UnknownLoc::get(importer.context),
                              /*isInitializer=*/false);
      if (failed(value))
        return std::nullopt;
      read = *value;
      tensor = &read;
    }
  }
  if (!tensor)
    return std::nullopt;
  if (!tensor->contents) { // a vector of the file, such as zeros
    const TensorSource *source = tensor->source.get();
    if (!tensor->isFloat() || !source || !source->fileExists || source->elements() > kMaxContents)
      return std::nullopt;
    FailureOr<DenseElementsAttr> elements =
        importer.load(*source, UnknownLoc::get(importer.context));
    if (failed(elements))
      return std::nullopt;
    SmallVector<double> numbers;
    for (const APFloat &value : elements->getValues<APFloat>())
      numbers.push_back(value.convertToDouble());
    return numbers;
  }
  const Contents &contents = *tensor->contents;
  if (contents.isFloat)
    return SmallVector<double>(contents.floats.begin(), contents.floats.end());
  SmallVector<double> numbers;
  for (const SymExpr &e : contents.ints) {
    if (!e.isConstant())
      return std::nullopt;
    numbers.push_back(double(*e.asConstant()));
  }
  return numbers;
}

std::optional<double> SortedExperts::scalar(StringRef name) {
  auto numbers = constant(name);
  if (!numbers || numbers->size() != 1)
    return std::nullopt;
  return numbers->front();
}

bool SortedExperts::isNumber(const NodeProto &node, int input, double number) {
  return input < node.input_size() && scalar(node.input(input)) == number;
}

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
