//===- SizeReduction.cpp - Reduced sizes for test runs --------------------===//

#include "SizeReduction.h"
#include "ProofOps.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

std::optional<int64_t> equivalence::getCoefficient(const SymExpr &size) {
  if (size.isOverflow() || size.getTerms().size() != 1)
    return std::nullopt;
  const SymExpr::Term &term = size.getTerms()[0];
  return term.coefficient > 0 ? std::optional<int64_t>(term.coefficient) : std::nullopt;
}

SizeReduction::SizeReduction(ModuleOp model, ModuleOp program, MeshAttr grid, MeshAttr sample,
                             int64_t base, int64_t rows, Distinct distinct)
    : grid(grid), sample(sample) {
  collect(model);
  collect(program);
  // Offsets of slices are processed first, so that they stay distinct.
  std::vector<Equation> others = std::move(equations);
  equations.clear();
  for (auto &[n, indices] : cuts)
    for (auto it = indices.begin(); it != indices.end() && std::next(it) != indices.end(); ++it)
      if (int64_t next = *std::next(it); next < n)
        addUp(nullptr, next, {*it, next - *it});
  llvm::append_range(equations, others);
  // Sums are processed after all products, because a composite size cannot be defined as a sum.
  for (const Equation &equation : equations)
    define(equation.op, {equation.total}, equation.parts);
  choose(base, rows, distinct);
}

void SizeReduction::collect(ModuleOp module) {
  DenseSet<Type> seen;
  auto visit = [&](Type type) {
    if (isa<RankedTensorType>(type) && seen.insert(type).second)
      collectType(type);
  };
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes()) {
      visit(type);
      if (isa<RankedTensorType>(type) && op->getNumOperands() > 0)
        for (const SymExpr &size : getSizes(type))
          computed.insert(getCoefficient(size).value_or(0));
    }
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), visit);
  });
  module.walk([&](Operation *op) {
    if (auto known = dyn_cast<SizesOpInterface>(op))
      known.collectSizes(*this);
    else if (!unknown)
      unknown = op;
  });
}

void SizeReduction::collectType(Type type) {
  for (DimAttr dim : getDist(type).getDims()) {
    Factors factors;
    auto note = [&](const SymExpr &size, ArrayRef<StringAttr> axes) {
      std::optional<int64_t> c = getCoefficient(size);
      addSymbols(size);
      if (!c)
        return;
      factors.push_back(*c);
      sizes.insert(*c);
      // With several axes, the split over each prefix of them must stay even, or stay uneven.
      int64_t shards = 1, inSample = 1;
      for (StringAttr axis : axes) {
        shards *= grid ? grid.getAxisSize(axis.getValue()) : 1;
        inSample *= sample.getAxisSize(axis.getValue());
        if (inSample > 1 && size.isConstant())
          splits.insert({*c, shards, inSample});
      }
    };
    for (FactorAttr factor : dim.getFactors())
      note(factor.getExpr(), factor.getAxes());
    if (std::optional<int64_t> c = getCoefficient(dim.getExpr())) {
      sizes.insert(*c);
      equate(factors, {*c});
    }
  }
}

void SizeReduction::scaleTogether(Operation *op, ArrayRef<std::optional<int64_t>> all) {
  int64_t unit = 0;
  for (std::optional<int64_t> n : all)
    if (n)
      unit = std::gcd(unit, *n);
  bool plain = llvm::all_of(all, [](const auto &n) { return n.has_value(); });
  for (std::optional<int64_t> n : all)
    if (n && plain && unit > 0)
      scaleWith(*n, unit);
    else if (n)
      freeze(*n, op);
}

