//===- SortedExperts.cpp - Experts with rows sorted by expert -------------===//
//
// transformers' exporter sorts the rows of all tokens by expert, and has one MatMul per expert
// whose number of rows depends on data. With ids [N], one expert for each token and selected
// expert:
//
//   sorted, order = TopK(ids, N, smallest)
//   rows          = x[order / k]                       gates = weights[order]
//   ends          = CumSum(histogram of sorted)
//   p             = Concat(rows[ends[e - 1] : ends[e]] · W[e] for all e)
//   y             = function of each row of p, of gates, and of sorted
//   result        = y[inverse of order]
//
// Each value between the sort and the last gather has N rows, and each row depends on one row of
// `order` only. Therefore the identity as `order` gives the same result. Then `p` is the matmul of
// each row with its own gathered matrix, which tpc-raise-experts recognizes. The file is unchanged
// if a value in sorted order has any other use.
//
//===----------------------------------------------------------------------===//

#include "SortedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;
using namespace mlir::tpc::frontend::sorted;

bool SortedExperts::isSort(const NodeProto &node) {
  if (node.op_type() != "TopK" || node.input_size() != 2 || node.output_size() != 2 ||
      getInt(node, "largest", 1) != 0 || constant(node.input(1)))
    return false;
  const NodeProto *flat = producer(node.input(0));
  if (!flat || flat->op_type() != "Reshape" || !isNumber(*flat, 1, -1) ||
      !llvm::is_contained({-1, 0}, getInt(node, "axis", -1)))
    return false;
  // The number of elements is all of them.
  StringRef count = node.input(1);
  while (const NodeProto *from = producer(count)) {
    if (from->op_type() == "Shape")
      return from->input(0) == node.input(0);
    bool isFirst = from->op_type() == "Gather" && (isNumber(*from, 1, 0) || isNumber(*from, 1, -1));
    if (!isFirst && !isOneOf(*from, {"Reshape", "Squeeze", "Unsqueeze", "Cast"}))
      return false;
    count = from->input(0);
  }
  return false;
}

bool SortedExperts::match(const NodeProto &sort, const llvm::StringSet<> &outputs) {
  if (!isSort(sort))
    return false;
  ids = sort.input(0);
  roles.clear();
  dropped.clear();
  replacements.clear();
  constants.clear();
  hasProducts = hasResult = false;
  bins = 0;
  set(sort, {Kind::Ids}, 0);
  if (sort.output(1).empty())
    return false;
  set(sort, {Kind::Order}, 1);
  if (!sort.output(0).empty())
    replace(sort, {&add("Identity", {ids}, sort.output(0))});
  else
    dropped.insert(&sort);
  for (const NodeProto *node : nodes) {
    std::vector<std::string> uses;
    collectUses(*node, uses);
    if (node != &sort && llvm::any_of(uses, [&](const std::string &name) { return roleOf(name); }))
      if (!visit(*node))
        return false;
  }
  return hasProducts && hasResult &&
         llvm::none_of(roles, [&](const auto &entry) { return outputs.contains(entry.first()); });
}

bool SortedExperts::visitElementwise(const NodeProto &node) {
  std::optional<int> rank;
  bool areIds = true, isFunctionOfOrder = true;
  SmallVector<const Role *> operands;
  for (const std::string &input : node.input())
    if (const Role *role = roleOf(input)) {
      if (!role->isRows() || (rank && *rank != role->rank))
        return false;
      rank = role->rank;
      areIds &= role->kind == Kind::Ids;
      isFunctionOfOrder &= role->isOrder();
      operands.push_back(role);
    }
  for (const std::string &input : node.input())
    if (!input.empty() && !roleOf(input)) {
      const Tensor *tensor = scope.lookup(input);
      bool isScalar = scalar(input).has_value();
      // A number, or a row for all rows.
      if (tensor ? tensor->rank() >= *rank + isScalar : !isScalar)
        return false;
    }
  if (!isFunctionOfOrder)
    return llvm::none_of(operands, [](const Role *role) { return role->isOrder(); }) &&
           set(node, {areIds && operands.size() == 1 ? Kind::Ids : Kind::Rows, *rank});
  // Indices are not negative.
  auto isFalse = [](const Role *role) { return role && role->kind == Kind::False; };
  const Role *first = roleOf(node, 0), *second = roleOf(node, 1);
  Role result{Kind::Unknown, *rank};
  if ((node.op_type() == "Less" && first && first->kind == Kind::Order && isNumber(node, 1, 0)) ||
      (node.op_type() == "And" && (isFalse(first) || isFalse(second))) ||
      (node.op_type() == "Equal" && isFalse(first) && isNumber(node, 1, 1)) ||
      (node.op_type() == "Cast" && isFalse(first)))
    result.kind = Kind::False;
  else if (node.op_type() == "Sub" && first && first->kind == Kind::Token && isFalse(second))
    result = *first;
  else if (node.op_type() == "Cast" && first->kind == Kind::Floor &&
           getInt(node, "to", 0) == ::onnx::TensorProto::INT64)
    result = {Kind::Token, first->rank, first->number};
  else if (node.op_type() == "Cast" &&
           (first->kind == Kind::Order || first->kind == Kind::Token ||
            first->kind == Kind::False) &&
           getInt(node, "to", 0) == ::onnx::TensorProto::INT64)
    result = *first;
  else if (node.op_type() == "Div" && first &&
           (first->kind == Kind::Order || first->kind == Kind::Float)) {
    if (auto k = scalar(node.input(1)); k && *k >= 1 && *k < 1e6 && *k == std::floor(*k)) {
      result.kind = first->kind == Kind::Order ? Kind::Token : Kind::Ratio;
      result.number = int64_t(*k);
    }
  } else if (first) {
    visitFloor(node, *first, second, result);
  }
  return drop(node, result);
}

