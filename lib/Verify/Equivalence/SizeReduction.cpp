//===- SizeReduction.cpp - A program's sizes, made small ------------------===//

#include "SizeReduction.h"

#include "Repeats.h"

#include "tpc/Dialect/Dist.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

/// c of c * batch * sequence; nothing for sums, whose numbers stay as they are.
static std::optional<int64_t> getCoefficient(const SymExpr &size) {
  if (size.isOverflow() || size.getTerms().size() != 1)
    return std::nullopt;
  const SymExpr::Term &term = size.getTerms()[0];
  return term.coefficient > 0 ? std::optional<int64_t>(term.coefficient) : std::nullopt;
}

SizeReduction::SizeReduction(ModuleOp model, ModuleOp program, GridAttr grid, GridAttr sample,
                             int64_t base)
    : grid(grid), sample(sample) {
  collect(model);
  collect(program);
  // Places in a dimension first, so that they stay apart.
  std::vector<Equation> others = std::move(equations);
  equations.clear();
  for (auto &[n, places] : cuts)
    for (auto it = places.begin(); it != places.end() && std::next(it) != places.end(); ++it)
      if (int64_t next = *std::next(it); next < n)
        addUp(nullptr, next, {*it, next - *it});
  llvm::append_range(equations, others);
  // After all products: what is composite is no sum.
  for (const Equation &equation : equations)
    define(equation.op, {equation.total}, equation.parts);
  choose(base);
}

void SizeReduction::collect(ModuleOp module) {
  DenseSet<Type> seen;
  auto visit = [&](Type type) {
    if (isa<RankedTensorType>(type) && seen.insert(type).second)
      collectType(type);
  };
  module.walk([&](Operation *op) {
    for (Type type : op->getResultTypes())
      visit(type);
    for (Region &region : op->getRegions())
      for (Block &block : region)
        llvm::for_each(block.getArgumentTypes(), visit);
  });
  module.walk([&](Operation *op) { collectOp(op); });
}

void SizeReduction::collectType(Type type) {
  for (DimAttr dim : getDist(type).getDims()) {
    Factors factors;
    auto note = [&](const SymExpr &size, ArrayRef<StringAttr> axes) {
      std::optional<int64_t> c = getCoefficient(size);
      std::set<std::string> names;
      size.collectSymbols(names);
      for (const std::string &name : names)
        symbols.try_emplace(name, 0);
      if (!c)
        return;
      factors.push_back(*c);
      sizes.insert(*c);
      int64_t parts = 1, here = 1;
      for (StringAttr axis : axes) {
        parts *= grid ? grid.getAxisSize(axis.getValue()) : 1;
        here *= sample.getAxisSize(axis.getValue());
      }
      if (here > 1 && size.isConstant())
        splits.insert({*c, parts, here});
    };
    for (FactorAttr factor : dim.getFactors())
      note(factor.getExpr(), factor.getAxes());
    if (std::optional<int64_t> c = getCoefficient(dim.getExpr())) {
      sizes.insert(*c);
      equate(factors, {*c});
    }
  }
}

