//===- Slice.cpp - Slice, Split, Concat, Pad ------------------------------===//

#include "Fold.h"
#include "OpTable.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

//===----------------------------------------------------------------------===//
// Slice
//===----------------------------------------------------------------------===//

namespace {
struct SliceRange {
  SymExpr start, size;
};
} // namespace

/// Returns position `e` in a dimension. A negative position counts from the end, and the result is
/// clamped to [0, size]. The sign of `e` is decided for all sizes of at least 1. An undecided
/// comparison becomes a constraint: `sequence` in a dimension of 8 requires sequence <= 8.
static std::optional<SymExpr> position(Node &n, const SymExpr &e, const SymExpr &size) {
  auto nonNegative = [](const SymExpr &x) {
    std::optional<int64_t> lower = x.lowerBound(0);
    return lower && *lower >= 0;
  };
  std::string why = "node " + getSourceName(n.loc) + " slices a dimension of size " + size.str() +
                    " at " + e.str();
  SymExpr at = e;
  if (auto constant = e.asConstant()) {
    // Exporters write the maximum 32-bit or 64-bit integer for "to the end".
    if (*constant >= INT32_MAX)
      return size;
    if (*constant >= 0)
      return n.minimum(e, size, why);
    if (*constant <= -INT32_MAX)
      return SymExpr(0);
    return n.maximum(size + e, SymExpr(0), why);
  }
  if (!nonNegative(e)) {
    if (nonNegative(-e - SymExpr(1)) || nonNegative(-e)) {
      // -sequence counts from the end, but -0 does not.
      if (!nonNegative(-e - SymExpr(1)))
        n.assumeNonNegative(-e - SymExpr(1), why);
      at = size + e;
      if (!nonNegative(at) && !n.assumeNonNegative(at, why))
        return std::nullopt;
      return at;
    }
    if (!n.assumeNonNegative(e, why))
      return std::nullopt;
  }
  if (nonNegative(at - size))
    return size;
  if (!nonNegative(size - at) && !n.assumeNonNegative(size - at, why))
    return std::nullopt;
  return at;
}

/// Returns the elements start, start + step, … before `end` of a dimension.
static std::optional<SliceRange> slicePart(Node &n, const SymExpr &start, const SymExpr &end,
                                           int64_t step, const SymExpr &size) {
  if (step > 0) {
    auto from = position(n, start, size), to = position(n, end, size);
    if (!from || !to)
      return std::nullopt;
    // Both positions are in [0, size].
    SymExpr length = *to - *from;
    if (*to != size && !from->isConstant(0))
      length = n.maximum(length, SymExpr(0),
                         "node " + getSourceName(n.loc) + " slices from " + from->str() + " to " +
                             to->str());
    if (step > 1)
      length = SymExpr::floorDiv(length + SymExpr(step - 1), SymExpr(step));
    return SliceRange{*from, length};
  }
  // Negative step: the start is clamped to [0, size - 1] (unlike numpy), the end to [-1, size - 1].
  // Only constants are supported.
  auto s = start.asConstant(), e = end.asConstant();
  if (!s || !e) {
    n.error() << "slices backwards from `" << start.str() << "` to `" << end.str()
              << "`; both must be constants";
    return std::nullopt;
  }
  // ONNX Runtime reads the maximum 32-bit or 64-bit integer as "to the end" here too.
  if (*e == INT32_MAX || *e == INT64_MAX)
    e = INT64_MIN;
  std::optional<int64_t> known = size.asConstant();
  if (!known) {
    // Reverses the whole dimension.
    if ((*s == -1 || *s >= INT32_MAX) && *e <= -INT32_MAX && step == -1)
      return SliceRange{size - SymExpr(1), size};
    n.error()
        << "slices a part of a dimension of size `" << size.str()
        << "` backwards; if the size is not constant, only the entire dimension can be reversed";
    return std::nullopt;
  }
  auto clamp = [&](int64_t i, int64_t lower) {
    if (i < 0)
      i = i < -*known ? lower : i + *known;
    return std::min(i, *known - 1);
  };
  int64_t from = clamp(*s, 0), to = clamp(*e, -1);
  int64_t count = from > to ? (from - to - 1) / -step + 1 : 0;
  return SliceRange{SymExpr(count ? from : 0), SymExpr(count)};
}

