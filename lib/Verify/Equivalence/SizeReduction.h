//===- SizeReduction.h - Reduced sizes for test runs ------------*- C++ -*-===//
//
// A model cannot be interpreted at its static sizes, such as 50257 words and 16384 channels.
// Instead, the same ops are run with consistently reduced sizes: each size n is replaced by n' such
// that constraints between sizes hold for the reduced sizes too:
//
//   40 -> [5, 8] (a reshape)          40' = 5' 8'
//   elements 128.. of 384 (a slice)   384' = 3 128', with offset 128'
//   6007 of 6011 elements (a slice)   6011' = 6007' + 4'
//   12 over 8 ranks (a split)         12' >= 8, and is a multiple of 8 if and only if 12 is
//
// The grid of a sample may be smaller too: a split of 12 over 8 ranks becomes, for example, a split
// of 4 over 3 ranks.
//
// Sizes are factored as the equations require, until each size is a product of factors that can be
// reduced independently. In a sum, one size is computed from the others. A size is unchanged if no
// smaller number satisfies its constraints.
//
// Windows of attention are not sizes and are reduced separately: a window of 4096 keys is
// independent of 4096 channels.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H

#include "../Interpret/World.h"

namespace mlir::tpc::equivalence {

/// Returns the coefficient c of a product such as c * batch * sequence; nothing for sums, whose
/// numbers are not reduced.
std::optional<int64_t> getCoefficient(const ::tpc::SymExpr &size);

class SizeReduction : public interpret::Sizes {
public:
  using Factors = SmallVector<int64_t, 4>;
  /// No: different sizes may have equal reduced sizes, which are small. Ascending, Descending:
  /// different sizes have different reduced sizes, in the same or the opposite order. Spread: in
  /// the same order, and the differences of the first sizes differ, so that 2 b - c is not a.
  enum class Distinct { No, Ascending, Descending, Spread };

  /// Collects the constraints of `model` and `program`, and chooses sizes for the grid `sample`,
  /// which replaces `grid`. `base` is the value of an unconstrained size. Tables of positions have
  /// at least max(base, rows) rows.
  SizeReduction(ModuleOp model, ModuleOp program, MeshAttr grid, MeshAttr sample, int64_t base,
                int64_t rows = 0, Distinct distinct = Distinct::No);

  /// Chooses other distinct sizes.
  void reorder(int64_t base, Distinct order) {
    chosen.clear();
    choose(base, /*rows=*/0, order);
  }

  /// Gives static sizes their original values.
  void restoreSizes() {
    for (auto &[size, reduced] : chosen)
      reduced = size;
  }

  /// Returns an op without a size model; null if all ops have one.
  Operation *getUnknown() const { return unknown; }

  /// Returns the reduced size of the static size n. The reduction is multiplicative.
  int64_t get(int64_t n) const;
  int64_t evaluate(const ::tpc::SymExpr &size) const override;
  using Sizes::evaluate;
  /// Returns the reduced window. The reduction preserves the order of windows; it maps a window
  /// that is in neither program to a number different from all others.
  int64_t evaluateWindow(const ::tpc::SymExpr &window) const override;
  int64_t spread(int64_t i, int64_t n) const override;
  int64_t scale(int64_t offset, int64_t n) const override;

  /// Number of samples. A sample has values of all symbols, at least 1. The largest value does not
  /// increase from sample to sample.
  static constexpr int samples = 4;
  static constexpr int draws = 4; // random inputs per sample, until a window is exercised
  void setSample(int sample);
  /// Sets the next sample. After the last one, repeats all samples with windows one key shorter,
  /// for tables that lack rows for more tokens. Returns false if no sample is left.
  bool setNextSample();
  /// Restores the current sample, and then raises the symbols of `dims` to at least n.
  void widen(ArrayRef<::tpc::SymExpr> dims, int64_t n);
  /// Restores the current sample.
  void restoreSample() { setSample(current); }
  /// Sets a symbol until the next sample; `value` may be 0.
  void setSymbol(const std::string &name, int64_t value) { symbols[name] = value; }
  std::vector<std::string> getSymbols() const {
    std::vector<std::string> names;
    for (auto &[name, value] : symbols)
      names.push_back(name);
    return names;
  }