/// Sets the result's role if it is part of sign(x) * floor(|x|), where x = float(order) / k.
void SortedExperts::visitFloor(const NodeProto &node, const Role &first, const Role *second,
                               Role &result) {
  StringRef type = node.op_type();
  auto is = [&](StringRef wanted, Kind kind) { return type == wanted && first.kind == kind; };
  if (is("Cast", Kind::Order) && getInt(node, "to", 0) == ::onnx::TensorProto::FLOAT)
    result.kind = Kind::Float;
  else if (is("Abs", Kind::Ratio) || (is("Mul", Kind::Floor) && second &&
                                      second->kind == Kind::Sign && second->number == first.number))
    result = first;
  else if (is("Floor", Kind::Ratio))
    result = {Kind::Floor, first.rank, first.number};
  else if (is("Sign", Kind::Ratio))
    result = {Kind::Sign, first.rank, first.number};
}

bool SortedExperts::visitGather(const NodeProto &node) {
  const Role *data = roleOf(node, 0), *index = roleOf(node, 1);
  if (!index || getInt(node, "axis", 0) != 0 || getInt(node, "batch_dims", 0) != 0)
    return false;
  StringRef from = node.input(0);
  const std::string &to = node.output(0);
  bool isND = node.op_type() == "GatherND";
  if (data && data->kind == Kind::Rows) {
    if (index->kind == Kind::Range && !isND)
      return drop(node, {Kind::Part, data->rank, index->number, from});
    if (index->kind != Kind::Inverse || index->rank != (isND ? 2 : 1))
      return false;
    hasResult = true;
    replace(node, {&add("Identity", {from}, to)});
    return true; // no longer in sorted order
  }
  if (data)
    return false;
  std::optional<int> rank = rankOf(from);
  if (!rank || index->rank != (isND ? 2 : 1))
    return false;
  Role rows{Kind::Rows, *rank};
  if (index->kind == Kind::Ids)
    return set(node, rows);
  if (index->kind == Kind::Order) {
    replace(node, {&add("Identity", {from}, to)});
    return set(node, rows);
  }
  if (index->kind != Kind::Token || *rank != 2)
    return false;
  NodeProto &shape = add("Shape", {from}, to + "/hidden");
  auto *start = shape.add_attribute();
  start->set_name("start");
  start->set_type(::onnx::AttributeProto::INT);
  start->set_i(1);
  NodeProto &sizes =
      add("Concat", {addInts(to + "/all", {-1}), StringRef(shape.output(0))}, to + "/sizes");
  auto *axis = sizes.add_attribute();
  axis->set_name("axis");
  axis->set_type(::onnx::AttributeProto::INT);
  NodeProto &column = add("Unsqueeze", {from, addInts(to + "/axis", {1})}, to + "/unsqueezed");
  NodeProto &repeated =
      add("Expand", {column.output(0), addInts(to + "/times", {1, index->number, 1})},
          to + "/repeated");
  NodeProto &result = add("Reshape", {repeated.output(0), sizes.output(0)}, to);
  replace(node, {&shape, &sizes, &column, &repeated, &result});
  return set(node, rows);
}

