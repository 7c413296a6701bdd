//===- RaiseSeparateExperts.cpp - Sums of experts with own weights --------===//
//
// A loop over the experts is exported as one gated layer for each expert e, with weights of its
// own:
//
//   y_e    = (activation of x · up_e + bias_e) · down_e + bias_e
//   result = y_0 * gate_0 + y_1 * gate_1 + ...           gate_e [tokens, 1]
//
// All experts are computed for each token. This is tpc.moe, whose weights are those of all experts
// along a new dimension, and whose routing has the columns gate_e. An expert is then not computed
// for tokens for which its gate is 0.
//
//===----------------------------------------------------------------------===//

#include "ExpertsMatch.h"
#include "StackedWeights.h"
#include "tpc/Dialect/Annotations.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

namespace {

class SeparateMatch : ExpertsMatch {
public:
  using ExpertsMatch::ExpertsMatch;
  /// Returns whether the operands of the chain are experts. Replaces them, or warns.
  bool run();

private:
  struct Expert {
    Value column; // [tokens, 1]
    Projection down, up;
    std::optional<Projection> gate;
  };
  bool matchRows(Value v) override;
  std::optional<Projection> getProjection(Value v) override;
  bool collectTerms(Value v, SmallVectorImpl<Value> &terms);
  bool matchExpert(Value v);
  bool warnOfAll(ArrayRef<Value> terms);
  bool warn(size_t count, const Twine &reason);
  bool stack(function_ref<Projection &(Expert &)> get, Projection &to);
  Value makeRouting(OpBuilder &b, int64_t &k);