  /// Describes the largest size that cannot be reduced and the op that prevents it. Returns an
  /// empty string if all sizes are reduced.
  std::string explain() const;

  // Constraints of ops (SizesOpInterface).

  /// Constrains the products of `a` and of `b` to be equal.
  void equate(ArrayRef<int64_t> a, ArrayRef<int64_t> b);
  /// Excludes the size n and its factors from the reduction. `why`: the op that requires it.
  void freeze(int64_t n, Operation *why = nullptr);
  /// Constrains sizes to keep their ratios. If one of the sizes is unknown, freezes the others.
  void scaleTogether(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// Constrains the first size to be the sum of the others, and returns true. If the ratios of the
  /// sizes are small numbers, constrains the sizes to keep these ratios instead.
  bool addUpOrScale(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// Declares symbols that an op computes with; types may not have them.
  void addSymbols(const ::tpc::SymExpr &size);
  /// Declares the capacity of a cache, which sequences of different lengths do not fill.
  void addCache(const ::tpc::SymExpr &keys) { keys.collectSymbols(cachedSymbols); }
  /// Declares a table of n rows. If no other value has this size (a table of positions), the
  /// reduced table has enough rows for the tokens of some samples.
  void addTable(int64_t n) { tables.insert(n); }
  /// Sets the number of rows of a table; 0: the initial number. Returns false if the number is
  /// unchanged, or if other values have the same size.
  bool setRows(int64_t n, int64_t rows);
  /// Declares a window of n of the `keys`. A window is not a size. Samples have more keys than the
  /// window.
  void addWindow(int64_t n, const ::tpc::SymExpr &keys);
  /// Declares that a slice begins or ends at `index` of a dimension whose size n is a sum.
  void addCut(int64_t n, int64_t index) { cuts[n].insert(index); }

private:
  void collect(ModuleOp module);
  void collectType(Type type);
  void growTables(int64_t rows);
  /// Constrains the ratio n / unit, which is an integer, to stay unchanged.
  void scaleWith(int64_t n, int64_t unit);
  /// Constrains `total` to be the sum of `parts`; parts that are 0 are ignored.
  void addUp(Operation *op, int64_t total, ArrayRef<int64_t> parts);
  void define(Operation *op, Factors left, Factors right);
  bool defineOne(Factors &left, Factors &right);
  /// Removes the common factors of `left` and `right`, with multiplicity.
  static void removeCommon(Factors &left, Factors &right);
  bool dependsOn(int64_t n, int64_t other) const;
  void expand(int64_t n, Factors &out) const;
  void divide(int64_t n, int64_t factor);
  void choose(int64_t base, int64_t rows, Distinct distinct);
  void collectLeaves(int64_t n, Factors &out) const;

  /// A size as a sum: `plus` minus `minus`.
  struct Sum {
    Factors plus, minus;
  };
  struct Equation {
    Operation *op;
    int64_t total;
    Factors parts;
  };
  std::map<int64_t, Factors> definitions; // of composite sizes
  std::map<int64_t, Sum> sums;            // other sizes, as sums of smaller or composite sizes
  std::vector<Equation> equations;        // from which `sums` is derived
  /// Offsets of slices, by the size of the dimension (a sum). Different offsets stay different.
  std::map<int64_t, std::set<int64_t>> cuts;
  std::map<int64_t, Operation *> reasons; // of frozen sizes
  std::set<int64_t> sizes, frozen;
  std::set<int64_t> windows;
  int64_t shortest = 2; // length of the shortest reduced window
  std::set<std::string> cachedSymbols;
  std::map<int64_t, int64_t> grown; // reduced sizes of tables of positions
  std::set<int64_t> tables,
      computed; // rows of tables; sizes of values other than weights and constants
  std::set<std::string> windowedSymbols;   // symbols of dimensions of keys with a window
  std::set<std::array<int64_t, 3>> splits; // size, shards, and shards in the sample grid
  MeshAttr grid, sample;
  Operation *unknown = nullptr;
  std::map<int64_t, int64_t> chosen; // of atomic sizes
  std::map<std::string, int64_t> symbols;
  int current = 0; // sample
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
