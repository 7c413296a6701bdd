//===- SplitFusedProjections.cpp - Slices of products become products -----===//

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/IR/IRMapping.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_SPLITFUSEDPROJECTIONS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// A slice of columns of a product.
struct Part {
  SliceOp slice;
  /// From the product to the slice, and what is done to each element on the way.
  Movement movement;
  SmallVector<Operation *> pointwise;
  Value matrix, bias;
  /// The part that has all of its columns, of whose product it is a slice.
  Part *within = nullptr;
  MatmulOp product = {};
};

/// Longer chains are left alone; files are not trusted to be sensible.
constexpr unsigned kMaxLength = 64;

bool takesColumnsOnly(const Movement &m) {
  bool any = false;
  for (auto [dim, factors] : llvm::enumerate(m.baseDims))
    for (int f : factors)
      if (m.factors[f].isSliced()) {
        if (dim + 1 != m.baseDims.size())
          return false;
        any = true;
      }
  return any;
}

/// An op that makes of each element of `v` one element, with nothing else than numbers: a cast, a
/// clip.
bool isPointwise(Operation *op, Value v) {
  return isa<ScalarOpInterface>(op) && op->getNumResults() == 1 &&
         sameSizes(getSizes(op->getResult(0)), getSizes(v)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return operand == v || getSplat(operand); });
}

/// Collects the slices that are all that uses `v`, which is what `path` says of a product; false
/// where there are other users. What slices are used for plays no part: a slice of a slice (half of
/// a head, for a rotary embedding that needs the whole head as well) is no part of its own.
bool collectParts(Value v, const Part &path, unsigned length, std::vector<Part> &parts) {
  SmallVector<OpOperand *> uses = getModelUses(v);
  return !uses.empty() && length < kMaxLength &&
         llvm::all_of(
             uses,
             [&](OpOperand *use) {
               Operation *user = use->getOwner();
               Part part = path;
               if (isPointwise(user, v)) {
                 part.pointwise.push_back(user);
                 return collectParts(user->getResult(0), part, length + 1, parts);
               }
               part.slice = dyn_cast<SliceOp>(user);
               if (!Movement::isStep(user, Movement::Slices) || !part.movement.apply(user))
                 return false;
               if (!part.slice)
                 return collectParts(user->getResult(0), part, length + 1, parts);
               parts.push_back(part);
               return takesColumnsOnly(part.movement);
             });
}

/// Whether all columns of `inner` are columns of `outer`, of which each factor has some in a row.
bool hasColumns(const Movement &outer, const Movement &inner) {
  const Movement::Dim &columns = outer.baseDims.back(), &own = inner.baseDims.back();
  if (columns.size() != own.size())
    return false;
  for (auto [o, i] : llvm::zip(columns, own)) {
    const Movement::Factor &a = outer.factors[o], &b = inner.factors[i];
    if (a.whole != b.whole)
      return false;
    if (!a.isSliced())
      continue;
    auto from = a.start.asConstant(), count = a.size.asConstant();
    auto first = b.start.asConstant(), ownCount = b.size.asConstant();
    if (a.step != 1 || b.step < 1 || !from || !count || !first || !ownCount || *first < *from ||
        *first + (*ownCount - 1) * b.step >= *from + *count)
      return false;
  }
  return true;
}

/// Partial rotary embeddings (GPT-NeoX, Phi, GPT-J) take some columns of a head, and halves of them
/// or every other one as well. What another part has is a slice of that one's product: no column is
/// loaded or computed twice.
void nest(std::vector<Part> &parts) {
  for (Part &inner : parts)
    for (Part &outer : parts)
      if (&outer != &inner && !outer.within && hasColumns(outer.movement, inner.movement) &&
          (&outer < &inner || !hasColumns(inner.movement, outer.movement))) {
        inner.within = &outer;
        break;
      }
  // The outermost one.
  for (Part &part : parts)
    while (part.within && part.within->within)
      part.within = part.within->within;
}

/// Whether one concatenation is all that the slices are used for: a cyclic shift, or columns in
/// another order. They would be products of their own only to become one value again.
bool areJoinedAgain(ArrayRef<Part> parts) {
  Operation *joint = nullptr;
  for (const Part &part : parts)
    for (OpOperand *use : getModelUses(part.slice->getResult(0))) {
      Operation *user = use->getOwner();
      if (!isa<ConcatOp>(user) || (joint && user != joint))
        return false;
      joint = user;
    }
  return joint;
}

/// The same of a small vector that is known: exporters may write biases as nodes.
Value sliceConstant(OpBuilder &builder, ConstantOp op, const Movement &m) {
  auto dense = dyn_cast<DenseElementsAttr>(op.getValue());
  if (!dense || dense.getType().getRank() != 1)
    return {};
  SmallVector<int64_t> columns = {0};
  for (int f : m.baseDims.back()) {
    const Movement::Factor &factor = m.factors[f];
    auto size = factor.size.asConstant(), whole = factor.whole.asConstant(),
         start = factor.start.asConstant();
    if (!size || !whole || !start)
      return {};
    SmallVector<int64_t> next;
    for (int64_t column : columns)
      for (int64_t i = 0; i < *size; ++i)
        next.push_back(column * *whole + *start + i * factor.step);
    columns = std::move(next);
  }
  auto all = llvm::to_vector(dense.getValues<Attribute>());
  SmallVector<Attribute> values =
      llvm::map_to_vector(columns, [&](int64_t column) { return all[column]; });
  auto type = RankedTensorType::get({int64_t(values.size())}, dense.getElementType());
  return ConstantOp::create(builder, op.getLoc(), type, DenseElementsAttr::get(type, values));
}

