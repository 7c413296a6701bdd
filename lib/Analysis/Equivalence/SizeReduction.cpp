//===- SizeReduction.cpp - A program's sizes, made small ------------------===//

#include "SizeReduction.h"

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
  auto together = [&](ArrayRef<std::optional<int64_t>> all) {
    int64_t unit = 0;
    bool plain = true;
    for (std::optional<int64_t> n : all)
      if (n)
        unit = std::gcd(unit, *n);
      else
        plain = false;
    for (std::optional<int64_t> n : all)
      if (n && plain && unit > 0)
        scaleWith(*n, unit);
      else if (n)
        freeze(*n);
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
      freeze(n);
    for (int64_t n : out)
      freeze(n);
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
          freeze(before);
          freeze(factor.getSize());
        }
        before *= factor.getSize();
      }
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
    together(all);
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
    together(all);
  } else if (auto rotary = dyn_cast<RotaryOp>(op)) {
    together({getStatic(rotary.getX(), 3), getStatic(rotary.getCos(), 2)});
  } else if (auto gather = dyn_cast<GatherNDOp>(op)) {
    int64_t last = getSizes(gather.getIndices()).size() - 1;
    if (auto k = getStatic(gather.getIndices(), last))
      freeze(*k);
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
    for (auto *it = left.begin(); it != left.end();) {
      auto *same = llvm::find(right, *it);
      if (same == right.end()) {
        ++it;
        continue;
      }
      right.erase(same);
      it = left.erase(it);
    }
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

void SizeReduction::freeze(int64_t n) {
  Factors factors;
  expand(n, factors);
  frozen.insert(n);
  frozen.insert(factors.begin(), factors.end());
}

void SizeReduction::choose(int64_t base) {
  auto choice = [&](int64_t n) {
    Factors factors;
    expand(n, factors);
    int64_t product = 1;
    for (int64_t factor : factors)
      product *= chosen[factor];
    return product;
  };
  for (int64_t n : sizes) {
    Factors factors;
    expand(n, factors);
    for (int64_t factor : factors)
      chosen[factor] = frozen.count(factor) ? factor : std::min(factor, base);
  }
  // A size that one split has made larger is larger for the others too; what does not settle soon
  // keeps its size.
  for (int round = 0; round < 8; ++round) {
    bool changed = false;
    for (auto [n, parts, here] : splits) {
      Factors factors;
      expand(n, factors);
      // Of sizes with empty parts, those that the sample's grid has.
      auto good = [&](int64_t m) {
        return n < parts ? here < parts || m >= n
                         : m >= here && (m % here == 0) == (n % parts == 0);
      };
      for (int tries = 0; !good(choice(n)); ++tries) {
        // The factor with most room grows.
        int64_t largest = 0;
        for (int64_t factor : factors)
          if (chosen[factor] < factor && factor > largest)
            largest = factor;
        changed = true;
        if (largest == 0)
          break;
        if (tries > 4 * here + 8 || round > 5)
          for (int64_t factor : factors)
            chosen[factor] = factor;
        else
          ++chosen[largest];
      }
    }
    if (!changed)
      break;
  }
  setSample(0);
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
    auto it = chosen.find(factor);
    product *= it == chosen.end() ? factor : it->second;
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
  return n <= 0 ? offset : int64_t((__int128)offset * get(n) / n);
}
