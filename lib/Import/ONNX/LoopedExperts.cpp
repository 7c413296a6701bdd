//===- LoopedExperts.cpp - Experts in an unrolled loop --------------------===//
//
// torch's tracing exporter writes the loop over experts of older Mixtral, Qwen-MoE and OLMoE as one
// layer for each expert e, whose number of rows n depends on data:
//
//   slot, token = NonZero(masks[e])                        masks [experts, k, tokens]
//   rows        = function of each row of x[token]
//   acc         = acc with rows * weights[token, slot] added at token
//
// Without a scatter that adds (opset 17), rows are scattered into zeros, which are added to acc. No
// token may then have an expert in two slots. With all tokens instead of x[token], and the gate of
// a token in place of its weights,
//
//   gate[t]     = sum of weights[t, j] over j with masks[e, j, t]
//   acc         = acc + rows * gate
//
// the result is the same, because rows of other tokens are multiplied by 0. tpc-raise-experts
// recognizes this sum. A loop is unchanged if a value of n rows has any other use.
//
//===----------------------------------------------------------------------===//

#include "LoopedExperts.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

static void setInts(NodeProto &node, StringRef name, ArrayRef<int64_t> ints) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(::onnx::AttributeProto::INTS);
  for (int64_t i : ints)
    attribute->add_ints(i);
}

static void setInt(NodeProto &node, StringRef name, int64_t number) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name.str());
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(number);
}

/// Returns whether a transpose swaps the first two of three dimensions.
static bool isSwapOfFirst(const NodeProto &transpose) {
  return getInts(transpose, "perm") == SmallVector<int64_t>{1, 0, 2};
}

bool LoopedExperts::match(const llvm::StringSet<> &outputs) {
  for (const NodeProto *node : nodes) {
    if (node->op_type() == "NonZero" && begin(*node))
      continue;
    std::vector<std::string> uses;
    collectUses(*node, uses);
    llvm::SmallDenseSet<int> loops;
    for (const std::string &name : uses)
      if (const Role *role = roleOf(name))
        loops.insert(role->loop);
    if (loops.empty() || (loops.size() == 1 && experts[*loops.begin()].isMatched && visit(*node)))
      continue;
    for (int loop : loops)
      experts[loop].isMatched = false;
  }
  for (const auto &entry : roles)
    if (outputs.contains(entry.first()))
      experts[entry.second.loop].isMatched = false;
  // Experts of a loop share nodes.
  llvm::StringSet<> failed;
  for (const Expert &expert : experts)
    if (!expert.isMatched || !expert.hasResult)
      failed.insert(expert.all.empty() ? expert.mask : StringRef(expert.all));
  bool isAny = false;
  for (const Expert &expert : experts) {
    bool isKept = failed.contains(expert.all.empty() ? expert.mask : StringRef(expert.all));
    for (const NodeProto *node : expert.replaced)
      if (isKept)
        replacements.erase(node);
    if (!isKept)
      dropped.insert_range(expert.dropped);
    isAny |= !isKept;
  }
  return isAny;
}

/// Begins an expert with the positions of its tokens.
bool LoopedExperts::begin(const NodeProto &nonzero) {
  Expert expert;
  expert.mask = nonzero.input(0);
  StringRef name = expert.mask;
  const NodeProto *node = producer(name);
  while (node && isOneOf(*node, {"Cast", "Identity", "Squeeze"}) && node->input_size() > 0)
    node = producer(node->input(0));
  if (node && node->op_type() == "Gather" && getInt(*node, "axis", 0) == 0)
    if (auto number = scalar(node->input(1)); number && *number >= 0) {
      const NodeProto *masks = producer(node->input(0));
      if (masks && masks->op_type() == "Transpose") {
        expert.rank = int(getInts(*masks, "perm").size()) - 1;
        expert.all = node->input(0);
        expert.number = int64_t(*number);
      }
    }
  if (roleOf(expert.mask) || expert.rank < 1 || expert.rank > 2)
    return false;
  experts.push_back(std::move(expert));
  return drop(nonzero, {Kind::Positions, int(experts.size()) - 1});
}

