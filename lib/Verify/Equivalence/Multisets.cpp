//===- Multisets.cpp - Hash-consed multisets of numbers -------------------===//

#include "Multisets.h"

#include "llvm/ADT/bit.h"

using namespace mlir::tpc::equivalence;

// The recursion depth is at most the number of bits.

Multisets::Set Multisets::intern(Node node) {
  // Key of a branch: its children; of a leaf: its number (tagged) and its multiplicity.
  std::pair<uint64_t, uint64_t> key =
      node.bit ? std::pair<uint64_t, uint64_t>(node.left, node.right)
               : std::pair<uint64_t, uint64_t>(node.bits | uint64_t(1) << 40, node.times);
  auto [it, first] = known.try_emplace(key, Set(nodes.size()));
  if (first)
    nodes.push_back(node);
  return it->second;
}

Multisets::Set Multisets::makeSingle(unsigned number, int64_t times) {
  return intern({number, 0, times, empty, empty, 1});
}

Multisets::Set Multisets::makeBranch(unsigned bit, Set left, Set right) {
  unsigned bits = nodes[left].bits & ~(bit | (bit - 1));
  return intern({bits, bit, 0, left, right, nodes[left].count + nodes[right].count});
}

/// Joins sets whose prefixes differ.
Multisets::Set Multisets::join(Set a, Set b) {
  unsigned bit = llvm::bit_floor(nodes[a].bits ^ nodes[b].bits);
  return nodes[a].bits & bit ? makeBranch(bit, b, a) : makeBranch(bit, a, b);
}

std::optional<Multisets::Set> Multisets::add(Set a, Set b) {
  if (a == empty || b == empty)
    return a == empty ? b : a;
  if (a == b)
    return scale(a, 2);
  // Swap so that `a` branches at the higher bit.
  if (nodes[a].bit < nodes[b].bit)
    std::swap(a, b);
  Node x = nodes[a], y = nodes[b]; // copies, because the table may be reallocated
  if (x.bit == 0) {
    if (x.bits != y.bits)
      return join(a, b);
    int64_t times = x.times + y.times; // both are at most 2^62
    return times >> 62 ? std::nullopt : std::optional(makeSingle(x.bits, times));
  }
  auto prefix = [&](unsigned bits) { return bits & ~(x.bit | (x.bit - 1)); };
  if (prefix(y.bits) != x.bits)
    return join(a, b);
  std::optional<Set> left = x.left, right = x.right;
  if (x.bit == y.bit) {
    left = add(x.left, y.left);
    right = left ? add(x.right, y.right) : std::nullopt;
  } else {
    std::optional<Set> &side = y.bits & x.bit ? right : left;
    side = add(*side, b);
  }
  return left && right ? std::optional(makeBranch(x.bit, *left, *right)) : std::nullopt;
}

std::optional<Multisets::Set> Multisets::scale(Set set, int64_t times) {
  if (set == empty || times == 1)
    return set;
  Node node = nodes[set];
  if (node.bit == 0) {
    int64_t product;
    if (__builtin_mul_overflow(node.times, times, &product) || product >> 62)
      return std::nullopt;
    return makeSingle(node.bits, product);
  }
  std::optional<Set> left = scale(node.left, times);
  std::optional<Set> right = left ? scale(node.right, times) : std::nullopt;
  return right ? std::optional(makeBranch(node.bit, *left, *right)) : std::nullopt;
}

int64_t Multisets::getTimes(Set set, unsigned number) const {
  while (set != empty && nodes[set].bit)
    set = number & nodes[set].bit ? nodes[set].right : nodes[set].left;
  return set != empty && nodes[set].bits == number ? nodes[set].times : 0;
}

void Multisets::forEach(Set set, llvm::function_ref<void(unsigned, int64_t)> visit) const {
  if (set == empty)
    return;
  const Node &node = nodes[set];
  if (node.bit == 0)
    return visit(node.bits, node.times);
  forEach(node.left, visit);
  forEach(node.right, visit);
}

void Multisets::forEachNew(Set set, llvm::DenseSet<Set> &seen,
                           llvm::function_ref<void(unsigned)> visit) const {
  if (set == empty || !seen.insert(set).second)
    return;
  const Node &node = nodes[set];
  if (node.bit == 0)
    return visit(node.bits);
  forEachNew(node.left, seen, visit);
  forEachNew(node.right, seen, visit);
}
