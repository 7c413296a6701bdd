//===- SplitFusedProjections.cpp - Splitting of fused projections ---------===//

#include "Constants.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Dialect/Quantized.h"
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

/// Slice of a matmul's columns.
struct ProjectionSlice {
  SliceOp slice;
  /// Movement from the matmul to the slice, and element-wise ops on the way.
  Movement movement;
  SmallVector<Operation *> pointwise;
  Value matrix, bias;
  /// Another slice with all columns of this one. This slice is then taken from the other's matmul.
  ProjectionSlice *enclosing = nullptr;
  MatmulOp product = {};
};

/// Maximum length of a chain; input files may be adversarial.
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

/// Returns true for an op that maps each element of `v` to one element, with only numbers as other
/// operands: a cast, a clip.
bool isPointwise(Operation *op, Value v) {
  return isa<ScalarOpInterface>(op) && op->getNumResults() == 1 &&
         sameSizes(getSizes(op->getResult(0)), getSizes(v)) &&
         llvm::all_of(op->getOperands(),
                      [&](Value operand) { return operand == v || getSplat(operand); });
}

/// Collects the slices of `v`; `path` is the chain of ops from a matmul to `v`. Returns false if
/// `v` has other users. Slices of slices, such as halves of a head for a rotary embedding that also
/// uses the complete head, are not collected.
bool collectSlices(Value v, const ProjectionSlice &path, unsigned length,
                   std::vector<ProjectionSlice> &slices) {
  SmallVector<OpOperand *> uses = getModelUses(v);
  return !uses.empty() && length < kMaxLength &&
         llvm::all_of(
             uses,
             [&](OpOperand *use) {
               Operation *user = use->getOwner();
               ProjectionSlice part = path;
               if (isPointwise(user, v)) {
                 part.pointwise.push_back(user);
                 return collectSlices(user->getResult(0), part, length + 1, slices);
               }
               part.slice = dyn_cast<SliceOp>(user);
               if (!Movement::isStep(user, Movement::Slices) || !part.movement.apply(user))
                 return false;
               if (!part.slice)
                 return collectSlices(user->getResult(0), part, length + 1, slices);
               slices.push_back(part);
               return takesColumnsOnly(part.movement);
             });
}

/// Returns true if `outer` is a contiguous range in each factor, and has all columns of `inner`.
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

/// Nests slices. Partial rotary embeddings (GPT-NeoX, Phi, GPT-J) slice some columns of a head, and
/// also halves or every second of these columns. A slice whose columns are a subset of another
/// slice becomes a slice of that slice's matmul, so that no column is loaded or computed twice.
void nestSlices(std::vector<ProjectionSlice> &slices) {
  for (ProjectionSlice &inner : slices)
    for (ProjectionSlice &outer : slices)
      if (&outer != &inner && !outer.enclosing && hasColumns(outer.movement, inner.movement) &&
          (&outer < &inner || !hasColumns(inner.movement, outer.movement))) {
        inner.enclosing = &outer;
        break;
      }
  // Sets `enclosing` to the outermost slice.
  for (ProjectionSlice &part : slices)
    while (part.enclosing && part.enclosing->enclosing)
      part.enclosing = part.enclosing->enclosing;
}

/// Returns true if a single concatenation is the only user of the slices: a cyclic shift, or
/// reordered columns. Separate matmuls would only be concatenated again.
bool areConcatenated(ArrayRef<ProjectionSlice> slices) {
  Operation *concat = nullptr;
  for (const ProjectionSlice &part : slices)
    for (OpOperand *use : getModelUses(part.slice->getResult(0))) {
      Operation *user = use->getOwner();
      if (!isa<ConcatOp>(user) || (concat && user != concat))
        return false;
      concat = user;
    }
  return concat;
}

/// Slices a known small vector; exporters may write biases as nodes.
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

bool isParameterOrNull(Value v) { return !v || v.getDefiningOp<ParameterOp>(); }

/// Returns true for a parameter, and for a matrix of quantized weights: movements of a
/// tpc.dequantize of parameters.
bool isWeight(Value v) {
  while (isa_and_nonnull<ReshapeOp, TransposeOp, SliceOp, GatherOp>(v.getDefiningOp()))
    v = v.getDefiningOp()->getOperand(0);
  auto quantized = v.getDefiningOp<DequantizeOp>();
  return v.getDefiningOp<ParameterOp>() ||
         (quantized && llvm::all_of(quantized->getOperands(), [](Value operand) {
            return isWeight(operand) || getSplat(operand);
          }));
}