void LoopedExperts::addGate(const NodeProto &node, StringRef output, StringRef weights,
                            const Role &role, SmallVectorImpl<NodeProto *> &added) {
  const Expert &expert = experts[role.loop];
  std::string prefix = output.str() + "/";
  auto make = [&](StringRef type, ArrayRef<StringRef> inputs, const Twine &to) -> NodeProto & {
    return *added.emplace_back(&add(type, inputs, to));
  };
  // Traced files have the same constants and reshapes of the weights for each expert.
  while (const NodeProto *from = weights.empty() ? nullptr : producer(weights)) {
    SmallVector<int64_t> perm = getInts(*from, "perm");
    if (!isOneOf(*from, {"Flatten", "Reshape", "Unsqueeze"}) &&
        (from->op_type() != "Transpose" || perm.empty() || !llvm::is_sorted(perm)))
      break;
    weights = from->input(0);
  }
  StringRef columns = isColumnCount(role.factor, weights) ? "" : role.factor;
  std::optional<double> factor = columns.empty() ? std::nullopt : scalar(columns);
  std::string key = expert.all + "|" + weights.str() + "|" + std::to_string(role.dim) + "|";
  std::string &routing = routings[key + (factor ? std::to_string(*factor) : columns.str())];
  if (routing.empty()) {
    NodeProto &isUsed = make("Cast", {expert.all}, prefix + "bool");
    setInt(isUsed, "to", ::onnx::TensorProto::BOOL);
    SmallVector<int64_t> order{0, 1 + role.dim};
    if (expert.rank == 2)
      order.push_back(2 - role.dim);
    NodeProto &ordered = make("Transpose", {isUsed.output(0)}, prefix + "ordered");
    setInts(ordered, "perm", order);
    StringRef all = ordered.output(0);
    std::string values = weights.str();
    if (!columns.empty()) {
      NodeProto &count = make("Reshape", {columns, addInts(prefix + "one", {1})}, prefix + "k");
      NodeProto &shape =
          make("Concat", {addInts(prefix + "rows", {-1}), count.output(0)}, prefix + "shape");
      setInt(shape, "axis", 0);
      values = make("Reshape", {weights, shape.output(0)}, prefix + "weights").output(0);
    }
    NodeProto &number =
        make("CastLike", {all, values.empty() ? node.input(0) : values}, prefix + "number");
    all = number.output(0);
    if (!values.empty())
      all = make("Mul", {all, values}, prefix + "each").output(0);
    if (expert.rank == 2) {
      NodeProto &sum = make("ReduceSum", {all, addInts(prefix + "slots", {2})}, prefix + "sum");
      setInt(sum, "keepdims", 0);
      all = sum.output(0);
    }
    NodeProto &result = make("Transpose", {all}, prefix + "routing");
    setInts(result, "perm", {1, 0});
    routing = result.output(0);
  }
  bool isVector = role.rank == 1;
  StringRef index = addInts(prefix + "expert", {expert.number});
  NodeProto &column = make("Gather", {routing, index}, isVector ? prefix + "column" : output.str());
  setInt(column, "axis", 1);
  if (isVector)
    make("Squeeze", {column.output(0), index = addInts(prefix + "last", {1})}, output);
}

