//===- SizeReduction.h - A program's sizes, made small ----------*- C++ -*-===//
//
// Static sizes of a model are too large to interpret it: 50257 words, 16384 channels. A program
// of the same ops is run instead whose sizes are smaller in a consistent way. Sizes are numbers n
// with n' in place of n, such that what the program needs of sizes holds for the small ones too:
//
//   40 -> [5, 8] (a reshape)          40' = 5' 8'
//   elements 128.. of 384 (a slice)   384' = 3 128', and it begins at 128'
//   6007 of 6011 elements (a slice)   6011' = 6007' + 4'
//   12 over 8 ranks (a split)         12' >= 8, and is a multiple of 8 if and only if 12 is
//
// The grid of the sample may be smaller too: 12 over 8 ranks is then for example 4 over 3.
//
// To this end sizes are divided into factors where such an equation asks for it, until each is a
// product of factors for which small numbers can be chosen freely. A size that belongs to a sum is
// not chosen: it follows from the others. What no small number can stand for stays as it is.
//
// Windows of attention are no sizes. Each has a small number of its own, also where a size, or a
// factor of one, is the same number: a window of 4096 keys and 4096 channels are two things.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
#define TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H

#include "../Interpret/World.h"

namespace mlir::tpc::equivalence {

/// c of c * batch * sequence; nothing for sums, whose numbers stay as they are.
std::optional<int64_t> getCoefficient(const ::tpc::SymExpr &size);

class SizeReduction : public interpret::Sizes {
public:
  using Factors = SmallVector<int64_t, 4>;

  /// Collects what `model` and `program` need and chooses sizes for the grid `sample` in place of
  /// `grid`; `base` stands for what may be any number, and is the least for rows of tables of
  /// positions if `rows` is not more. `distinct`: larger numbers do as well, so that different
  /// sizes stay different.
  SizeReduction(ModuleOp model, ModuleOp program, GridAttr grid, GridAttr sample, int64_t base,
                int64_t rows = 0, bool distinct = false);

  /// An op of which it is not known what it needs of sizes; null if there is none.
  Operation *getUnknown() const { return unknown; }

  /// What stands for the static size n. Products of known sizes are products.
  int64_t get(int64_t n) const;
  int64_t evaluate(const ::tpc::SymExpr &size) const override;
  using Sizes::evaluate;
  /// Different windows have different small sizes, in the same order. A window that neither program
  /// has is none of these.
  int64_t evaluateWindow(const ::tpc::SymExpr &window) const override;
  int64_t spread(int64_t i, int64_t n) const override;
  int64_t scale(int64_t offset, int64_t n) const override;

  /// Values for the symbols, all of them at least 1: the larger `sample`, the smaller they are.
  static constexpr int samples = 4;
  static constexpr int draws = 4; // of inputs, where a sample does not exercise a window
  void setSample(int sample);
  /// Sets the next sample; behind the last one the first one again, with windows that are one key
  /// shorter, for tables that do not have rows for more tokens. False if there is none.
  bool setNextSample();
  /// Sets the present sample again, but symbols of `dims` are at least n.
  void widen(ArrayRef<::tpc::SymExpr> dims, int64_t n);
  /// The present sample, as it was.
  void restoreSample() { setSample(current); }
  /// Until the next sample; may be 0.
  void setSymbol(const std::string &name, int64_t value) { symbols[name] = value; }
  std::vector<std::string> getSymbols() const {
    std::vector<std::string> names;
    for (auto &[name, value] : symbols)
      names.push_back(name);
    return names;
  }

  /// Which large size has to stay as it is, and why; empty if none has to.
  std::string explain() const;

  // What ops need (SizesOpInterface).

  /// The product of `a` is that of `b`.
  void equate(ArrayRef<int64_t> a, ArrayRef<int64_t> b);
  /// The size n and what it is made of stay as they are, because of `why`.
  void freeze(int64_t n, Operation *why = nullptr);
  /// Sizes keep their proportions. If one of them is not known, the others stay as they are.
  void scaleTogether(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// The first is the sum of the others. True if it will be their sum; if the proportions of all
  /// are small numbers, they keep these instead.
  bool addUpOrScale(Operation *op, ArrayRef<std::optional<int64_t>> all);
  /// Keys are a cache's, of which sequences of different lengths have some.
  void addCache(const ::tpc::SymExpr &keys) { keys.collectSymbols(cachedSymbols); }
  /// A table of n rows. Where nothing else has this size, as of positions, it has rows for the
  /// tokens of some samples.
  void addTable(int64_t n) { tables.insert(n); }
  /// Sets how many rows such a table has; 0: as many as at first. False if it has as many already,
  /// or others have its size.
  bool setRows(int64_t n, int64_t rows);
  /// A window of n keys among `keys`: no size. Samples have more keys than it shows.
  void addWindow(int64_t n, const ::tpc::SymExpr &keys);
  /// Of a size that is a sum, a slice begins or ends here.
  void addCut(int64_t n, int64_t place) { cuts[n].insert(place); }

private:
  void collect(ModuleOp module);
  void collectType(Type type);
  void growTables(int64_t rows);
  /// n is a multiple of `unit` in the same ratio.
  void scaleWith(int64_t n, int64_t unit);
  /// `total` is the sum of `parts`; 0 is no part.
  void addUp(Operation *op, int64_t total, ArrayRef<int64_t> parts);
  void define(Operation *op, Factors left, Factors right);
  bool defineOne(Factors &left, Factors &right);
  /// Takes away what is on both sides, each as often as it is on both.
  static void removeCommon(Factors &left, Factors &right);
  bool dependsOn(int64_t n, int64_t other) const;
  void expand(int64_t n, Factors &out) const;
  void divide(int64_t n, int64_t factor);
  void choose(int64_t base, int64_t rows, bool distinct);
  void collectLeaves(int64_t n, Factors &out) const;

  /// A size that is a sum: of these, without those.
  struct Sum {
    Factors plus, minus;
  };
  struct Equation {
    Operation *op;
    int64_t total;
    Factors parts;
  };
  std::map<int64_t, Factors> definitions; // of composite sizes
  std::map<int64_t, Sum> sums;            // of others, by smaller ones or by composite ones
  std::vector<Equation> equations;        // that `sums` are made of
  /// By size that is a sum, where slices of it begin and end: different places stay different.
  std::map<int64_t, std::set<int64_t>> cuts;
  std::map<int64_t, Operation *> reasons; // of frozen sizes
  std::set<int64_t> sizes, frozen;
  std::set<int64_t> windows;
  int64_t shortest = 2; // of the small windows
  std::set<std::string> cachedSymbols;
  std::map<int64_t, int64_t> grown;   // small sizes of tables of positions
  std::set<int64_t> tables, computed; // rows of tables; sizes of what is no weight and no constant
  std::set<std::string> windowedSymbols;   // of keys that windows hide
  std::set<std::array<int64_t, 3>> splits; // a size, over how many, and over how many here
  GridAttr grid, sample;
  Operation *unknown = nullptr;
  std::map<int64_t, int64_t> chosen; // of atomic sizes
  std::map<std::string, int64_t> symbols;
  int current = 0; // sample
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_SIZEREDUCTION_H
