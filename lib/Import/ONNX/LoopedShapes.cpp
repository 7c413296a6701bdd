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
