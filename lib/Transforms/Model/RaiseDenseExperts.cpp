//===- RaiseDenseExperts.cpp - Experts that are all computed --------------===//
//
// Some exports compute all experts for each token, and multiply their results by weights that are 0
// for experts that the token does not use. A value has the elements of all experts in one of two
// orders, [experts, tokens, n] or [tokens, experts, n]:
//
//   P      = rows · up + bias                  rows: x, repeated for each expert
//   h      = activation of P, or of one half times the other
//   y      = (h · down + bias) * weights       weights [tokens, experts], as one column
//   result = sum of y over the experts
//
// The result is tpc.moe, which computes only experts with a weight that is not 0. Llama 4
// multiplies the rows by the weights instead of the results. If a token has at most one expert and
// there are no biases, the experts without weight compute 0, and the result is tpc.moe of the
// scaled token with the weight 1. Scaled rows with several experts for a token are not raised.
//
//===----------------------------------------------------------------------===//

#include "ExpertsMatch.h"

#include "llvm/ADT/ScopeExit.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

class DenseMatch : ExpertsMatch {
public:
  using ExpertsMatch::ExpertsMatch;
  bool run();

private:
  bool matchRows(Value v) override;
  std::optional<Projection> getProjection(Value v) override;
  Value peelMoves(Value v);
  Value getBiasOfExperts(Value v, const SymExpr &width);
  Value getRouting(Value weights, bool isByExpert);

  SymExpr experts = SymExpr(0);
  bool isByExpert = false; // order of the current value: [experts, tokens, n]
  Value scales;            // routing weights [tokens, experts] of scaled rows
};

/// Strips moves of whole rows: reshapes that keep the last dimension, and exchanges of tokens and
/// experts.
Value DenseMatch::peelMoves(Value v) {
  while (Operation *op = v.getDefiningOp()) {
    SmallVector<SymExpr> sizes = getSizes(v);
    if (auto reshape = dyn_cast<ReshapeOp>(op)) {
      SmallVector<SymExpr> from = getSizes(reshape.getOperand());
      if (from.empty() || from.back() != sizes.back())
        return v;
      v = reshape.getOperand();
    } else if (auto transpose = dyn_cast<TransposeOp>(op)) {
      if (transpose.getPermutation() != ArrayRef<int64_t>{1, 0, 2} ||
          sizes[0] != (isByExpert ? experts : tokens) ||
          sizes[1] != (isByExpert ? tokens : experts))
        return v;
      isByExpert = !isByExpert;
      v = transpose.getOperand();
    } else {
      return v;
    }
  }
  return v;
}

/// Returns the vectors [experts, width] that are added to each token; null if `v` has another form.
Value DenseMatch::getBiasOfExperts(Value v, const SymExpr &width) {
  SmallVector<SymExpr> sizes = getSizes(v);
  if (isByExpert) {
    if (sizes.size() != 3 || sizes[0] != experts || !sizes[1].isConstant(1) || sizes[2] != width)
      return {};
  } else if (sizes.size() < 2 || ArrayRef(sizes).take_back(2) != ArrayRef{experts, width} ||
             product(sizes) != experts * width) {
    return {};
  }
  OpBuilder b(sum);
  return createReshape(b, sum->getLoc(), v, {experts, width});
}

