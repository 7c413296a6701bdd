//===- RaiseAttention.cpp - Recognition of softmax(q k^T + mask) v --------===//
//
// Begins at a matmul whose LHS is a softmax, and traces the scores back to the matmul of queries
// and keys. AttentionMask.cpp converts the ops between that matmul and the softmax (ScoreStep) to
// masks and biases. The operands of both matmuls are traced back through scales and movement ops
// (Movement), and rebuilt in the layout of tpc.attention.
//
//===----------------------------------------------------------------------===//

#include "AttentionMask.h"
#include "AttentionSinks.h"
#include "Constants.h"
#include "DropRepeats.h"
#include "ExplainAttention.h"
#include "Movement.h"
#include "tpc/Dialect/Annotations.h"
#include "tpc/Transforms/Model/Passes.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_RAISEATTENTION
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Returns x and c, if `v` is x * c or x / c for a number c and x has v's shape.
std::optional<std::pair<Value, double>> scaledOperand(Value v) {
  Operation *op = v.getDefiningOp();
  if (!op)
    return std::nullopt;
  std::optional<std::pair<Value, double>> result;
  if (isa<MulOp>(op)) {
    if (auto c = getSplat(op->getOperand(1)))
      result = {op->getOperand(0), *c};
    else if (auto c = getSplat(op->getOperand(0)))
      result = {op->getOperand(1), *c};
  } else if (isa<DivOp>(op)) {
    if (auto c = getSplat(op->getOperand(1)); c && *c != 0)
      result = {op->getOperand(0), 1.0 / *c};
  }
  if (!result || result->first.getType() != v.getType() || !isFloatTensor(v))
    return std::nullopt;
  return result;
}

/// Operand of attention: source and arrangement of its elements, and a scale.
struct Operand {
  Movement movement;
  double scale = 1;
};

/// Returns true if the op only converts from `narrow` to a wider type.
bool isWidening(Operation *op, Type narrow) {
  auto cast = dyn_cast<CastOp>(op);
  return narrow && cast && elementTypeOf(cast.getOperand()) == narrow &&
         isFloatTensor(cast.getResult());
}

/// Traces `v` back through scales and movement ops. Skips conversions from `narrow` to a wider
/// type.
Operand followOperand(Value v, Type narrow) {
  SmallVector<Operation *> chain;
  Value base = v;
  while (Operation *op = chain.size() < 64 ? base.getDefiningOp() : nullptr) {
    if (Movement::isStep(op, Movement::Expands) || isWidening(op, narrow))
      base = op->getOperand(0);
    else if (auto scaled = scaledOperand(base))
      base = scaled->first;
    else
      break;
    chain.push_back(op);
  }
  Operand operand;
  operand.movement = Movement::identity(base);
  for (Operation *op : llvm::reverse(chain)) {
    if (isWidening(op, narrow))
      continue;
    if (auto scaled = scaledOperand(op->getResult(0))) {
      operand.scale *= scaled->second;
    } else if (!operand.movement.apply(op)) {
      operand.movement = Movement::identity(op->getResult(0));
      operand.scale = 1;
    }
  }
  return operand;
}

/// Scores and their steps, traced back from the operand of a softmax.
class ScoreChain {
public:
  /// Matmul that produces the scores; `steps` follow it.
  MatmulOp product;
  SmallVector<ScoreStep> steps;
  /// Op at which the trace failed; may be null.
  Operation *stop = nullptr;

  ScoreChain(OpBuilder &builder, Location loc) : builder(builder), loc(loc) {}

