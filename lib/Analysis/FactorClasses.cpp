//===- FactorClasses.cpp - Classes of factors that are split together -----===//

#include "tpc/Analysis/FactorClasses.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

FactorClasses::FactorClasses(ModuleOp module) {
  module.walk<WalkOrder::PreOrder>([&](Operation *op) { addOp(op); });
}

int FactorClasses::addNode(const SymExpr &size) {
  nodes.push_back({size, int(nodes.size()), {}, {}});
  return nodes.size() - 1;
}

int FactorClasses::find(int node) {
  while (nodes[node].parent != node)
    node = nodes[node].parent = nodes[nodes[node].parent].parent;
  return node;
}

void FactorClasses::collectLeaves(int node, Classes &out) {
  node = find(node);
  if (nodes[node].children.empty()) {
    if (!nodes[node].size.isConstant(1))
      out.push_back(node);
    return;
  }
  for (int child : SmallVector<int, 2>(nodes[node].children))
    collectLeaves(child, out);
}

ArrayRef<int> FactorClasses::getNodes(Value value) {
  auto [it, inserted] = valueNodes.try_emplace(value);
  if (inserted && isa<RankedTensorType>(value.getType()))
    for (const SymExpr &size : getSizes(value))
      it->second.push_back(addNode(size));
  return it->second;
}

FactorClasses::Classes FactorClasses::getClasses(Value value, unsigned dim) {
  Classes leaves;
  collectLeaves(getNodes(value)[dim], leaves);
  return leaves;
}

FactorClasses::Classes FactorClasses::getFactorClasses(Operation *op, unsigned factor) {
  Classes leaves;
  collectLeaves(opNodes.find(op)->second.second[factor], leaves);
  return leaves;
}

const ShardingRule &FactorClasses::getRule(Operation *op) const {
  return opNodes.find(op)->second.first;
}

/// The older node becomes the root, so that classes keep their numbers.
void FactorClasses::join(int a, int b) {
  if (b < a)
    std::swap(a, b);
  nodes[b].parent = a;
  nodes[a].preventingOps.insert_range(nodes[b].preventingOps);
}

void FactorClasses::unify(ArrayRef<int> a, ArrayRef<int> b, Operation *op) {
  // Remaining leaves of both lists, in reverse order.
  Classes left, right;
  auto push = [&](Classes &list, int node) {
    Classes leaves;
    collectLeaves(node, leaves);
    list.append(leaves.rbegin(), leaves.rend());
  };
  for (int node : llvm::reverse(a))
    push(left, node);
  for (int node : llvm::reverse(b))
    push(right, node);

  // Divides the class at the end of `list` into classes of `size` (major) and `rest`.
  auto divide = [&](Classes &list, const SymExpr &size, const SymExpr &rest) {
    int node = list.pop_back_val();
    int first = addNode(size), second = addNode(rest);
    for (int part : {first, second})
      nodes[part].preventingOps = nodes[node].preventingOps;
    nodes[node].children = {first, second};
    push(list, node);
  };

  while (!left.empty() && !right.empty()) {
    int x = find(left.back()), y = find(right.back());
    // A class may have been divided after it was added to the list.
    if (!nodes[x].children.empty()) {
      push(left, left.pop_back_val());
      continue;
    }
    if (!nodes[y].children.empty()) {
      push(right, right.pop_back_val());
      continue;
    }
    if (x == y || nodes[x].size == nodes[y].size) {
      if (x != y)
        join(x, y);
      left.pop_back();
      right.pop_back();
      continue;
    }
    SymExpr sizeX = nodes[x].size, sizeY = nodes[y].size;
    if (auto rest = sizeX.divideExact(sizeY)) {
      divide(left, sizeY, *rest);
      continue;
    }
    if (auto rest = sizeY.divideExact(sizeX)) {
      divide(right, sizeX, *rest);
      continue;
    }
    break;
  }
  for (const Classes &list : {left, right})
    for (int node : list)
      nodes[find(node)].preventingOps.insert(op);
}

