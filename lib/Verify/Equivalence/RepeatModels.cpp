//===- RepeatModels.cpp - Propagation of repetitions through ops ----------===//

#include "Models.h"

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/Experts.h"
#include "tpc/Dialect/Quantized.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Training.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::equivalence;
using ::tpc::SymExpr;

namespace {
/// Model of ops that treat all indices of a letter equally. All operands with the letter must have
/// the same repetition.
template <typename OpT>
struct PassesByLetter : RepeatOpInterface::ExternalModel<PassesByLetter<OpT>, OpT> {
  std::optional<Repeats> passRepeats(Operation *op, ArrayRef<Repeats> operands) const {
    std::optional<Lemma> lemma = cast<LemmaOpInterface>(op).getFormula();
    if (!lemma || lemma->operands.size() != operands.size())
      return std::nullopt;
    std::map<int, Repeat> byLetter;
    for (auto [letters, repeats] : llvm::zip(lemma->operands, operands))
      for (auto &[dim, repeat] : repeats)
        if (letters[dim] == Lemma::broadcast ||
            lemma->letters[letters[dim]] != Lemma::Letter::Each ||
            !(byLetter.try_emplace(letters[dim], repeat).first->second == repeat))
          return std::nullopt;
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
};

/// A norm computes means over its last dimension. Repeating each element equally often does not
/// change a mean. Scale and bias must have the repetition of the last dimension.
template <typename OpT> struct PassesNorm : RepeatOpInterface::ExternalModel<PassesNorm<OpT>, OpT> {
  std::optional<Repeats> passRepeats(Operation *op, ArrayRef<Repeats> operands) const {
    unsigned last = getSizes(op->getOperand(0)).size() - 1;
    Repeats width;
    if (auto it = operands[0].find(last); it != operands[0].end())
      width[0] = it->second;
    bool areEqual = llvm::all_of(operands.drop_front(),
                                 [&](const Repeats &repeats) { return repeats == width; });
    return areEqual ? std::optional<Repeats>(operands[0]) : std::nullopt;
  }
};

/// In row-major order, the product of the sizes before the repeated factor is `before`. The factor
/// must be within one dimension of the result.
struct PassesReshape : RepeatOpInterface::ExternalModel<PassesReshape, ReshapeOp> {
  std::optional<Repeats> passRepeats(Operation *base, ArrayRef<Repeats> operands) const {
    auto op = cast<ReshapeOp>(base);
    SmallVector<SymExpr> in = getSizes(op.getOperand()), out = getSizes(op.getResult());
    Repeats result;
    for (auto &[dim, repeat] : operands[0]) {
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
};

/// Keys and values must both repeat each head, with adjacent copies.
struct EndsInAttention : RepeatOpInterface::ExternalModel<EndsInAttention, AttentionOp> {
  std::optional<Repeats> passRepeats(Operation *base, ArrayRef<Repeats> operands) const {
    auto op = cast<AttentionOp>(base);
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
};

/// Model of ops that do not propagate repetitions: the term of an operand includes its repetition.
template <typename OpT>
struct TakesRepeated : RepeatOpInterface::ExternalModel<TakesRepeated<OpT>, OpT> {
  std::optional<Repeats> passRepeats(Operation *, ArrayRef<Repeats>) const { return std::nullopt; }
};
} // namespace

void equivalence::attachRepeatModels(MLIRContext *context) {
  attachToScalarOps<PassesByLetter>(context);
  attachModels<PassesByLetter, MatmulOp, DequantizeOp, RotaryOp, SliceOp, ConcatOp, TransposeOp,
               AppendOp, ReduceOp, SoftmaxOp, CumSumOp, TriluOp>(context);
  attachModels<PassesNorm, LayerNormOp, RmsNormOp>(context);
  ReshapeOp::attachInterface<PassesReshape>(*context);
  AttentionOp::attachInterface<EndsInAttention>(*context);
  attachModels<TakesRepeated, MoeOp, AttentionGradOp, ExpandOp, RollOp, EmbeddingOp, ScatterAddOp,
               GatherOp, GatherNDOp>(context);
}