bool LoopedExperts::visitGather(const NodeProto &node) {
  const Role *index = roleOf(node, 1);
  if (!index || roleOf(node, 0))
    return false;
  StringRef data = node.input(0);
  const NodeProto *from = producer(data);
  int64_t axis = getInt(node, "axis", 0);
  bool isND = node.op_type() == "GatherND";
  Role result = *index;
  SmallVector<NodeProto *> added;
  bool isWeight = isND ? index->kind == Kind::Tuple && index->dim != index->other
                       : index->kind == Kind::Linear && index->dim != index->other && axis == 0;
  if (isWeight && experts[index->loop].rank == 2) {
    // Weights [tokens, k]; perhaps with a last dimension of size 1.
    bool isFlat = from && isOneOf(*from, {"Flatten", "Reshape"});
    bool isColumn =
        from && (isND ? from->op_type() == "Unsqueeze" && isNumber(*from, 1, 2) : isFlat);
    if (isFlat && from->op_type() == "Flatten" && getInt(*from, "axis", 1) != 2)
      return false;
    if (isFlat && from->op_type() == "Reshape") {
      auto shape = constant(from->input(1));
      if (!shape || shape->empty() || shape->size() > 2 || shape->front() != -1 ||
          (shape->size() == 2 && shape->back() != 1))
        return false;
      isColumn = shape->size() == 2;
    }
    if (!isND && !isFlat)
      return false;
    result.kind = Kind::Gate;
    result.rank = isColumn ? 2 : 1;
    addGate(node, node.output(0), isND && isColumn ? StringRef(from->input(0)) : data, result,
            added);
  } else {
    if (index->kind != Kind::Index || index->rank != (isND ? 2 : 1) || index->isExpanded ||
        axis < 0 || axis > 1 || getInt(node, "batch_dims", 0) != 0)
      return false;
    if (axis == 0 && isColumn(data)) { // routing[:, e]: times the count of the token's slots
      Role count = result;
      count.kind = Kind::Gate, count.rank = 2;
      std::string slots = node.output(0) + "/count";
      addGate(node, slots, "", count, added);
      added.push_back(&add("Mul", {data, slots}, node.output(0)));
      replaceIn(count, node, added);
      return set(node, count);
    }
    // Dimensions before `axis` have size 1.
    bool isUnsqueezed = from && from->op_type() == "Unsqueeze" && isNumber(*from, 1, 0);
    if (axis == 1 && !isUnsqueezed)
      return false;
    bool isMoved = isND && from && from->op_type() == "Transpose" && isSwapOfFirst(*from);
    const NodeProto *inner = isMoved ? producer(from->input(0)) : nullptr;
    bool isFirst = inner && inner->op_type() == "Unsqueeze" && isNumber(*inner, 1, 0);
    if (isMoved && !isFirst)
      return false;
    result.kind = Kind::Rows;
    result.axis = int(axis);
    result.rank = 2 + int(axis) + isFirst;
    result.isGathered = true;
    added.push_back(&add("Identity", {data}, node.output(0)));
  }
  replaceIn(result, node, added);
  return set(node, result);
}

bool LoopedExperts::visitElementwise(const NodeProto &node) {
  const Role *rows = nullptr, *gate = nullptr;
  int others = 0;
  for (const std::string &input : node.input()) {
    const Role *role = roleOf(input);
    if (!role) {
      ++others;
      continue;
    }
    const Role *&same = role->kind == Kind::Rows ? rows : gate;
    if ((role->kind != Kind::Rows && role->kind != Kind::Gate && role->kind != Kind::Gated) ||
        (same && (role->kind != Kind::Rows || role->dim != same->dim || role->rank != same->rank ||
                  role->axis != same->axis)))
      return false;
    same = role;
  }
  bool isUnchanged = isOneOf(node, {"Cast", "Identity"});
  if (gate && !rows && isUnchanged)
    return set(node, *gate);
  if (gate) // linear in the gate, once
    return rows && others == 0 && node.op_type() == "Mul" && node.input_size() == 2 &&
           gate->kind == Kind::Gate && gate->dim == rows->dim && gate->rank == 2 &&
           rows->rank == 2 && rows->axis == 0 &&
           set(node, {Kind::Gated, rows->loop, rows->dim, 0, 2});
  for (const std::string &input : node.input())
    if (!input.empty() && !roleOf(input)) {
      const Tensor *tensor = scope.lookup(input);
      bool isScalar = scalar(input).has_value();
      if (tensor ? tensor->rank() >= rows->rank - rows->axis + isScalar : !isScalar)
        return false;
    }
  Role result = *rows;
  result.isGathered &= isUnchanged;
  return set(node, result);
}

