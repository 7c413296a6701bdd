//===- LoopedShapes.cpp - Conditions on shapes and indices of a loop ------===//

#include "LoopedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

SmallVector<int64_t> frontend::getInts(const NodeProto &node, StringRef name) {
  for (const auto &attribute : node.attribute())
    if (attribute.name() == name)
      return SmallVector<int64_t>(attribute.ints().begin(), attribute.ints().end());
  return {};
}

/// Returns the number of sizes of a reshape whose first one is -1, or 0.
int LoopedExperts::getReshapedRank(const NodeProto &node) {
  if (node.input_size() < 2)
    return 0;
  if (auto sizes = constant(node.input(1)))
    return !sizes->empty() && sizes->front() == -1 ? int(sizes->size()) : 0;
  const NodeProto *sizes = producer(node.input(1));
  if (!sizes || sizes->op_type() != "Concat" || !isNumber(*sizes, 0, -1))
    return 0;
  bool areSingle = llvm::all_of(llvm::drop_begin(sizes->input()), [&](StringRef input) {
    const NodeProto *size = producer(input);
    return scalar(input) || (size && size->op_type() == "Unsqueeze");
  });
  return areSingle ? sizes->input_size() : 0;
}

/// Returns whether `size` is dimension 1 of weights [tokens, k].
bool LoopedExperts::isColumnCount(StringRef size, StringRef weights) {
  const NodeProto *node = producer(size);
  while (node && isOneOf(*node, {"Cast", "Identity", "Squeeze", "Unsqueeze"}))
    node = producer(node->input(0));
  if (!node || node->op_type() != "Gather" || getInt(*node, "axis", 0) != 0 ||
      !isNumber(*node, 1, 1))
    return false;
  const NodeProto *shape = producer(node->input(0));
  if (!shape || shape->op_type() != "Shape" || getInt(*shape, "start", 0) != 0)
    return false;
  StringRef of = shape->input(0);
  if (const NodeProto *column = producer(of);
      column && column->op_type() == "Unsqueeze" && isNumber(*column, 1, 2))
    of = column->input(0);
  return of == weights;
}

/// Returns whether a value is one column of a matrix, [tokens, 1].
bool LoopedExperts::isColumn(StringRef name) {
  const NodeProto *node = producer(name);
  if (!node || node->op_type() != "Unsqueeze" ||
      (!isNumber(*node, 1, 1) && !isNumber(*node, 1, -1)))
    return false;
  node = producer(node->input(0));
  if (!node || node->op_type() != "Gather" || getInt(*node, "axis", 0) != 1)
    return false;
  StringRef index = node->input(1);
  if (const NodeProto *number = producer(index)) // without dimensions
    return number->op_type() == "Constant" && number->attribute_size() == 1 &&
           (number->attribute(0).name() == "value_int" ||
            (number->attribute(0).name() == "value" && number->attribute(0).t().dims_size() == 0));
  const Tensor *number = scope.lookup(index);
  return number && number->rank() == 0;
}

/// Returns whether an expand of [n, width] has n rows for each n > 0: the first size of its shape
/// is at most 1.
bool LoopedExperts::keepsRows(const NodeProto &expand) {
  if (auto sizes = constant(expand.input(1)))
    return sizes->size() == 2 && sizes->front() == 1;
  const NodeProto *shape = producer(expand.input(1));
  const NodeProto *slice =
      shape && shape->op_type() == "Shape" ? producer(shape->input(0)) : nullptr;
  if (!slice || slice->op_type() != "Slice" || slice->input_size() < 4 ||
      getInt(*shape, "start", 0) != 0)
    return false;
  auto from = constant(slice->input(1)), to = constant(slice->input(2)),
       axes = constant(slice->input(3));
  return from && to && axes && !from->empty() && !to->empty() && !axes->empty() &&
         axes->front() == 0 && from->front() == 0 && to->front() == 1;
}

/// Returns whether the experts `ids` [tokens, slots] of a token are different: those of TopK, or
/// the ArgMax of scores and that of the scores without the first one. If no other score is finite,
/// the weights are NaN.
bool LoopedExperts::areDistinct(StringRef ids) {
  auto isLast = [](const NodeProto &node) {
    return llvm::is_contained({-1, 1}, getInt(node, "axis", node.op_type() == "TopK" ? -1 : 0));
  };
  const NodeProto *node = producer(ids);
  while (node && isOneOf(*node, {"Cast", "Identity"})) {
    ids = node->input(0);
    node = producer(ids);
  }
  if (!node || !isLast(*node))
    return false;
  if (node->op_type() == "TopK")
    return node->output_size() > 1 && node->output(1) == ids;
  if (node->op_type() != "Concat" || node->input_size() != 2)
    return false;
  const NodeProto *first = producer(node->input(0)), *second = producer(node->input(1));
  for (const NodeProto *each : {first, second})
    if (!each || each->op_type() != "ArgMax" || !isLast(*each) || !getInt(*each, "keepdims", 1))
      return false;
  const NodeProto *others = producer(second->input(0));
  if (!others || others->op_type() != "ScatterElements" || !isLast(*others) ||
      !hasReduction(*others, "none") || others->input(0) != first->input(0) ||
      others->input(1) != node->input(0))
    return false;
  StringRef update = others->input(2);
  if (const NodeProto *expand = producer(update); expand && expand->op_type() == "Expand")
    update = expand->input(0);
  return scalar(update) == -std::numeric_limits<double>::infinity();
}

/// Returns whether a scatter into zeros sets the row of each token at most once: each mask selects
/// a token in at most one slot.
bool LoopedExperts::assignsOnce(const NodeProto &scatter, const Role &index) {
  const NodeProto *zeros = producer(scatter.input(0));
  if (!hasReduction(scatter, "none") || !zeros || zeros->op_type() != "ConstantOfShape")
    return false;
  for (const auto &attribute : zeros->attribute())
    if (auto value = constant(attribute.t()); value != SmallVector<double>{0})
      return false;
  const Expert &expert = experts[index.loop];
  if (expert.rank == 1)
    return true;
  const NodeProto *masks = producer(expert.all);
  SmallVector<int64_t> perm = masks ? getInts(*masks, "perm") : SmallVector<int64_t>();
  // Masks are a transpose of [tokens, slots, experts].
  if (perm.size() != 3 || perm[0] != 2 || perm[1 + index.dim] != 0)
    return false;
  const NodeProto *node = producer(masks->input(0));
  while (node && isOneOf(*node, {"Cast", "Identity"}))
    node = producer(node->input(0));
  if (!node || !isOneOf(*node, {"OneHot", "Equal"}))
    return false;
  if (node->op_type() == "OneHot") {
    auto values = constant(node->input(2));
    return getInt(*node, "axis", -1) == -1 && values && values->front() == 0 &&
           areDistinct(node->input(0));
  }
  // With the number of each expert.
  const NodeProto *column = producer(node->input(0));
  return column && column->op_type() == "Unsqueeze" && constant(node->input(1)) &&
         (isNumber(*column, 1, -1) || isNumber(*column, 1, 2)) && areDistinct(column->input(0));
}
