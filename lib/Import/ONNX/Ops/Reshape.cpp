//===- Reshape.cpp - Reshape, Squeeze, Flatten, Expand, Transpose ---------===//

#include "OpTable.h"

#include "onnx.pb.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::frontend;

/// Sets a result with the same elements and another shape. Known contents and bounds are kept.
static LogicalResult resultReshaped(Node &n, Sizes sizes) {
  const Tensor &x = n.in(0);
  if (x.contents) {
    if (!n.equate(product(x.shape), product(sizes),
                  str(x.shape) + " cannot be reshaped to " + str(sizes)))
      return failure();
    Tensor result = x;
    result.shape = std::move(sizes);
    result.value = {};
    result.source = {};
    return n.result(std::move(result));
  }
  Tensor result = n.wrap(n.reshape(n.operand(0), sizes));
  result.interval = x.interval;
  return n.result(std::move(result));
}

static LogicalResult importReshape(Node &n) {
  if (failed(n.expectInputs(n.version < 5 ? 1 : 2)))
    return failure();
  const Tensor &x = n.in(0);
  Sizes target;
  if (n.version < 5) {
    auto shape = n.getInts("shape");
    if (!shape)
      return n.failed() ? failure() : LogicalResult(n.error() << "lacks attribute 'shape'");
    target.assign(shape->begin(), shape->end());
    if (target.size() > 32)
      return n.error() << "has a shape of " << target.size()
                       << " dimensions; at most 32 are supported";
  } else {
    FailureOr<Sizes> known = n.knownSizes(1, "shape");
    if (failed(known))
      return failure();
    target = std::move(*known);
  }
  bool allowZero = n.getInt("allowzero", 0);
  if (n.failed())
    return failure();

  Sizes sizes;
  int64_t inferred = -1;
  for (auto [i, size] : llvm::enumerate(target)) {
    if (size.isConstant(-1)) {
      if (inferred >= 0)
        return n.error() << "has -1 twice in its shape " << str(target);
      inferred = i;
      sizes.push_back(SymExpr(1));
      continue;
    }
    if (size.isConstant(0) && !allowZero) {
      if ((int64_t)i >= x.rank())
        return n.error() << "copies dimension " << i << " of an operand of shape " << str(x.shape)
                         << ", which has no such dimension";
      sizes.push_back(x.shape[i]);
      continue;
    }
    if (size.isConstant() && *size.asConstant() < 0)
      return n.error() << "has a negative size in its shape " << str(target);
    sizes.push_back(size);
  }
  if (inferred >= 0) {
    SymExpr total = product(x.shape), rest = product(sizes);
    if (rest.isConstant(0))
      return n.error() << "has both -1 and 0 in its shape " << str(target);
    std::optional<SymExpr> size = total.divideExact(rest);
    // The division may fail only because two symbols denote the same size.
    if (!size)
      for (const SymExpr &factor : rest.monomialFactors())
        for (const SymExpr &other : total.monomialFactors())
          if (!size && !factor.isConstant() && !other.isConstant() && rest.isMonomial() &&
              total.isMonomial() && !total.divideExact(factor) && !rest.divideExact(other) &&
              !n.equate(factor, other, "a shape of " + str(x.shape) + " and one of " + str(target)))
            return failure();
    if (!size)
      return n.error() << "cannot reshape " << str(x.shape) << " to " << str(target) << ": `"
                       << total.str() << "` is not a multiple of `" << rest.str() << "`";
    sizes[inferred] = *size;
  }
  return resultReshaped(n, std::move(sizes));
}

/// Reads axes from an attribute or, since operator set 13, from input 1. Nothing if there are none.
static FailureOr<std::optional<SmallVector<int64_t>>> readAxes(Node &n) {
  std::optional<SmallVector<int64_t>> axes;
  if (n.version < 13) {
    axes = n.getInts("axes");
  } else if (n.has(1)) {
    FailureOr<SmallVector<int64_t>> known = n.constantInts(1, "axes");
    if (failed(known))
      return failure();
    axes = std::move(*known);
  }
  if (n.failed())
    return failure();
  return axes;
}

