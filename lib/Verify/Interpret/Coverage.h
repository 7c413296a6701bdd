//===- Coverage.h - Facts of a program that runs exercise -------*- C++ -*-===//
//
// A run at small sizes proves nothing about a window that hides no key, a branch that no element
// takes, or a cap that no score comes near. Ops therefore record which of their facts had an
// effect, and a check counts only for those.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_COVERAGE_H
#define TPC_LIB_VERIFY_INTERPRET_COVERAGE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tpc::interpret {

enum class Fact : unsigned {
  WindowShows,  // the last key inside the window is visible
  WindowHides,  // the first key outside it is hidden, only by the window
  CausalShows,  // a query sees its own token
  CausalHides,  // the next token is hidden, only by causality
  KeyMaskShows, // a key is visible under the mask
  KeyMaskHides, // a key is hidden only by the mask
  MaskShows,
  MaskHides,
  Capped,        // capped numbers come near the cap
  NotFlat,       // scores of one query differ
  True,          // a comparison is true
  False,         // a comparison is false
  FirstOperand,  // select, maximum or minimum: an element is that of the first operand
  SecondOperand, // the same for the second operand
  FirstRow,      // the first row of a table is looked up
  LastRow,
};
constexpr unsigned numFacts = unsigned(Fact::LastRow) + 1;

/// A set of facts.
class Facts {
public:
  Facts() = default;
  Facts(std::initializer_list<Fact> facts) {
    for (Fact fact : facts)
      add(fact);
  }
  void add(Fact fact, bool holds = true) { bits |= unsigned(holds) << unsigned(fact); }
  bool contains(Fact fact) const { return bits >> unsigned(fact) & 1; }
  Facts without(Facts other) const { return Facts(bits & ~other.bits); }
  Facts operator|(Facts other) const { return Facts(bits | other.bits); }
  bool isEmpty() const { return bits == 0; }

private:
  explicit Facts(unsigned bits) : bits(bits) {}
  unsigned bits = 0;
};

/// Maximum magnitudes of numbers that facts depend on.
struct Magnitudes {
  double ofCap = 0;  // capped or clipped number, relative to the cap
  double spread = 0; // largest minus smallest score of a query
  int64_t rows = 0;  // number of rows of a table up to the last that is looked up
};

/// Coverage of facts by op, over all runs and calls.
class Coverage {
public:
  /// Records that `op` has the facts `all`, and that a run exercised `seen`.
  void note(Operation *op, Facts all, Facts seen, Magnitudes magnitudes = {}) {
    Entry &entry = entries[op];
    entry.all = entry.all | all;
    entry.seen = entry.seen | seen;
    entry.magnitudes.ofCap = std::max(entry.magnitudes.ofCap, magnitudes.ofCap);
    entry.magnitudes.spread = std::max(entry.magnitudes.spread, magnitudes.spread);
    entry.magnitudes.rows = std::max(entry.magnitudes.rows, magnitudes.rows);
  }
  /// Calls `f` with each op and its facts that are not exercised.
  void forEach(llvm::function_ref<void(Operation *, Facts, const Magnitudes &)> f) const {
    for (auto &[op, entry] : entries)
      f(op, entry.all.without(entry.seen), entry.magnitudes);
  }
  /// Returns whether all required facts are exercised.
  bool isSufficient() const { return missing(required()).empty(); }
  /// Describes the first missing required fact and its op; empty if there is none.
  std::string explainMissing() const;
  /// Returns the number of missing facts, except rows of tables: a run at small sizes reads only
  /// some.
  unsigned countMissing() const { return missing(counted()).size(); }
  /// Describes the first missing fact and the number of others; empty if there is none.
  std::string listUnexercised() const;
  /// Prints a line for each fact of each op: exercised or not.
  void print(llvm::raw_ostream &os) const;

private:
  struct Entry {
    Facts all, seen;
    Magnitudes magnitudes;
  };
  static Facts counted() {
    Facts all;
    for (unsigned i = 0; i < numFacts; ++i)
      all.add(Fact(i), Fact(i) != Fact::FirstRow && Fact(i) != Fact::LastRow);
    return all;
  }
  static Facts required() { return {Fact::WindowShows, Fact::WindowHides}; }
  /// Returns the missing facts among `which`.
  SmallVector<std::pair<Operation *, Fact>> missing(Facts which) const;
  llvm::MapVector<Operation *, Entry> entries;
};

/// Results of a randomized check other than errors.
struct RunReport {
  std::string skipped;     // reason if nothing was run
  std::string unexercised; // facts that the run does not cover
  std::string facts;       // all facts, one per line
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_COVERAGE_H
