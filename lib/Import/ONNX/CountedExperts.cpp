//===- CountedExperts.cpp - Sorted rows that a Split divides by counts ----===//
//
// torch's dynamo exporter divides the sorted rows of Granite's experts by the number of rows of
// each expert, and adds the results to their tokens:
//
//   counts        = ReduceSum(one-hot of indices [tokens, k] over the tokens)
//   parts         = Split(rows, Concat(counts[e] for all e))
//   p             = Concat(Gemm(parts[e], W[e]) for all e)
//   result        = ScatterND(zeros, order / k, function of p, add)
//
// where `ids` is the reshaped `indices`. See SortedExperts.cpp for the other values.
//
//===----------------------------------------------------------------------===//

#include "SortedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using namespace mlir::tpc::frontend::sorted;

static void addInt(NodeProto &node, StringRef name, int64_t value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}

/// Returns whether all elements of `name` are `number`.
bool SortedExperts::isFilled(StringRef name, double number) {
  const NodeProto *node = producer(name);
  if (!node || !isOneOf(*node, {"Expand", "ConstantOfShape"}))
    return false;
  if (node->op_type() == "Expand")
    return scalar(node->input(0)) == number;
  std::optional<double> value = 0;
  for (const auto &attribute : node->attribute())
    if (attribute.name() == "value")
      if (auto numbers = constant(attribute.t()))
        value = numbers->front();
  return value == number;
}

/// Returns whether `name` is the number of rows of expert `e`: element `e` of the histogram
/// `counts`, which is the same for all experts.
bool SortedExperts::isCount(StringRef name, int64_t e, StringRef &counts) {
  const NodeProto *node = producer(name);
  while (node && node->op_type() != "Slice") {
    if (!isOneOf(*node, {"Reshape", "Squeeze", "Unsqueeze", "Cast"}) &&
        !(node->op_type() == "Gather" && isNumber(*node, 1, 0)))
      return false;
    node = producer(node->input(0));
  }
  if (!node || node->input_size() < 4 || !isNumber(*node, 1, double(e)) ||
      !isNumber(*node, 2, double(e + 1)) || !isNumber(*node, 3, 0) ||
      (node->input_size() > 4 && !isNumber(*node, 4, 1)))
    return false;
  if (e == 0)
    counts = node->input(0);
  return counts == node->input(0);
}

/// Matches ReduceSum(Cast(ScatterElements(zeros, indices, ones, axis 1)), axis 0), where `ids` is
/// the reshaped `indices`. The indices of a token are different, since a TopK selects them.
bool SortedExperts::isHistogram(StringRef counts) {
  const NodeProto *sum = producer(counts);
  if (!sum || sum->op_type() != "ReduceSum" || sum->input_size() < 2 || !isNumber(*sum, 1, 0))
    return false;
  const NodeProto *scatter = producer(sum->input(0));
  if (scatter && scatter->op_type() == "Cast")
    scatter = producer(scatter->input(0));
  if (!scatter || scatter->op_type() != "ScatterElements" || getInt(*scatter, "axis", 0) != 1 ||
      !hasReduction(*scatter, "none") || !isFilled(scatter->input(0), 0) ||
      !isFilled(scatter->input(2), 1))
    return false;
  const NodeProto *flat = producer(ids), *selected = producer(scatter->input(1));
  return flat && flat->op_type() == "Reshape" && flat->input(0) == scatter->input(1) && selected &&
         selected->op_type() == "TopK" && selected->output_size() == 2 &&
         selected->output(1) == scatter->input(1) &&
         llvm::is_contained({-1, 1}, getInt(*selected, "axis", -1));
}

bool SortedExperts::visitSplit(const NodeProto &node) {
  const Role *rows = roleOf(node, 0);
  const NodeProto *sizes = node.input_size() == 2 ? producer(node.input(1)) : nullptr;
  if (!rows || rows->kind != Kind::Rows || rows->rank != 2 || !sizes ||
      sizes->op_type() != "Concat" || sizes->input_size() != node.output_size())
    return false;
  StringRef counts;
  for (int e = 0; e < sizes->input_size(); ++e)
    if (!isCount(sizes->input(e), e, counts))
      return false;
  if (!isHistogram(counts))
    return false;
  bins = node.output_size();
  StringRef from = node.input(0);
  for (int e = 0; e < node.output_size(); ++e)
    set(node, {Kind::Part, 2, e, from}, e);
  dropped.insert(&node);
  return true;
}