void FactorClasses::unifyValues(Value a, Value b, Operation *op) {
  SmallVector<int, 4> left(getNodes(a)), right(getNodes(b));
  for (auto [x, y] : llvm::zip(left, right))
    unify(x, y, op);
}

bool FactorClasses::divide(Value value, unsigned dim, ArrayRef<SymExpr> sizes) {
  SmallVector<SymExpr> left, right;
  Classes list = getClasses(value, dim);
  for (int cls : llvm::reverse(list))
    left.push_back(nodes[cls].size);
  for (const SymExpr &size : llvm::reverse(sizes))
    if (!size.isConstant(1))
      right.push_back(size);
  while (!left.empty() && !right.empty()) {
    if (left.back() == right.back()) {
      left.pop_back();
      right.pop_back();
    } else if (auto rest = left.back().divideExact(right.back())) {
      left.back() = *rest;
      right.pop_back();
    } else if (auto rest = right.back().divideExact(left.back())) {
      right.back() = *rest;
      left.pop_back();
    } else {
      return false;
    }
  }
  if (!left.empty() || !right.empty())
    return false;
  SmallVector<int> factors;
  for (const SymExpr &size : sizes)
    factors.push_back(addNode(size));
  int node = getNodes(value)[dim];
  unify(node, factors, value.getDefiningOp());
  return true;
}

void FactorClasses::addOp(Operation *op) {
  if (auto call = dyn_cast<func::CallOp>(op)) {
    auto callee = SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, call.getCalleeAttr());
    if (!callee || callee.isExternal())
      return;
    for (auto [operand, argument] : llvm::zip(call.getOperands(), callee.getArguments()))
      unifyValues(operand, argument, op);
    Operation *terminator = callee.front().getTerminator();
    for (auto [result, value] : llvm::zip(call.getResults(), terminator->getOperands()))
      unifyValues(result, value, op);
    return;
  }
  auto ruled = dyn_cast<ShardingRuleOpInterface>(op);
  if (!ruled) {
    if (isa<func::ReturnOp>(op))
      return;
    // An unknown op makes all of its dimensions unsplittable.
    auto mark = [&](Value value) {
      for (int node : SmallVector<int, 4>(getNodes(value))) {
        Classes leaves;
        collectLeaves(node, leaves);
        for (int leaf : leaves)
          nodes[leaf].preventingOps.insert(op);
      }
    };
    llvm::for_each(op->getOperands(), mark);
    llvm::for_each(op->getResults(), mark);
    return;
  }

  ShardingRule rule = ruled.getShardingRule();
  SmallVector<int, 4> factors;
  for (const ShardingRule::Factor &factor : rule.factors) {
    factors.push_back(addNode(factor.size));
    if (factor.kind == FactorKind::Unsplittable)
      nodes[factors.back()].preventingOps.insert(op);
  }
  auto relate = [&](Value value, const ShardingRule::Dims &dims) {
    SmallVector<int, 4> valueDims(getNodes(value));
    for (auto [node, dim] : llvm::zip(valueDims, dims)) {
      if (dim.empty())
        continue; // size 1, broadcast
      SmallVector<int, 2> list;
      for (int factor : dim)
        list.push_back(factors[factor]);
      unify(node, list, op);
    }
  };
  for (auto [value, dims] : llvm::zip(op->getOperands(), rule.operands))
    relate(value, dims);
  for (auto [value, dims] : llvm::zip(op->getResults(), rule.results))
    relate(value, dims);
  opNodes[op] = {std::move(rule), std::move(factors)};
}

void FactorClasses::removeOp(Operation *op) {
  for (Node &node : nodes)
    node.preventingOps.remove(op);
  opNodes.erase(op);
  for (Value result : op->getResults())
    valueNodes.erase(result);
}