bool isParameter(Value v) { return !v || v.getDefiningOp<ParameterOp>(); }

/// The columns of `v`, its last dimension, that the movement keeps.
Value sliceColumns(OpBuilder &builder, Value v, const Movement &m) {
  SmallVector<SymExpr> rows = llvm::to_vector(ArrayRef(getSizes(v)).drop_back());
  SmallVector<SymExpr> sizes = rows;
  for (int f : m.baseDims.back())
    sizes.push_back(m.factors[f].whole);
  v = createReshape(builder, v.getLoc(), v, sizes);
  SymExpr columns(1);
  for (auto [i, f] : llvm::enumerate(m.baseDims.back())) {
    const Movement::Factor &factor = m.factors[f];
    columns = columns * factor.size;
    if (factor.isSliced())
      v = createSlice(builder, v.getLoc(), v, rows.size() + i, factor.start, factor.size,
                      factor.step);
  }
  rows.push_back(columns);
  return createReshape(builder, v.getLoc(), v, rows);
}

struct SplitFusedProjections
    : public mlir::tpc::impl::SplitFusedProjectionsBase<SplitFusedProjections> {
  void runOnOperation() override {
    // Parts of a product may have parts again. Each has fewer columns, so this ends.
    SmallVector<MatmulOp> work;
    getOperation().walk([&](MatmulOp op) { work.push_back(op); });
    while (!work.empty())
      split(work.pop_back_val(), work);
  }

  /// Makes a product of each slice of one: of all of them, or of none.
  void split(MatmulOp product, SmallVectorImpl<MatmulOp> &work) {
    std::vector<Part> parts;
    if (rankOf(product.getRhs()) != 2 || !product.getRhs().getDefiningOp<ParameterOp>() ||
        !(isParameter(product.getBias()) || product.getBias().getDefiningOp<ConstantOp>()) ||
        !collectParts(product, {{}, Movement::identity(product), {}, {}, {}}, 0, parts) ||
        areJoinedAgain(parts))
      return;
    nest(parts);
    OpBuilder builder(product);
    for (Part &part : parts) {
      if (part.within)
        continue;
      part.matrix = sliceColumns(builder, product.getRhs(), part.movement);
      bool ok = isParameter(part.matrix);
      if (auto constant =
              product.getBias() ? product.getBias().getDefiningOp<ConstantOp>() : ConstantOp()) {
        part.bias = sliceConstant(builder, constant, part.movement);
        ok &= bool(part.bias);
      } else if (product.getBias()) {
        part.bias = sliceColumns(builder, product.getBias(), part.movement);
        ok &= isParameter(part.bias);
      }
      // A view that has no such form.
      if (!ok)
        return;
    }
    for (Part &part : parts)
      if (!part.within) {
        work.push_back(
            MatmulOp::create(builder, product.getLoc(), product.getLhs(), part.matrix, part.bias));
        part.product = work.back();
      }
    std::vector<Movement> before; // of products, whose own slices change as they are replaced
    for (const Part &part : parts)
      before.push_back(part.movement);
    for (Part &part : parts) {
      Part &outer = part.within ? *part.within : part;
      replace(part, outer.product, before[&outer - parts.data()]);
    }
  }

  /// `outer`: the columns that the product has.
  void replace(Part &part, Value product, const Movement &outer) {
    Movement &m = part.movement;
    m.base = product;
    for (auto [own, theirs] : llvm::zip(m.baseDims.back(), outer.baseDims.back())) {
      Movement::Factor &factor = m.factors[own];
      const Movement::Factor &has = outer.factors[theirs];
      factor.whole = has.size;
      factor.start = factor.start - has.start;
      factor.step = has.step == 1 ? factor.step : 1;
    }
    // Factors of one element are no factors.
    for (SmallVector<Movement::Dim> *list : {&m.baseDims, &m.dims})
      for (Movement::Dim &dim : *list)
        llvm::erase_if(dim, [&](int f) { return m.factors[f].whole.isConstant(1); });
    OpBuilder builder(part.slice);
    Value v = m.build(builder, part.slice.getLoc());
    for (Operation *op : part.pointwise)
      v = repeat(builder, op, v);
    part.slice.getResult().replaceAllUsesWith(v);
  }

  /// What `op`, which is pointwise, makes of `v`.
  Value repeat(OpBuilder &builder, Operation *op, Value v) {
    IRMapping mapping;
    for (Value operand : op->getOperands()) {
      auto splat = getSplat(operand);
      mapping.map(operand,
                  splat ? createScalar(builder, op->getLoc(), elementTypeOf(operand), *splat) : v);
    }
    Operation *made = builder.clone(*op, mapping);
    Type element = elementTypeOf(op->getResult(0));
    made->getResult(0).setType(makeTensorType(element, getSizes(v)));
    return made->getResult(0);
  }
};

} // namespace