bool SizeReduction::addUpOrScale(Operation *op, ArrayRef<std::optional<int64_t>> all) {
  constexpr int64_t maxRatio = 32;
  int64_t unit = 0, largest = 0;
  for (std::optional<int64_t> n : all) {
    if (!n)
      return scaleTogether(op, all), false;
    unit = std::gcd(unit, *n);
    largest = std::max(largest, *n);
  }
  if (unit == 0 || largest / unit <= maxRatio)
    return scaleTogether(op, all), false;
  Factors parts;
  for (std::optional<int64_t> n : all.drop_front())
    parts.push_back(*n);
  addUp(op, *all[0], parts);
  return true;
}

void SizeReduction::addSymbols(const SymExpr &size) {
  std::set<std::string> names;
  size.collectSymbols(names);
  for (const std::string &name : names)
    symbols.try_emplace(name, 0);
}

void SizeReduction::addWindow(int64_t n, const SymExpr &keys) {
  windows.insert(n);
  keys.collectSymbols(windowedSymbols);
}

//===----------------------------------------------------------------------===//
// Factors
//===----------------------------------------------------------------------===//

void SizeReduction::expand(int64_t n, Factors &out) const {
  if (n == 1)
    return;
  auto it = definitions.find(n);
  if (it == definitions.end()) {
    out.push_back(n);
    return;
  }
  for (int64_t factor : it->second)
    expand(factor, out);
}

/// Defines the atomic size n as `factor` times n / factor. Both are smaller than n.
void SizeReduction::divide(int64_t n, int64_t factor) {
  definitions[n] = {factor, n / factor};
  if (frozen.count(n)) {
    freeze(factor);
    freeze(n / factor);
  }
}

void SizeReduction::removeCommon(Factors &left, Factors &right) {
  for (auto *it = left.begin(); it != left.end();) {
    auto *same = llvm::find(right, *it);
    if (same == right.end()) {
      ++it;
      continue;
    }
    right.erase(same);
    it = left.erase(it);
  }
}

void SizeReduction::equate(ArrayRef<int64_t> a, ArrayRef<int64_t> b) {
  for (int64_t n : llvm::concat<const int64_t>(a, b))
    if (n < 1)
      return;
  // Terminates: each iteration divides an atomic size into smaller ones.
  while (true) {
    Factors left, right;
    for (int64_t n : a)
      expand(n, left);
    for (int64_t n : b)
      expand(n, right);
    removeCommon(left, right);
    int64_t best = 1, x = 0, y = 0;
    for (int64_t l : left)
      for (int64_t r : right)
        if (int64_t common = std::gcd(l, r); common > best)
          best = common, x = l, y = r;
    if (best == 1)
      return;
    if (x != best)
      divide(x, best);
    if (y != best)
      divide(y, best);
  }
}

void SizeReduction::scaleWith(int64_t n, int64_t unit) {
  sizes.insert(n);
  if (n % unit != 0 || n == unit)
    return;
  equate({n}, {n / unit, unit});
  freeze(n / unit);
}

void SizeReduction::freeze(int64_t n, Operation *why) {
  Factors factors;
  expand(n, factors);
  factors.push_back(n);
  for (int64_t factor : factors) {
    if (why)
      reasons.try_emplace(factor, why);
    auto sum = frozen.insert(factor).second ? sums.find(factor) : sums.end();
    if (sum == sums.end())
      continue;
    Sum parts = sum->second;
    for (int64_t part : llvm::concat<const int64_t>(parts.plus, parts.minus))
      freeze(part, why);
  }
}

//===----------------------------------------------------------------------===//
// Choice of sizes
//===----------------------------------------------------------------------===//

/// Collects the free sizes that `n` is composed of.
void SizeReduction::collectLeaves(int64_t n, Factors &out) const {
  Factors factors;
  expand(n, factors);
  for (int64_t factor : factors) {
    auto sum = sums.find(factor);
    if (sum == sums.end()) {
      out.push_back(factor);
      continue;
    }
    for (int64_t part : sum->second.plus)
      collectLeaves(part, out);
  }
}