/// Returns `v` with only those indices of dimension `dim` that are columns kept by the movement.
Value sliceParameter(OpBuilder &builder, Value v, int64_t dim, const Movement &m) {
  SmallVector<SymExpr> whole = getSizes(v), sizes(whole.begin(), whole.begin() + dim), kept = whole;
  for (int f : m.baseDims.back())
    sizes.push_back(m.factors[f].whole);
  sizes.append(whole.begin() + dim + 1, whole.end());
  v = createReshape(builder, v.getLoc(), v, sizes);
  SymExpr columns(1);
  for (auto [i, f] : llvm::enumerate(m.baseDims.back())) {
    const Movement::Factor &factor = m.factors[f];
    columns = columns * factor.size;
    if (factor.isSliced())
      v = createSlice(builder, v.getLoc(), v, dim + i, factor.start, factor.size, factor.step);
  }
  kept[dim] = columns;
  return createReshape(builder, v.getLoc(), v, kept);
}

/// Same as `sliceParameter` for a weight (isWeight). Slices the parameters, and repeats the ops
/// that compute the weight from them. Returns null if an op divides or merges the dimension.
Value sliceWeight(OpBuilder &builder, Value v, int64_t dim, const Movement &m) {
  Operation *op = v.getDefiningOp();
  if (isa<ParameterOp>(op)) {
    Value sliced = sliceParameter(builder, v, dim, m);
    return isParameterOrNull(sliced) ? sliced : Value();
  }
  SymExpr whole = getSizes(v)[dim];
  if (auto transpose = dyn_cast<TransposeOp>(op)) {
    Value x = sliceWeight(builder, transpose.getOperand(), transpose.getPermutation()[dim], m);
    return x ? createTranspose(builder, op->getLoc(), x, transpose.getPermutation()) : Value();
  }
  if (auto reshape = dyn_cast<ReshapeOp>(op)) {
    SmallVector<SymExpr> from = getSizes(reshape.getOperand()), to = getSizes(v);
    SymExpr before = product(ArrayRef(to).take_front(dim));
    int64_t at = 0;
    while (at < int64_t(from.size()) &&
           (product(ArrayRef(from).take_front(at)) != before || from[at] != whole))
      ++at;
    Value x =
        at < int64_t(from.size()) ? sliceWeight(builder, reshape.getOperand(), at, m) : Value();
    if (!x)
      return {};
    to[dim] = getSizes(x)[at];
    return createReshape(builder, op->getLoc(), x, to);
  }
  if (auto slice = dyn_cast<SliceOp>(op); slice && int64_t(slice.getDim()) != dim) {
    Value x = sliceWeight(builder, slice.getOperand(), dim, m);
    return x ? createSlice(builder, op->getLoc(), x, slice.getDim(), slice.getStart(),
                           getSizes(v)[slice.getDim()], slice.getStep())
             : Value();
  }
  IRMapping mapping;
  if (auto gather = dyn_cast<GatherOp>(op); gather && rankOf(gather.getIndices()) == 1) {
    Value x =
        int64_t(gather.getDim()) != dim ? sliceWeight(builder, gather.getData(), dim, m) : Value();
    if (!x)
      return {};
    SmallVector<SymExpr> sizes = getSizes(v);
    sizes[dim] = getSizes(x)[dim];
    return GatherOp::create(builder, op->getLoc(), makeTensorType(elementTypeOf(v), sizes), x,
                            gather.getIndices(), gather.getDim());
  }
  auto quantized = dyn_cast<DequantizeOp>(op);
  if (!quantized || dim + 1 == rankOf(v))
    return {};
  for (Value operand : quantized->getOperands()) {
    int64_t shift = operand == quantized.getPacked() ? 0 : rankOf(v) - rankOf(operand);
    bool has = dim >= shift && getSizes(operand)[dim - shift] == whole && !whole.isConstant(1);
    Value x = has && !getSplat(operand) ? sliceWeight(builder, operand, dim - shift, m) : operand;
    if (!x || (has && x == operand))
      return {};
    mapping.map(operand, x);
  }
  auto copy = cast<DequantizeOp>(builder.clone(*op, mapping));
  SmallVector<SymExpr> sizes = getSizes(copy.getPacked());
  sizes.push_back(getSizes(v).back());
  copy.getResult().setType(makeTensorType(elementTypeOf(v), sizes));
  return copy.getResult();
}

