//===- AttentionMask.cpp - Masks of attention -----------------------------===//
//
// The value that each step between scores and softmax adds or sets is a function of indices
// (IndexAnalysis). After all steps, an element of the scores is one of several cases, each with a
// condition:
//
//   the score plus a number  the key is visible if the number is 0
//   a number                 the score was replaced or multiplied by 0, or -inf was added
//
// A visible score may also have a bias that is linear in the key's index, with a slope per head,
// plus a term that is the same for all keys (ALiBi).
//
// The result of a row without visible keys follows from the cases that are not visible; see the
// description of tpc-raise-attention.
//
//===----------------------------------------------------------------------===//

#include "AttentionMask.h"
#include "Constants.h"
#include "MaskTensors.h"
#include "Movement.h"
#include "tpc/Dialect/Elements.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;
using Kind = IndexExpr::Kind;

namespace {

// A score to which at most this number is added, or that is replaced by it, underflows to zero in
// exp if any key of its row is visible.
constexpr double kMasks = -9999;
// If a number is at most this value, adding it to a score in f32 absorbs the score.
constexpr double kAbsorbs = -1e30;
// The product of a slope and a distance may be below -10000, but not below this value, which would
// require 10^8 tokens with a slope of one. Products in f16 are above its lowest number.
constexpr double kMasksWithSlopes = -1e8;
constexpr size_t kMaxCases = 32;

struct Case {
  IndexExpr condition;
  bool hasScore;
  double number;
  IndexExpr slope = {}; // added to the score; null: none
  bool lowest = false;  // the number includes the lowest number of f16

  bool isVisible() const { return hasScore && number == 0; }
};

class MaskAnalyzer {
public:
  MaskAnalyzer(OpBuilder &builder, Location loc, ArrayRef<SymExpr> sizes, Type element)
      : builder(builder), loc(loc), sizes(sizes), element(element), analysis(sizes),
        tensors(builder, loc, this->sizes, analysis) {}

  std::optional<AttentionMask> run(ArrayRef<ScoreStep> steps, bool guarded);
  /// Splits sums of a mask and a bias. Returns nothing if there are none.
  std::optional<SmallVector<ScoreStep>> splitSums(ArrayRef<ScoreStep> steps);
  /// Whether `run` found all masks.
  bool hasMasks() const { return foundMasks; }

private:
  /// Returns true if the condition is false, or requires p <= 0 and q <= 0 where p + q > 0.
  bool isFalse(const IndexExpr &condition);
  /// Returns all possible constants of a value, each with its condition.
  std::optional<SmallVector<Case>> getCases(const IndexExpr &e);
  bool follow(ArrayRef<ScoreStep> steps, ArrayRef<bool> asBias);
  /// Restricts the visible keys of the result by one masking step.
  bool addVisible(const ScoreStep &step);
  bool classify(const IndexExpr &visible);
  Value maskTensor(const ScoreStep &step);
  bool addBias(Value v, double factor);
  Value to4D(Value v);
  Value constant(Type type, double number) { return createScalar(builder, loc, type, number); }

  OpBuilder &builder;
  Location loc;
  SmallVector<SymExpr> sizes;
  Type element;
  IndexAnalysis analysis;
  MaskTensors tensors;

  SmallVector<Case> cases;
  AttentionMask result;
  bool rowsHaveKeys = true; // all masks so far leave a visible key in each row
  bool foundMasks = false;
};

} // namespace

bool MaskAnalyzer::isFalse(const IndexExpr &condition) {
  if (condition.isFalse() || condition.getKind() != Kind::And)
    return condition.isFalse();
  auto isBound = [](const IndexExpr &term) {
    return term.getKind() == Kind::Compare && term.getPredicate() == Predicate::LE;
  };
  for (const IndexExpr &a : condition.getArgs())
    for (const IndexExpr &b : condition.getArgs())
      if (isBound(a) && isBound(b) &&
          analysis.isNonNegative(a.getPolynomial() + b.getPolynomial() - 1))
        return true;
  return false;
}