/// Follows indices of gathered rows back to the sort.
const NodeProto *SortedExperts::findTracedSplit(const NodeProto &sort) {
  if (sort.output_size() != 2 || sort.input_size() != 2 || constant(sort.input(1)))
    return nullptr;
  for (const NodeProto *node : nodes) {
    if (node->op_type() != "Split" || node->input_size() != 2 || getInt(*node, "axis", 0) != 0 ||
        !constant(node->input(1)))
      continue;
    const NodeProto *rows = producer(node->input(0));
    if (!rows || !isOneOf(*rows, {"Gather", "GatherND"}))
      continue;
    const NodeProto *index = producer(rows->input(1));
    while (index && index != &sort && isOneOf(*index, {"Div", "Cast", "Reshape", "Unsqueeze"}))
      index = producer(index->input(0));
    if (index == &sort)
      return node;
  }
  return nullptr;
}

bool SortedExperts::visitGemm(const NodeProto &node) {
  const Role *part = roleOf(node, 0);
  auto isOne = [&](StringRef name) {
    for (const auto &attribute : node.attribute())
      if (attribute.name() == name)
        return attribute.f() == 1;
    return true;
  };
  if (!part || part->kind != Kind::Part || roleOf(node, 1) || !isOne("alpha") ||
      getInt(node, "transA", 0) || (node.input_size() > 2 && !node.input(2).empty()))
    return false;
  Role product{Kind::Product, 2, part->number, part->rows, node.input(1)};
  product.isSeparate = true;
  product.isTransposed = getInt(node, "transB", 0) != 0;
  return drop(node, product);
}

/// Appends nodes that stack the matrices of the operands of `node`, products of all experts, to
/// `by`. Returns the stack [experts, inputs, outputs].
StringRef SortedExperts::stackMatrices(const NodeProto &node, SmallVectorImpl<NodeProto *> &by) {
  const std::string &to = node.output(0);
  StringRef axis = addInts(to + "/expert", {0});
  SmallVector<StringRef> matrices;
  for (const std::string &input : node.input()) {
    StringRef matrix = roleOf(input)->stack;
    by.push_back(&add("Unsqueeze", {matrix, axis}, to + "/matrix" + Twine(matrices.size())));
    matrices.push_back(by.back()->output(0));
  }
  by.push_back(&add("Concat", matrices, to + "/stack"));
  addInt(*by.back(), "axis", 0);
  if (roleOf(node, 0)->isTransposed) {
    by.push_back(&add("Transpose", {by.back()->output(0)}, to + "/transposed"));
    auto *order = by.back()->add_attribute();
    order->set_name("perm");
    order->set_type(::onnx::AttributeProto::INTS);
    for (int64_t dim : {0, 2, 1})
      order->add_ints(dim);
  }
  return by.back()->output(0);
}

/// Matches ScatterND(zeros, tokens, rows, add): the sum of the k rows of each token.
bool SortedExperts::visitScatterOfSums(const NodeProto &node) {
  const Role *index = roleOf(node, 1), *rows = roleOf(node, 2);
  if (!index || index->kind != Kind::Token || index->rank != 2 || roleOf(node, 0) || !rows ||
      rows->kind != Kind::Rows || rows->rank != 2 || !hasReduction(node, "add") ||
      !isFilled(node.input(0), 0))
    return false;
  const std::string &to = node.output(0);
  NodeProto &shape = add("Shape", {node.input(2)}, to + "/hidden");
  addInt(shape, "start", 1);
  NodeProto &sizes =
      add("Concat", {addInts(to + "/rows", {-1, index->number}), StringRef(shape.output(0))},
          to + "/sizes");
  addInt(sizes, "axis", 0);
  NodeProto &grouped = add("Reshape", {node.input(2), sizes.output(0)}, to + "/grouped");
  NodeProto &sum = add("ReduceSum", {grouped.output(0), addInts(to + "/axis", {1})}, to + "/sum");
  addInt(sum, "keepdims", 0);
  // The import reports zeros of another number of tokens.
  NodeProto &result = add("Add", {node.input(0), sum.output(0)}, to);
  replace(node, {&shape, &sizes, &grouped, &sum, &result});
  hasResult = true;
  return true;
}