/// Returns the columns of `v`, its last dimension, that the movement keeps; null if they cannot be
/// taken from its parameters.
Value sliceColumns(OpBuilder &builder, Value v, const Movement &m) {
  return sliceWeight(builder, v, rankOf(v) - 1, m);
}

struct SplitFusedProjections
    : public mlir::tpc::impl::SplitFusedProjectionsBase<SplitFusedProjections> {
  void runOnOperation() override {
    // The new matmuls may have slices as well. Each has fewer columns, so the loop terminates.
    SmallVector<MatmulOp> work;
    getOperation().walk([&](MatmulOp op) { work.push_back(op); });
    while (!work.empty())
      split(work.pop_back_val(), work);
  }

  /// Replaces either all slices of a matmul by separate matmuls, or none of them.
  void split(MatmulOp product, SmallVectorImpl<MatmulOp> &work) {
    std::vector<ProjectionSlice> slices;
    if (rankOf(product.getRhs()) != 2 || !isWeight(product.getRhs()) ||
        !(isParameterOrNull(product.getBias()) || product.getBias().getDefiningOp<ConstantOp>()) ||
        !collectSlices(product, {{}, Movement::identity(product), {}, {}, {}}, 0, slices) ||
        areConcatenated(slices))
      return;
    nestSlices(slices);
    OpBuilder builder(product);
    for (ProjectionSlice &part : slices) {
      if (part.enclosing)
        continue;
      part.matrix = sliceColumns(builder, product.getRhs(), part.movement);
      bool ok = bool(part.matrix);
      if (auto constant =
              product.getBias() ? product.getBias().getDefiningOp<ConstantOp>() : ConstantOp()) {
        part.bias = sliceConstant(builder, constant, part.movement);
        ok &= bool(part.bias);
      } else if (product.getBias()) {
        part.bias = sliceColumns(builder, product.getBias(), part.movement);
        ok &= bool(part.bias);
      }
      // The columns of a slice cannot be taken from the parameters.
      if (!ok)
        return;
    }
    for (ProjectionSlice &part : slices)
      if (!part.enclosing) {
        work.push_back(
            MatmulOp::create(builder, product.getLoc(), product.getLhs(), part.matrix, part.bias));
        part.product = work.back();
      }
    std::vector<Movement> before; // original movements; `replace` changes those of the slices
    for (const ProjectionSlice &part : slices)
      before.push_back(part.movement);
    for (ProjectionSlice &part : slices) {
      ProjectionSlice &outer = part.enclosing ? *part.enclosing : part;
      replace(part, outer.product, before[&outer - slices.data()]);
    }
  }

  /// Rebases the movement of `part` on `product`, a matmul with the columns of `outer`, and
  /// replaces the slice.
  void replace(ProjectionSlice &part, Value product, const Movement &outer) {
    Movement &m = part.movement;
    m.base = product;
    for (auto [innerFactor, outerFactor] : llvm::zip(m.baseDims.back(), outer.baseDims.back())) {
      Movement::Factor &factor = m.factors[innerFactor];
      const Movement::Factor &enclosingFactor = outer.factors[outerFactor];
      factor.whole = enclosingFactor.size;
      factor.start = factor.start - enclosingFactor.start;
      factor.step = enclosingFactor.step == 1 ? factor.step : 1;
    }
    // Drops factors of size one.
    for (SmallVector<Movement::Dim> *list : {&m.baseDims, &m.dims})
      for (Movement::Dim &dim : *list)
        llvm::erase_if(dim, [&](int f) { return m.factors[f].whole.isConstant(1); });
    OpBuilder builder(part.slice);
    Value v = m.build(builder, part.slice.getLoc());
    for (Operation *op : part.pointwise)
      v = clonePointwise(builder, op, v);
    part.slice.getResult().replaceAllUsesWith(v);
  }

  /// Clones the element-wise `op` on `v`.
  Value clonePointwise(OpBuilder &builder, Operation *op, Value v) {
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
