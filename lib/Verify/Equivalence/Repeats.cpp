//===- Repeats.cpp - Values that are there several times ------------------===//

#include "Repeats.h"

#include "Lemmas.h"
#include "tpc/Dialect/Dist.h"
#include "tpc/Interfaces/ShardingRule.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

std::string equivalence::toText(const Repeats &repeats) {
  std::string text;
  for (auto &[dim, repeat] : repeats)
    text += (text.empty() ? "" : ", ") + std::to_string(dim) + ": " + std::to_string(repeat.major) +
            " x " + std::to_string(repeat.times) + " x " + std::to_string(repeat.minor);
  return text;
}

Type equivalence::removeRepeats(Type whole, const Repeats &repeats) {
  if (repeats.empty())
    return whole;
  DistAttr dist = getDist(whole);
  SmallVector<DimAttr> dims(dist.getDims());
  for (auto &[dim, repeat] : repeats)
    dims[dim] = DimAttr::get(whole.getContext(), SymExpr(repeat.major * repeat.minor));
  return makeTensorType(cast<RankedTensorType>(whole).getElementType(), dist.withDims(dims));
}

Repeats equivalence::getRepeats(GatherOp gather) {
  Value indices = gather.getIndices();
  while (isa_and_nonnull<LocalSliceOp, ReshardOp>(indices.getDefiningOp()))
    indices = indices.getDefiningOp()->getOperand(0);
  auto constant = indices.getDefiningOp<ConstantOp>();
  auto values = constant ? dyn_cast<DenseIntElementsAttr>(constant.getValue()) : nullptr;
  std::optional<int64_t> n = getSizes(gather.getData())[gather.getDim()].asConstant();
  if (!values || values.getType().getRank() != 1 || !n || *n < 1)
    return {};
  int64_t count = values.getNumElements(), times = count / *n, at = 0;
  if (times < 2 || count % *n != 0)
    return {};
  for (const APInt &index : values)
    if (!index.isSignedIntN(64) || index.getSExtValue() != at++ / times)
      return {};
  return {{unsigned(gather.getDim()), {*n, times, 1}}};
}

Repeats equivalence::takeRepeats(ViewAttr &view) {
  Repeats repeats;
  SmallVector<ArrayAttr> dims(view.getDims());
  for (unsigned dim = 0; dim < dims.size(); ++dim) {
    Repeat repeat = {1, 0, 1};
    SmallVector<Attribute> others;
    bool plain = true;
    for (StridedFactorAttr factor : view.getFactors(dim)) {
      if (factor.getStride() == 0 && factor.getSize() > 1) {
        plain &= repeat.times == 0;
        repeat.times = factor.getSize();
        continue;
      }
      int64_t &side = repeat.times == 0 ? repeat.major : repeat.minor;
      plain &= !llvm::MulOverflow(side, factor.getSize(), side);
      others.push_back(factor);
    }
    if (repeat.times == 0 || !plain)
      continue;
    if (others.empty())
      others.push_back(StridedFactorAttr::get(view.getContext(), 1, 1));
    dims[dim] = ArrayAttr::get(view.getContext(), others);
    repeats[dim] = repeat;
  }
  view = ViewAttr::get(view.getContext(), view.getOffset(), dims);
  return repeats;
}

/// Row by row the repetition stands behind `before` indices; it must be within one dimension of the
/// result, which it then divides.
static std::optional<Repeats> passReshape(ReshapeOp op, const Repeats &operand) {
  SmallVector<SymExpr> in = getSizes(op.getOperand()), out = getSizes(op.getResult());
  Repeats result;
  for (auto &[dim, repeat] : operand) {
    SymExpr before(repeat.major), prefix(1);
    for (unsigned d = 0; d < dim; ++d)
      before = before * in[d];
    bool found = false;
    for (unsigned d = 0; d < out.size() && !found; ++d) {
      std::optional<SymExpr> quotient = before.divideExact(prefix);
      std::optional<int64_t> major = quotient ? quotient->asConstant() : std::nullopt;
      std::optional<int64_t> size = out[d].asConstant();
      int64_t unit;
      if (major && *major > 0 && size && !llvm::MulOverflow(*major, repeat.times, unit) &&
          *size % unit == 0) {
        found = result.try_emplace(d, Repeat{*major, repeat.times, *size / unit}).second;
        break;
      }
      prefix = prefix * out[d];
    }
    if (!found)
      return std::nullopt;
  }
  return result;
}

/// Both keys and values have each head several times, next to each other.
static std::optional<Repeats> passAttention(AttentionOp op, ArrayRef<Repeats> operands) {
  for (auto [i, repeats] : llvm::enumerate(operands))
    if (i != 1 && i != 2 && !repeats.empty())
      return std::nullopt;
  if (operands[1] != operands[2] || operands[1].size() != 1 || !operands[1].count(2))
    return std::nullopt;
  const Repeat &heads = operands[1].at(2);
  std::optional<int64_t> queries = getSizes(op.getQ())[2].asConstant();
  if (heads.minor != 1 || !queries || *queries % (heads.major * heads.times) != 0)
    return std::nullopt;
  return Repeats();
}

std::optional<Repeats> equivalence::passRepeats(Operation *op, ArrayRef<Repeats> operands) {
  if (auto reshape = dyn_cast<ReshapeOp>(op))
    return passReshape(reshape, operands[0]);
  if (auto attention = dyn_cast<AttentionOp>(op))
    return passAttention(attention, operands);
  // Ops that do the same at each index of a letter, whichever index it is.
  if (!isa<ScalarOpInterface, MatmulOp, RotaryOp, LayerNormOp, RmsNormOp, SliceOp, ConcatOp,
           TransposeOp>(op))
    return std::nullopt;
  std::optional<Lemma> lemma = getLemma(op);
  if (!lemma || lemma->operands.size() != operands.size())
    return std::nullopt;
  std::map<int, Repeat> byLetter;
  for (auto [letters, repeats] : llvm::zip(lemma->operands, operands))
    for (auto &[dim, repeat] : repeats)
      if (letters[dim] == Lemma::broadcast || lemma->letters[letters[dim]] != Lemma::Letter::Each ||
          !(byLetter.try_emplace(letters[dim], repeat).first->second == repeat))
        return std::nullopt;
  // Whoever has the letter repeats in it.
  for (auto [letters, repeats] : llvm::zip(lemma->operands, operands))
    for (auto [dim, letter] : llvm::enumerate(letters))
      if (byLetter.count(letter) && !repeats.count(dim))
        return std::nullopt;
  Repeats result;
  for (auto [dim, letter] : llvm::enumerate(lemma->result))
    if (auto it = byLetter.find(letter); it != byLetter.end())
      result[dim] = it->second;
  return result.size() == byLetter.size() ? std::optional<Repeats>(result) : std::nullopt;
}
