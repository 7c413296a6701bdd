//===- EvaluateMoves.cpp - Ops that move elements, on one rank ------------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
auto Evaluation<A>::move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from) -> Result {
  const Value &in = *operands[0];
  Value out(shape);
  size_t next = 0;
  bool outside = false;
  Shape place(in.shape.size(), 0);
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    from(index, place);
    for (size_t d = 0; d < place.size(); ++d)
      outside |= place[d] < 0 || place[d] >= in.shape[d];
    out.data[next++] = outside ? Element(0) : in.data[linearize(place, in.shape)];
  });
  if (outside)
    return fail() << "it reads outside of the part that a rank has";
  return out;
}

template <typename A> auto Evaluation<A>::evaluateSlice(SliceOp slice) -> Result {
  int64_t dim = slice.getDim(), start = world.getSizes().evaluate(slice.getStart());
  auto n = getSizes(slice.getOperand())[dim].asConstant();
  if (n && start > 0)
    if (auto e = ::tpc::SymExpr::parse(slice.getStart().str()); e && e->isConstant())
      start = world.getSizes().scale(*e->asConstant(), *n);
  int64_t step = slice.getStep(), last = start + (shape[dim] - 1) * step;
  if (int64_t size = operands[0]->shape[dim];
      shape[dim] > 0 && (std::min(start, last) < 0 || std::max(start, last) >= size))
    return fail() << "it takes elements " << start << " to " << last << " of " << size
                  << ": these sizes are not possible";
  return move([&](ArrayRef<int64_t> index, Shape &from) {
    from.assign(index.begin(), index.end());
    from[dim] = start + index[dim] * step;
  });
}

template <typename A> auto Evaluation<A>::evaluateConcat(int64_t dim) -> Result {
  Value out(shape);
  int64_t begin = 0;
  for (const Value *operand : operands) {
    Shape end = operand->shape;
    end[dim] += begin;
    for (auto [d, size] : llvm::enumerate(end))
      if (int64_t(d) == dim ? size > shape[d] : size != shape[d])
        return fail() << "the parts on a rank do not fit";
    size_t next = 0;
    forEachIndex(operand->shape, [&](ArrayRef<int64_t> index) {
      Shape place(index);
      place[dim] += begin;
      out.data[linearize(place, shape)] = operand->data[next++];
    });
    begin += operand->shape[dim];
  }
  if (begin != shape[dim])
    return fail() << "the parts on a rank do not fit";
  return out;
}

template <typename A> auto Evaluation<A>::evaluateTrilu(TriluOp trilu) -> Result {
  int64_t k = world.getSizes().evaluate(trilu.getK());
  Value out = *operands[0];
  size_t next = 0;
  forEachIndex(out.shape, [&](ArrayRef<int64_t> index) {
    int64_t distance = index.back() - index[index.size() - 2];
    Element &x = out.data[next++];
    if (trilu.getUpper() ? distance < k : distance > k)
      x = 0;
  });
  return out;
}

template <typename A> auto Evaluation<A>::runMove() -> std::optional<Result> {
  if (isa<ReshapeOp>(op)) {
    Value out = *operands[0];
    if (int64_t(out.data.size()) != countElements(shape))
      return Result(fail() << "a rank has " << out.data.size() << " elements for another shape");
    out.shape = shape;
    return Result(std::move(out));
  }
  if (isa<ReshardOp>(op))
    return Result(*operands[0]);
  if (auto transpose = dyn_cast<TransposeOp>(op))
    return move([&](ArrayRef<int64_t> index, Shape &from) {
      for (auto [i, p] : llvm::enumerate(transpose.getPermutation()))
        from[p] = index[i];
    });
  if (isa<ExpandOp>(op))
    return move([&](ArrayRef<int64_t> index, Shape &from) {
      index = index.take_back(from.size());
      for (size_t i = 0; i < from.size(); ++i)
        from[i] = operands[0]->shape[i] == 1 ? 0 : index[i];
    });
  if (auto slice = dyn_cast<SliceOp>(op))
    return evaluateSlice(slice);
  if (auto roll = dyn_cast<RollOp>(op)) {
    int64_t first = world.getSizes().evaluate(roll.getFrom());
    int64_t every = world.getSizes().evaluate(roll.getEvery());
    return move([&](ArrayRef<int64_t> index, Shape &from) {
      from.assign(index.begin(), index.end());
      from[roll.getDim()] = rollIndex(index[roll.getDim()], first, every);
    });
  }
  if (auto concat = dyn_cast<ConcatOp>(op))
    return evaluateConcat(concat.getDim());
  if (auto trilu = dyn_cast<TriluOp>(op))
    return evaluateTrilu(trilu);
  return std::nullopt;
}

template std::optional<Evaluation<Doubles>::Result> Evaluation<Doubles>::runMove();
template std::optional<Evaluation<Field>::Result> Evaluation<Field>::runMove();