/// Matches ScatterElements(zeros, function of ids, ones, add), where the function is the identity.
bool SortedExperts::visitHistogram(const NodeProto &node) {
  const Role *index = roleOf(node, 1);
  if (!index || index->kind != Kind::Ids || index->rank != 1 || roleOf(node, 0) ||
      roleOf(node, 2) || !hasReduction(node, "add"))
    return false;
  auto zeros = constant(node.input(0));
  StringRef one = node.input(2);
  if (const NodeProto *expand = producer(one); expand && expand->op_type() == "Expand")
    one = expand->input(0);
  if (!zeros || llvm::any_of(*zeros, [](double x) { return x != 0; }) || scalar(one) != 1.0)
    return false;
  bins = int64_t(zeros->size());
  for (int64_t e = 0; e < bins; ++e) {
    bool isFloat = false;
    if (evaluate(node.input(1), double(e), isFloat) != double(e))
      return false;
  }
  return drop(node, {Kind::Counts});
}

bool SortedExperts::visitMatMul(const NodeProto &node) {
  const Role *part = roleOf(node, 0);
  if (!part || part->kind != Kind::Part || roleOf(node, 1))
    return false;
  const NodeProto *squeeze = producer(node.input(1));
  if (!squeeze || squeeze->op_type() != "Squeeze" || !isNumber(*squeeze, 1, 0))
    return false;
  const NodeProto *split = producer(squeeze->input(0));
  if (!split || split->op_type() != "Split" || getInt(*split, "axis", 0) != 0 ||
      split->output_size() != bins || part->number >= bins ||
      split->output(int(part->number)) != squeeze->input(0))
    return false;
  return drop(node, {Kind::Product, 2, part->number, part->rows, split->input(0)});
}

bool SortedExperts::visitConcat(const NodeProto &node) {
  const Role *first = roleOf(node, 0);
  if (!first || first->kind != Kind::Product) {
    int rank = first ? first->rank : 0;
    int64_t axis = getInt(node, "axis", 0);
    for (const std::string &input : node.input())
      if (const Role *role = roleOf(input); !role || role->kind != Kind::Rows || role->rank != rank)
        return false;
    return (axis > 0 || axis + rank > 0) && axis != 0 && set(node, {Kind::Rows, rank});
  }
  if (getInt(node, "axis", 0) != 0 || node.input_size() != bins)
    return false;
  for (int64_t e = 0; e < bins; ++e)
    if (const Role *role = roleOf(node, int(e));
        !role || role->kind != Kind::Product || role->number != e || role->rows != first->rows ||
        role->isSeparate != first->isSeparate || role->isTransposed != first->isTransposed ||
        (!role->isSeparate && role->stack != first->stack))
      return false;
  const std::string &to = node.output(0);
  StringRef axis = addInts(to + "/axis", {1});
  SmallVector<NodeProto *> by;
  StringRef stack = first->isSeparate ? stackMatrices(node, by) : first->stack;
  NodeProto &index = add("Unsqueeze", {ids, axis}, to + "/ids");
  NodeProto &matrices = add("GatherND", {stack, index.output(0)}, to + "/matrices");
  NodeProto &vectors = add("Unsqueeze", {first->rows, axis}, to + "/vectors");
  NodeProto &product = add("MatMul", {vectors.output(0), matrices.output(0)}, to + "/product");
  NodeProto &result = add("Squeeze", {product.output(0), axis}, to);
  by.append({&index, &matrices, &vectors, &product, &result});
  replace(node, by);
  hasProducts = true;
  return set(node, {Kind::Rows, 2});
}

