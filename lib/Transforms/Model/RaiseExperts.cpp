//===- RaiseExperts.cpp - Recognition of mixtures of experts --------------===//
//
// Exporters write the experts of a token as matmuls with gathered weights: a copy of k matrices for
// each token. With N = tokens * k rows, in the order of tokens,
//
//   rows  = repeat(x, k) [N, hidden]        ids = indices [tokens, k] of experts
//   P     = rows · gather(up, ids) + gather(bias, ids)       [N, width]
//   h     = activation of P, or of one half times the other  [N, inner]
//   y     = (h · gather(down, ids) + gather(bias, ids)) * weights
//   result[t] = sum of y over the k rows of t
//
// is tpc.moe with routing[t, e] = sum over j of weights[t, j] where ids[t, j] = e. Matrices may
// have either order of their dimensions; halves may be interleaved.
//
//===----------------------------------------------------------------------===//

#include "ExpertsMatch.h"
#include "tpc/Transforms/Model/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Transforms/RegionUtils.h"

namespace mlir::tpc {
#define GEN_PASS_DEF_RAISEEXPERTS
#include "tpc/Transforms/Model/Passes.h.inc"
} // namespace mlir::tpc

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

/// Experts around one sum over the k rows of a token.
class Match : ExpertsMatch {
public:
  using ExpertsMatch::ExpertsMatch;
  /// Returns whether `sum` is the result of experts. Sets all fields.
  bool run();
  void replace();

private:
  bool matchRows(Value v) override;
  std::optional<Projection> getProjection(Value v) override;
  Value getDataOfExperts(Value v, int64_t rank);

  SymExpr rows = SymExpr(0);
  int64_t k = 0;
  Value ids, weights; // [tokens, k] after reshapes
};

/// Returns whether indices are always in [0, experts): selections of elements of an iota.
bool areSelected(Value v, const SymExpr &experts, int depth = 0) {
  Operation *op = v.getDefiningOp();
  if (!op || depth > 64)
    return false;
  if (auto iota = dyn_cast<IotaOp>(op))
    return getSizes(v)[iota.getDim()] == experts;
  // A selection takes the constant `experts` where an element is not the largest. Since some
  // element is the largest, the minimum is an index.
  if (isa<ConstantOp>(op)) {
    auto number = getSplat(v);
    return number && experts.isConstant(int64_t(*number));
  }
  auto all = [&](ValueRange values) {
    return llvm::all_of(values, [&](Value u) { return areSelected(u, experts, depth + 1); });
  };
  if (auto size = dyn_cast<SizeOp>(op))
    return size.getExpr() == experts;
  if (auto reduce = dyn_cast<ReduceOp>(op))
    return reduce.getFunction() == ReduceFunction::Min && all(reduce.getOperand());
  if (auto select = dyn_cast<SelectOp>(op))
    return all(op->getOperands().drop_front());
  return isa<ConcatOp, ReshapeOp, TransposeOp, ExpandOp, SliceOp>(op) && all(op->getOperands());
}

/// If `v` is data of each row's expert, gathered by its ids, returns the data of all experts.
Value Match::getDataOfExperts(Value v, int64_t rank) {
  // Reshapes may only divide the rows.
  SmallVector<SymExpr> own = getSizes(v);
  v = peelReshapes(v);
  if (int64_t(own.size()) < rank || int64_t(rankOf(v)) < rank ||
      ArrayRef(own).take_back(rank - 1) != ArrayRef(getSizes(v)).take_back(rank - 1))
    return {};
  Value data, indices;
  if (auto gather = v.getDefiningOp<GatherNDOp>()) {
    if (gather.getBatchDims() != 0 || !getSizes(gather.getIndices()).back().isConstant(1))
      return {};
    data = gather.getData(), indices = gather.getIndices();
  } else if (auto gather = v.getDefiningOp<GatherOp>()) {
    if (gather.getDim() != 0)
      return {};
    data = gather.getData(), indices = gather.getIndices();
  } else if (auto embedding = v.getDefiningOp<EmbeddingOp>()) {
    data = embedding.getTable(), indices = embedding.getIds();
  } else {
    return {};
  }
  indices = peelReshapes(indices);
  if (rankOf(data) != rank || (ids && indices != ids))
    return {};
  SmallVector<SymExpr> sizes = getSizes(indices);
  if (product(sizes) != rows || !areSelected(indices, getSizes(data)[0]))
    return {};
  ids = indices;
  return data;
}

