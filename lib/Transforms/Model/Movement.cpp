//===- Movement.cpp - Rearrangement of a value's elements -----------------===//

#include "Movement.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

bool mlir::tpc::sameSizes(ArrayRef<SymExpr> a, ArrayRef<SymExpr> b) {
  return a.size() == b.size() &&
         llvm::all_of(llvm::zip(a, b), [](auto p) { return std::get<0>(p) == std::get<1>(p); });
}

//===----------------------------------------------------------------------===//
// Single ops
//===----------------------------------------------------------------------===//

/// Returns the sizes as numbers, if all are constant.
static std::optional<SmallVector<int64_t>> constantSizes(ArrayRef<SymExpr> sizes) {
  SmallVector<int64_t> result;
  for (const SymExpr &size : sizes) {
    auto n = size.asConstant();
    if (!n)
      return std::nullopt;
    result.push_back(*n);
  }
  return result;
}

static Value parameterView(OpBuilder &builder, ParameterOp op, ViewAttr view) {
  auto type = RankedTensorType::get(view.getShape(), elementTypeOf(op.getResult()));
  return ParameterOp::create(builder, op.getLoc(), type, op.getWeightAttr(), view);
}

Value mlir::tpc::createReshape(OpBuilder &builder, Location loc, Value v, ArrayRef<SymExpr> sizes) {
  if (sameSizes(getSizes(v), sizes))
    return v;
  if (auto parameter = v.getDefiningOp<ParameterOp>())
    if (auto shape = constantSizes(sizes))
      if (ViewAttr view = parameter.getViewOrDense())
        if (ViewAttr result = view.reshape(*shape))
          return parameterView(builder, parameter, result);
  return ReshapeOp::create(builder, loc, makeTensorType(elementTypeOf(v), sizes), v);
}

Value mlir::tpc::createTranspose(OpBuilder &builder, Location loc, Value v,
                                 ArrayRef<int64_t> permutation) {
  if (llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size())))
    return v;
  if (auto parameter = v.getDefiningOp<ParameterOp>())
    if (ViewAttr view = parameter.getViewOrDense())
      return parameterView(builder, parameter, view.transpose(permutation));
  SmallVector<SymExpr> from = getSizes(v), sizes;
  for (int64_t p : permutation)
    sizes.push_back(from[p]);
  return TransposeOp::create(builder, loc, makeTensorType(elementTypeOf(v), sizes), v, permutation);
}

Value mlir::tpc::createSlice(OpBuilder &builder, Location loc, Value v, int64_t dim,
                             const SymExpr &start, const SymExpr &size, int64_t step) {
  SmallVector<SymExpr> sizes = getSizes(v);
  if (sizes[dim] == size && start.isConstant(0) && step == 1)
    return v;
  if (auto parameter = v.getDefiningOp<ParameterOp>()) {
    auto from = start.asConstant(), n = size.asConstant();
    if (ViewAttr view = parameter.getViewOrDense(); view && from && n)
      if (ViewAttr result = view.slice(dim, *from, *n, step))
        return parameterView(builder, parameter, result);
  }
  sizes[dim] = size;
  return SliceOp::create(builder, loc, makeTensorType(elementTypeOf(v), sizes), v, dim, start,
                         step);
}

Value mlir::tpc::createExpand(OpBuilder &builder, Location loc, Value v, ArrayRef<SymExpr> sizes) {
  if (sameSizes(getSizes(v), sizes))
    return v;
  return ExpandOp::create(builder, loc, makeTensorType(elementTypeOf(v), sizes), v);
}

//===----------------------------------------------------------------------===//
// Analysis of chains
//===----------------------------------------------------------------------===//

/// Maximum length; longer chains are split. Input files may be adversarial.
static constexpr size_t kMaxChain = 64;

Movement Movement::identity(Value value) {
  Movement m;
  m.base = value;
  for (const SymExpr &size : mlir::tpc::getSizes(value)) {
    Dim dim;
    if (!size.isConstant(1)) {
      dim.push_back(m.factors.size());
      Factor factor;
      factor.size = factor.whole = size;
      m.factors.push_back(factor);
    }
    m.baseDims.push_back(dim);
    m.dims.push_back(dim);
  }
  return m;
}

bool Movement::isStep(Operation *op, int through) {
  return isa<ReshapeOp, TransposeOp>(op) || ((through & Slices) && isa<SliceOp>(op)) ||
         ((through & Expands) && isa<ExpandOp>(op));
}