void SizeReduction::choose(int64_t base, int64_t rows, Distinct distinct) {
  std::vector<int64_t> order(sizes.begin(), sizes.end());
  if (distinct == Distinct::Descending)
    std::reverse(order.begin(), order.end());
  // All differences of 0, 1, 3, 7, 12, 20 and 30 differ.
  constexpr int64_t spread[] = {1, 2, 4, 5, 8, 10, 1};
  for (int64_t n : order) {
    Factors leaves;
    collectLeaves(n, leaves);
    for (int64_t leaf : leaves)
      if (auto [it, isNew] = chosen.try_emplace(leaf); isNew) {
        it->second = frozen.count(leaf) ? leaf : std::min(leaf, base);
        base += distinct == Distinct::Spread
                    ? spread[std::min(chosen.size() - 1, std::size(spread) - 1)]
                    : distinct != Distinct::No;
      }
  }
  growTables(rows);
  bool changed = true;
  // Increments the largest leaf that is still reduced until the reduced size of `n` is valid. After
  // more than `tries` increments, gives all leaves their original sizes.
  auto grow = [&](int64_t n, int64_t tries, llvm::function_ref<bool(int64_t)> isValid) {
    Factors leaves;
    collectLeaves(n, leaves);
    for (int64_t i = 0; !isValid(get(n)); ++i) {
      int64_t largest = 0;
      for (int64_t leaf : leaves)
        if (chosen[leaf] < leaf && leaf > largest)
          largest = leaf;
      changed = true;
      if (largest == 0)
        break;
      if (i > tries)
        for (int64_t leaf : leaves)
          chosen[leaf] = leaf;
      else
        ++chosen[largest];
    }
  };
  // Enlarging a size for one split may affect other splits. Sizes that do not converge in a few
  // iterations are not reduced.
  for (int round = 0; round < 8 && changed; ++round) {
    changed = false;
    for (auto [n, shards, inSample] : splits)
      grow(n, round > 5 ? -1 : 4 * inSample + 8,
           [&, n = n, shards = shards, inSample = inSample](int64_t m) {
             // If n is less than the number of shards, some shards are empty. The reduced size must
             // have empty shards only if the sample grid has as many shards.
             return n < shards ? inSample < shards || m >= n
                               : m >= inSample && (m % inSample == 0) == (n % shards == 0);
           });
    // A size that is defined by a difference must not be zero.
    for (auto &[n, sum] : sums)
      if (!sum.minus.empty())
        grow(n, round > 5 ? -1 : 64, [](int64_t m) { return m >= 1; });
  }
  setSample(0);
}

/// Enlarges tables of positions, whose rows cost no computation.
void SizeReduction::growTables(int64_t rows) {
  std::set<int64_t> others;
  for (int64_t n : computed) {
    Factors leaves;
    collectLeaves(n, leaves);
    others.insert(leaves.begin(), leaves.end());
  }
  for (int64_t n : tables) {
    Factors leaves;
    collectLeaves(n, leaves);
    if (leaves.size() != 1 || leaves[0] != n || others.count(n) || frozen.count(n) || rows == 0)
      continue;
    chosen[n] = std::max(chosen[n], std::min(n, rows));
    grown[n] = chosen[n];
  }
}

bool SizeReduction::setRows(int64_t n, int64_t rows) {
  auto it = grown.find(n);
  if (it == grown.end())
    return false;
  int64_t before = chosen[n];
  int64_t &reduced = chosen[n] = rows == 0 ? it->second : std::min(rows, n);
  // Even splits must stay even, and uneven splits uneven.
  auto divides = [&](const std::array<int64_t, 3> &split) {
    auto [size, shards, inSample] = split;
    return size != n || n < shards ||
           (reduced >= inSample && (reduced % inSample == 0) == (n % shards == 0));
  };
  while (reduced < n && !llvm::all_of(splits, divides))
    ++reduced;
  return reduced != before;
}