/// Returns the projection of which `v` [N, n] is a slice.
std::optional<Projection> Match::getProjection(Value v) {
  Projection p;
  auto isRows = [&](Value value, const SymExpr &width) {
    SmallVector<SymExpr> sizes = getSizes(value);
    return sizes.back() == width && product(ArrayRef(sizes).drop_back()) == rows;
  };
  p.size = getSizes(v).back();
  if (!isRows(v, p.size))
    return std::nullopt;
  if (auto slice = v.getDefiningOp<SliceOp>()) {
    if (int64_t(slice.getDim()) != rankOf(v) - 1)
      return std::nullopt;
    p.start = slice.getStart();
    p.step = slice.getStep();
    v = slice.getOperand();
  }
  const SymExpr width = getSizes(v).back();
  if (!isRows(v, width))
    return std::nullopt;
  v = peelReshapes(v);
  if (auto add = v.getDefiningOp<AddOp>()) {
    for (int i : {0, 1})
      if (isRows(add.getResult(), width) && (p.bias = getDataOfExperts(add->getOperand(i), 2))) {
        v = peelReshapes(add->getOperand(1 - i));
        break;
      }
    if (!p.bias)
      return std::nullopt;
  }
  auto matmul = v.getDefiningOp<MatmulOp>();
  if (!matmul || matmul.getBias())
    return std::nullopt;
  // [N, n, k] · [N, k, 1] or [N, 1, k] · [N, k, n].
  SmallVector<SymExpr> sizes = getSizes(matmul.getResult());
  if (sizes.size() != 3 || sizes[0] != rows)
    return std::nullopt;
  Value vector;
  if (sizes[2].isConstant(1) && (p.weight = getDataOfExperts(matmul.getLhs(), 3))) {
    vector = matmul.getRhs();
  } else if (sizes[1].isConstant(1) && (p.weight = getDataOfExperts(matmul.getRhs(), 3))) {
    vector = matmul.getLhs();
    p.isTransposed = true;
  } else {
    return std::nullopt;
  }
  p.input = vector;
  p.locs = {matmul.getLoc()};
  if (getSizes(p.weight)[p.isTransposed ? 2 : 1] != width ||
      (p.bias && getSizes(p.bias)[1] != width))
    return std::nullopt;
  return p;
}

/// Matches x, of which each row is repeated k times.
bool Match::matchRows(Value v) {
  v = peelReshapes(v);
  auto expand = v.getDefiningOp<ExpandOp>();
  if (!expand) {
    bool isSame = k == 1 && (!x || x == v) && getSizes(v).size() >= 2 &&
                  product(ArrayRef(getSizes(v)).drop_back()) == tokens;
    x = isSame ? v : x;
    return isSame;
  }
  SmallVector<SymExpr> from = getSizes(expand.getOperand()), to = getSizes(expand.getResult());
  // The expanded dimension is the one before hidden.
  for (size_t d = 0; d < to.size(); ++d)
    if (d + 2 == to.size() ? !from[d].isConstant(1) || !to[d].isConstant(k) : from[d] != to[d])
      return false;
  if (to.size() < 3 || product(ArrayRef(to).drop_back(2)) != tokens)
    return false;
  Value source = peelReshapes(expand.getOperand());
  if (x && x != source)
    return false;
  x = source;
  return true;
}

bool Match::run() {
  auto sum = cast<ReduceOp>(this->sum);
  SmallVector<SymExpr> sizes = getSizes(sum.getOperand());
  if (sum.getFunction() != ReduceFunction::Sum || sizes.size() < 3 || sum.getDims().size() != 1 ||
      sum.getDims()[0] != int64_t(sizes.size()) - 2)
    return false;
  std::optional<int64_t> count = sizes[sizes.size() - 2].asConstant();
  if (!count || *count < 1)
    return false;
  k = *count;
  tokens = product(ArrayRef(sizes).drop_back(2));
  rows = tokens * SymExpr(k);
  auto mul = peelReshapes(sum.getOperand()).getDefiningOp<MulOp>();
  if (!mul)
    return false;
  for (int i : {0, 1}) {
    Value weight = peelReshapes(mul->getOperand(i));
    SmallVector<SymExpr> own = getSizes(weight);
    SmallVector<SymExpr> all = getSizes(mul->getOperand(i));
    if (!all.back().isConstant(1) || product(own) != rows)
      continue;
    ids = x = {};
    std::optional<Projection> last = getProjection(mul->getOperand(1 - i));
    if (!last || last->step != 1 || !last->start.isConstant(0) ||
        getSizes(last->weight)[last->isTransposed ? 2 : 1] != last->size)
      continue;
    weights = weight;
    down = *last;
    if (matchInner(peelReshapes(down.input)))
      return true;
  }
  return false;
}