Movement Movement::of(Value value, int through) {
  // Walks from the value up to the begin of the chain, then applies its ops in order.
  SmallVector<Operation *> chain;
  Value v = value;
  while (Operation *op = v.getDefiningOp()) {
    if (!isStep(op, through) || chain.size() == kMaxChain)
      break;
    chain.push_back(op);
    v = op->getOperand(0);
  }
  Movement m = identity(v);
  for (Operation *op : llvm::reverse(chain)) {
    if (m.apply(op))
      ++m.length;
    else
      m = identity(op->getResult(0));
  }
  return m;
}

SymExpr Movement::dimSize(const Dim &dim) const {
  SymExpr size(1);
  for (int f : dim)
    size = size * factors[f].size;
  return size;
}

Movement::Sizes Movement::getSizes() const {
  Sizes sizes;
  for (const Dim &dim : dims)
    sizes.push_back(dimSize(dim));
  return sizes;
}

bool Movement::isIdentity() const {
  return baseDims == dims &&
         llvm::none_of(factors, [](const Factor &f) { return f.isSliced() || f.broadcast; });
}

bool Movement::apply(Operation *op) {
  if (auto reshapeOp = dyn_cast<ReshapeOp>(op))
    return reshape(mlir::tpc::getSizes(reshapeOp.getResult()));
  if (auto transposeOp = dyn_cast<TransposeOp>(op))
    return transpose(transposeOp.getPermutation());
  if (auto expandOp = dyn_cast<ExpandOp>(op))
    return expand(mlir::tpc::getSizes(expandOp.getResult()));
  if (auto sliceOp = dyn_cast<SliceOp>(op)) {
    int64_t dim = sliceOp.getDim();
    return slice(dim, sliceOp.getStart(), mlir::tpc::getSizes(sliceOp.getResult())[dim],
                 sliceOp.getStep());
  }
  return false;
}

bool Movement::transpose(ArrayRef<int64_t> permutation) {
  SmallVector<Dim> result;
  for (int64_t p : permutation)
    result.push_back(dims[p]);
  dims = result;
  return true;
}

bool Movement::split(int f, const SymExpr &minor) {
  auto major = factors[f].size.divideExact(minor);
  if (!major)
    return false;
  Factor high = factors[f], low;
  low.size = low.whole = minor;
  low.broadcast = high.broadcast;
  if (high.isSliced()) {
    // Slices whole runs of the minor part.
    auto whole = high.whole.divideExact(minor);
    auto start = high.start.divideExact(minor);
    if (high.step != 1 || !whole || !start)
      return false;
    high.whole = *whole;
    high.start = *start;
  } else {
    high.whole = *major;
  }
  high.size = *major;
  int id = factors.size();
  factors[f] = high;
  factors.push_back(low);
  for (SmallVector<Dim> *list : {&baseDims, &dims})
    for (Dim &dim : *list) {
      auto it = llvm::find(dim, f);
      if (it != dim.end())
        dim.insert(it + 1, id);
    }
  return true;
}

// Distributes all factors in row-major order over the new dimensions. Each dimension takes factors
// up to its size, and splits the last one if necessary.
bool Movement::reshape(ArrayRef<SymExpr> sizes) {
  SmallVector<int> rest; // next factor at the back
  for (const Dim &dim : llvm::reverse(dims))
    for (int f : llvm::reverse(dim))
      if (!factors[f].size.isConstant(1)) // one element of a sliced dimension
        rest.push_back(f);
  SmallVector<Dim> result;
  for (const SymExpr &size : sizes) {
    Dim dim;
    SymExpr need = size;
    while (!need.isConstant(1)) {
      if (rest.empty())
        return false;
      int f = rest.pop_back_val();
      SymExpr have = factors[f].size;
      if (auto quotient = need.divideExact(have)) {
        dim.push_back(f);
        need = *quotient;
        continue;
      }
      auto minor = have.divideExact(need);
      if (!minor || minor->isConstant(1) || !split(f, *minor))
        return false;
      dim.push_back(f);
      rest.push_back(factors.size() - 1);
      need = SymExpr(1);
    }
    result.push_back(dim);
  }
  if (!rest.empty())
    return false;
  dims = result;
  return true;
}

bool Movement::slice(int64_t dim, const SymExpr &start, const SymExpr &size, int64_t step) {
  SymExpr have = dimSize(dims[dim]);
  if (have == size && step == 1)
    return true;
  if (dims[dim].empty())
    return false;
  // The major factor is sliced in whole runs of the minor ones.
  SymExpr minor(1);
  for (int f : llvm::drop_begin(dims[dim]))
    minor = minor * factors[f].size;
  auto from = start.divideExact(minor), count = size.divideExact(minor);
  if (!from || !count || (step != 1 && !minor.isConstant(1)))
    return false;
  Factor &factor = factors[dims[dim][0]];
  if (factor.broadcast) {
    factor.size = factor.whole = *count;
    return true;
  }
  factor.start = factor.start + *from * factor.step;
  factor.step *= step;
  factor.size = *count;
  return true;
}

