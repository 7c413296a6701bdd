//===- KernelClusters.cpp - Clusters of ops that form kernels -------------===//

#include "KernelClusters.h"

#include "tpc/Dialect/Training.h"

#include <queue>

using namespace mlir;
using namespace mlir::tpc;

static bool isHost(Operation *op) {
  auto host = dyn_cast<HostOpInterface>(op);
  return host && host.isHostOp();
}

static bool isKernel(Operation *op) {
  auto kernel = dyn_cast<KernelOpInterface>(op);
  return kernel && kernel.isKernelOp();
}

bool mlir::tpc::isComputedByKernel(Operation *op) { return op && isKernel(op) && !isHost(op); }

static bool isCheap(Operation *op) { return cast<KernelOpInterface>(op).isCheap(); }

KernelClusters::KernelClusters(Block &block)
    : block(block), target(TargetTraits::get(block.getParentOp())) {
  unsigned next = 0;
  for (Operation &op : block)
    position[&op] = next++;
  // An append that is not merged with other ops becomes a runtime call, which supports strides.
  // Clustering must know which ops are calls, because operands of calls must be in memory. So it is
  // repeated until no further append becomes a call.
  for (bool again = true; again;) {
    again = false;
    cluster();
    for (const Node &node : nodes)
      if (node.ops.size() == 1 && node.isKernel && getAliasedOperand(node.ops[0]->getResult(0)))
        again |= calls.insert(node.ops[0]).second;
  }
}

void KernelClusters::cluster() {
  generated.clear();
  nodeOf.clear();
  nodes.clear();
  previous.clear();
  findGenerated();
  findNodes();
  mergeAll();
  if (target.mergesAttentionOperands)
    mergeAttentionOperands();
}

bool KernelClusters::isCall(Operation *op) const { return isHost(op) || calls.contains(op); }

bool KernelClusters::isGenerated(Value value) const {
  return value.getDefiningOp() && generated.contains(value.getDefiningOp());
}

void KernelClusters::findGenerated() {
  DenseMap<Operation *, unsigned> depth;
  for (Operation &op : block) {
    if (!isKernel(&op) || !isCheap(&op) ||
        !llvm::all_of(op.getOperands(), [&](Value v) { return isGenerated(v); }))
      continue;
    unsigned opDepth = 1;
    for (Value v : op.getOperands())
      opDepth = std::max(opDepth, depth.lookup(v.getDefiningOp()) + 1);
    if (opDepth > target.maxGeneratedDepth)
      continue;
    depth[&op] = opDepth;
    generated.insert(&op);
  }
}

// Ops that can be host ops are not candidates: a reshape outside of kernels is free. A generated
// value needs a kernel only if an op reads it from memory.
bool KernelClusters::isCandidate(Operation *op) const {
  if (!isKernel(op))
    return false;
  if (!generated.contains(op))
    return !isCall(op);
  if (isa<ConstantOp>(op))
    return false; // emitted as constant data if needed in memory
  return llvm::any_of(op->getUsers(), [&](Operation *user) {
    return user->getBlock() != &block || !isKernel(user) ||
           (!generated.contains(user) && isCall(user));
  });
}

/// Returns the first op of the matmuls, or of the gradients of attention, that one call computes.
/// They form one node.
static Operation *getFirstMerged(Operation &op) {
  if (op.hasAttr(kMergedAttr))
    return getMerged(cast<MatmulOp>(op)).front();
  auto grad = dyn_cast<AttentionGradOp>(op);
  return grad ? grad.getMerged().front().getOperation() : &op;
}

void KernelClusters::findNodes() {
  Operation *lastOrdered = nullptr;
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    bool candidate = isCandidate(&op);
    if (generated.contains(&op) && !candidate && !isa<ConstantOp>(op))
      continue; // recomputed in each kernel
    // Fused ops are in the node of their matmul.
    if (auto attr = op.getAttrOfType<IntegerAttr>(kFusedAttr)) {
      unsigned node = nodeOf.lookup(op.getOperand(attr.getInt()).getDefiningOp());
      nodes[node].ops.push_back(&op);
      nodeOf[&op] = node;
      continue;
    }
    if (Operation *first = getFirstMerged(op); first != &op) {
      unsigned node = nodeOf.lookup(first);
      nodes[node].ops.push_back(&op);
      nodeOf[&op] = node;
      continue;
    }
    nodeOf[&op] = nodes.size();
    Node &node = nodes.emplace_back();
    node.ops.push_back(&op);
    node.isKernel = candidate;
    if (candidate) {
      Value written = getWritten(op.getResult(0));
      int64_t rank = rankOf(written);
      int64_t rows =
          std::min(rank <= 1 ? rank : rank - 1, cast<KernelOpInterface>(op).getMaxRowRank());
      llvm::append_range(node.rows, getDist(written).getDims().take_front(rows));
    } else if (!isa<KernelOpInterface, ParameterOp>(op)) {
      // Collectives, transfers and calls keep their relative order.
      if (lastOrdered)
        previous[&op] = lastOrdered;
      lastOrdered = &op;
    }
  }
}