std::optional<Projection> DenseMatch::getProjection(Value v) {
  bool before = isByExpert;
  auto fail = [&]() -> std::optional<Projection> {
    isByExpert = before;
    return std::nullopt;
  };
  OpBuilder b(sum);
  Location loc = sum->getLoc();
  Projection p;
  p.size = getSizes(v).back();
  if (auto slice = v.getDefiningOp<SliceOp>()) {
    if (int64_t(slice.getDim()) != rankOf(v) - 1)
      return fail();
    p.start = slice.getStart(), p.step = slice.getStep();
    v = slice.getOperand();
  }
  const SymExpr width = getSizes(v).back();
  v = peelMoves(v);
  if (auto add = v.getDefiningOp<AddOp>()) {
    for (int i : {0, 1})
      if (rankOf(v) == 3 && (p.bias = getBiasOfExperts(add->getOperand(i), width))) {
        v = peelMoves(add->getOperand(1 - i));
        break;
      }
    if (!p.bias)
      return fail();
  }
  auto matmul = v.getDefiningOp<MatmulOp>();
  auto reshape = v.getDefiningOp<ReshapeOp>();
  if (!matmul && reshape && !isByExpert)
    matmul = reshape.getOperand().getDefiningOp<MatmulOp>();
  if (!matmul || matmul.getBias())
    return fail();
  SmallVector<SymExpr> rhs = getSizes(matmul.getRhs());
  p.input = matmul.getLhs();
  p.locs = {matmul.getLoc()};
  if (isByExpert && rhs.size() == 3 && rhs[0] == experts && rhs[2] == width &&
      getSizes(v) == SmallVector<SymExpr>{experts, tokens, width})
    p.weight = createTranspose(b, loc, matmul.getRhs(), {0, 2, 1});
  else if (!isByExpert && rhs.size() == 2 && rhs[1] == experts * width && reshape &&
           getSizes(v) == SmallVector<SymExpr>{tokens, experts, width})
    p.weight = createReshape(b, loc, createTranspose(b, loc, matmul.getRhs(), {1, 0}),
                             {experts, width, rhs[0]});
  else
    return fail();
  bool isInner = isByExpert;
  isByExpert = before; // of the other projection of the same operand
  if (!down.weight)
    isByExpert = isInner;
  return p;
}

bool DenseMatch::matchRows(Value v) {
  auto isX = [&](Value source) {
    if ((x && x != source) || getSizes(source).size() < 2 ||
        product(ArrayRef(getSizes(source)).drop_back()) != tokens)
      return false;
    x = source;
    return true;
  };
  if (rankOf(v) == 2) // computed for all experts at once
    return isX(peelReshapes(v));
  bool order = isByExpert;
  isByExpert = true;
  llvm::scope_exit restore([&] { isByExpert = order; });
  v = peelMoves(v);
  if (auto mul = v.getDefiningOp<MulOp>()) {
    Value found;
    for (int i : {0, 1})
      if (!found && getSizes(mul->getOperand(i)).back().isConstant(1) &&
          (found = getRouting(mul->getOperand(i), true)))
        v = peelMoves(mul->getOperand(1 - i));
    if (!found || (scales && scales != found))
      return false;
    scales = found;
  } else if (scales) {
    return false;
  }
  auto expand = v.getDefiningOp<ExpandOp>();
  if (!expand || !isByExpert)
    return false;
  SmallVector<SymExpr> from = getSizes(expand.getOperand()), to = getSizes(v);
  for (size_t d = 0; d < to.size(); ++d)
    if (d == 0 ? !from[d].isConstant(1) || to[d] != experts : from[d] != to[d])
      return false;
  return isX(peelReshapes(expand.getOperand()));
}

/// Returns weights [tokens, experts] from a column with one weight per token and expert.
Value DenseMatch::getRouting(Value weights, bool isByExpert) {
  if (!getSizes(weights).back().isConstant(1) || product(getSizes(weights)) != experts * tokens)
    return {};
  OpBuilder b(sum);
  Value flat = peelReshapes(weights);
  if (!isByExpert)
    return createReshape(b, sum->getLoc(), flat, {tokens, experts});
  auto transpose = flat.getDefiningOp<TransposeOp>();
  if (!transpose || transpose.getPermutation() != ArrayRef<int64_t>{1, 0} ||
      getSizes(flat) != SmallVector<SymExpr>{experts, tokens})
    return {};
  return transpose.getOperand();
}

