//===- Exchange.cpp - Change of a distribution by one exchange ------------===//

#include "tpc/Dialect/Exchange.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Dimensions of both sides
//===----------------------------------------------------------------------===//

namespace {
/// A factor before or after the exchange.
struct SideFactor {
  SymExpr size;
  Exchange::Axes axes;
};
/// A pair of equal factors before and after the exchange.
struct Pair {
  SymExpr size;
  Exchange::Axes before, after;
};

/// Divides the factors of a dimension before and after the exchange at common boundaries.
class Aligner {
public:
  Aligner(MLIRContext *context, SmallVectorImpl<Exchange::Dim> &dims)
      : context(context), dims(dims) {}
  bool run(DimAttr from, DimAttr to);

private:
  using SideFactors = SmallVector<SideFactor>; // minor to major
  static SideFactors toSideFactors(DimAttr dim);
  static std::optional<SymExpr> divide(const SymExpr &size, const SymExpr &by) {
    return by.isConstant(0) ? std::nullopt : size.divideExact(by);
  }
  static bool cut(SideFactors &factors, const SymExpr &size);
  static std::optional<SideFactors> take(SideFactors &factors, SymExpr need);
  static bool equalizeLast(SideFactors &left, SideFactors &right);
  bool runWhole(DimAttr from, DimAttr to);
  void add(SmallVector<Pair> pairs, Exchange::Split product);

  MLIRContext *context;
  SmallVectorImpl<Exchange::Dim> &dims;
};
} // namespace

Aligner::SideFactors Aligner::toSideFactors(DimAttr dim) {
  SideFactors factors;
  for (FactorAttr factor : llvm::reverse(dim.getFactors()))
    factors.push_back({factor.getExpr(), Exchange::Axes(factor.getAxes())});
  return factors;
}

/// Divides the last (major) factor of the list in two; the major part has `size`. Returns false if
/// axes split the factor, or if `size` does not divide it.
bool Aligner::cut(SideFactors &factors, const SymExpr &size) {
  auto rest = divide(factors.back().size, size);
  if (!rest || !factors.back().axes.empty())
    return false;
  factors.back().size = *rest;
  factors.push_back({size, {}});
  return true;
}

/// Divides the last factors of both lists so that the new last factors have equal sizes. Returns
/// false if that is impossible.
bool Aligner::equalizeLast(SideFactors &left, SideFactors &right) {
  // A split factor of size 1 (one head over eight ranks) may be at the end of one list.
  bool ends = left.empty() || right.empty();
  if (ends)
    (left.empty() ? left : right).push_back({SymExpr(1), {}});
  return left.back().size == right.back().size ||
         (!ends && (cut(right, left.back().size) || cut(left, right.back().size)));
}

/// Removes the last factors, whose product is `need`, and returns them, major to minor.
std::optional<Aligner::SideFactors> Aligner::take(SideFactors &factors, SymExpr need) {
  SideFactors taken;
  while (!need.isConstant(1)) {
    if (factors.empty())
      return std::nullopt;
    auto rest = divide(need, factors.back().size);
    if (!rest && cut(factors, need))
      rest = SymExpr(1);
    if (!rest)
      return std::nullopt;
    need = *rest;
    taken.push_back(factors.pop_back_val());
  }
  return taken;
}

