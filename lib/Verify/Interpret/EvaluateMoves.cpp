//===- EvaluateMoves.cpp - Evaluation of ops that move elements -----------===//

#include "Models.h"

#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

namespace {
struct ReshapeEvaluation : EvaluationModel<ReshapeEvaluation, ReshapeOp> {
  template <typename A> static Result<A> evaluate(ReshapeOp, Evaluation<A> &e) {
    Data<A> out = *e.operands[0];
    if (int64_t(out.data.size()) != countElements(e.shape))
      return e.fail() << "a rank has " << out.data.size() << " elements for another shape";
    out.shape = e.shape;
    return out;
  }
};

struct ReshardEvaluation : EvaluationModel<ReshardEvaluation, ReshardOp> {
  template <typename A> static Result<A> evaluate(ReshardOp, Evaluation<A> &e) {
    return *e.operands[0];
  }
};

struct TransposeEvaluation : EvaluationModel<TransposeEvaluation, TransposeOp> {
  template <typename A> static Result<A> evaluate(TransposeOp op, Evaluation<A> &e) {
    return e.move([&](ArrayRef<int64_t> index, Shape &from) {
      for (auto [i, p] : llvm::enumerate(op.getPermutation()))
        from[p] = index[i];
    });
  }
};

struct ExpandEvaluation : EvaluationModel<ExpandEvaluation, ExpandOp> {
  template <typename A> static Result<A> evaluate(ExpandOp, Evaluation<A> &e) {
    return e.move([&](ArrayRef<int64_t> index, Shape &from) {
      index = index.take_back(from.size());
      for (size_t i = 0; i < from.size(); ++i)
        from[i] = e.operands[0]->shape[i] == 1 ? 0 : index[i];
    });
  }
};

struct RollEvaluation : EvaluationModel<RollEvaluation, RollOp> {
  template <typename A> static Result<A> evaluate(RollOp op, Evaluation<A> &e) {
    int64_t first = e.world.getSizes().evaluate(op.getFrom());
    int64_t every = e.world.getSizes().evaluate(op.getEvery());
    return e.move([&](ArrayRef<int64_t> index, Shape &from) {
      from.assign(index.begin(), index.end());
      from[op.getDim()] = rollIndex(index[op.getDim()], first, every);
    });
  }
};

struct SliceEvaluation : EvaluationModel<SliceEvaluation, SliceOp> {
  template <typename A> static Result<A> evaluate(SliceOp op, Evaluation<A> &e) {
    int64_t dim = op.getDim(), start = e.world.getSizes().evaluate(op.getStart());
    auto n = getSizes(op.getOperand())[dim].asConstant();
    if (n && start > 0)
      if (auto first = op.getStart().asConstant())
        start = e.world.getSizes().scale(*first, *n);
    int64_t step = op.getStep(), last = start + (e.shape[dim] - 1) * step;
    if (int64_t size = e.operands[0]->shape[dim];
        e.shape[dim] > 0 && (std::min(start, last) < 0 || std::max(start, last) >= size))
      return e.fail() << "it takes elements " << start << " to " << last << " of " << size
                      << ": these sizes are not possible";
    return e.move([&](ArrayRef<int64_t> index, Shape &from) {
      from.assign(index.begin(), index.end());
      from[dim] = start + index[dim] * step;
    });
  }
};

struct ConcatEvaluation : EvaluationModel<ConcatEvaluation, ConcatOp> {
  template <typename A> static Result<A> evaluate(ConcatOp op, Evaluation<A> &e) {
    int64_t dim = op.getDim();
    Data<A> out(e.shape);
    int64_t begin = 0;
    for (const Data<A> *operand : e.operands) {
      Shape end = operand->shape;
      end[dim] += begin;
      for (auto [d, size] : llvm::enumerate(end))
        if (int64_t(d) == dim ? size > e.shape[d] : size != e.shape[d])
          return e.fail() << "the shapes of the operands do not match on a rank";
      size_t next = 0;
      forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
        Shape position(index);
        position[dim] += begin;
        out.data[linearize(position, e.shape)] = operand->data[next++];
      });
      begin += operand->shape[dim];
    }
    if (begin != e.shape[dim])
      return e.fail() << "the shapes of the operands do not match on a rank";
    return out;
  }
};

/// Appends the new tokens of each sequence that are within the capacity.
struct AppendEvaluation : EvaluationModel<AppendEvaluation, AppendOp> {
  template <typename A> static Result<A> evaluate(AppendOp, Evaluation<A> &e) {
    const Data<A> &fresh = *e.operands[1], &lengths = *e.operands[2];
    Data<A> out = *e.operands[0];
    Shape expected = out.shape;
    expected[CacheOp::tokenDim] = fresh.shape[CacheOp::tokenDim];
    if (out.shape != e.shape || fresh.shape != expected || lengths.shape != Shape({out.shape[0]}))
      return e.fail() << "the shapes of the operands do not match on a rank";
    size_t next = 0;
    bool negative = false;
    forEachIndex(fresh.shape, [&](ArrayRef<int64_t> index) {
      Shape position(index);
      int64_t length = A::toInteger(lengths.data[index[0]]);
      negative |= length < 0;
      int64_t &token = position[CacheOp::tokenDim];
      const typename A::Element &element = fresh.data[next++];
      if (length < 0 || length >= out.shape[CacheOp::tokenDim] - token)
        return;
      token += length;
      out.data[linearize(position, out.shape)] = element;
    });
    if (negative)
      return e.fail() << "a cache cannot have a negative number of tokens";
    return out;
  }
};

struct TriluEvaluation : EvaluationModel<TriluEvaluation, TriluOp> {
  template <typename A> static Result<A> evaluate(TriluOp op, Evaluation<A> &e) {
    int64_t k = e.world.getSizes().evaluate(op.getK());
    Data<A> out = *e.operands[0];
    size_t next = 0;
    forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
      int64_t distance = index.back() - index[index.size() - 2];
      typename A::Element &x = out.data[next++];
      if (op.getUpper() ? distance < k : distance > k)
        x = 0;
    });
    return out;
  }
};
} // namespace

void interpret::attachMoveEvaluations(MLIRContext *context) {
  ReshapeOp::attachInterface<ReshapeEvaluation>(*context);
  ReshardOp::attachInterface<ReshardEvaluation>(*context);
  TransposeOp::attachInterface<TransposeEvaluation>(*context);
  ExpandOp::attachInterface<ExpandEvaluation>(*context);
  RollOp::attachInterface<RollEvaluation>(*context);
  SliceOp::attachInterface<SliceEvaluation>(*context);
  ConcatOp::attachInterface<ConcatEvaluation>(*context);
  AppendOp::attachInterface<AppendEvaluation>(*context);
  TriluOp::attachInterface<TriluEvaluation>(*context);
}