std::optional<SmallVector<Case>> MaskAnalyzer::getCases(const IndexExpr &e) {
  if (auto n = e.getConstant())
    return SmallVector<Case>{{IndexExpr::truth(true), false, *n}};
  if (e.getKind() == Kind::Scaled && tensors.isSlope(e))
    return SmallVector<Case>{{IndexExpr::truth(true), false, 0, e}};
  if (e.getKind() != Kind::Select)
    return std::nullopt;
  auto a = getCases(e.getArgs()[1]), b = getCases(e.getArgs()[2]);
  if (!a || !b || a->size() + b->size() > kMaxCases)
    return std::nullopt;
  SmallVector<Case> result;
  const IndexExpr &c = e.getArgs()[0];
  for (auto [list, condition] : {std::pair(&*a, c), std::pair(&*b, analysis.negation(c))})
    for (const Case &leaf : *list)
      result.push_back({analysis.conjunction({condition, leaf.condition}), leaf.hasScore,
                        leaf.number, leaf.slope});
  return result;
}

static IndexExpr times(const IndexExpr &slope, double number) {
  return IndexExpr::scaled(slope.getArgs(), slope.getNumber() * number, slope.getPolynomial());
}

static bool isLowest(double number, Type type) { return type && type.isF16() && number <= -65504; }

// Computes the cases after all steps, except steps that are treated as biases (`asBias`).
bool MaskAnalyzer::follow(ArrayRef<ScoreStep> steps, ArrayRef<bool> asBias) {
  cases = {{IndexExpr::truth(true), true, 0.0}};
  auto roundNumber = [&](Case &c) {
    c.number = roundTo(element, c.number);
    if (c.hasScore && std::isinf(c.number) && c.number < 0)
      c.hasScore = false;
  };
  for (auto [step, bias] : llvm::zip(steps, asBias)) {
    if (bias)
      continue;
    SmallVector<Case> next;
    if (step.kind == ScoreStep::Add) {
      auto added = getCases(analysis.atBroadcast(step.value));
      if (!added || added->size() * cases.size() > kMaxCases)
        return false;
      for (const Case &c : cases)
        for (const Case &a : *added) {
          if (c.slope && a.slope)
            return false;
          next.push_back({analysis.conjunction({c.condition, a.condition}), c.hasScore,
                          c.number + step.number * a.number,
                          a.slope ? times(a.slope, step.number) : c.slope,
                          c.lowest || isLowest(step.number * a.number, step.type)});
        }
    } else if (step.kind == ScoreStep::Multiply) {
      auto factors = getCases(analysis.atBroadcast(step.value));
      if (!factors || factors->size() * cases.size() > kMaxCases)
        return false;
      for (const Case &c : cases)
        for (const Case &f : *factors) {
          if (f.slope || (f.number != 0 && f.number != 1))
            return false;
          IndexExpr condition = analysis.conjunction({c.condition, f.condition});
          next.push_back(f.number == 1 ? Case{condition, c.hasScore, c.number, c.slope, c.lowest}
                                       : Case{condition, false, 0});
        }
    } else if (step.kind == ScoreStep::Replace) {
      IndexExpr keeps = analysis.atBroadcast(step.value);
      if (!step.keeps)
        keeps = analysis.negation(keeps);
      for (const Case &c : cases)
        next.push_back(
            {analysis.conjunction({c.condition, keeps}), c.hasScore, c.number, c.slope, c.lowest});
      next.push_back(
          {analysis.negation(keeps), false, step.number, {}, isLowest(step.number, step.type)});
    } else {
      if (step.kind == ScoreStep::Floor && step.number > kAbsorbs)
        return false; // might change visible scores
      next = cases;
      for (Case &c : next) {
        if (step.kind == ScoreStep::Scale) {
          c.number *= step.number;
          if (c.slope)
            c.slope = times(c.slope, step.number);
        } else if (step.kind == ScoreStep::Cap) {
          if (c.number != 0 || c.slope)
            return false;
        } else if (!c.hasScore || c.number <= kAbsorbs) { // Floor
          c.hasScore &= c.number > step.number;
          c.number = std::max(c.number, step.number);
        }
      }
    }
    llvm::erase_if(next, [&](const Case &c) { return isFalse(c.condition); });
    for (Case &c : next)
      roundNumber(c);
    cases = next;
  }
  // All visible keys must have the same slopes.
  bool anySlope = false;
  std::optional<std::string> slope;
  for (const Case &c : cases) {
    anySlope |= bool(c.slope);
    std::string text = c.slope ? c.slope.str() : "";
    if (c.isVisible() && slope.value_or(text) != text)
      return false;
    if (c.isVisible())
      slope = text;
  }
  return llvm::all_of(cases, [&](const Case &c) {
    return c.isVisible() || c.number <= (anySlope && !c.lowest ? kMasksWithSlopes : kMasks);
  });
}