bool Movement::expand(ArrayRef<SymExpr> sizes) {
  if (sizes.size() < dims.size())
    return false;
  SmallVector<Dim> result(sizes.size() - dims.size());
  result.append(dims.begin(), dims.end());
  for (auto [dim, size] : llvm::zip(result, sizes)) {
    if (dimSize(dim) == size)
      continue;
    if (!dim.empty())
      return false;
    dim.push_back(factors.size());
    Factor factor;
    factor.size = factor.whole = size;
    factor.broadcast = true;
    factors.push_back(factor);
  }
  dims = result;
  return true;
}

std::optional<SmallVector<Movement::Dim>> Movement::divide(ArrayRef<SmallVector<SymExpr>> sizes) {
  assert(sizes.size() == dims.size());
  SmallVector<SymExpr> flat;
  for (auto [dim, parts] : llvm::zip(dims, sizes)) {
    if (product(parts) != dimSize(dim))
      return std::nullopt;
    llvm::append_range(flat, parts);
  }
  Movement divided = *this;
  if (!divided.reshape(flat))
    return std::nullopt;
  SmallVector<Dim> parts = divided.dims;
  // Keep the finer factors, but restore the dimensions of the result.
  SmallVector<Dim> whole;
  auto part = parts.begin();
  for (const auto &list : sizes) {
    Dim dim;
    for (size_t i = 0; i < list.size(); ++i)
      llvm::append_range(dim, *part++);
    whole.push_back(dim);
  }
  divided.dims = whole;
  *this = divided;
  return parts;
}

//===----------------------------------------------------------------------===//
// Building
//===----------------------------------------------------------------------===//

/// Sequence: base, reshape to `first`, slices, transpose, reshape to `last` (with 1 for broadcast
/// factors), expand.
struct Movement::BuildPlan {
  struct Slice {
    int64_t dim;
    int factor;
  };
  Sizes first;
  SmallVector<Slice> slices;
  SmallVector<int64_t> permutation;
  Sizes last;
  bool reshapeFirst, transposes, reshapeLast, expands;
};