bool LoopedExperts::visitIndex(const NodeProto &node, const Role &role) {
  StringRef type = node.op_type();
  Role result = role;
  bool isPositions = role.kind == Kind::Positions;
  int64_t axis = getInt(node, "axis", 0);
  int64_t rank = experts[role.loop].rank;
  auto isDimension = [&](int64_t d) {
    return d == int(role.isTransposed) || d == role.isTransposed - 2;
  };
  if (type == "Cast" || type == "Identity")
    return drop(node, result);
  if (type == "Shape") {
    result.kind = Kind::Sizes;
    return role.kind != Kind::Positions && drop(node, result);
  }
  if (isPositions && type == "Transpose") {
    result.isTransposed = !role.isTransposed;
    return drop(node, result);
  }
  if (isPositions && type == "Split") {
    if (!isDimension(axis) || node.output_size() != rank)
      return false;
    result.kind = Kind::Column;
    for (int i = 0; i < node.output_size(); ++i) {
      result.dim = i;
      set(node, result, i);
    }
    experts[role.loop].dropped.push_back(&node);
    return true;
  }
  if (isPositions && type == "Gather") {
    auto number = node.input_size() > 1 ? scalar(node.input(1)) : std::nullopt;
    if (!number || !isDimension(axis) || *number < 0 || *number >= double(rank))
      return false;
    result.kind = Kind::Index;
    result.dim = int(*number);
    return drop(node, result);
  }
  if (isPositions && type == "Slice") {
    // One dimension; steps may be absent.
    auto from = node.input_size() > 3 ? scalar(node.input(1)) : std::nullopt;
    if (!from || !isNumber(node, 2, *from + 1) || *from < 0 || *from >= double(rank) ||
        !isNumber(node, 3, role.isTransposed) || (node.input_size() > 4 && !isNumber(node, 4, 1)))
      return false;
    result.kind = Kind::Column;
    result.dim = int(*from);
    return drop(node, result);
  }
  if (role.kind == Kind::Column) {
    bool isSqueezed = type == "Squeeze" && (isNumber(node, 1, role.isTransposed) ||
                                            isNumber(node, 1, role.isTransposed - 2));
    result.kind = Kind::Index;
    return (isSqueezed || (type == "Reshape" && isNumber(node, 1, -1))) && drop(node, result);
  }
  if (role.kind != Kind::Index && role.kind != Kind::Scaled)
    return false;
  if (type == "Unsqueeze" && role.kind == Kind::Index && role.rank == 1) {
    result.rank = 2;
    return (isNumber(node, 1, 1) || isNumber(node, 1, -1)) && drop(node, result);
  }
  if (type == "Expand" && roleOf(node, 0) == &role) {
    result.isExpanded = true;
    return role.rank == 2 && drop(node, result);
  }
  const Role *first = roleOf(node, 0), *second = roleOf(node, 1);
  if (type == "Mul" && role.kind == Kind::Index && role.rank == 1 && !(first && second)) {
    result.kind = Kind::Scaled;
    result.factor = node.input(first ? 1 : 0);
    return drop(node, result);
  }
  if (type == "Add" && first && second && first->rank == 1 && second->rank == 1) {
    if (second->kind == Kind::Scaled)
      std::swap(first, second);
    if (first->kind != Kind::Scaled || second->kind != Kind::Index)
      return false;
    result = *first;
    result.kind = Kind::Linear;
    result.other = second->dim;
    return drop(node, result);
  }
  if (type == "Concat" && first && second && node.input_size() == 2 && (axis == 1 || axis == -1) &&
      first->kind == Kind::Index && second->kind == Kind::Index && first->rank == 2 &&
      second->rank == 2 && !first->isExpanded && !second->isExpanded) {
    result = *first;
    result.kind = Kind::Tuple;
    result.other = second->dim;
    return drop(node, result);
  }
  return false;
}

bool LoopedExperts::visitScatter(const NodeProto &node) {
  const Role *index = roleOf(node, 1), *rows = roleOf(node, 2);
  if (!index || !rows || roleOf(node, 0) || node.input_size() != 3 || index->kind != Kind::Index ||
      index->rank != 2 || !(hasReduction(node, "add") || assignsOnce(node, *index)) ||
      getInt(node, "axis", 0) != 0 || index->dim != rows->dim || rows->rank != 2 ||
      rows->axis != 0 || index->isExpanded != (node.op_type() == "ScatterElements"))
    return false;
  SmallVector<NodeProto *> added;
  std::string values = node.input(2);
  if (rows->kind == Kind::Rows) {
    Role count = *rows;
    count.factor = {};
    std::string gate = node.output(0) + "/count";
    addGate(node, gate, "", count, added);
    added.push_back(&add("Mul", {values, gate}, node.output(0) + "/counted"));
    values = added.back()->output(0);
  } else if (rows->kind != Kind::Gated) {
    return false;
  }
  // Rows of fewer columns would be added to the first columns only: an error of the reshape.
  NodeProto &shape = add("Shape", {node.input(0)}, node.output(0) + "/shape");
  NodeProto &whole = add("Reshape", {values, shape.output(0)}, node.output(0) + "/whole");
  added.append({&shape, &whole, &add("Add", {node.input(0), whole.output(0)}, node.output(0))});
  experts[index->loop].hasResult = true;
  replaceIn(*index, node, added);
  return true; // has a row for each token
}

