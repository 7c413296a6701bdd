//===- GraphRewrite.cpp - Replacement of nodes before their import --------===//

#include "GraphRewrite.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

int64_t frontend::getInt(const NodeProto &node, StringRef name, int64_t otherwise) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return attribute.i();
  return otherwise;
}

bool frontend::isOneOf(const NodeProto &node, std::initializer_list<StringRef> types) {
  return llvm::is_contained(types, StringRef(node.op_type()));
}

bool frontend::isElementwise(const NodeProto &node) {
  return isOneOf(node, {"Identity",   "Cast",     "Sigmoid",     "Tanh",
                        "Erf",        "Relu",     "Gelu",        "Neg",
                        "Exp",        "Softplus", "Clip",        "Swish",
                        "Reciprocal", "Sqrt",     "Abs",         "Add",
                        "Mul",        "Sub",      "Div",         "Min",
                        "Max",        "Pow",      "Less",        "Equal",
                        "And",        "Or",       "Not",         "Where",
                        "Mod",        "Greater",  "LessOrEqual", "GreaterOrEqual",
                        "Floor",      "Sign"});
}

bool frontend::hasReduction(const NodeProto &node, StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == "reduction")
      return attribute.s() == name;
  return name == "none";
}

std::optional<SmallVector<double>> GraphRewrite::constant(StringRef name) {
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
      return constant(attribute.t());
    }
  }
  const Tensor *tensor = scope.lookup(name);
  return tensor ? constant(*tensor) : std::nullopt;
}

std::optional<SmallVector<double>> GraphRewrite::constant(const ::onnx::TensorProto &proto) {
  FailureOr<Tensor> tensor = importer.readTensor(
      proto, "constant", UnknownLoc::get(importer.context), /*isInitializer=*/false);
  return succeeded(tensor) ? constant(*tensor) : std::nullopt;
}

std::optional<SmallVector<double>> GraphRewrite::constant(const Tensor &tensor) {
  if (!tensor.contents) { // a vector of the file, such as zeros
    const TensorSource *source = tensor.source.get();
    if (!tensor.isFloat() || !source || !source->fileExists || source->elements() > kMaxContents)
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
  const Contents &contents = *tensor.contents;
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

std::optional<double> GraphRewrite::scalar(StringRef name) {
  auto numbers = constant(name);
  if (!numbers || numbers->size() != 1)
    return std::nullopt;
  return numbers->front();
}

bool GraphRewrite::isNumber(const NodeProto &node, int input, double number) {
  return input < node.input_size() && scalar(node.input(input)) == number;
}

NodeProto &GraphRewrite::add(StringRef type, ArrayRef<StringRef> inputs, const Twine &output) {
  NodeProto &node = *storage.emplace_back(std::make_shared<NodeProto>());
  node.set_op_type(type.str());
  for (StringRef input : inputs)
    node.add_input(input.str());
  node.add_output(output.str());
  return node;
}

StringRef GraphRewrite::addInts(const Twine &name, ArrayRef<int64_t> ints) {
  Tensor tensor;
  tensor.element = importer.builder.getI64Type();
  tensor.shape = {SymExpr(int64_t(ints.size()))};
  auto contents = std::make_shared<Contents>();
  contents->ints.assign(ints.begin(), ints.end());
  tensor.contents = std::move(contents);
  return constants.insert_or_assign(name.str(), std::move(tensor)).first->first;
}

void GraphRewrite::apply() {
  for (auto &[name, tensor] : constants)
    scope.values.try_emplace(name, std::move(tensor));
  SmallVector<const NodeProto *> after;
  for (const NodeProto *node : nodes) {
    auto it = replacements.find(node);
    if (it != replacements.end()) {
      llvm::append_range(after, it->second);
      for (const NodeProto *added : it->second)
        for (const std::string &input : added->input())
          scope.used.insert(input);
    } else if (!dropped.contains(node))
      after.push_back(node);
  }
  nodes.assign(after.begin(), after.end());
}