Movement::BuildPlan Movement::plan() const {
  BuildPlan p;
  // Base factors in the order of the base; position in this order, and dimension of the base.
  SmallVector<int> baseOrder, position(factors.size(), -1), baseDimOf(factors.size(), -1);
  for (auto [i, dim] : llvm::enumerate(baseDims))
    for (int f : dim) {
      position[f] = baseOrder.size();
      baseDimOf[f] = i;
      baseOrder.push_back(f);
    }
  // The same factors in the order of the result; dimension of the result.
  SmallVector<int> resultOrder;
  SmallVector<int> resultDimOf(factors.size(), -1);
  for (auto [i, dim] : llvm::enumerate(dims))
    for (int f : dim)
      if (position[f] >= 0) {
        resultDimOf[f] = i;
        resultOrder.push_back(f);
      }
  // A sliced factor is a separate group; other adjacent factors form groups.
  bool inOrder =
      llvm::is_sorted(resultOrder, [&](int a, int b) { return position[a] < position[b]; });
  SmallVector<SmallVector<int>> groups; // in base order
  SmallVector<int> groupOf(factors.size(), -1);
  for (size_t i = 0; i < baseOrder.size(); ++i) {
    int f = baseOrder[i];
    bool joins = false;
    if (i > 0) {
      int before = baseOrder[i - 1];
      auto it = llvm::find(resultOrder, before);
      joins = it != resultOrder.end() && it + 1 != resultOrder.end() && *(it + 1) == f &&
              baseDimOf[before] == baseDimOf[f] && resultDimOf[before] == resultDimOf[f] &&
              resultDimOf[f] >= 0 && !factors[f].isSliced() && !factors[before].isSliced();
    }
    if (!joins)
      groups.emplace_back();
    groups.back().push_back(f);
    groupOf[f] = groups.size() - 1;
  }
  bool sliced = llvm::any_of(factors, [](const Factor &f) { return f.isSliced(); });

  Sizes base = mlir::tpc::getSizes(this->base);
  for (auto [i, group] : llvm::enumerate(groups)) {
    SymExpr size(1);
    for (int f : group)
      size = size * factors[f].whole;
    p.first.push_back(size);
    if (factors[group[0]].isSliced())
      p.slices.push_back({(int64_t)i, group[0]});
  }
  SmallVector<int> seen;
  for (int f : resultOrder)
    if (!llvm::is_contained(seen, groupOf[f])) {
      seen.push_back(groupOf[f]);
      p.permutation.push_back(groupOf[f]);
    }
  for (size_t i = 0; i < groups.size(); ++i) // sliced to one element and dropped
    if (!llvm::is_contained(p.permutation, (int64_t)i))
      p.permutation.push_back(i);
  for (const Dim &dim : dims) {
    SymExpr size(1);
    for (int f : dim)
      if (!factors[f].broadcast)
        size = size * factors[f].size;
    p.last.push_back(size);
  }
  p.expands = llvm::any_of(dims, [&](const Dim &dim) {
    return llvm::any_of(dim, [&](int f) { return factors[f].broadcast; });
  });
  p.transposes = !inOrder;
  if (!p.transposes && !sliced) {
    p.first = base;
    p.reshapeFirst = false;
    p.permutation.clear();
    p.reshapeLast = !sameSizes(base, p.last);
    return p;
  }
  // No first reshape is needed if each dimension of the base is one group or has size 1.
  bool baseDimsAreGroups = llvm::all_of(baseDims, [&](const Dim &dim) {
    return dim.empty() || llvm::all_of(dim, [&](int f) { return groupOf[f] == groupOf[dim[0]]; });
  });
  if (baseDimsAreGroups) {
    // Without a first reshape, dimensions of size 1 are transposed too: to the dimensions of size 1
    // of the result if that avoids the last reshape, otherwise to the end.
    SmallVector<int64_t> dimOf(groups.size()), units;
    for (auto [i, dim] : llvm::enumerate(baseDims)) {
      if (dim.empty())
        units.push_back(i);
      else
        dimOf[groupOf[dim[0]]] = i;
    }
    for (auto &slice : p.slices)
      slice.dim = dimOf[slice.dim];
    p.first = base;
    SmallVector<int64_t> permutation;
    size_t unit = 0;
    SmallVector<bool> used(groups.size());
    for (const Dim &dim : dims) {
      bool any = false;
      for (int f : dim)
        if (position[f] >= 0) {
          any = true;
          if (!used[groupOf[f]])
            permutation.push_back(dimOf[groupOf[f]]);
          used[groupOf[f]] = true;
        }
      if (!any && unit < units.size())
        permutation.push_back(units[unit++]);
    }
    while (unit < units.size())
      permutation.push_back(units[unit++]);
    for (int64_t dim : dimOf)
      if (!llvm::is_contained(permutation, dim))
        permutation.push_back(dim);
    p.permutation = permutation;
  }
  Sizes moved = p.first;
  for (const auto &slice : p.slices)
    moved[slice.dim] = factors[slice.factor].size;
  Sizes permuted;
  for (int64_t d : p.permutation)
    permuted.push_back(moved[d]);
  if (p.transposes || baseDimsAreGroups)
    p.transposes = !llvm::is_sorted(p.permutation);
  p.reshapeFirst = !sameSizes(base, p.first);
  p.reshapeLast = !sameSizes(permuted, p.last);
  return p;
}

unsigned Movement::cost() const {
  BuildPlan p = plan();
  return p.reshapeFirst + p.slices.size() + p.transposes + p.reshapeLast + p.expands;
}

Value Movement::build(OpBuilder &builder, Location loc) const {
  BuildPlan p = plan();
  Value v = createReshape(builder, loc, base, p.first);
  for (const auto &slice : p.slices) {
    const Factor &f = factors[slice.factor];
    v = createSlice(builder, loc, v, slice.dim, f.start, f.size, f.step);
  }
  if (p.transposes)
    v = createTranspose(builder, loc, v, p.permutation);
  v = createReshape(builder, loc, v, p.last);
  if (!p.expands)
    return v;
  // A dimension with a broadcast factor and others is expanded as two dimensions.
  Sizes split, wide;
  for (const Dim &dim : dims)
    for (int f : dim) {
      split.push_back(factors[f].broadcast ? SymExpr(1) : factors[f].size);
      wide.push_back(factors[f].size);
    }
  bool simple = llvm::all_of(dims, [&](const Dim &dim) {
    return dim.size() <= 1 || llvm::none_of(dim, [&](int f) { return factors[f].broadcast; });
  });
  if (simple)
    return createExpand(builder, loc, v, getSizes());
  v = createReshape(builder, loc, v, split);
  v = createExpand(builder, loc, v, wide);
  return createReshape(builder, loc, v, getSizes());
}