void SizeReduction::collectOp(Operation *op) {
  auto product = [](Value value) {
    Factors factors;
    for (const SymExpr &size : getSizes(value))
      if (std::optional<int64_t> c = getCoefficient(size))
        factors.push_back(*c);
    return factors;
  };
  auto getStatic = [](Value value, int64_t dim) { return getSizes(value)[dim].asConstant(); };
  // Joined for one collective, dimensions are such as 8*batch*sequence.
  auto getScaled = [](Value value, int64_t dim) { return getCoefficient(getSizes(value)[dim]); };
  // Sizes keep their proportions, if those are small numbers. Else, if the first is the sum of the
  // others, it remains their sum.
  constexpr int64_t maxRatio = 64;
  auto together = [&](ArrayRef<std::optional<int64_t>> all, bool isSum = false) -> bool {
    int64_t unit = 0, largest = 0;
    bool plain = true;
    for (std::optional<int64_t> n : all)
      if (n)
        unit = std::gcd(unit, *n), largest = std::max(largest, *n);
      else
        plain = false;
    if (plain && isSum && unit > 0 && largest / unit > maxRatio) {
      Factors parts;
      for (std::optional<int64_t> n : all.drop_front())
        parts.push_back(*n);
      addUp(op, *all[0], parts);
      return true;
    }
    for (std::optional<int64_t> n : all)
      if (n && plain && unit > 0)
        scaleWith(*n, unit);
      else if (n)
        freeze(*n, op);
    return false;
  };
  if (isa<ReshapeOp>(op)) {
    Factors in = product(op->getOperand(0)), out = product(op->getResult(0));
    uint64_t a = 1, b = 1; // wraps: what is that large is kept as it is elsewhere
    for (int64_t n : in)
      a *= n;
    for (int64_t n : out)
      b *= n;
    if (a == b)
      return equate(in, out);
    for (int64_t n : in)
      freeze(n, op);
    for (int64_t n : out)
      freeze(n, op);
  } else if (auto attention = dyn_cast<AttentionOp>(op)) {
    auto q = getStatic(attention.getQ(), 2), kv = getStatic(attention.getK(), 2);
    if (q && kv && *kv > 0 && *q > 0 && *q % *kv == 0)
      equate({*q}, {*kv, *q / *kv});
  } else if (auto parameter = dyn_cast<ParameterOp>(op)) {
    // What is there several times is so in a dimension of its own: heads, and how often each.
    ViewAttr view = parameter.getWeightOp() ? parameter.getViewOrDense() : ViewAttr();
    for (unsigned dim = 0; view && dim < view.getDims().size(); ++dim) {
      int64_t before = 1;
      for (StridedFactorAttr factor : view.getFactors(dim)) {
        if (factor.getStride() == 0 && factor.getSize() > 1) {
          equate({*getStatic(parameter.getResult(), dim)},
                 {before, factor.getSize(),
                  *getStatic(parameter.getResult(), dim) / (before * factor.getSize())});
          freeze(before, op);
          freeze(factor.getSize(), op);
        }
        before *= factor.getSize();
      }
    }
  } else if (auto gather = dyn_cast<GatherOp>(op)) {
    for (auto &[dim, repeat] : getRepeats(gather)) {
      equate({repeat.major * repeat.times}, {repeat.major, repeat.times});
      freeze(repeat.major, op);
      freeze(repeat.times, op);
    }
  } else if (auto slice = dyn_cast<SliceOp>(op)) {
    int64_t dim = slice.getDim();
    if (getSizes(slice.getOperand())[dim] == getSizes(slice.getResult())[dim])
      return;
    auto start = SymExpr::parse(slice.getStart().str());
    std::optional<int64_t> first = start ? getCoefficient(*start) : std::nullopt;
    if (start && start->isConstant(0))
      first = 0;
    if (slice.getStep() != 1)
      first = std::nullopt;
    SmallVector<std::optional<int64_t>> all = {getScaled(slice.getOperand(), dim),
                                               getScaled(slice.getResult(), dim)};
    if (!first || *first > 0)
      all.push_back(first);
    // What lies behind it is a part as well.
    bool parts = getStatic(slice.getOperand(), dim) && getStatic(slice.getResult(), dim) && first &&
                 start->isConstant() && *first + *all[1] <= *all[0];
    if (int64_t rest = parts ? *all[0] - *all[1] - *first : 0; rest > 0)
      all.push_back(rest);
    if (together(all, parts)) {
      std::set<int64_t> &places = cuts[*all[0]];
      if (*first > 0)
        places.insert(*first);
      places.insert(*first + *all[1]);
    }
  } else if (isa<RollOp, CollectivePermuteOp>(op)) {
    auto dim = op->getAttrOfType<IntegerAttr>("dim");
    auto every = op->getAttrOfType<StringAttr>("every");
    auto run = every ? SymExpr::parse(every.getValue().str()) : std::nullopt;
    auto c = run ? getCoefficient(*run) : std::nullopt;
    auto size = c ? getCoefficient(getSizes(op->getOperand(0))[dim.getInt()]) : std::nullopt;
    if (size && *size % *c == 0)
      equate({*size}, {*size / *c, *c});
  } else if (auto concat = dyn_cast<ConcatOp>(op)) {
    SmallVector<std::optional<int64_t>> all = {getScaled(concat.getResult(), concat.getDim())};
    for (Value operand : concat.getOperands())
      all.push_back(getScaled(operand, concat.getDim()));
    together(all, /*isSum=*/getStatic(concat.getResult(), concat.getDim()).has_value());
  } else if (auto rotary = dyn_cast<RotaryOp>(op)) {
    together({getStatic(rotary.getX(), 3), getStatic(rotary.getCos(), 2)});
  } else if (auto gather = dyn_cast<GatherNDOp>(op)) {
    int64_t last = getSizes(gather.getIndices()).size() - 1;
    if (auto k = getStatic(gather.getIndices(), last))
      freeze(*k, op);
  }
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

/// From now on the atomic size n is factor times the rest. Both are smaller than n.
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
  // Ends: each round divides an atomic size into smaller ones.
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
// Choice
//===----------------------------------------------------------------------===//

/// The sizes that can be chosen of which `n` is made: it grows with them.
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

void SizeReduction::choose(int64_t base) {
  for (int64_t n : sizes) {
    Factors leaves;
    collectLeaves(n, leaves);
    for (int64_t leaf : leaves)
      chosen[leaf] = frozen.count(leaf) ? leaf : std::min(leaf, base);
  }
  bool changed = true;
  // Lets the leaf with most room grow until `n` is good.
  auto grow = [&](int64_t n, int64_t tries, llvm::function_ref<bool(int64_t)> good) {
    Factors leaves;
    collectLeaves(n, leaves);
    for (int64_t i = 0; !good(get(n)); ++i) {
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
  // A size that one split has made larger is larger for the others too; what does not settle soon
  // keeps its size.
  for (int round = 0; round < 8 && changed; ++round) {
    changed = false;
    for (auto [n, parts, here] : splits)
      grow(n, round > 5 ? -1 : 4 * here + 8, [&, n = n, parts = parts, here = here](int64_t m) {
        // Of sizes with empty parts, those that the sample's grid has.
        return n < parts ? here < parts || m >= n
                         : m >= here && (m % here == 0) == (n % parts == 0);
      });
    // What others leave of a size is not nothing.
    for (auto &[n, sum] : sums)
      if (!sum.minus.empty())
        grow(n, round > 5 ? -1 : 64, [](int64_t m) { return m >= 1; });
  }
  setSample(0);
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
  // Different ones first: what is exchanged differs, and 5 samples of 3 tokens are not parted
  // between samples by 2, 3, 4 or 8 ranks.
  int64_t next = 5;
  for (auto &[name, value] : symbols) {
    value = sample == 0 ? next : samples - sample;
    next = next == 2 ? 5 : next == 3 ? 2 : 3;
  }
}

//===----------------------------------------------------------------------===//
// Questions
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