//===----------------------------------------------------------------------===//
// Visible keys
//===----------------------------------------------------------------------===//

/// Replaces a bound by the tighter of two bounds, which is the larger one if `larger` is set.
/// Returns false if their order is unknown.
static bool tightenBound(IndexAnalysis &analysis, std::optional<SymExpr> &bound,
                         const SymExpr &other, bool larger) {
  if (!bound || (larger ? analysis.isAtMost(*bound, other) : analysis.isAtMost(other, *bound)))
    bound = other;
  else if (larger ? !analysis.isAtMost(other, *bound) : !analysis.isAtMost(*bound, other))
    return false;
  return true;
}

// Visible keys j satisfy all terms: j - i - last <= 0 (causality), i - j + first <= 0 (a window),
// and terms that do not depend on the query.
bool MaskAnalyzer::classify(const IndexExpr &visible) {
  if (visible.isTrue())
    return true;
  SmallVector<IndexExpr> terms{visible};
  if (visible.getKind() == Kind::And)
    terms.assign(visible.getArgs().begin(), visible.getArgs().end());
  size_t rank = sizes.size();
  std::string row = IndexAnalysis::indexName(rank - 2), key = IndexAnalysis::indexName(rank - 1);
  SymExpr distance = SymExpr::symbol(key) - SymExpr::symbol(row);
  std::optional<SymExpr> last, first;
  SmallVector<IndexExpr> keyTerms;
  for (const IndexExpr &term : terms) {
    std::set<std::string> symbols;
    analysis.collectSymbols(term, symbols);
    if (!symbols.count(row)) {
      for (size_t d = 1; d + 2 < rank; ++d) // heads
        if (symbols.count(IndexAnalysis::indexName(d)))
          return false;
      keyTerms.push_back(term);
      continue;
    }
    if (term.getKind() != Kind::Compare || term.getPredicate() != Predicate::LE)
      return false;
    auto linear = IndexAnalysis::linearIn(term.getPolynomial(), key);
    bool isFirst = linear && linear->first.isConstant(-1);
    SymExpr limit = isFirst ? term.getPolynomial() + distance : distance - term.getPolynomial();
    if (!IndexAnalysis::isSize(limit))
      return false;
    if (!tightenBound(analysis, isFirst ? first : last, limit, /*larger=*/isFirst))
      return false;
  }
  Value keyMask;
  for (const IndexExpr &term : keyTerms) {
    Value v = tensors.getKeyMask(term);
    if (!v)
      return false;
    keyMask = keyMask ? (Value)AndOp::create(builder, loc, keyMask, v) : v;
  }
  std::optional<SymExpr> offset;
  if (result.causal)
    offset = result.offset;
  if ((last && !tightenBound(analysis, offset, *last, /*larger=*/false)) ||
      (first && !tightenBound(analysis, result.first, *first, /*larger=*/true)))
    return false;
  result.causal = offset.has_value();
  result.offset = offset.value_or(SymExpr(0));
  // If none of these is true, each row has a visible key: key 0 with causality alone, the last key
  // with `first` alone, and keys i + first to i + offset with both.
  result.boundsHideRows =
      (result.causal && !analysis.isNonNegative(result.offset)) ||
      (result.first && !analysis.isAtMost(*result.first + sizes[rank - 2], sizes[rank - 1])) ||
      (result.first && result.causal && !analysis.isAtMost(*result.first, result.offset));
  if (result.boundsHideRows)
    rowsHaveKeys = false;
  if (keyMask) {
    rowsHaveKeys = false;
    result.keyMask =
        result.keyMask ? (Value)AndOp::create(builder, loc, result.keyMask, keyMask) : keyMask;
  }
  return true;
}