std::string SizeReduction::explain() const {
  int64_t largest = 0;
  for (auto &[n, why] : reasons)
    if (get(n) == n)
      largest = std::max(largest, n);
  if (largest < 16)
    return "";
  Operation *why = reasons.at(largest);
  return "size " + std::to_string(largest) + " stays as it is for '" +
         getSourceName(why->getLoc()) + "' (" + why->getName().getStringRef().str() + ")";
}

void SizeReduction::setSample(int sample) {
  // In the first sample, up to three symbols have different values, so that swapped dimensions are
  // detected. A split of 5 sequences of 3 tokens over 2, 3, 4 or 8 ranks does not coincide with
  // boundaries of sequences. In each later sample, all symbols have the same value.
  current = sample;
  int64_t next = 5;
  for (auto &[name, value] : symbols) {
    value = sample == 0 ? next : samples - sample;
    next = next == 2 ? 5 : next == 3 ? 2 : 3;
  }
  // Caches have capacity for past tokens and new ones.
  if (sample < 2)
    for (const std::string &name : cachedSymbols)
      if (auto it = symbols.find(name); it != symbols.end())
        it->second = std::max<int64_t>(it->second, 6);
  // There are enough keys for each window to hide one. The last samples are for tables with fewer
  // rows.
  if (!windows.empty() && sample < 2)
    for (const std::string &name : windowedSymbols)
      if (auto it = symbols.find(name); it != symbols.end())
        it->second = std::max<int64_t>(it->second, shortest + int64_t(windows.size()));
}

void SizeReduction::widen(ArrayRef<SymExpr> dims, int64_t n) {
  setSample(current);
  std::set<std::string> names;
  for (const SymExpr &dim : dims)
    dim.collectSymbols(names);
  for (const std::string &name : names)
    if (auto it = symbols.find(name); it != symbols.end())
      it->second = std::max(it->second, n);
}

bool SizeReduction::setNextSample() {
  if (current + 1 < samples) {
    setSample(current + 1);
    return true;
  }
  if (windows.empty() || windows.count(1) || shortest == 1)
    return false;
  shortest = 1;
  setSample(0);
  return true;
}

//===----------------------------------------------------------------------===//
// Queries
//===----------------------------------------------------------------------===//

int64_t SizeReduction::get(int64_t n) const {
  if (n <= 1)
    return n;
  Factors factors;
  expand(n, factors);
  int64_t product = 1;
  for (int64_t factor : factors) {
    int64_t value = factor;
    if (auto sum = sums.find(factor); sum != sums.end()) {
      value = 0;
      for (int64_t part : sum->second.plus)
        value += get(part);
      for (int64_t part : sum->second.minus)
        value -= get(part);
    } else if (auto it = chosen.find(factor); it != chosen.end()) {
      value = it->second;
    }
    product *= value;
  }
  return product;
}

int64_t SizeReduction::evaluate(const SymExpr &size) const {
  std::optional<int64_t> c = getCoefficient(size);
  int64_t value = size.evaluate(symbols).value_or(0);
  return c ? value / *c * get(*c) : value;
}

int64_t SizeReduction::evaluateWindow(const SymExpr &window) const {
  std::optional<int64_t> n = window.asConstant();
  if (!n || *n < 1)
    return evaluate(window);
  // A window of one key is special: only the query's own token is visible.
  if (*n == 1)
    return 1;
  auto it = windows.find(*n);
  if (it == windows.end())
    return shortest + int64_t(windows.size());
  return shortest + int64_t(std::distance(windows.upper_bound(1), it));
}

int64_t SizeReduction::spread(int64_t i, int64_t n) const {
  int64_t small = get(n);
  return small == n ? i : int64_t((__int128)i * n / std::max<int64_t>(1, small));
}

int64_t SizeReduction::scale(int64_t offset, int64_t n) const {
  if (n <= 0)
    return offset;
  auto it = cuts.find(n);
  return it != cuts.end() && it->second.count(offset) ? get(offset)
                                                      : int64_t((__int128)offset * get(n) / n);
}