bool LoopedExperts::visitRows(const NodeProto &node, const Role &role) {
  StringRef type = node.op_type();
  Role result = role;
  int64_t axis = getInt(node, "axis", type == "Split" ? 0 : -1);
  if (type == "Shape") {
    result.kind = Kind::Sizes;
    return drop(node, result);
  }
  if (role.kind == Kind::Gate && isOneOf(node, {"Reshape", "Unsqueeze", "Transpose"})) {
    // All have the order of positions. The result is a column or a vector.
    auto shape = node.input_size() > 1 ? constant(node.input(1)) : std::nullopt;
    const NodeProto *sizes = node.input_size() > 1 ? producer(node.input(1)) : nullptr;
    int rank = type == "Transpose" ? role.rank
               : type == "Unsqueeze"
                   ? (isNumber(node, 1, -1) || isNumber(node, 1, role.rank) ? role.rank + 1 : 0)
               : shape                                 ? int(shape->size())
               : sizes && sizes->op_type() == "Concat" ? sizes->input_size()
                                                       : 0;
    bool isColumn = rank == 2 && (!shape || type != "Reshape" || shape->back() == 1);
    if ((type == "Transpose" && rank == 2 && getInts(node, "perm") != SmallVector<int64_t>{0, 1}) ||
        (rank != 1 && !isColumn))
      return false;
    result.rank = rank;
    StringRef to = addInts(node.output(0) + "/sizes",
                           rank == 1 ? ArrayRef<int64_t>{-1} : ArrayRef<int64_t>{-1, 1});
    replaceIn(role, node, {&add("Reshape", {node.input(0), to}, node.output(0))});
    return set(node, result);
  }
  if (type == "Expand" && keepsRows(node))
    return role.rank == 2 && role.axis == 0 && set(node, result);
  if (role.kind != Kind::Rows)
    return false;
  if (type == "MatMul" || type == "Gemm") {
    for (int i = 1; i < node.input_size(); ++i)
      if (roleOf(node, i))
        return false;
    result.isGathered = false;
    return roleOf(node, 0) && !getInt(node, "transA", 0) && (type == "MatMul" || role.axis == 0) &&
           set(node, result);
  }
  if (type == "Squeeze" || type == "Reshape") {
    result.axis = 0, result.rank = 2;
    bool isRows = type == "Squeeze" ? role.axis == 1 && isNumber(node, 1, 0)
                                    : role.isGathered && getReshapedRank(node) == 2;
    return isRows && set(node, result);
  }
  if (type == "Transpose" && role.rank == 3 && role.isGathered && isSwapOfFirst(node)) {
    result.axis = 1 - role.axis;
    return set(node, result);
  }
  if (type == "Split") {
    result.isGathered = false;
    for (int i = 0; i < node.output_size(); ++i)
      set(node, result, i);
    return axis == -1 || axis == role.rank - 1;
  }
  if (type == "Slice") {
    auto axes = node.input_size() > 3 ? constant(node.input(3)) : std::nullopt;
    result.isGathered = false;
    return axes && axes->size() == 1 && (axes->front() == -1 || axes->front() == role.rank - 1) &&
           set(node, result);
  }
  return false;
}

bool LoopedExperts::visit(const NodeProto &node) {
  StringRef type = node.op_type();
  if (!node.domain().empty() && node.domain() != "ai.onnx")
    return false;
  const Role *role = nullptr;
  bool areSizes = true;
  for (const std::string &input : node.input())
    if (const Role *own = roleOf(input)) {
      areSizes &= own->kind == Kind::Sizes;
      if (!role || role->kind == Kind::Sizes)
        role = own;
    }
  if (areSizes)
    return isOneOf(node, {"Concat", "Gather", "Unsqueeze", "Squeeze", "Cast", "Slice"}) &&
           drop(node, *role);
  if (type == "ScatterElements" || type == "ScatterND")
    return visitScatter(node);
  if (role->kind < Kind::Rows &&
      (roleOf(node, 1) == nullptr || !isOneOf(node, {"Gather", "GatherND"})))
    return visitIndex(node, *role);
  if (type == "Gather" || type == "GatherND")
    return visitGather(node);
  return isElementwise(node) ? visitElementwise(node) : visitRows(node, *role);
}

void mlir::tpc::frontend::replaceLoopedExperts(Nodes &nodes, const llvm::StringSet<> &outputs,
                                               Importer &importer, Scope &scope,
                                               NewNodes &storage) {
  if (scope.version("").value_or(1) < 15)
    return; // without CastLike
  if (LoopedExperts experts(nodes, importer, scope, storage); experts.match(outputs))
    experts.apply();
}
