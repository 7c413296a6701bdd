//===- SizeReduction.h - Reduced sizes for test runs ------------*- C++ -*-===//
//
// Static sizes of a model are too large to interpret it: 50257 words, 16384 channels. Instead, a
// program of the same ops with consistently reduced sizes is run. A size n is replaced by n' such
// that constraints of the program between sizes hold for the reduced ones too:
//
//   40 -> [5, 8] (a reshape)          40' = 5' 8'
//   elements 128.. of 384 (a slice)   384' = 3 128', and it begins at 128'
//   6007 of 6011 elements (a slice)   6011' = 6007' + 4'
//   12 over 8 ranks (a split)         12' >= 8, and is a multiple of 8 if and only if 12 is
//
// The grid of the sample may be smaller too: 12 over 8 ranks is then for example 4 over 3.
//
// Sizes are divided into factors where such an equation requires it, until each is a product of
// factors whose small values are independent. A size in a sum is computed from the others. A size
// that no small number can replace is unchanged.
//
// Windows of attention are not sizes. Each has a small number of its own, even if a size or a
// factor of one is the same number: a window of 4096 keys and 4096 channels are independent.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H

#include "../Interpret/World.h"

namespace mlir::tpc::equivalence {

/// Returns c of c * batch * sequence; nothing for sums, whose numbers are unchanged.
std::optional<int64_t> getCoefficient(const ::tpc::SymExpr &size);

class SizeReduction : public interpret::Sizes {
public:
  using Factors = SmallVector<int64_t, 4>;

  /// Collects the constraints of `model` and `program`, and chooses sizes for the grid `sample`,
  /// which replaces `grid`. `base` is the value of an unconstrained size. Tables of positions have
  /// at least max(base, rows) rows. `distinct`: larger numbers keep different sizes different.
  SizeReduction(ModuleOp model, ModuleOp program, GridAttr grid, GridAttr sample, int64_t base,
                int64_t rows = 0, bool distinct = false);

  /// Returns an op without a size model; null if there is none.
  Operation *getUnknown() const { return unknown; }

  /// Returns the reduced size of the static size n. The reduced size of a product is the product.
  int64_t get(int64_t n) const;
  int64_t evaluate(const ::tpc::SymExpr &size) const override;
  using Sizes::evaluate;
  /// Different windows have different small sizes in the same order. A window that neither program
  /// has differs from all of them.
  int64_t evaluateWindow(const ::tpc::SymExpr &window) const override;
  int64_t spread(int64_t i, int64_t n) const override;
  int64_t scale(int64_t offset, int64_t n) const override;

  /// Values for the symbols, at least 1 each: the larger `sample`, the smaller the values.
  static constexpr int samples = 4;
  static constexpr int draws = 4; // of inputs, for samples that do not exercise a window
  void setSample(int sample);
  /// Sets the next sample. After the last one come all samples again with windows one key shorter,
  /// for tables that lack rows for more tokens. Returns false if there is none.
  bool setNextSample();
  /// Sets the current sample again, with symbols of `dims` at least n.
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

  /// Describes the largest size that cannot be reduced, and the op that prevents it; empty if none.
  std::string explain() const;

  // Constraints of ops (SizesOpInterface).

  /// Constrains the product of `a` to be that of `b`.
  void equate(ArrayRef<int64_t> a, ArrayRef<int64_t> b);
  /// Keeps the size n and its factors unchanged, because of the op `why`.
  void freeze(int64_t n, Operation *why = nullptr);
  /// Keeps the proportions of sizes. If one of them is unknown, the others are unchanged.
  void scaleTogether(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// Constrains the first size to be the sum of the others, and returns true. If the proportions of
  /// all are small numbers, keeps these instead.
  bool addUpOrScale(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// Declares the number of keys in a cache, which sequences of different lengths fill in part.
  void addCache(const ::tpc::SymExpr &keys) { keys.collectSymbols(cachedSymbols); }
  /// Declares a table of n rows. If no other value has this size, as for positions, the table has
  /// rows for the tokens of some samples.
  void addTable(int64_t n) { tables.insert(n); }
  /// Sets the rows of such a table; 0: the initial number. Returns false if the number is
  /// unchanged, or other values have its size.
  bool setRows(int64_t n, int64_t rows);
  /// Declares a window of n keys among `keys`, which is no size. Samples have more keys than n.
  void addWindow(int64_t n, const ::tpc::SymExpr &keys);
  /// Declares that a slice begins or ends at `index` in a dimension whose size n is a sum.
  void addCut(int64_t n, int64_t index) { cuts[n].insert(index); }

private:
  void collect(ModuleOp module);
  void collectType(Type type);
  void growTables(int64_t rows);
  /// Keeps the ratio of n, a multiple, to `unit`.
  void scaleWith(int64_t n, int64_t unit);
  /// Constrains `total` to be the sum of `parts`; parts that are 0 are ignored.
  void addUp(Operation *op, int64_t total, ArrayRef<int64_t> parts);
  void define(Operation *op, Factors left, Factors right);
  bool defineOne(Factors &left, Factors &right);
  /// Removes the common factors of both sides, with multiplicity.
  static void removeCommon(Factors &left, Factors &right);
  bool dependsOn(int64_t n, int64_t other) const;
  void expand(int64_t n, Factors &out) const;
  void divide(int64_t n, int64_t factor);
  void choose(int64_t base, int64_t rows, bool distinct);
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
  std::map<int64_t, Sum> sums;            // of other sizes, by smaller or composite ones
  std::vector<Equation> equations;        // that `sums` are made from
  /// Begins and ends of slices by size that is a sum: different indices stay different.
  std::map<int64_t, std::set<int64_t>> cuts;
  std::map<int64_t, Operation *> reasons; // of frozen sizes
  std::set<int64_t> sizes, frozen;
  std::set<int64_t> windows;
  int64_t shortest = 2; // of the small windows
  std::set<std::string> cachedSymbols;
  std::map<int64_t, int64_t> grown; // small sizes of tables of positions
  std::set<int64_t> tables,
      computed; // rows of tables; sizes of values other than weights and constants
  std::set<std::string> windowedSymbols;   // of keys that windows hide
  std::set<std::array<int64_t, 3>> splits; // size, parts, and parts in the sample grid
  GridAttr grid, sample;
  Operation *unknown = nullptr;
  std::map<int64_t, int64_t> chosen; // of atomic sizes
  std::map<std::string, int64_t> symbols;
  int current = 0; // sample
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