static LogicalResult importSqueeze(Node &n) {
  if (failed(n.expectInputs(1, n.version < 13 ? 1 : 2)))
    return failure();
  auto given = readAxes(n);
  if (failed(given))
    return failure();
  const Tensor &x = n.in(0);
  SmallVector<int64_t> axes;
  if (*given) {
    FailureOr<SmallVector<int64_t>> normal = n.normalizeAxes(**given, x.rank());
    if (failed(normal))
      return failure();
    axes = std::move(*normal);
  } else {
    for (auto [i, size] : llvm::enumerate(x.shape)) {
      if (!size.isConstant())
        return n.error() << "removes all dimensions of size 1 of " << str(x.shape)
                         << ", which is known only when the program is run; give it axes";
      if (size.isConstant(1))
        axes.push_back(i);
    }
  }
  Sizes sizes;
  for (auto [i, size] : llvm::enumerate(x.shape)) {
    if (!llvm::is_contained(axes, (int64_t)i))
      sizes.push_back(size);
    else if (!n.equate(size, SymExpr(1), "dimension " + Twine(i) + " is removed"))
      return failure();
  }
  return resultReshaped(n, std::move(sizes));
}

static LogicalResult importUnsqueeze(Node &n) {
  if (failed(n.expectInputs(n.version < 13 ? 1 : 2)))
    return failure();
  auto given = readAxes(n);
  if (failed(given))
    return failure();
  if (!*given)
    return n.error() << "lacks axes";
  const Tensor &x = n.in(0);
  if ((*given)->size() > 32)
    return n.error() << "has " << (*given)->size() << " axes; at most 32 are supported";
  FailureOr<SmallVector<int64_t>> axes = n.normalizeAxes(**given, x.rank() + (*given)->size());
  if (failed(axes))
    return failure();
  Sizes sizes;
  for (size_t i = 0, next = 0; i < x.rank() + axes->size(); ++i)
    sizes.push_back(llvm::is_contained(*axes, (int64_t)i) ? SymExpr(1) : x.shape[next++]);
  return resultReshaped(n, std::move(sizes));
}

static LogicalResult importFlatten(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  const Tensor &x = n.in(0);
  int64_t axis = n.getInt("axis", 1);
  if (axis < -x.rank() || axis > x.rank())
    return n.error() << "has axis " << axis << ", but its operand has " << x.rank()
                     << " dimensions";
  ArrayRef<SymExpr> sizes(x.shape);
  axis = axis < 0 ? axis + x.rank() : axis;
  return resultReshaped(n, {product(sizes.take_front(axis)), product(sizes.drop_front(axis))});
}

static LogicalResult importExpand(Node &n) {
  if (failed(n.expectInputs(2)))
    return failure();
  FailureOr<Sizes> target = n.knownSizes(1, "shape");
  if (failed(target))
    return failure();
  for (const SymExpr &size : *target)
    if (size.isConstant() && *size.asConstant() < 0)
      return n.error() << "has a negative size in its shape " << str(*target);
  const Tensor &x = n.in(0);
  FailureOr<Sizes> sizes = n.broadcast(x.shape, *target);
  if (failed(sizes))
    return failure();
  // If all elements are one known number, a small result stays known.
  std::optional<int64_t> count = product(*sizes).asConstant();
  if (x.contents && x.contents->size() == 1 && count && *count <= kMaxContents) {
    Contents contents;
    contents.isFloat = x.contents->isFloat;
    if (contents.isFloat)
      contents.floats.assign(*count, x.contents->floats[0]);
    else
      contents.ints.assign(*count, x.contents->ints[0]);
    return n.resultContents(x.element, *sizes, std::move(contents));
  }
  Tensor result = n.wrap(n.expand(n.operand(0), *sizes));
  result.interval = x.interval;
  return n.result(std::move(result));
}