/// Slices a value along one dimension. Known contents stay known.
static std::optional<Tensor> sliceAlong(Node &n, const Tensor &x, int64_t dim,
                                        const SliceRange &range, int64_t step) {
  auto start = range.start.asConstant(), size = range.size.asConstant();
  if (x.contents && start && size) {
    int64_t outer = 1, inner = 1, extent = *x.shape[dim].asConstant();
    for (int64_t i = 0; i < x.rank(); ++i)
      (i < dim ? outer : inner) *= i == dim ? 1 : *x.shape[i].asConstant();
    auto contents = std::make_shared<Contents>();
    contents->isFloat = x.contents->isFloat;
    for (int64_t o = 0; o < outer; ++o)
      for (int64_t k = 0; k < *size; ++k)
        for (int64_t i = 0; i < inner; ++i) {
          int64_t at = (o * extent + *start + k * step) * inner + i;
          if (contents->isFloat)
            contents->floats.push_back(x.contents->floats[at]);
          else
            contents->ints.push_back(x.contents->ints[at]);
        }
    Tensor result = x;
    result.contents = contents;
    result.shape[dim] = range.size;
    result.value = {};
    result.source = {};
    return result;
  }
  Value v = n.materialize(x);
  if (!v)
    return std::nullopt;
  Tensor result = n.wrap(n.slice(v, dim, range.start, range.size, step));
  result.interval = x.interval;
  return result;
}

static LogicalResult importSlice(Node &n) {
  if (failed(n.expectInputs(n.version < 10 ? 1 : 3, n.version < 10 ? 1 : 5)))
    return failure();
  std::vector<SymExpr> starts, ends;
  std::optional<SmallVector<int64_t>> axes, steps;
  if (n.version < 10) {
    auto s = n.getInts("starts"), e = n.getInts("ends");
    if (!s || !e)
      return n.failed() ? failure() : LogicalResult(n.error() << "lacks starts or ends");
    starts.assign(s->begin(), s->end());
    ends.assign(e->begin(), e->end());
    axes = n.getInts("axes");
  } else {
    auto s = n.knownInts(1, "starts"), e = n.knownInts(2, "ends");
    if (failed(s) || failed(e))
      return failure();
    starts = std::move(*s);
    ends = std::move(*e);
    for (unsigned i : {3, 4}) {
      if (!n.has(i))
        continue;
      auto known = n.constantInts(i, i == 3 ? "axes" : "steps");
      if (failed(known))
        return failure();
      (i == 3 ? axes : steps) = std::move(*known);
    }
  }
  if (!axes) {
    axes.emplace();
    for (size_t i = 0; i < starts.size(); ++i)
      axes->push_back(i);
  }
  if (!steps)
    steps.emplace(starts.size(), 1);
  if (n.failed())
    return failure();
  if (ends.size() != starts.size() || axes->size() != starts.size() ||
      steps->size() != starts.size())
    return n.error() << "has " << starts.size() << " starts, " << ends.size() << " ends, "
                     << axes->size() << " axes and " << steps->size()
                     << " steps; the numbers must be equal";
  FailureOr<SmallVector<int64_t>> normal = n.normalizeAxes(*axes, n.in(0).rank());
  if (failed(normal))
    return failure();

  Tensor x = n.in(0);
  for (auto [i, dim] : llvm::enumerate(*normal)) {
    int64_t step = (*steps)[i];
    if (step == 0 || step == INT64_MIN)
      return n.error() << "has a step of " << step << "; it must be neither 0 nor -2^63";
    std::optional<SliceRange> range = slicePart(n, starts[i], ends[i], step, x.shape[dim]);
    if (!range)
      return n.failed() ? failure()
                        : LogicalResult(n.error() << "takes elements that do not exist of a "
                                                     "dimension of size `"
                                                  << x.shape[dim].str() << "`");
    std::optional<Tensor> part = sliceAlong(n, x, dim, *range, step);
    if (!part)
      return failure();
    x = std::move(*part);
  }
  return n.result(std::move(x));
}

//===----------------------------------------------------------------------===//
// Split
//===----------------------------------------------------------------------===//

