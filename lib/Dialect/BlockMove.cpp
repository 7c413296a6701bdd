//===- BlockMove.cpp - Collective-permute of one dimension ----------------===//

#include "tpc/Dialect/BlockMove.h"
#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Factorization of a dimension
//===----------------------------------------------------------------------===//

namespace {
/// Factorization of the operand's or result's dimension into factors before the runs and factors of
/// a run.
struct RunFactors {
  SmallVector<FactorAttr> rest;
  std::optional<SymExpr> blocks; // number of runs in a split factor that contains several runs
  SymExpr n, unit = SymExpr(1);
  BlockMove::Split split;
};
} // namespace

static BlockMove::Axes toAxes(ArrayRef<StringAttr> axes) {
  return BlockMove::Axes(axes.begin(), axes.end());
}

/// Factorizes `dim` into runs of `every` elements at its minor end.
static std::optional<RunFactors> factorize(DimAttr dim, const SymExpr &every) {
  MLIRContext *context = dim.getContext();
  if (every.isConstant(0))
    return std::nullopt;
  RunFactors form;
  form.rest.assign(dim.getFactors().begin(), dim.getFactors().end());
  form.split.product = toAxes(dim.getAxes());
  SmallVector<FactorAttr> run; // minor to major
  SymExpr need = every;
  while (!need.isConstant(1)) {
    if (form.rest.empty())
      return std::nullopt;
    FactorAttr factor = form.rest.pop_back_val();
    SymExpr have = factor.getExpr();
    if (auto quotient = have.isConstant(0) ? std::nullopt : need.divideExact(have)) {
      run.push_back(factor);
      need = *quotient;
      continue;
    }
    auto quotient = have.divideExact(need);
    if (!quotient)
      return std::nullopt;
    if (!factor.getAxes().empty()) {
      // A split factor that contains several runs is treated as a split product.
      if (!run.empty() || !form.split.product.empty())
        return std::nullopt;
      form.blocks = *quotient;
      form.n = need;
      form.split.product = toAxes(factor.getAxes());
      return form;
    }
    run.push_back(FactorAttr::get(context, need));
    form.rest.push_back(FactorAttr::get(context, *quotient));
    break;
  }
  std::reverse(run.begin(), run.end());
  // Only the outermost factor of a run may be split.
  form.n = every;
  for (auto [i, factor] : llvm::enumerate(run)) {
    if (factor.getAxes().empty())
      continue;
    if (i > 0)
      return std::nullopt;
    form.n = factor.getExpr();
    form.split.n = toAxes(factor.getAxes());
    for (FactorAttr inner : ArrayRef(run).drop_front())
      form.unit = form.unit * inner.getExpr();
  }
  return form;
}

static std::optional<BlockMove> combine(DimAttr from, DimAttr to, const SymExpr &every) {
  MLIRContext *context = from.getContext();
  auto in = factorize(from, every), out = factorize(to, every);
  if (!in || !out)
    return std::nullopt;
  for (auto [a, b] : {std::pair(&*in, &*out), std::pair(&*out, &*in)}) {
    // A split of a run without inner factors is equivalent to a split product.
    if (a->n != b->n && a->unit.isConstant(1) && a->split.product.empty()) {
      a->blocks = SymExpr(1);
      a->split.product = std::exchange(a->split.n, {});
    }
    // If n is unsplit in one dimension, use n and unit of the other dimension.
    if (a->split.n.empty() && !b->split.n.empty()) {
      a->n = b->n;
      a->unit = b->unit;
    }
  }
  if (in->n != out->n || in->unit != out->unit)
    return std::nullopt;
  BlockMove move;
  move.n = in->n;
  move.unit = in->unit;
  move.in = in->split;
  move.out = out->split;
  // If a product is split, the factors before the runs are part of `blocks`; else they are `outer`,
  // which is equal on all members.
  DimAttr one = DimAttr::get(context, SymExpr(1));
  move.outer = move.blocks = {};
  for (const RunFactors *form : {&*in, &*out}) {
    DimAttr rest = DimAttr::get(context, form->rest), outer, blocks;
    if (form->blocks)
      outer = rest, blocks = DimAttr::get(context, *form->blocks);
    else if (!form->split.product.empty())
      outer = one, blocks = rest;
    else
      continue;
    if (move.outer && (move.outer != outer || move.blocks != blocks))
      return std::nullopt;
    move.outer = outer;
    move.blocks = blocks;
  }
  for (const RunFactors *form : {&*in, &*out}) {
    if (form->blocks || !form->split.product.empty())
      continue;
    DimAttr rest = DimAttr::get(context, form->rest);
    if (!move.outer)
      move.outer = rest, move.blocks = one;
    if (joinDims(context, {move.outer, move.blocks}) != rest)
      return std::nullopt;
  }
  // The groups must be the same in operand and result.
  BlockMove::Axes a = move.getAxes(), b = toAxes(move.out.n);
  llvm::append_range(b, move.out.product);
  if (a.size() != b.size() ||
      !llvm::all_of(a, [&](StringAttr axis) { return llvm::is_contained(b, axis); }))
    return std::nullopt;
  return move;
}