/// Repeats each dimension: [n] is reshaped to [1, n], broadcast, and merged.
static LogicalResult importTile(Node &n) {
  if (failed(n.expectInputs(n.version < 6 ? 3 : 2)))
    return failure();
  const Tensor &x = n.in(0);
  std::vector<SymExpr> repeats;
  FailureOr<std::vector<SymExpr>> known = n.knownInts(1, "repeats");
  if (failed(known))
    return failure();
  if (n.version < 6) {
    FailureOr<SmallVector<int64_t>> axis = n.constantInts(2, "axis");
    if (failed(axis) || axis->size() != 1 || known->size() != 1)
      return n.failed() ? failure() : LogicalResult(n.error() << "needs one axis and one number");
    FailureOr<int64_t> normal = n.normalizeAxis((*axis)[0], x.rank());
    if (failed(normal))
      return failure();
    repeats.assign(x.rank(), SymExpr(1));
    repeats[*normal] = (*known)[0];
  } else {
    repeats = *known;
  }
  if ((int64_t)repeats.size() != x.rank())
    return n.error() << "has " << repeats.size() << " repeats for an operand of shape "
                     << str(x.shape) << "; there must be one for each dimension";
  Sizes split, broadcast, merged;
  for (auto [size, count] : llvm::zip(x.shape, repeats)) {
    if (count.isConstant() && *count.asConstant() < 0)
      return n.error() << "has a negative number of repeats";
    if (!size.isConstant(1) && !count.isConstant(1)) {
      split.push_back(SymExpr(1));
      broadcast.push_back(count);
    }
    split.push_back(size);
    broadcast.push_back(size.isConstant(1) ? count : size);
    merged.push_back(size * count);
  }
  Value v = n.reshape(n.expand(n.reshape(n.operand(0), split), broadcast), merged);
  Tensor result = n.wrap(v);
  result.interval = x.interval;
  return n.result(std::move(result));
}

/// Transposes known contents.
static LogicalResult transposeContents(Node &n, const Tensor &x, ArrayRef<int64_t> permutation) {
  SmallVector<int64_t> strides(x.rank(), 1), position(x.rank(), 0);
  for (int64_t d = x.rank() - 1; d-- > 0;)
    strides[d] = strides[d + 1] * *x.shape[d + 1].asConstant();
  Sizes sizes;
  for (int64_t from : permutation)
    sizes.push_back(x.shape[from]);
  Contents contents;
  contents.isFloat = x.contents->isFloat;
  for (size_t i = 0; i < x.contents->size(); ++i) {
    int64_t at = 0;
    for (auto [d, from] : llvm::enumerate(permutation))
      at += position[d] * strides[from];
    if (contents.isFloat)
      contents.floats.push_back(x.contents->floats[at]);
    else
      contents.ints.push_back(x.contents->ints[at]);
    // Advances the position; the last dimension varies fastest.
    for (int64_t d = x.rank(); d-- > 0 && ++position[d] == *sizes[d].asConstant();)
      position[d] = 0;
  }
  return n.resultContents(x.element, sizes, std::move(contents));
}

static LogicalResult importTranspose(Node &n) {
  if (failed(n.expectInputs(1)))
    return failure();
  const Tensor &x = n.in(0);
  SmallVector<int64_t> permutation;
  if (auto perm = n.getInts("perm")) {
    FailureOr<SmallVector<int64_t>> normal = n.normalizeAxes(*perm, x.rank());
    if (failed(normal))
      return failure();
    permutation = std::move(*normal);
    if ((int64_t)permutation.size() != x.rank())
      return n.error() << "permutes " << permutation.size() << " dimensions of an operand with "
                       << x.rank() << "; it must permute all";
  } else {
    for (int64_t i = x.rank(); i-- > 0;)
      permutation.push_back(i);
  }
  if (n.failed())
    return failure();
  if (x.rank() <= 1)
    return n.result(x);
  if (x.contents)
    return transposeContents(n, x, permutation);
  Tensor result = n.wrap(n.transpose(n.operand(0), permutation));
  result.interval = x.interval;
  return n.result(std::move(result));
}

void mlir::tpc::frontend::addReshapeOps(OpTable &t) {
  t.add("Reshape", {1, 5, 13, 14, 19, 21, 23, 24, 25}, importReshape,
        "shape known while importing; a -1 must divide for every size");
  t.add("Squeeze", {1, 11, 13, 21, 23, 24, 25}, importSqueeze,
        "axes known while importing; without axes, static sizes");
  t.add("Unsqueeze", {1, 11, 13, 21, 23, 24, 25}, importUnsqueeze, "axes known while importing");
  t.add("Flatten", {1, 9, 11, 13, 21, 23, 24, 25}, importFlatten);
  t.add("Expand", {8, 13}, importExpand, "shape known while importing");
  t.add("Tile", {1, 6, 13}, importTile, "repeats known while importing");
  t.add("Transpose", {1, 13, 21, 23, 24, 25}, importTranspose);
}