  std::vector<Expert> experts;
};

/// Returns the other operand of a sum with zeros, or `v`. The sums of tpc.moe begin with 0, so that
/// the sign of a zero result is the same.
static Value peelZeros(Value v) {
  while (auto add = peelReshapes(v).getDefiningOp<AddOp>()) {
    int zeros = getSplat(add.getRhs()) == 0.0 ? 1 : 0;
    Value other = add->getOperand(1 - zeros);
    if (getSplat(add->getOperand(zeros)) != 0.0 ||
        product(getSizes(other)) != product(getSizes(add.getResult())))
      break;
    v = other;
  }
  return v;
}

/// Collects the operands of a chain of sums, without zeros. Returns false if an operand is used
/// elsewhere.
bool SeparateMatch::collectTerms(Value v, SmallVectorImpl<Value> &terms) {
  while (true) {
    v = peelZeros(v);
    auto add = v.getDefiningOp<AddOp>();
    if (!add || (add != sum && !hasOneModelUse(add))) {
      terms.push_back(v);
      break;
    }
    int last = peelReshapes(peelZeros(add.getRhs())).getDefiningOp<MulOp>() ? 1 : 0;
    terms.push_back(peelZeros(add->getOperand(last)));
    v = add->getOperand(1 - last);
  }
  std::reverse(terms.begin(), terms.end()); // in the order of additions
  if (getSplat(terms[0]) == 0.0)
    terms.erase(terms.begin());
  return terms.size() >= 2;
}

bool SeparateMatch::matchRows(Value v) {
  v = peelReshapes(v);
  SmallVector<SymExpr> sizes = getSizes(v);
  if ((x && x != v) || sizes.size() < 2 || product(ArrayRef(sizes).drop_back()) != tokens)
    return false;
  x = v;
  return true;
}

/// Returns the projection of which `v` [tokens, n] is a slice of the columns.
std::optional<Projection> SeparateMatch::getProjection(Value v) {
  OpBuilder b(sum);
  Location loc = sum->getLoc();
  v = peelReshapes(v);
  Projection p;
  p.isTransposed = true;
  p.size = getSizes(v).back();
  if (auto slice = v.getDefiningOp<SliceOp>()) {
    if (int64_t(slice.getDim()) != rankOf(v) - 1)
      return std::nullopt;
    p.start = slice.getStart(), p.step = slice.getStep();
    v = peelReshapes(slice.getOperand());
  }
  SymExpr width = getSizes(v).back();
  Value bias;
  auto add = v.getDefiningOp<AddOp>();
  for (int i : {0, 1})
    if (add && !bias && product(getSizes(add->getOperand(i))) == width) {
      bias = add->getOperand(i);
      v = peelReshapes(add->getOperand(1 - i));
    }
  auto matmul = v.getDefiningOp<MatmulOp>();
  if (!matmul || rankOf(matmul.getRhs()) != 2 || (bias && matmul.getBias()))
    return std::nullopt;
  SmallVector<SymExpr> rhs = getSizes(matmul.getRhs());
  if (rhs[1] != width)
    return std::nullopt;
  p.input = matmul.getLhs();
  p.locs = {matmul.getLoc()};
  p.weight = createReshape(b, loc, matmul.getRhs(), {SymExpr(1), rhs[0], rhs[1]});
  if (matmul.getBias())
    bias = matmul.getBias();
  if (bias)
    p.bias = createReshape(b, loc, bias, {SymExpr(1), width});
  return p;
}

/// Matches the product of an expert's result and its gate.
bool SeparateMatch::matchExpert(Value v) {
  auto mul = peelReshapes(v).getDefiningOp<MulOp>();
  if (!mul)
    return false;
  OpBuilder b(sum);
  for (int i : {0, 1}) {
    Value column = mul->getOperand(i);
    if (!getSizes(column).back().isConstant(1) || product(getSizes(column)) != tokens)
      continue;
    std::optional<Projection> last = getProjection(mul->getOperand(1 - i));
    if (!last || last->step != 1 || !last->start.isConstant(0) ||
        getSizes(last->weight)[2] != last->size)
      continue;
    down = *last;
    ExpertActivation before = activation;
    double alphaBefore = alpha, betaBefore = beta, limitBefore = limit;
    alpha = 1;
    if (!matchInner(peelReshapes(down.input)))
      continue;
    if (!experts.empty() && (activation != before || alpha != alphaBefore || beta != betaBefore ||
                             limit != limitBefore || bool(gate) != bool(experts[0].gate)))
      return false;
    column = createReshape(b, sum->getLoc(), peelReshapes(column), {tokens, SymExpr(1)});
    experts.push_back({column, down, up, gate});
    return true;
  }
  return false;
}

/// Warns if all values are a column times the result of a layer with weights of its own. Returns
/// whether they are.
bool SeparateMatch::warnOfAll(ArrayRef<Value> terms) {
  llvm::DenseSet<Value> weights;
  for (Value term : terms) {
    auto mul = peelReshapes(term).getDefiningOp<MulOp>();
    if (!mul)
      return false;
    for (int i : {0, 1}) {
      Value column = mul->getOperand(i);
      if (!getSizes(column).back().isConstant(1) || product(getSizes(column)) != tokens)
        continue;
      if (std::optional<Projection> p = getProjection(mul->getOperand(1 - i)))
        if (ParameterOp parameter = getStackedParameter(p->weight))
          weights.insert(parameter);
      break;
    }
  }
  return weights.size() == terms.size() &&
         warn(terms.size(), "not part of a recognized mixture of experts");
}

/// Warns that all experts are computed, and returns true.
bool SeparateMatch::warn(size_t count, const Twine &reason) {
  std::string name = getSourceName(sum->getLoc());
  InFlightDiagnostic warning = emitWarning(sum->getLoc());
  if (!name.empty())
    warning << "'" << name << "': ";
  warning << "computes all " << count << " experts for each token, " << reason;
  return true;
}

/// Sets `to` to a projection with the weights of all experts. Returns false, with a warning, if the
/// weights are not one tensor.
bool SeparateMatch::stack(function_ref<Projection &(Expert &)> get, Projection &to) {
  OpBuilder b(sum);
  to = get(experts[0]);
  auto join = [&](Value Projection::*field) {
    if (!(to.*field))
      return true;
    SmallVector<Value> values;
    for (Expert &expert : experts)
      if (Projection &own = get(expert);
          own.*field && own.start == to.start && own.size == to.size && own.step == to.step)
        values.push_back(own.*field);
      else
        return !warn(experts.size(), "with different slices of their weights");
    std::string reason = explainNotStacked(values);
    if (!reason.empty()) {
      warn(values.size(), "because their weights are not one tensor: " + Twine(reason));
      return false;
    }
    SmallVector<SymExpr> sizes = getSizes(values[0]);
    sizes[0] = SymExpr(int64_t(values.size()));
    to.*field = ConcatOp::create(b, sum->getLoc(),
                                 makeTensorType(getElementTypeOrSelf(values[0]), sizes), values, 0);
    return true;
  };
  for (Expert &expert : experts)
    if (bool(get(expert).bias) != bool(to.bias))
      return !warn(experts.size(), "of which only some have a bias");
  for (Expert &expert : MutableArrayRef(experts).drop_front())
    llvm::append_range(to.locs, get(expert).locs);
  return join(&Projection::weight) && join(&Projection::bias);
}

/// Returns routing [tokens, experts] of all gates. Sets `k` to the expected number of experts of a
/// token, for costs.
Value SeparateMatch::makeRouting(OpBuilder &b, int64_t &k) {
  auto count = int64_t(experts.size());
  SymExpr all(count);
  Value routing;
  SmallVector<Value> columns;
  for (auto [e, expert] : llvm::enumerate(experts)) {
    columns.push_back(expert.column);
    auto slice = peelReshapes(expert.column).getDefiningOp<SliceOp>();
    bool isColumn = slice && getSizes(slice.getOperand()) == SmallVector<SymExpr>{tokens, all} &&
                    slice.getDim() == 1 && slice.getStart().isConstant(int64_t(e)) &&
                    (e == 0 || slice.getOperand() == routing);
    routing = isColumn ? slice.getOperand() : Value();
  }
  if (!routing)
    routing = ConcatOp::create(
        b, sum->getLoc(),
        makeTensorType(getElementTypeOrSelf(columns[0]), SmallVector<SymExpr>{tokens, all}),
        columns, 1);
  // In known files, a gate is a sum over the k experts of a token.
  k = count;
  for (Value v = peelReshapes(columns[0]); Operation *op = v.getDefiningOp();) {
    if (auto reduce = dyn_cast<ReduceOp>(op)) {
      SmallVector<SymExpr> sizes = getSizes(reduce.getOperand());
      if (reduce.getFunction() == ReduceFunction::Sum && reduce.getDims().size() == 1)
        k = std::min(sizes[reduce.getDims()[0]].asConstant().value_or(count), count);
      break;
    }
    if (!isa<SliceOp, ReshapeOp, TransposeOp, CastOp>(op))
      break;
    v = op->getOperand(0);
  }
  return routing;
}

bool SeparateMatch::run() {
  SmallVector<SymExpr> sizes = getSizes(sum->getResult(0));
  SmallVector<Value> terms;
  if (sizes.size() < 2 || !collectTerms(sum->getResult(0), terms))
    return false;
  tokens = product(ArrayRef(sizes).drop_back());
  for (Value term : terms)
    if (product(getSizes(term)) != product(sizes) || !matchExpert(term))
      return warnOfAll(terms);
  // A shared expert with a gate is the last term of the sum of all others.
  if (experts.size() > 2 &&
      experts.back().down.weight.getType() != experts[0].down.weight.getType())
    return false;
  Projection allDown, allUp;
  std::optional<Projection> allGates;
  if (!stack([](Expert &e) -> Projection & { return e.down; }, allDown) ||
      !stack([](Expert &e) -> Projection & { return e.up; }, allUp))
    return true;
  if (gate && !stack([](Expert &e) -> Projection & { return *e.gate; }, allGates.emplace()))
    return true;
  down = allDown, up = allUp, gate = allGates;
  OpBuilder b(sum);
  int64_t k = 0;
  Value routing = makeRouting(b, k);
  replaceBy(b, x, routing, k);
  return true;
}

} // namespace

bool mlir::tpc::raiseSeparateExperts(AddOp sum) { return SeparateMatch(sum).run(); }