static LogicalResult importSplit(Node &n) {
  if (failed(n.expectInputs(1, 2)))
    return failure();
  const Tensor &x = n.in(0);
  FailureOr<int64_t> axis = n.normalizeAxis(n.getInt("axis", 0), x.rank());
  if (failed(axis))
    return failure();
  const SymExpr &size = x.shape[*axis];
  std::vector<SymExpr> parts;
  bool asInput = n.version >= 13 || n.version == 1;
  if (asInput && n.has(1)) {
    FailureOr<std::vector<SymExpr>> known = n.knownInts(1, "split");
    if (failed(known))
      return failure();
    parts = std::move(*known);
  } else if (auto given = n.version < 13 ? n.getInts("split") : std::nullopt) {
    parts.assign(given->begin(), given->end());
  }
  int64_t count = n.version >= 18 ? n.getInt("num_outputs", n.numOutputs()) : n.numOutputs();
  if (n.failed())
    return failure();
  if (count != (int64_t)n.numOutputs() || count < 1)
    return n.error() << "has num_outputs = " << count << " and " << n.numOutputs()
                     << " outputs; the numbers must be equal";
  if (parts.empty()) {
    // Splits into equal parts. Since operator set 18 the last part may be smaller.
    std::optional<SymExpr> equal = size.divideExact(SymExpr(count));
    if (auto known = size.asConstant(); known && !equal) {
      int64_t chunk = (*known + count - 1) / count;
      if (n.version < 18 || chunk * (count - 1) > *known)
        return n.error() << "splits a dimension of size " << *known << " into " << count
                         << " parts";
      parts.assign(count - 1, SymExpr(chunk));
      parts.push_back(SymExpr(*known - chunk * (count - 1)));
    } else if (equal) {
      parts.assign(count, *equal);
    } else {
      return n.error() << "splits a dimension of size `" << size.str() << "` into " << count
                       << " equal parts";
    }
  }
  SymExpr total(0);
  for (const SymExpr &part : parts) {
    if (part.isConstant() && *part.asConstant() < 0)
      return n.error() << "has a negative part in " << str(parts);
    total = total + part;
  }
  if (parts.size() != n.numOutputs())
    return n.error() << "has " << parts.size() << " parts and " << n.numOutputs()
                     << " outputs; the numbers must be equal";
  if (!n.equate(size, total, "the parts " + str(parts) + " and what is split, " + str(x.shape)))
    return failure();
  SymExpr start(0);
  for (unsigned i = 0; i < parts.size(); ++i) {
    if (n.isUsed(i)) {
      std::optional<Tensor> part = sliceAlong(n, x, *axis, {start, parts[i]}, 1);
      if (!part || failed(n.set(i, std::move(*part))))
        return failure();
    }
    start = start + parts[i];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Concat
//===----------------------------------------------------------------------===//

static LogicalResult importConcat(Node &n) {
  if (failed(n.expectInputs(1, 100000)))
    return failure();
  if (n.version >= 4 && !n.hasAttribute("axis"))
    return n.error() << "lacks attribute 'axis'";
  int64_t given = n.getInt("axis", 1);
  if (n.failed())
    return failure();
  FailureOr<int64_t> axis = n.normalizeAxis(given, n.in(0).rank());
  if (failed(axis))
    return failure();
  bool vectors = true;
  int64_t count = 0;
  for (unsigned i = 0; i < n.numInputs(); ++i) {
    if (!n.has(i))
      return n.error() << "lacks input " << i;
    if (n.in(i).element != n.in(0).element || n.in(i).rank() != n.in(0).rank())
      return n.error() << "joins " << str(n.in(0).shape) << " of " << n.in(0).element << " and "
                       << str(n.in(i).shape) << " of " << n.in(i).element
                       << "; they must have the same rank and element type";
    vectors &= n.in(i).rank() == 1 && n.in(i).contents;
    if (vectors)
      count += n.in(i).contents->size();
  }
  if (vectors && count <= kMaxContents) {
    Contents contents;
    contents.isFloat = n.in(0).isFloat();
    for (unsigned i = 0; i < n.numInputs(); ++i) {
      const Contents &c = *n.in(i).contents;
      contents.ints.insert(contents.ints.end(), c.ints.begin(), c.ints.end());
      contents.floats.insert(contents.floats.end(), c.floats.begin(), c.floats.end());
    }
    return n.resultContents(n.in(0).element, {SymExpr(count)}, std::move(contents));
  }
  SmallVector<Value> values;
  std::optional<Interval> interval = n.in(0).interval;
  for (unsigned i = 0; i < n.numInputs(); ++i) {
    values.push_back(n.operand(i));
    const std::optional<Interval> &next = n.in(i).interval;
    if (interval && next)
      interval = Interval{SymExpr::min(interval->low, next->low),
                          SymExpr::max(interval->high, next->high)};
    else
      interval.reset();
  }
  Tensor result = n.wrap(n.concat(values, *axis));
  result.interval = interval;
  return n.result(std::move(result));
}

//===----------------------------------------------------------------------===//
// Pad
//===----------------------------------------------------------------------===//

/// Imports padding with a constant as a concatenation.
static LogicalResult importPad(Node &n) {
  if (failed(n.expectInputs(n.version < 11 ? 1 : 2, n.version < 11 ? 1 : 4)))
    return failure();
  const Tensor &x = n.in(0);
  std::string mode = n.getString("mode", "constant");
  std::vector<SymExpr> pads;
  Value fill;
  if (n.version < 11) {
    auto given = n.getInts(n.version < 2 ? "paddings" : "pads");
    if (!given)
      return n.failed() ? failure() : LogicalResult(n.error() << "lacks pads");
    pads.assign(given->begin(), given->end());
    fill = n.constant(x.element, n.getFloat("value", 0));
  } else {
    FailureOr<std::vector<SymExpr>> known = n.knownInts(1, "pads");
    if (failed(known))
      return failure();
    pads = std::move(*known);
    fill = n.has(2) ? n.operand(2) : n.constant(x.element, 0);
  }
  if (n.failed())
    return failure();
  if (mode != "constant")
    return n.error() << "has mode '" << mode << "'; tpc pads with a constant only";
  if (elementOf(fill) != x.element || !product(getSizes(fill)).isConstant(1))
    return n.error() << "pads " << x.element << " with " << fill.getType()
                     << "; it must be one number of the operand's element type";
  SmallVector<int64_t> axes = llvm::to_vector(llvm::seq<int64_t>(0, x.rank()));
  if (n.has(3)) {
    FailureOr<SmallVector<int64_t>> given = n.constantInts(3, "axes");
    if (failed(given))
      return failure();
    FailureOr<SmallVector<int64_t>> normal = n.normalizeAxes(*given, x.rank());
    if (failed(normal))
      return failure();
    axes = std::move(*normal);
  }
  if (pads.size() != 2 * axes.size())
    return n.error() << "has " << pads.size() << " pads for " << axes.size()
                     << " dimensions; there must be two for each";
  Value v = n.operand(0);
  fill = n.reshape(fill, Sizes());
  for (auto [i, dim] : llvm::enumerate(axes)) {
    SmallVector<Value> parts{v};
    for (bool end : {false, true}) {
      const SymExpr &pad = pads[i + (end ? axes.size() : 0)];
      if (pad.isConstant(0) || !parts[0])
        continue;
      std::optional<int64_t> lower = pad.lowerBound();
      if (!lower || *lower < 0)
        return n.error() << "pads by `" << pad.str() << "`, which may be negative; slice instead";
      Sizes sizes = getSizes(v);
      sizes[dim] = pad;
      Value part = n.expand(fill, sizes);
      parts.insert(end ? parts.end() : parts.begin(), part);
    }
    v = n.concat(parts, dim);
    if (!v)
      return failure();
  }
  return n.result(v);
}

void mlir::tpc::frontend::addSliceOps(OpTable &t) {
  t.add("Slice", {1, 10, 11, 13}, importSlice,
        "starts, ends, axes and steps known while importing; negative steps: constants, on a "
        "symbolic dimension only its reversal");
  t.add("Split", {1, 2, 11, 13, 18}, importSplit, "parts known while importing");
  t.add("Concat", {1, 4, 11, 13}, importConcat);
  t.add("Pad", {1, 2, 11, 13, 18, 19, 21, 23, 24, 25}, importPad,
        "mode = constant; pads known while importing and not negative");
}
