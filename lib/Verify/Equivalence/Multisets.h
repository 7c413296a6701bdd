//===- Multisets.h - Hash-consed multisets of numbers -----------*- C++ -*-===//
//
// Multisets of numbers >= 0, each stored once: two are equal if they have the same id. They are
// tries over the bits of the numbers, highest first. Their shape depends only on their contents,
// and equal subtrees of different sets are one object. The sums along a residual, each with one
// addend more than the one before, therefore take a few nodes each. A sum that is added to itself
// sixty times has one number with multiplicity 2^60.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_MULTISETS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_MULTISETS_H

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <optional>
#include <vector>

namespace mlir::tpc::equivalence {

class Multisets {
public:
  using Set = int;
  static constexpr Set empty = -1;

  /// Returns a set of one number, `times` times.
  Set makeSingle(unsigned number, int64_t times = 1);
  /// Returns the union, or nothing if a multiplicity exceeds 2^62.
  std::optional<Set> add(Set a, Set b);
  std::optional<Set> scale(Set set, int64_t times);

  /// Returns the number of distinct numbers.
  int64_t count(Set set) const { return set == empty ? 0 : nodes[set].count; }
  int64_t getTimes(Set set, unsigned number) const;
  /// Visits numbers in ascending order.
  void forEach(Set set, llvm::function_ref<void(unsigned, int64_t)> visit) const;
  /// Visits subtrees that are not in `seen`, and inserts them there.
  void forEachNew(Set set, llvm::DenseSet<Set> &seen,
                  llvm::function_ref<void(unsigned)> visit) const;

  /// A node of a trie: a branch has all numbers whose bits above `bit` are `bits`.
  struct Node {
    unsigned bits; // a leaf's number
    unsigned bit;  // 0: a leaf
    int64_t times; // of a leaf
    Set left, right;
    int64_t count;
  };
  const Node &operator[](Set set) const { return nodes[set]; }
  size_t size() const { return nodes.size(); }

private:
  Set intern(Node node);
  Set makeBranch(unsigned bit, Set left, Set right);
  Set join(Set a, Set b);

  std::vector<Node> nodes;
  llvm::DenseMap<std::pair<uint64_t, uint64_t>, Set> known;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_MULTISETS_H