std::optional<BlockMove> BlockMove::get(DimAttr from, DimAttr to, std::optional<SymExpr> every) {
  if (every)
    return combine(from, to, *every);
  // Without `every`, use the runs that begin at the split factor of operand or result.
  for (DimAttr dim : {from, to}) {
    SymExpr run = dim.getExpr();
    for (FactorAttr factor : dim.getFactors()) {
      if (!factor.getAxes().empty())
        if (auto move = combine(from, to, run))
          return move;
      if (factor.getExpr().isConstant(0))
        return std::nullopt;
      auto rest = run.divideExact(factor.getExpr());
      if (!rest)
        break;
      run = *rest;
    }
  }
  return combine(from, to, from.getExpr());
}

std::optional<BlockMove> BlockMove::get(CollectivePermuteOp op) {
  return get(getDist(op.getOperand()).getDims()[op.getDim()],
             getDist(op.getResult()).getDims()[op.getDim()], op.getEvery());
}

BlockMove::Axes BlockMove::getAxes() const {
  Axes axes; // without duplicates
  for (StringAttr axis : llvm::concat<const StringAttr>(in.n, in.product))
    if (!llvm::is_contained(axes, axis))
      axes.push_back(axis);
  return axes;
}

//===----------------------------------------------------------------------===//
// Transferred elements
//===----------------------------------------------------------------------===//

namespace {
struct Span {
  int64_t begin, end;
  int64_t size() const { return std::max<int64_t>(0, end - begin); }
};

Span intersect(Span a, Span b) { return {std::max(a.begin, b.begin), std::min(a.end, b.end)}; }

/// Elements of a member: the concatenation of the ranges `perBlock` of all blocks, restricted to
/// `all`.
struct MemberRange {
  Span perBlock, all;

  /// Returns the range within a block.
  Span rangeIn(int64_t block) const {
    Span part = intersect({block * perBlock.size(), (block + 1) * perBlock.size()}, all);
    int64_t shift = perBlock.begin - block * perBlock.size();
    return {part.begin + shift, part.end + shift};
  }
  /// Returns the blocks that intersect the range. Only the first and the last may be incomplete.
  Span getBlocks() const {
    if (all.size() == 0)
      return {0, 0};
    return {all.begin / perBlock.size(), (all.end - 1) / perBlock.size() + 1};
  }
};
} // namespace

static Span split(Span range, ArrayRef<StringAttr> axes, MeshAttr grid,
                  const BlockMove::Values &at) {
  for (StringAttr axis : axes) {
    auto it = at.find(axis.getValue().str());
    int64_t parts = grid.getAxisSize(axis.getValue()), c = it == at.end() ? 0 : it->second;
    int64_t begin = range.begin + ::tpc::shardBegin(range.size(), parts, c);
    range = {begin, begin + ::tpc::shardSize(range.size(), parts, c)};
  }
  return range;
}