  bool follow(Value v) {
    SmallVector<SymExpr> all = getSizes(v), sizes = all;
    while (Operation *op = stop = v.getDefiningOp()) {
      if (steps.size() > 32 || !sameSizes(getSizes(v), sizes))
        return false;
      if (auto matmul = dyn_cast<MatmulOp>(op)) {
        if (matmul.getBias() || sizes != all)
          return false;
        product = matmul;
        std::reverse(steps.begin(), steps.end());
        return true;
      }
      if (auto cast = dyn_cast<CastOp>(op); // 16-bit scores with an f32 softmax
          cast && isFloatTensor(cast.getOperand()) &&
          elementTypeOf(cast.getOperand()).getIntOrFloatBitWidth() <
              elementTypeOf(v).getIntOrFloatBitWidth()) {
        v = cast.getOperand();
        continue;
      }
      if (isa<ReshapeOp>(op)) { // [b*h, i, j] and [b, h, i, j]
        v = op->getOperand(0);
        SmallVector<SymExpr> from = getSizes(v);
        if (from.size() < 2 || sizes.size() < 2 ||
            ArrayRef(from).take_back(2) != ArrayRef(sizes).take_back(2))
          return false;
        regroups.push_back({SmallVector<SymExpr>(ArrayRef(from).drop_back(2)),
                            SmallVector<SymExpr>(ArrayRef(sizes).drop_back(2))});
        sizes = from;
        continue;
      }
      if (auto scaled = scaledOperand(v)) {
        // number * tanh(x / number)
        if (auto tanh = scaled->first.getDefiningOp<TanhOp>()) {
          steps.push_back({ScoreStep::Cap, scaled->second, Value(), true});
          steps.push_back({ScoreStep::Scale, scaled->second, Value(), true});
          v = tanh.getOperand();
          continue;
        }
        steps.push_back({ScoreStep::Scale, scaled->second, Value(), true});
        v = scaled->first;
        continue;
      }
      Value next;
      if (isa<AddOp, SubOp>(op)) {
        int side = isa<SubOp>(op) || leadsToProduct(op->getOperand(0)) ? 0 : 1;
        next = op->getOperand(side);
        Value added = regroup(op->getOperand(1 - side));
        if (!added)
          return false;
        steps.push_back(
            {ScoreStep::Add, isa<SubOp>(op) ? -1.0 : 1.0, added, true, elementTypeOf(v)});
      } else if (auto select = dyn_cast<SelectOp>(op)) {
        bool keeps = !getSplat(select.getLhs());
        next = keeps ? select.getLhs() : select.getRhs();
        auto number = getSplat(keeps ? select.getRhs() : select.getLhs());
        Value condition = regroup(select.getCondition());
        if (!number || !condition)
          return false;
        steps.push_back({ScoreStep::Replace, *number, condition, keeps, elementTypeOf(v)});
      } else if (isa<MaxOp>(op)) {
        int side = getSplat(op->getOperand(0)) ? 1 : 0;
        auto number = getSplat(op->getOperand(1 - side));
        if (!number)
          return false;
        next = op->getOperand(side);
        steps.push_back({ScoreStep::Floor, *number, Value(), true});
      } else if (isa<MulOp>(op)) { // by a mask of zeros and ones, as in GPT
        int side = leadsToProduct(op->getOperand(0)) ? 0 : 1;
        next = op->getOperand(side);
        Value mask = regroup(op->getOperand(1 - side));
        if (!mask)
          return false;
        steps.push_back({ScoreStep::Multiply, 1, mask, true});
      } else {
        return false;
      }
      v = next;
    }
    return false;
  }

private:
  /// Returns true if `v` depends on a matmul, which masks do not.
  static bool leadsToProduct(Value v, int depth = 0) {
    Operation *op = v.getDefiningOp();
    if (!op || depth > 16)
      return false;
    if (isa<MatmulOp>(op))
      return true;
    if (isa<AddOp, SubOp, MulOp, DivOp, SelectOp, MaxOp, TanhOp, ReshapeOp, CastOp>(op))
      return llvm::any_of(op->getOperands(),
                          [&](Value operand) { return leadsToProduct(operand, depth + 1); });
    return false;
  }

  /// Reshapes an operand of a step to the leading dimensions of the scores at the softmax. Returns
  /// null if that is impossible.
  Value regroup(Value v) {
    for (const Regroup &step : llvm::reverse(regroups)) {
      SmallVector<SymExpr> own = getSizes(v);
      if (own.size() <= 2)
        return v;
      ArrayRef<SymExpr> leading = ArrayRef(own).drop_back(2);
      SmallVector<SymExpr> to;
      if (leading == ArrayRef(step.from))
        to = step.to;
      else if (!llvm::all_of(leading, [](const SymExpr &size) { return size.isConstant(1); }))
        return {};
      llvm::append_range(to, ArrayRef(own).take_back(2));
      v = createReshape(builder, loc, v, to);
    }
    return v;
  }

  struct Regroup {
    SmallVector<SymExpr> from, to; // sizes of leading dimensions
  };
  SmallVector<Regroup> regroups; // in order from the softmax to the matmul
  OpBuilder &builder;
  Location loc;
};

/// Queries, keys and values in the layout of tpc.attention.
struct Heads {
  Value q, k, v;
};

/// Sets the dimensions of the operand's movement; an empty entry is a dimension of size 1.
void arrange(Movement &m, ArrayRef<Movement::Dim> dims) { m.dims.assign(dims.begin(), dims.end()); }