void Match::replace() {
  OpBuilder b(sum);
  Location loc = sum->getLoc();
  Type element = getElementTypeOrSelf(sum->getResult(0));
  SymExpr experts = getSizes(up.weight)[0];
  SmallVector<SymExpr> one{tokens, SymExpr(k), SymExpr(1)}, all{tokens, SymExpr(k), experts};
  Value index = createReshape(b, loc, ids, one), weight = createReshape(b, loc, weights, one);
  Value columns = IotaOp::create(
      b, loc, makeTensorType(getElementTypeOrSelf(ids), {SymExpr(1), SymExpr(1), experts}), 2);
  Value isMine =
      CmpOp::create(b, loc, makeTensorType(b.getI1Type(), all), Predicate::EQ, index, columns);
  Value parts = SelectOp::create(b, loc, makeTensorType(element, all), isMine, weight,
                                 createScalar(b, loc, element, 0));
  Value routing = ReduceOp::create(b, loc, makeTensorType(element, {tokens, experts}),
                                   ReduceFunction::Sum, parts, ArrayRef<int64_t>{1}, false);
  replaceBy(b, x, routing, k);
}

bool isHalf(Value v) {
  Type type = getElementTypeOrSelf(v);
  return type.isF16() || type.isBF16();
}

/// Moves a cast from 16 bits to f32 behind slices and transposes of its result. So the slices are
/// views of a parameter, and experts can read it in 16 bits.
void castLast(OpOperand &matrix) {
  SmallVector<Operation *> moves;
  Value v = matrix.get();
  for (Operation *op = v.getDefiningOp(); isa_and_nonnull<SliceOp, TransposeOp>(op);
       op = v.getDefiningOp()) {
    moves.push_back(op);
    v = op->getOperand(0);
  }
  auto cast = v.getDefiningOp<CastOp>();
  if (moves.empty() || !cast || !isHalf(cast.getOperand()) ||
      !getElementTypeOrSelf(cast.getResult()).isF32())
    return;
  OpBuilder b(matrix.getOwner());
  Type half = getElementTypeOrSelf(cast.getOperand());
  IRMapping moved;
  moved.map(cast.getResult(), cast.getOperand());
  for (Operation *op : llvm::reverse(moves)) {
    Value result = b.clone(*op, moved)->getResult(0);
    result.setType(llvm::cast<RankedTensorType>(result.getType()).clone(half));
    moved.map(op->getResult(0), result);
  }
  Value result = moved.lookup(matrix.get());
  matrix.set(CastOp::create(b, cast.getLoc(), matrix.get().getType(), result));
}

struct RaiseExperts : public mlir::tpc::impl::RaiseExpertsBase<RaiseExperts> {
  void runOnOperation() override {
    SmallVector<ReduceOp> sums;
    getOperation().walk([&](ReduceOp op) { sums.push_back(op); });
    for (ReduceOp op : sums)
      if (Match match(op); match.run())
        match.replace();
      else
        raiseDenseExperts(op);
    // Visits the last sum of a chain first: if it is replaced, the others are unused.
    SmallVector<AddOp> adds;
    getOperation().walk([&](AddOp op) { adds.push_back(op); });
    DenseSet<Operation *> parts;
    for (AddOp op : llvm::reverse(adds))
      if (parts.contains(op) || raiseSeparateExperts(op))
        for (Value v : op->getOperands())
          if (auto part = v.getDefiningOp<AddOp>())
            parts.insert(part);
    getOperation().walk([](MoeOp op) {
      castLast(op.getUpMutable());
      castLast(op.getDownMutable());
      for (OpOperand &gate : op.getGateMutable())
        castLast(gate);
    });
    IRRewriter rewriter(&getContext());
    (void)runRegionDCE(rewriter, getOperation()->getRegions());
  }
};

} // namespace