/// Matches rows in which all elements are `otherwise`, except the one whose index equals a number
/// of the row. Returns the condition that is true for this element; null for other values.
Value getSelectedOne(Value v, double otherwise) {
  auto select = v.getDefiningOp<SelectOp>();
  auto isIndex = select ? select.getCondition().getDefiningOp<CmpOp>() : CmpOp();
  if (!isIndex || isIndex.getPredicate() != Predicate::EQ || getSplat(select.getRhs()) != otherwise)
    return {};
  for (int i : {0, 1}) {
    auto iota = isIndex->getOperand(i).getDefiningOp<IotaOp>();
    Value index = isIndex->getOperand(1 - i);
    if (iota && int64_t(iota.getDim()) == rankOf(v) - 1 && rankOf(index) == rankOf(v) &&
        getSizes(index).back().isConstant(1))
      return select.getCondition();
  }
  return {};
}

/// Returns the number of nested selections of a weight, at most `experts`.
int64_t countSelected(Value routing, int64_t experts) {
  int64_t count = 0;
  while (auto select = routing.getDefiningOp<SelectOp>()) {
    ++count;
    routing = select.getRhs();
  }
  return count == 0 ? experts : std::min(count, experts);
}

bool DenseMatch::run() {
  auto sum = cast<ReduceOp>(this->sum);
  SmallVector<SymExpr> sizes = getSizes(sum.getOperand());
  if (sum.getFunction() != ReduceFunction::Sum || sizes.size() < 3 || sum.getDims().size() != 1)
    return false;
  int64_t dim = sum.getDims()[0];
  std::optional<int64_t> count = sizes[dim].asConstant();
  isByExpert = dim == 0;
  if (!count || *count < 2 || (dim != 0 && dim != int64_t(sizes.size()) - 2))
    return false;
  experts = sizes[dim];
  tokens = SymExpr(1);
  for (auto [d, size] : llvm::enumerate(sizes))
    if (int64_t(d) != dim && d + 1 != sizes.size())
      tokens = tokens * size;
  bool order = isByExpert;
  Value y = peelMoves(sum.getOperand());
  Value routing, values;
  if (auto mul = y.getDefiningOp<MulOp>())
    for (int i : {0, 1})
      if (!routing && (routing = getRouting(mul->getOperand(i), isByExpert)))
        values = mul->getOperand(1 - i);
  if (!routing) {
    isByExpert = order;
    values = sum.getOperand();
  }
  std::optional<Projection> last = getProjection(values);
  if (!last || last->step != 1 || !last->start.isConstant(0) ||
      getSizes(last->weight)[1] != last->size)
    return false;
  Value inner = peelMoves(last->input);
  down = *last;
  if (!matchInner(inner) || bool(scales) == bool(routing))
    return false;
  OpBuilder b(sum);
  Location loc = sum->getLoc();
  if (routing) {
    replaceBy(b, x, routing, countSelected(routing, *count));
    return true;
  }
  bool hasBias = down.bias || up.bias || (gate && gate->bias);
  auto sigmoid = scales.getDefiningOp<SigmoidOp>();
  Value isSelected =
      sigmoid ? getSelectedOne(sigmoid.getOperand(), -INFINITY) : getSelectedOne(scales, 0);
  if (hasBias || !isSelected)
    return false;
  Type element = getElementTypeOrSelf(scales);
  Value scale = ReduceOp::create(b, loc, makeTensorType(element, {tokens, SymExpr(1)}),
                                 ReduceFunction::Sum, scales, ArrayRef<int64_t>{1}, true);
  SymExpr hidden = getSizes(up.weight)[2];
  Value rows = createReshape(b, loc, x, {tokens, hidden});
  rows = MulOp::create(b, loc, makeTensorType(element, {tokens, hidden}), rows, scale);
  replaceBy(b, rows,
            SelectOp::create(b, loc, scales.getType(), isSelected, createScalar(b, loc, element, 1),
                             createScalar(b, loc, element, 0)),
            1);
  return true;
}

} // namespace

bool mlir::tpc::raiseDenseExperts(ReduceOp sum) { return DenseMatch(sum).run(); }