/// Rearranges operands [batch.., rows, columns] of the two matmuls. Their common batch dimensions
/// are [b, h], [b, kv, group], [b] or none.
std::optional<Heads> buildHeads(OpBuilder &builder, Location loc, Movement q, Movement k,
                                Movement v) {
  size_t rank = q.dims.size();
  if (k.dims.size() != rank || v.dims.size() != rank || rank < 2 || rank > 5)
    return std::nullopt;
  auto batch = [&](const Movement &m) { return rank > 2 ? m.dims[0] : Movement::Dim(); };
  auto heads = [&](const Movement &m) {
    Movement::Dim dim;
    for (size_t d = 1; d + 2 < rank; ++d)
      llvm::append_range(dim, m.dims[d]);
    return dim;
  };
  SymExpr b = q.dimSize(batch(q)), h = q.dimSize(heads(q));
  auto kHeads = withoutRepeats(k, heads(k)), vHeads = withoutRepeats(v, heads(v));
  // Heads are grouped only if both keys and values are.
  if (k.dimSize(kHeads) != v.dimSize(vHeads)) {
    kHeads = heads(k);
    vHeads = heads(v);
  }
  SymExpr kv = k.dimSize(kHeads);
  // Keys of [b, kv, group, ..] may have the group dimension broadcast by the matmul itself; [b, 1,
  // ..] is one kv head.
  if (k.dimSize(batch(k)) != b || v.dimSize(batch(v)) != b || v.dimSize(vHeads) != kv ||
      !h.divideExact(kv))
    return std::nullopt;
  if (rank == 5 && kv != q.dimSize(q.dims[1]) && kv != h)
    return std::nullopt;
  size_t r = rank - 2, c = rank - 1;
  arrange(q, {batch(q), q.dims[r], heads(q), q.dims[c]});
  arrange(k, {batch(k), k.dims[c], kHeads, k.dims[r]});
  arrange(v, {batch(v), v.dims[r], vHeads, v.dims[c]});
  return Heads{q.build(builder, loc), k.build(builder, loc), v.build(builder, loc)};
}

struct RaiseAttention : public mlir::tpc::impl::RaiseAttentionBase<RaiseAttention> {
  void runOnOperation() override {
    SmallVector<MatmulOp> products;
    SmallVector<AttentionOp> attentions;
    getOperation().walk([&](MatmulOp op) { products.push_back(op); });
    for (MatmulOp op : products)
      raise(op);
    getOperation().walk([&](AttentionOp op) { attentions.push_back(op); });
    for (AttentionOp op : attentions) {
      dropRepeatedHeads(op);
      refine(op);
    }
    getOperation().walk([](AttentionOp op) {
      if (op.getMask() || op.getBias())
        emitRemark(op.getLoc()) << "attention keeps its " << (op.getMask() ? "mask" : "bias")
                                << " as a tensor: it was not recognized as causal, a window, "
                                << (op.getMask() ? "or" : "slopes of heads, or")
                                << " a mask of keys";
    });
  }