bool MaskAnalyzer::addVisible(const ScoreStep &step) {
  IndexExpr visible;
  bool hasSlope = false;
  if (step.kind == ScoreStep::Replace) {
    visible = analysis.atBroadcast(step.value);
    if (!step.keeps)
      visible = analysis.negation(visible);
  } else {
    auto added = getCases(analysis.atBroadcast(step.value));
    if (step.kind == ScoreStep::Add &&
        llvm::all_of(*added, [](const Case &c) { return c.number == 0; }))
      return true;
    SmallVector<IndexExpr> conditions;
    for (const Case &c : *added) {
      hasSlope |= bool(c.slope);
      if (c.number == (step.kind == ScoreStep::Multiply ? 1 : 0))
        conditions.push_back(c.condition);
    }
    visible = analysis.disjunction(conditions);
  }
  if (classify(visible))
    return true;
  if (step.kind == ScoreStep::Add && hasSlope)
    return false; // does more than hide the keys at non-zero elements
  rowsHaveKeys = false;
  Value mask = to4D(maskTensor(step));
  if (!mask)
    return false;
  result.mask = result.mask ? (Value)AndOp::create(builder, loc, result.mask, mask) : mask;
  return true;
}

Value MaskAnalyzer::maskTensor(const ScoreStep &step) {
  if (step.kind == ScoreStep::Add)
    return CmpOp::create(builder, loc, Predicate::EQ, step.value, constant(element, 0));
  if (step.kind == ScoreStep::Multiply)
    return CmpOp::create(builder, loc, Predicate::NE, step.value, constant(element, 0));
  return step.keeps ? step.value : (Value)NotOp::create(builder, loc, step.value);
}

/// Reshapes [.., i, j] to [1 or b, 1 or h, i, j].
Value MaskAnalyzer::to4D(Value v) {
  SmallVector<SymExpr> have = getSizes(v), shape(4, SymExpr(1));
  size_t rank = sizes.size();
  if (have.size() > rank || rank > 4)
    return {};
  // Maps dimension d of the scores to a dimension of [b, h, i, j]. Scores without heads are [b, i,
  // j].
  auto dimOf = [&](size_t d) { return d + 2 >= rank ? 4 - (rank - d) : d; };
  for (size_t i = 0; i < have.size(); ++i)
    shape[dimOf(rank - have.size() + i)] = have[i];
  v = createReshape(builder, loc, v, shape);
  shape[2] = sizes[rank - 2];
  shape[3] = sizes[rank - 1];
  return createExpand(builder, loc, v, shape);
}

bool MaskAnalyzer::addBias(Value v, double factor) {
  v = to4D(v);
  if (!v)
    return false;
  if (factor == -1)
    v = NegOp::create(builder, loc, v);
  else if (factor != 1)
    v = MulOp::create(builder, loc, v, constant(element, factor));
  result.bias = result.bias ? (Value)AddOp::create(builder, loc, result.bias, v) : v;
  return true;
}

//===----------------------------------------------------------------------===//
// Combination
//===----------------------------------------------------------------------===//

/// Returns whether a value depends on an input of the model.
static bool dependsOnInput(Value v) {
  SmallVector<Value> open{v};
  llvm::SmallDenseSet<Value, 32> seen;
  while (!open.empty()) {
    Value next = open.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    Operation *op = next.getDefiningOp();
    if (!op)
      return true;
    llvm::append_range(open, op->getOperands());
  }
  return false;
}

std::optional<SmallVector<ScoreStep>> MaskAnalyzer::splitSums(ArrayRef<ScoreStep> steps) {
  SmallVector<ScoreStep> result;
  for (const ScoreStep &step : steps) {
    auto sum = step.kind == ScoreStep::Add ? step.value.getDefiningOp<AddOp>() : AddOp();
    bool splits = sum && !getCases(analysis.atBroadcast(step.value)) &&
                  llvm::any_of(sum->getOperands(), [&](Value part) {
                    return getCases(analysis.atBroadcast(part)).has_value();
                  });
    if (!splits) {
      result.push_back(step);
      continue;
    }
    for (Value part : sum->getOperands())
      result.push_back({ScoreStep::Add, step.number, part, true, step.type});
  }
  return result.size() > steps.size() ? std::optional(result) : std::nullopt;
}

