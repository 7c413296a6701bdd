//===- Multisets.h - Shared multisets of numbers ----------------*- C++ -*-===//
//
// Multisets of numbers >= 0, each stored once: two are equal if they have the same id. They are
// tries over the bits of the numbers, the highest first, whose shape follows from what is in them;
// equal parts of different sets are one object. So the sums along a residual, of which each has one
// addend more than the one before, take a few nodes each, and a sum that is added to itself sixty
// times has one number with the multiplicity 2^60.
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

  /// One number, several times.
  Set makeSingle(unsigned number, int64_t times = 1);
  /// Nothing where a multiplicity passes 2^62.
  std::optional<Set> add(Set a, Set b);
  std::optional<Set> scale(Set set, int64_t times);

  /// Distinct numbers.
  int64_t count(Set set) const { return set == empty ? 0 : nodes[set].count; }
  int64_t getTimes(Set set, unsigned number) const;
  /// In ascending order.
  void forEach(Set set, llvm::function_ref<void(unsigned, int64_t)> visit) const;
  /// Without the parts that are in `seen`; they are put there.
  void forEachNew(Set set, llvm::DenseSet<Set> &seen,
                  llvm::function_ref<void(unsigned)> visit) const;

  /// The nodes of tries: a branch has all numbers that begin with `bits` (up to `bit`), by the bit.
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