// Visits consumers in reverse order, so that a chain is in the cluster of its last op.
void KernelClusters::mergeAll() {
  SmallVector<Operation *> ops;
  for (Operation &op : llvm::reverse(block))
    ops.push_back(&op);
  for (Operation *op : ops) {
    if (!nodeOf.count(op) || !nodes[nodeOf[op]].isKernel)
      continue;
    for (Value operand : op->getOperands()) {
      Operation *producer = operand.getDefiningOp();
      auto found = nodeOf.find(producer);
      if (!producer || found == nodeOf.end() || !nodes[found->second].isKernel ||
          isGenerated(operand))
        continue;
      if (found->second != nodeOf[op])
        tryMerge(found->second, nodeOf[op]);
    }
  }
}

bool KernelClusters::tryMerge(unsigned producer, unsigned consumer) {
  Node &from = nodes[producer], &to = nodes[consumer];
  if (from.ops.size() + to.ops.size() > target.maxKernelOps)
    return false;
  ArrayRef<DimAttr> a = from.rows, b = to.rows;
  size_t rank = std::min(a.size(), b.size());
  bool sameRows = a.take_front(rank) == b.take_front(rank) &&
                  rank + 1 >= std::max(a.size(), b.size()) && (rank > 0 || a.size() == b.size());
  bool aligned = true, escapes = false, cheap = true;
  for (Operation *op : from.ops) {
    // A kernel that updates an operand in place computes only the written elements, so ops that
    // read the full result are not merged.
    if (getAliasedOperand(op->getResult(0)))
      return false;
    cheap &= isCheap(op);
    for (OpOperand &use : op->getUses()) {
      auto user = nodeOf.find(use.getOwner());
      unsigned where = user == nodeOf.end() ? ~0u : user->second;
      if (where == consumer && getAliasedOperand(use.getOwner()->getResult(0)) == use.get())
        return false;
      escapes |= where != producer && where != consumer;
      if (where == consumer)
        aligned &=
            cast<KernelOpInterface>(use.getOwner()).isRowAligned(use.getOperandNumber(), rank);
    }
  }
  // If the consumer reads other rows of the producer, they are recomputed. This requires that the
  // producer is cheap and that no op reads its result from memory.
  if (!(sameRows && aligned) && (escapes || !cheap))
    return false;
  if (isReachableOutside(producer, consumer))
    return false;
  SmallVector<DimAttr> rows(sameRows && aligned ? b.take_front(rank) : b);
  merge(producer, consumer, rows);
  return true;
}

/// Returns the node of the kernel that computes a value, following aliased transposes; nothing if
/// no kernel computes it.
std::optional<unsigned> KernelClusters::findKernel(Value value) const {
  Operation *op = value.getDefiningOp();
  while (isa_and_nonnull<TransposeOp>(op) && isHost(op))
    op = op->getOperand(0).getDefiningOp();
  auto found = nodeOf.find(op);
  if (!op || found == nodeOf.end() || !nodes[found->second].isKernel)
    return std::nullopt;
  return found->second;
}

/// Merges the kernels that compute keys, values and queries of attention over caches. They are
/// independent, and have the sequences of the batch as common rows.
void KernelClusters::mergeAttentionOperands() {
  auto dependsOn = [&](unsigned to, unsigned from) {
    return llvm::is_contained(dependencies(to), from) || isReachableOutside(from, to);
  };
  auto countCommon = [](ArrayRef<DimAttr> a, ArrayRef<DimAttr> b) {
    return std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first - a.begin();
  };
  for (Operation &op : block) {
    auto attention = dyn_cast<AttentionOp>(op);
    if (!attention || !attention.getLengths())
      continue;
    for (Value value : {attention.getV(), attention.getQ()}) {
      std::optional<unsigned> into = findKernel(attention.getK()), from = findKernel(value);
      if (!into || !from || *into == *from)
        continue;
      Node &a = nodes[*into], &b = nodes[*from];
      auto rank = countCommon(a.rows, b.rows);
      // With fewer row dimensions, reductions over a row would be computed for each element.
      auto mayHaveFewerRowDims = [&](const Node &node) {
        return rank == std::ssize(node.rows) || llvm::all_of(node.ops, isCheap);
      };
      if (rank > 0 && mayHaveFewerRowDims(a) && mayHaveFewerRowDims(b) &&
          a.ops.size() + b.ops.size() <= target.maxKernelOps && !dependsOn(*into, *from) &&
          !dependsOn(*from, *into))
        merge(*from, *into, SmallVector<DimAttr>(ArrayRef(a.rows).take_front(rank)));
    }
  }
}