/// Adds Dims for a list of aligned factors:
/// * if each factor has equal axes before and after: one Dim, whose only factor is their product;
/// * otherwise, without axes on the product: one Dim for each factor;
/// * otherwise: one Dim with all factors.
void Aligner::add(SmallVector<Pair> pairs, Exchange::Split product) {
  auto takeCommon = [](Exchange::Axes &a, Exchange::Axes &b) {
    size_t count = 0;
    while (count < std::min(a.size(), b.size()) && a[count] == b[count])
      ++count;
    Exchange::Axes common(ArrayRef(a).take_front(count));
    a.erase(a.begin(), a.begin() + count);
    b.erase(b.begin(), b.begin() + count);
    return common;
  };
  Exchange::Dim dim;
  SmallVector<FactorAttr> factors;
  bool differ = false;
  for (Pair &pair : pairs) {
    factors.push_back(FactorAttr::get(context, pair.size, takeCommon(pair.before, pair.after)));
    differ |= !pair.before.empty() || !pair.after.empty();
    dim.factors.push_back({DimAttr::get(context, factors.back()), {pair.before, pair.after}});
  }
  if (!differ) {
    Exchange::Axes common = takeCommon(product.before, product.after);
    dims.push_back({{{DimAttr::get(context, factors, common), product}}, {}});
  } else if (product.before.empty() && product.after.empty()) {
    for (Exchange::Factor &factor : dim.factors)
      dims.push_back({{factor}, {}});
  } else {
    dim.product = product;
    dims.push_back(std::move(dim));
  }
}

/// Handles dimensions with axes on the product of all factors.
bool Aligner::runWhole(DimAttr from, DimAttr to) {
  SideFactors left = toSideFactors(from), right = toSideFactors(to);
  Exchange::Split product{Exchange::Axes(from.getAxes()), Exchange::Axes(to.getAxes())};
  // Axes of a single factor are axes of the product.
  auto moveToProduct = [](SideFactors &factors, Exchange::Axes &axes, size_t others) {
    if (factors.size() == 1 && others > 1 && axes.empty())
      std::swap(factors[0].axes, axes);
  };
  moveToProduct(left, product.before, right.size());
  moveToProduct(right, product.after, left.size());
  SmallVector<Pair> pairs;
  while (!left.empty() || !right.empty()) {
    if (!equalizeLast(left, right))
      return false;
    SideFactor a = left.pop_back_val(), b = right.pop_back_val();
    pairs.push_back({a.size, a.axes, b.axes});
  }
  add(std::move(pairs), std::move(product));
  return true;
}

bool Aligner::run(DimAttr from, DimAttr to) {
  if (from == to) {
    dims.push_back({{{from, {}}}, {}});
    return true;
  }
  if (!from.getAxes().empty() || !to.getAxes().empty())
    return runWhole(from, to);
  SideFactors left = toSideFactors(from), right = toSideFactors(to);
  while (!left.empty() || !right.empty()) {
    if (equalizeLast(left, right)) {
      SideFactor a = left.pop_back_val(), b = right.pop_back_val();
      add({{a.size, a.axes, b.axes}}, {});
      continue;
    }
    // A split factor in one list may be a product of factors in the other.
    bool isLeft = divide(left.back().size, right.back().size).has_value();
    SideFactor large = (isLeft ? left : right).pop_back_val();
    auto parts = take(isLeft ? right : left, large.size);
    if (!parts)
      return false;
    SmallVector<Pair> pairs;
    for (SideFactor &part : *parts) {
      pairs.push_back({part.size, {}, {}});
      (isLeft ? pairs.back().after : pairs.back().before) = part.axes;
    }
    Exchange::Split product;
    (isLeft ? product.before : product.after) = large.axes;
    add(std::move(pairs), std::move(product));
  }
  return true;
}

std::optional<Exchange> Exchange::get(DistAttr from, DistAttr to) {
  if (from.getDims().size() != to.getDims().size() || from.getPartial() != to.getPartial())
    return std::nullopt;
  Exchange exchange;
  for (auto [before, after] : llvm::zip(from.getDims(), to.getDims()))
    if (before.getExpr() != after.getExpr() ||
        !Aligner(from.getContext(), exchange.dims).run(before, after))
      return std::nullopt;
  auto add = [&](const Split &split) {
    for (const Axes *list : {&split.before, &split.after})
      for (StringAttr axis : *list)
        if (!llvm::is_contained(exchange.axes, axis))
          exchange.axes.push_back(axis);
  };
  for (const Dim &dim : exchange.dims) {
    for (const Factor &factor : dim.factors)
      add(factor.split);
    add(dim.product);
  }
  if (exchange.axes.empty() || llvm::any_of(exchange.axes, [](StringAttr axis) {
        return axis.getValue() == kMicroBatchAxis;
      }))
    return std::nullopt;
  return exchange;
}

