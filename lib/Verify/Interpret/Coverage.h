//===- Coverage.h - Facts of a program that runs have exercised -*- C++ -*-===//
//
// A run at small sizes shows nothing of a window that hides no key, of a branch that no element
// takes, or of a cap that no score comes near. So ops note which of their facts had an effect, and
// a check counts for those alone.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_INTERPRET_COVERAGE_H
#define TPC_LIB_VERIFY_INTERPRET_COVERAGE_H

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"

namespace mlir::tpc::interpret {

enum class Fact : unsigned {
  WindowShows,  // the last key inside of a window is seen
  WindowHides,  // the first key outside of it is hidden, by it alone
  CausalShows,  // a query sees its own token
  CausalHides,  // the next token is hidden, by causality alone
  KeyMaskShows, // a mask lets a key through
  KeyMaskHides, // a mask alone hides a key
  MaskShows,
  MaskHides,
  Capped,        // numbers that are capped come near the cap
  NotFlat,       // scores of one query differ
  True,          // a comparison holds
  False,         // and does not
  FirstOperand,  // an element is that of the first operand: of select, maximum, minimum
  SecondOperand, // and of the second one
  FirstRow,      // of a table is looked up
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

/// How large numbers are of which facts depend on that, at most.
struct Magnitudes {
  double ofCap = 0;  // a number that is capped or clipped, by the cap
  double spread = 0; // scores of a query: the largest less the smallest
  int64_t rows = 0;  // of a table, up to the last that is looked up
};

/// By op, over all runs and calls.
class Coverage {
public:
  /// `op` has the facts `all`, of which a run has exercised `seen`.
  void note(Operation *op, Facts all, Facts seen, Magnitudes magnitudes = {}) {
    Entry &entry = entries[op];
    entry.all = entry.all | all;
    entry.seen = entry.seen | seen;
    entry.magnitudes.ofCap = std::max(entry.magnitudes.ofCap, magnitudes.ofCap);
    entry.magnitudes.spread = std::max(entry.magnitudes.spread, magnitudes.spread);
    entry.magnitudes.rows = std::max(entry.magnitudes.rows, magnitudes.rows);
  }
  /// Calls `f` with each op and what of it is not exercised.
  void forEach(llvm::function_ref<void(Operation *, Facts, const Magnitudes &)> f) const {
    for (auto &[op, entry] : entries)
      f(op, entry.all.without(entry.seen), entry.magnitudes);
  }
  /// Whether all facts are exercised of which a check must not do without.
  bool isSufficient() const { return missing(required()).empty(); }
  /// The first op of which a required fact is missing, and which; empty if there is none.
  std::string explainMissing() const;
  /// How many facts of ops are missing, but for rows of tables, of which a run at small sizes reads
  /// some.
  unsigned countMissing() const { return missing(counted()).size(); }
  /// The first of these, and how many more there are; empty if there is none.
  std::string listUnexercised() const;
  /// A line for each op: what has been exercised, and what has not.
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
  /// Those among `which`.
  SmallVector<std::pair<Operation *, Fact>> missing(Facts which) const;
  llvm::MapVector<Operation *, Entry> entries;
};

/// What a randomized check says beside errors.
struct RunReport {
  std::string skipped;     // why nothing was run
  std::string unexercised; // what the run shows nothing of
  std::string facts;       // all, a line for each
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_COVERAGE_H