  void raise(MatmulOp op) {
    // softmax, or select(is_nan(softmax), 0, softmax); the softmax of 16-bit values is in f32.
    Value p = op.getLhs();
    Type narrow;
    if (auto cast = p.getDefiningOp<CastOp>();
        cast && isFloatTensor(cast.getOperand()) &&
        elementTypeOf(cast.getOperand()).getIntOrFloatBitWidth() >
            elementTypeOf(p).getIntOrFloatBitWidth()) {
      narrow = elementTypeOf(p);
      p = cast.getOperand();
    }
    bool guarded = false;
    if (auto select = p.getDefiningOp<SelectOp>()) {
      auto isNan = select.getCondition().getDefiningOp<IsNanOp>();
      if (!isNan || isNan.getOperand() != select.getRhs() || !isSplat(select.getLhs(), 0))
        return;
      p = select.getRhs();
      guarded = true;
    }
    int64_t rank = rankOf(op.getLhs());
    if (op.getBias() || rank < 2 || rankOf(op.getRhs()) != rank)
      return;
    OpBuilder builder(op);
    Location loc = op.getLoc();
    ScoreChain chain(builder, loc);
    std::optional<SinkScores> scores = matchScores(builder, p);
    if (!scores || !chain.follow(scores->keys))
      return;
    MatmulOp product = chain.product;
    if (rankOf(product.getLhs()) != rank || rankOf(product.getRhs()) != rank)
      return;

    Operand q = followOperand(product.getLhs(), narrow),
            k = followOperand(product.getRhs(), narrow), v = followOperand(op.getRhs(), narrow);
    SmallVector<SymExpr> sizes = getSizes(scores->keys);
    // With a sink, a row without visible keys is zero.
    auto mask =
        analyzeMask(builder, loc, sizes, elementTypeOf(p), chain.steps, guarded || scores->sinks);
    if (!mask)
      return;
    mask->sinks = scores->sinks;
    if (mask->sinks)
      mask->maskedRow = MaskedRow::Zero;
    // Keys may be repeated for their groups before a rotary embedding, and values directly before
    // the matmul.
    if (rank == 4) {
      auto countHeads = [](const Operand &operand) {
        const Movement &m = operand.movement;
        return m.dimSize(withoutRepeats(m, m.dims[1]));
      };
      SymExpr kHeads = countHeads(k), vHeads = countHeads(v);
      if (kHeads != vHeads) {
        bool keys = bool(kHeads.divideExact(vHeads));
        Value repeated = keys ? product.getRhs() : op.getRhs();
        if (Value once = dropRepeats(repeated, 1, keys ? vHeads : kHeads))
          (keys ? k : v) = followOperand(once, narrow);
      }
    }
    auto heads = buildHeads(builder, loc, q.movement, k.movement, v.movement);
    if (!heads)
      return;
    if (v.scale != 1)
      heads->v = MulOp::create(builder, loc, heads->v,
                               createScalar(builder, loc, elementTypeOf(heads->v), v.scale));
    // Uses 16 bits only if all operands have 16 bits and there are no f32 biases or slopes.
    Type element = elementTypeOf(p);
    bool wide = mask->bias || mask->slopes || mask->sinks;
    for (Value operand : {heads->q, heads->k, heads->v})
      wide |= elementTypeOf(operand) != narrow;
    if (narrow && !wide)
      element = narrow;
    for (Value *operand : {&heads->q, &heads->k, &heads->v})
      if (elementTypeOf(*operand) != element)
        *operand =
            CastOp::create(builder, loc, makeTensorType(element, getSizes(*operand)), *operand);
    // A soft cap applies to scale * (q . k).
    double scale = q.scale * k.scale * mask->scale;
    Value result = create(builder, loc, *heads, *mask, scale);
    // [b, i, h, dv] -> [b, h, i, dv] -> the matmul's own dimensions.
    result = createTranspose(builder, loc, result, {0, 2, 1, 3});
    result = createReshape(builder, loc, result, getSizes(op.getResult()));
    if (result.getType() != op.getType())
      result = CastOp::create(builder, loc, op.getType(), result);
    op.getResult().replaceAllUsesWith(result);
  }

  Value create(OpBuilder &builder, Location loc, const Heads &heads, const AttentionMask &mask,
               double scale) {
    auto sizes = getSizes(heads.q);
    sizes.back() = getSizes(heads.v).back();
    Type type = makeTensorType(elementTypeOf(heads.q), sizes);
    std::optional<SymExpr> window = mask.getWindow();
    return AttentionOp::create(
        builder, loc, type, heads.q, heads.k, heads.v, mask.keyMask, mask.mask, mask.bias,
        mask.slopes, mask.sinks, /*lengths=*/Value(), builder.getF64FloatAttr(scale),
        mask.causal ? builder.getUnitAttr() : UnitAttr(),
        SymExprAttr::get(builder.getContext(), mask.offset),
        window ? SymExprAttr::get(builder.getContext(), *window) : SymExprAttr(),
        builder.getF64FloatAttr(mask.softcap),
        MaskedRowAttr::get(builder.getContext(), mask.maskedRow));
  }

  /// Removes repeats of keys and values for groups of query heads, which exporters write before an
  /// attention op of ONNX, too.
  void dropRepeatedHeads(AttentionOp op) {
    auto countHeads = [](Value v) {
      Movement m = Movement::of(v, Movement::Expands);
      return m.dimSize(withoutRepeats(m, m.dims[2]));
    };
    SymExpr kHeads = countHeads(op.getK()), vHeads = countHeads(op.getV());
    SymExpr count = kHeads.divideExact(vHeads) ? vHeads : kHeads;
    SymExpr repeated = getSizes(op.getK())[2];
    if (count == repeated || getSizes(op.getV())[2] != repeated)
      return;
    Value k = dropRepeats(op.getK(), 2, count), v = dropRepeats(op.getV(), 2, count);
    if (!k || !v)
      return;
    op.getKMutable().assign(k);
    op.getVMutable().assign(v);
  }