//===----------------------------------------------------------------------===//
// Transferred elements
//===----------------------------------------------------------------------===//

namespace {
struct IndexRange {
  int64_t begin, end;
};
/// Ranges of indices, ascending.
using IndexRanges = std::vector<IndexRange>;

/// Counts the elements that the members of one group transfer.
class TrafficCounter {
public:
  TrafficCounter(const Exchange &exchange, MeshAttr grid, const Exchange::Values &others)
      : exchange(exchange), grid(grid), at(others) {}
  bool addSizes(const Exchange::Values &coordinates, const Exchange::Values &symbols);
  std::optional<int64_t> getMaximum();

private:
  using Side = Exchange::Axes Exchange::Split::*;
  IndexRange split(int64_t size, ArrayRef<StringAttr> axes) const;
  IndexRanges getRanges(const Exchange::Dim &dim, ArrayRef<int64_t> sizes, Side side) const;
  void addMember();
  static int64_t count(ArrayRef<IndexRanges> a, ArrayRef<IndexRanges> b);

  const Exchange &exchange;
  MeshAttr grid;
  Exchange::Values at;
  SmallVector<SmallVector<int64_t>>
      sizes; // by dimension and factor, after the split by common axes
  struct Member {
    SmallVector<IndexRanges> has, needs;
    int64_t dataClass; // equal for members with equal operand shards
    int64_t replica;   // index among the members of the data class, by coordinates
  };
  std::vector<Member> members;
};
} // namespace

bool TrafficCounter::addSizes(const Exchange::Values &coordinates,
                              const Exchange::Values &symbols) {
  int64_t total = 1;
  for (const Exchange::Dim &dim : exchange.dims) {
    sizes.emplace_back();
    for (const Exchange::Factor &factor : dim.factors) {
      auto size = factor.common.getLocalSize(grid, coordinates, symbols);
      if (!size || *size < 0 || __builtin_mul_overflow(total, *size, &total))
        return false;
      sizes.back().push_back(*size);
    }
  }
  // Bound that keeps sums over all members within 64 bits.
  return total <= (int64_t(1) << 52);
}

IndexRange TrafficCounter::split(int64_t size, ArrayRef<StringAttr> axes) const {
  IndexRange range{0, size};
  for (StringAttr axis : axes) {
    int64_t parts = grid.getAxisSize(axis.getValue()), c = at.at(axis.getValue().str());
    int64_t have = range.end - range.begin;
    range.begin += ::tpc::shardBegin(have, parts, c);
    range.end = range.begin + ::tpc::shardSize(have, parts, c);
  }
  return range;
}

IndexRanges TrafficCounter::getRanges(const Exchange::Dim &dim, ArrayRef<int64_t> sizes,
                                      Side side) const {
  IndexRanges ranges = {{0, 1}};
  int64_t total = 1;
  for (auto [factor, size] : llvm::zip(dim.factors, sizes)) {
    IndexRange own = split(size, factor.split.*side);
    IndexRanges next;
    total *= own.end - own.begin;
    for (IndexRange range : ranges) {
      if (own.end - own.begin == size)
        next.push_back({range.begin * size, range.end * size});
      else if (own.begin < own.end)
        for (int64_t i = range.begin; i < range.end; ++i)
          next.push_back({i * size + own.begin, i * size + own.end});
    }
    ranges = std::move(next);
  }
  if ((dim.product.*side).empty())
    return ranges;
  IndexRange own = split(total, dim.product.*side);
  IndexRanges kept;
  int64_t seen = 0;
  for (IndexRange range : ranges) {
    int64_t begin = range.begin + std::max<int64_t>(0, own.begin - seen);
    int64_t end = std::min(range.end, range.begin + own.end - seen);
    if (begin < end)
      kept.push_back({begin, end});
    seen += range.end - range.begin;
  }
  return kept;
}