std::optional<AttentionMask> MaskAnalyzer::run(ArrayRef<ScoreStep> steps, bool guarded) {
  // Added values that are not constant in every case are biases.
  SmallVector<bool> asBias(steps.size(), false);
  bool anyBias = false, learned = true;
  for (auto [i, step] : llvm::enumerate(steps))
    if (step.kind == ScoreStep::Add) {
      anyBias |= asBias[i] = !getCases(analysis.atBroadcast(step.value));
      learned &= !asBias[i] || !dependsOnInput(step.value);
    }

  foundMasks = follow(steps, asBias);
  if (foundMasks) {
    for (auto [step, bias] : llvm::zip(steps, asBias))
      if (!bias && (step.kind == ScoreStep::Add || step.kind == ScoreStep::Replace ||
                    step.kind == ScoreStep::Multiply))
        foundMasks &= addVisible(step);
    bool infinite = true, equal = true;
    std::optional<double> number;
    for (const Case &c : cases) {
      if (c.isVisible()) {
        if (c.slope && !result.slopes)
          result.slopes = tensors.getSlopes(c.slope, element);
        continue;
      }
      infinite &= std::isinf(c.number);
      equal &= std::isfinite(c.number) && ((!c.hasScore && !c.slope) || c.number <= kAbsorbs) &&
               (!number || *number == c.number);
      number = c.number;
    }
    if (!number) // no mask
      infinite = true;
    // A learned bias is part of the score (T5). A bias from an input may be as low as the mask,
    // unless the mask is -inf.
    if (anyBias && !(learned && rowsHaveKeys))
      foundMasks &= infinite && (guarded || rowsHaveKeys || !number);
    else if (!rowsHaveKeys && number) {
      if (equal)
        result.maskedRow = MaskedRow::Uniform;
      else
        foundMasks &= infinite && guarded;
    }
  }
  if (!foundMasks) {
    // Treats all added values as biases. A replacement by a number that absorbs scores is
    // equivalent to its addition.
    result = AttentionMask();
    for (auto [i, step] : llvm::enumerate(steps)) {
      asBias[i] = step.kind == ScoreStep::Add || step.kind == ScoreStep::Replace;
      if (step.kind == ScoreStep::Floor || step.kind == ScoreStep::Multiply ||
          (step.kind == ScoreStep::Replace && step.number > kAbsorbs))
        return std::nullopt;
    }
  }
  for (auto [step, isBias] : llvm::zip(steps, asBias)) {
    if (step.kind == ScoreStep::Scale) {
      result.scale *= step.number;
      if (result.softcap != 0)
        result.softcap *= step.number;
      if (result.bias)
        result.bias = MulOp::create(builder, loc, result.bias, constant(element, step.number));
      continue;
    }
    if (step.kind == ScoreStep::Cap) {
      if (result.bias || result.softcap != 0)
        return std::nullopt;
      result.softcap = step.number;
      continue;
    }
    if (!isBias)
      continue;
    if (step.kind == ScoreStep::Add) {
      if (!addBias(step.value, step.number))
        return std::nullopt;
      continue;
    }
    // Also replaces previously added biases.
    Value zero = constant(element, 0), low = constant(element, step.number);
    Value condition = to4D(step.value), bias = result.bias ? result.bias : zero;
    if (!condition)
      return std::nullopt;
    result.bias =
        SelectOp::create(builder, loc, condition, step.keeps ? bias : low, step.keeps ? low : bias);
  }
  return result;
}

std::optional<AttentionMask> mlir::tpc::analyzeMask(OpBuilder &builder, Location loc,
                                                    ArrayRef<SymExpr> sizes, Type element,
                                                    ArrayRef<ScoreStep> steps, bool guarded) {
  MaskAnalyzer analyzer(builder, loc, sizes, element);
  if (auto split = analyzer.splitSums(steps)) {
    auto result = analyzer.run(*split, guarded);
    if (result && analyzer.hasMasks())
      return result;
  }
  return MaskAnalyzer(builder, loc, sizes, element).run(steps, guarded);
}