  /// Analyzes the mask of an attention op that the importer created.
  void refine(AttentionOp op) {
    if (!op.getMask() && !op.getBias())
      return;
    SmallVector<SymExpr> q = getSizes(op.getQ()), k = getSizes(op.getK());
    SmallVector<SymExpr> sizes{q[0], q[2], q[1], k[1]};
    Type element = elementTypeOf(op.getQ());
    SmallVector<ScoreStep> steps;
    if (op.getBias())
      steps.push_back({ScoreStep::Add, 1.0, op.getBias(), true});
    // Masks of the op set -inf, and the op has an attribute for the result of a fully masked row.
    double low = -std::numeric_limits<double>::infinity();
    if (op.getMask())
      steps.push_back({ScoreStep::Replace, low, op.getMask(), true});
    OpBuilder builder(op);
    auto mask = analyzeMask(builder, op.getLoc(), sizes, element, steps, true);
    if (!mask || (mask->causal && op.getCausal()) || (mask->first && op.getWindow()) ||
        (mask->slopes && op.getSlopes()) || (mask->mask && mask->bias) ||
        (mask->keyMask && op.getKeyMask()))
      return;
    bool changes = mask->causal || mask->first || mask->keyMask || (op.getMask() && !mask->mask) ||
                   (op.getBias() && !mask->bias);
    if (!changes)
      return;
    // The result of a row whose keys are all hidden differs between a bias and other masks.
    bool replaces = !mask->bias && (mask->keyMask || mask->mask);
    if (op.getBias() && (replaces || mask->boundsHideRows))
      return;
    AttentionMask result = *mask;
    if (op.getCausal()) {
      result.causal = true;
      result.offset = op.getCausalOffset();
    }
    if (std::optional<SymExpr> window = op.getWindow())
      result.first = op.getCausalOffset() + 1 - *window;
    if (op.getSlopes())
      result.slopes = op.getSlopes();
    if (op.getKeyMask())
      result.keyMask = op.getKeyMask();
    result.sinks = op.getSinks();
    result.maskedRow = op.getMaskedRow();
    result.softcap = op.getSoftcap().convertToDouble();
    Value v = create(builder, op.getLoc(), {op.getQ(), op.getK(), op.getV()}, result,
                     op.getScale().convertToDouble());
    op.getResult().replaceAllUsesWith(v);
    op.erase();
  }
};

} // namespace

static std::string describe(Operation *op) {
  return "'" + getSourceName(op->getLoc()) + "' (" + op->getName().getStringRef().str() + ")";
}

std::string mlir::tpc::explainUnraisedSoftmax(SoftmaxOp softmax) {
  Value p = softmax.getResult();
  MatmulOp product;
  Operation *other = nullptr;
  SmallVector<Operation *> users(p.user_begin(), p.user_end());
  for (size_t i = 0; i < users.size(); ++i) {
    if (isa<SelectOp, CastOp>(users[i])) // skips the replacement of NaN, and conversions to 16 bits
      llvm::append_range(users, users[i]->getUsers());
    else if (auto matmul = dyn_cast<MatmulOp>(users[i]))
      product = matmul;
    else if (!isa<IsNanOp>(users[i]))
      other = users[i];
  }
  if (isa_and_nonnull<SliceOp>(other) && softmax.getOperand().getDefiningOp<ConcatOp>())
    return "scores have a column that is not one sink for each head";
  if (!product)
    return other ? describe(other) + " uses its result, where a matmul with values is expected"
                 : "its result is not multiplied with values";
  int64_t rank = rankOf(p);
  if ((int64_t)softmax.getDim() != rank - 1)
    return "it normalizes dimension " + std::to_string(softmax.getDim()) +
           ", but keys are the last";
  if (product.getBias() || rankOf(product.getRhs()) != rank || product.getRhs() == p)
    return describe(product) + " does not multiply it with values of equal rank";
  OpBuilder builder(softmax);
  ScoreChain chain(builder, softmax.getLoc());
  if (!chain.follow(softmax.getOperand()))
    return chain.stop ? describe(chain.stop) + " is between it and a matmul of queries and keys"
                      : "its scores are not a matmul of queries and keys";
  if (!analyzeMask(builder, softmax.getLoc(), getSizes(p), elementTypeOf(p), chain.steps, true))
    return "masked and biased scores cannot be distinguished: a mask must add or set -10000 or "
           "less, with slopes of heads -1e8 or less, with biases of inputs -1e30 or less";
  return "the layout of heads in queries " + describe(chain.product) + " and values " +
         describe(product) + " is unknown";
}