bool SortedExperts::visit(const NodeProto &node) {
  StringRef type = node.op_type();
  const Role *first = roleOf(node, 0);
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return false;
  if (type == "Shape") { // the same in either order
    if (!first || !first->isRows() || (first->isOrder() && first->rank != 1))
      return false;
    if (first->isOrder()) {
      NodeProto &shape = *storage.emplace_back(std::make_shared<NodeProto>(node));
      shape.set_input(0, ids.str());
      replace(node, {&shape});
    }
    return true;
  }
  if (type == "Gather" || type == "GatherND")
    return visitGather(node);
  if (type == "ScatterElements")
    return visitHistogram(node);
  if (type == "MatMul")
    return visitMatMul(node);
  if (type == "Concat")
    return visitConcat(node);
  if (type == "Gemm")
    return visitGemm(node);
  if (type == "ScatterND" && visitScatterOfSums(node))
    return true;
  if (type == "ScatterND") {
    // The inverse of the order: a range, written at it.
    const Role *index = roleOf(node, 1);
    const NodeProto *range = node.input_size() > 2 ? producer(node.input(2)) : nullptr;
    return index && index->kind == Kind::Order && index->rank == 2 && !first && !roleOf(node, 2) &&
           hasReduction(node, "none") && range && range->op_type() == "Range" &&
           isNumber(*range, 0, 0) && isNumber(*range, 2, 1) && drop(node, {Kind::Inverse});
  }
  if (type == "Range") {
    const Role *end = roleOf(node, 1);
    bool isFirst = !first && end && end->number == 0 && isNumber(node, 0, 0);
    bool isNext = first && end && first->kind == Kind::End && first->number + 1 == end->number;
    return end && end->kind == Kind::End && end->rank == 0 && (isFirst || isNext) &&
           isNumber(node, 2, 1) && drop(node, {Kind::Range, 1, end->number});
  }
  if (type == "CumSum")
    return first && first->kind == Kind::Counts && isNumber(node, 1, 0) &&
           !getInt(node, "reverse", 0) && !getInt(node, "exclusive", 0) && drop(node, {Kind::Ends});
  if (!first)
    return isElementwise(node) && visitElementwise(node);
  if (first->kind == Kind::Counts || first->kind == Kind::Ends) {
    if (type == "Cast")
      return drop(node, *first);
    if (type != "Split" || first->kind != Kind::Ends || getInt(node, "axis", 0) != 0 ||
        node.output_size() != bins)
      return false;
    for (int i = 0; i < node.output_size(); ++i)
      set(node, {Kind::End, 1, i}, i);
    dropped.insert(&node);
    return true;
  }
  if (first->kind == Kind::End)
    return (type == "Squeeze" || type == "Cast") &&
           drop(node, {Kind::End, type == "Squeeze" ? 0 : first->rank, first->number});
  bool isColumn =
      type == "Unsqueeze" && first->rank == 1 && (isNumber(node, 1, -1) || isNumber(node, 1, 1));
  if (first->kind == Kind::Inverse)
    return isColumn && drop(node, {Kind::Inverse, 2});
  if (!first->isRows())
    return false;
  Role same = *first;
  if (type == "Reshape" && first->rank == 1 && isNumber(node, 1, -1))
    return first->isOrder() ? drop(node, same) : set(node, same);
  if (type == "Unsqueeze") {
    bool isLast = isNumber(node, 1, -1) || isNumber(node, 1, first->rank);
    same.rank += 1;
    return isLast && (first->isOrder() ? drop(node, same) : set(node, same));
  }
  if (type == "Expand" && first->kind == Kind::Rows) {
    // To the number of rows.
    const NodeProto *sizes = producer(node.input(1));
    const NodeProto *shape =
        sizes && sizes->op_type() == "Concat" ? producer(sizes->input(0)) : nullptr;
    const Role *rows = shape && shape->op_type() == "Shape" ? roleOf(*shape, 0) : nullptr;
    return rows && rows->isRows() && rows->rank == 1 && sizes->input_size() == first->rank &&
           set(node, same);
  }
  if (type == "Split" && getInt(node, "axis", 0) == 0)
    return visitSplit(node);
  if (type == "Split") {
    int64_t axis = getInt(node, "axis", 0);
    for (int i = 0; i < node.output_size(); ++i)
      set(node, same, i);
    return axis != 0 && axis + first->rank != 0 && first->kind == Kind::Rows;
  }
  if (type == "Slice") {
    auto axes = node.input_size() > 3 ? constant(node.input(3)) : std::nullopt;
    return axes && first->kind == Kind::Rows &&
           llvm::none_of(*axes,
                         [&](double axis) { return axis == 0 || axis + first->rank == 0; }) &&
           set(node, same);
  }
  return isElementwise(node) && visitElementwise(node);
}

const NodeProto *mlir::tpc::frontend::unsortExperts(Nodes &nodes, const llvm::StringSet<> &outputs,
                                                    Importer &importer, Scope &scope,
                                                    NewNodes &storage) {
  if (scope.version("").value_or(1) < 13)
    return nullptr; // axes are attributes
  SmallVector<const NodeProto *> sorts;
  for (const NodeProto *node : nodes)
    if (node->op_type() == "TopK")
      sorts.push_back(node);
  for (const NodeProto *sort : sorts) {
    SortedExperts experts(nodes, importer, scope, storage);
    // Shape has an attribute `start` from opset 15 on.
    if (scope.version("") >= 15 && experts.match(*sort, outputs))
      experts.apply();
    else if (const NodeProto *split = experts.findTracedSplit(*sort))
      return split;
  }
  return nullptr;
}
