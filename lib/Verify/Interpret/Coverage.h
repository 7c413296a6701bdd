//===- Coverage.h - Facts of a program that runs exercise -------*- C++ -*-===//
//
// A run at small sizes does not test a window that hides no key, an operand of a select that is
// never selected, or a cap that scores are far below. Ops therefore record which of their facts
// (see the enum) a run exercised.
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
  Capped,        // a number is close enough to the cap to be changed by it
  NotFlat,       // scores of one query differ
  True,          // a comparison is true
  False,         // a comparison is false
  FirstOperand,  // select, maximum or minimum: an element of the first operand is selected
  SecondOperand, // an element of the second operand is selected
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

/// Maximum magnitudes of the numbers that determine whether a fact is exercised.
struct Magnitudes {
  double ofCap = 0;  // of a capped or clipped number, relative to the cap
  double spread = 0; // largest minus smallest score of a query
  int64_t rows = 0;  // largest looked-up row of a table, plus 1
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
  /// Calls `f` with each op and its unexercised facts.
  void forEach(llvm::function_ref<void(Operation *, Facts, const Magnitudes &)> f) const {
    for (auto &[op, entry] : entries)
      f(op, entry.all.without(entry.seen), entry.magnitudes);
  }
  /// Returns whether all required facts are exercised.
  bool isSufficient() const { return missing(required()).empty(); }
  /// Describes the first missing required fact and its op. Returns an empty string if none is
  /// missing.
  std::string explainMissing() const;
  /// Returns the number of missing facts. Does not count rows of tables, because a run at small
  /// sizes looks up only some rows.
  unsigned countMissing() const { return missing(counted()).size(); }
  /// Describes the first missing fact, and the number of other missing facts. Returns an empty
  /// string if none is missing.
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
  /// Returns the unexercised facts among `which`.
  SmallVector<std::pair<Operation *, Fact>> missing(Facts which) const;
  llvm::MapVector<Operation *, Entry> entries;
};

/// Results of a randomized check, in addition to errors.
struct RunReport {
  std::string skipped;     // the reason if nothing was run
  std::string unexercised; // facts that no run exercised
  std::string facts;       // all facts, one per line
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_COVERAGE_H