std::optional<int64_t> BlockMove::getMaxSentElements(MeshAttr grid, const Values &coordinates,
                                                     const Values &symbols,
                                                     std::optional<SymExpr> first) const {
  auto outerSize = outer.getLocalSize(grid, coordinates, symbols);
  auto count = blocks.getLocalSize(grid, coordinates, symbols);
  auto size = n.evaluate(symbols), width = unit.evaluate(symbols);
  auto shift = first ? first->evaluate(symbols) : std::optional<int64_t>(0);
  int64_t run, total;
  if (!outerSize || !count || !size || !width || !shift || *size < 0 || *width < 0 ||
      __builtin_mul_overflow(*size, *width, &run) || __builtin_mul_overflow(run, *count, &total) ||
      __builtin_mul_overflow(total, *outerSize, &total))
    return std::nullopt;
  if (total == 0)
    return 0;
  int64_t begin = ((*shift % run) + run) % run;

  auto getRange = [&](const Split &axes, const Values &at) {
    Span part = split({0, *size}, axes.n, grid, at);
    Span perBlock = {part.begin * *width, part.end * *width};
    return MemberRange{perBlock, split({0, *count * perBlock.size()}, axes.product, grid, at)};
  };
  // Counts the elements of a block that a member keeps.
  auto countKept = [&](const MemberRange &in, const MemberRange &out, int64_t block) {
    Span source = in.rangeIn(block), target = out.rangeIn(block);
    Span low = intersect(target, {0, run - begin}), high = intersect(target, {run - begin, run});
    return intersect(source, {low.begin + begin, low.end + begin}).size() +
           intersect(source, {high.begin + begin - run, high.end + begin - run}).size();
  };

  Axes axes = getAxes();
  Values at = coordinates;
  for (StringAttr axis : axes)
    at[axis.getValue().str()] = 0;
  int64_t maxSent = 0;
  while (true) {
    MemberRange in = getRange(this->in, at), out = getRange(this->out, at);
    Span a = in.getBlocks(), b = out.getBlocks(), both = intersect(a, b);
    int64_t sent = in.all.size();
    std::set<int64_t> ends;
    for (int64_t block : {a.begin, a.end - 1, b.begin, b.end - 1})
      if (block >= both.begin && block < both.end && ends.insert(block).second)
        sent -= countKept(in, out, block);
    // All other blocks have equal counts.
    if (int64_t alike = both.size() - int64_t(ends.size()); alike > 0) {
      int64_t block = both.begin;
      while (ends.count(block))
        ++block;
      sent -= alike * countKept(in, out, block);
    }
    maxSent = std::max(maxSent, sent);
    size_t next = 0;
    while (next < axes.size()) {
      int64_t &c = at[axes[next].getValue().str()];
      if (++c < grid.getAxisSize(axes[next].getValue()))
        break;
      c = 0;
      ++next;
    }
    if (next == axes.size())
      return maxSent * *outerSize;
  }
}

std::optional<int64_t> mlir::tpc::getMaxSentBytes(CollectivePermuteOp op, MeshAttr grid,
                                                  const BlockMove::Values &coordinates,
                                                  const BlockMove::Values &symbols) {
  auto move = BlockMove::get(op);
  if (!move)
    return std::nullopt;
  auto bytes = move->getMaxSentElements(grid, coordinates, symbols, op.getFrom());
  int64_t element = getElementBytes(op.getType());
  if (!bytes || __builtin_mul_overflow(*bytes, element, &*bytes))
    return std::nullopt;
  for (auto [d, dim] : llvm::enumerate(getDist(op.getOperand()).getDims())) {
    if (d == op.getDim())
      continue;
    auto size = dim.getLocalSize(grid, coordinates, symbols);
    if (!size || __builtin_mul_overflow(*bytes, *size, &*bytes))
      return std::nullopt;
  }
  return bytes;
}