SmallVector<unsigned> KernelClusters::dependencies(unsigned node) const {
  llvm::SmallSetVector<unsigned, 8> found;
  auto visit = [&](Operation *op, auto &self) -> void {
    op->walk([&](Operation *inner) {
      for (Value operand : inner->getOperands()) {
        Operation *producer = operand.getDefiningOp();
        if (!producer || producer->getBlock() != &block)
          continue;
        auto it = nodeOf.find(producer);
        if (it == nodeOf.end())
          self(producer, self); // generated value: visit its operands
        else if (it->second != node)
          found.insert(it->second);
      }
    });
  };
  for (Operation *op : nodes[node].ops) {
    visit(op, visit);
    auto before = previous.find(op);
    if (before != previous.end() && nodeOf.lookup(before->second) != node)
      found.insert(nodeOf.lookup(before->second));
  }
  return found.takeVector();
}

/// Returns whether a path between two nodes contains a third node. If so, merging the two would
/// create a cycle.
bool KernelClusters::isReachableOutside(unsigned from, unsigned to) {
  SmallVector<unsigned> work;
  llvm::DenseSet<unsigned> seen;
  for (unsigned d : dependencies(to))
    if (d != from && seen.insert(d).second)
      work.push_back(d);
  while (!work.empty()) {
    for (unsigned d : dependencies(work.pop_back_val())) {
      if (d == from)
        return true;
      if (seen.insert(d).second)
        work.push_back(d);
    }
  }
  return false;
}

void KernelClusters::merge(unsigned producer, unsigned consumer, ArrayRef<DimAttr> rows) {
  Node &from = nodes[producer], &to = nodes[consumer];
  for (Operation *op : from.ops)
    nodeOf[op] = consumer;
  llvm::append_range(to.ops, from.ops);
  llvm::sort(to.ops, [&](Operation *x, Operation *y) { return position[x] < position[y]; });
  to.rows.assign(rows.begin(), rows.end());
  from.ops.clear();
}

// Results are the values that other nodes use, and the values that are expensive to recompute.
void KernelClusters::findResults(Node &node) {
  DenseMap<Value, unsigned> cost; // of one element within the kernel
  for (Operation *op : node.ops) {
    Value value = op->getResult(0);
    unsigned opCost = isCheap(op) ? target.cheapCost : target.expensiveCost;
    for (Value operand : op->getOperands())
      opCost += cost.lookup(operand);
    bool outside = false, repeats = false;
    unsigned users = 0;
    for (Operation *user : op->getUsers()) {
      if (!llvm::is_contained(node.ops, user)) {
        outside = true;
        continue;
      }
      ++users;
      // Norms loop over a row several times, and a reduction once.
      repeats |= !isCheap(user) && !isa<ReduceOp>(user);
    }
    bool aligned =
        (size_t)rankOf(value) >= node.rows.size() &&
        getDist(value).getDims().take_front(node.rows.size()) == ArrayRef<DimAttr>(node.rows);
    if (outside || (aligned && opCost >= target.storedFrom && (repeats || users > 1))) {
      node.results.push_back(value);
      opCost = 0;
    }
    cost[value] = opCost;
  }
}

// Topological sort (Kahn). Among ready nodes, the node whose last op is first in the program is
// emitted first.
SmallVector<Node> KernelClusters::getNodes() {
  SmallVector<SmallVector<unsigned>> users(nodes.size());
  SmallVector<unsigned> missing(nodes.size(), 0);
  using Entry = std::pair<unsigned, unsigned>; // position, node
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
  auto enqueue = [&](unsigned i) { ready.push({position[nodes[i].ops.back()], i}); };
  for (unsigned i = 0; i < nodes.size(); ++i) {
    if (nodes[i].ops.empty())
      continue;
    SmallVector<unsigned> needs = dependencies(i);
    missing[i] = needs.size();
    for (unsigned d : needs)
      users[d].push_back(i);
    if (needs.empty())
      enqueue(i);
  }
  SmallVector<Node> result;
  while (!ready.empty()) {
    unsigned i = ready.top().second;
    ready.pop();
    if (nodes[i].isKernel)
      findResults(nodes[i]);
    result.push_back(nodes[i]);
    for (unsigned user : users[i])
      if (--missing[user] == 0)
        enqueue(user);
  }
  return result;
}
