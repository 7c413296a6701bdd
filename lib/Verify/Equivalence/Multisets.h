//===- Multisets.h - Hash-consed multisets of numbers -----------*- C++ -*-===//
//
// Hash-consed multisets of non-negative numbers: two multisets are equal if and only if they have
// the same id. A multiset is a trie over the bits of its numbers, highest bit first. The shape of a
// trie depends only on its contents, and equal subtrees are shared. Each sum along a residual has
// one addend more than the previous sum, so it takes only a few new nodes. A sum that is added to
// itself sixty times has one number with multiplicity 2^60.
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

  /// Returns the multiset of one number with multiplicity `times`.
  Set makeSingle(unsigned number, int64_t times = 1);
  /// Returns the union, or nothing if a multiplicity exceeds 2^62.
  std::optional<Set> add(Set a, Set b);
  std::optional<Set> scale(Set set, int64_t times);

  /// Returns the number of distinct numbers.
  int64_t count(Set set) const { return set == empty ? 0 : nodes[set].count; }
  int64_t getTimes(Set set, unsigned number) const;
  /// Visits numbers in ascending order.
  void forEach(Set set, llvm::function_ref<void(unsigned, int64_t)> visit) const;
  /// Visits subtrees that are not in `seen`, and inserts them into `seen`.
  void forEachNew(Set set, llvm::DenseSet<Set> &seen,
                  llvm::function_ref<void(unsigned)> visit) const;

  /// A node of a trie. The numbers below a branch have `bits` as their bits above `bit`.
  struct Node {
    unsigned bits; // a leaf's number
    unsigned bit;  // 0: a leaf
    int64_t times; // multiplicity of a leaf's number
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