void TrafficCounter::addMember() {
  Member member;
  llvm::SmallDenseSet<StringAttr> split;
  for (auto [dim, list] : llvm::zip(exchange.dims, sizes)) {
    member.has.push_back(getRanges(dim, list, &Exchange::Split::before));
    member.needs.push_back(getRanges(dim, list, &Exchange::Split::after));
    for (const Exchange::Factor &factor : dim.factors)
      split.insert(factor.split.before.begin(), factor.split.before.end());
    split.insert(dim.product.before.begin(), dim.product.before.end());
  }
  // Numbers data classes, and the members of each, by coordinates in the grid's order of axes.
  int64_t factors[2] = {1, 1}, numbers[2] = {0, 0};
  for (StringAttr axis : grid.getOrder()) {
    if (!llvm::is_contained(exchange.axes, axis))
      continue;
    int which = split.contains(axis) ? 0 : 1;
    numbers[which] += at.at(axis.getValue().str()) * factors[which];
    factors[which] *= grid.getAxisSize(axis.getValue());
  }
  member.dataClass = numbers[0];
  member.replica = numbers[1];
  members.push_back(std::move(member));
}

/// Counts elements that are in both boxes.
int64_t TrafficCounter::count(ArrayRef<IndexRanges> a, ArrayRef<IndexRanges> b) {
  int64_t product = 1;
  for (auto [left, right] : llvm::zip(a, b)) {
    int64_t sum = 0;
    for (auto l = left.begin(), r = right.begin(); l != left.end() && r != right.end();) {
      sum += std::max<int64_t>(0, std::min(l->end, r->end) - std::max(l->begin, r->begin));
      l->end < r->end ? ++l : ++r;
    }
    product *= sum;
  }
  return product;
}

/// Returns the maximum number of elements that a member sends or receives. Each member receives
/// from every data class but its own. Messages of a class are assigned greedily, the largest first,
/// to the replica that has sent least; in a tie, to the one with the receiver's replica number.
std::optional<int64_t> TrafficCounter::getMaximum() {
  SmallVector<std::string> names;
  for (StringAttr axis : grid.getOrder())
    if (llvm::is_contained(exchange.axes, axis)) {
      names.push_back(axis.getValue().str());
      at[names.back()] = 0;
    }
  if (names.size() != exchange.axes.size())
    return std::nullopt;
  // The first axis has the smallest stride.
  for (bool hasNext = true; hasNext;) {
    if (members.size() == size_t(Exchange::maxMembers))
      return std::nullopt;
    addMember();
    hasNext = false;
    for (const std::string &name : names) {
      if (++at[name] < grid.getAxisSize(name)) {
        hasNext = true;
        break;
      }
      at[name] = 0;
    }
  }
  std::map<int64_t, SmallVector<unsigned>> classes; // members of each data class
  for (auto [i, member] : llvm::enumerate(members))
    classes[member.dataClass].push_back(i);
  std::vector<int64_t> sent(members.size()), received(members.size());
  for (const auto &[dataClass, list] : classes) {
    // Largest first.
    std::vector<std::pair<int64_t, unsigned>> messages;
    for (auto [to, member] : llvm::enumerate(members))
      if (member.dataClass != dataClass)
        messages.push_back({-count(members[list[0]].has, member.needs), to});
    llvm::sort(messages);
    for (auto [negative, to] : messages) {
      int64_t replica = members[to].replica;
      unsigned best = *std::min_element(list.begin(), list.end(), [&](unsigned a, unsigned b) {
        return std::tuple(sent[a], members[a].replica != replica, a) <
               std::tuple(sent[b], members[b].replica != replica, b);
      });
      sent[best] -= negative;
      received[to] -= negative;
    }
  }
  return std::max(*llvm::max_element(sent), *llvm::max_element(received));
}

std::optional<int64_t> Exchange::getMaxMovedElements(MeshAttr grid, const Values &coordinates,
                                                     const Values &symbols) const {
  TrafficCounter counter(*this, grid, coordinates);
  return counter.addSizes(coordinates, symbols) ? counter.getMaximum() : std::nullopt;
}
