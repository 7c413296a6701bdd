//===- Evaluation.cpp - Evaluation of one op on one rank ------------------===//

#include "Evaluation.h"
#include "InterpretOps.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
auto Evaluation<A>::evaluateElements(const Scalar<Element> &scalar) -> Result {
  for (const Value *operand : operands)
    if (!broadcasts(operand->shape, shape))
      return fail() << "the shapes of the operands do not match on a rank";
  Value result(shape);
  SmallVector<Element, 3> x(operands.size());
  if (llvm::all_of(operands, [&](const Value *operand) { return operand->shape == shape; })) {
    for (size_t at = 0; at < result.data.size(); ++at) {
      for (size_t i = 0; i < operands.size(); ++i)
        x[i] = operands[i]->data[at];
      result.data[at] = scalar(x);
    }
    return result;
  }
  size_t next = 0;
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    for (size_t i = 0; i < operands.size(); ++i)
      x[i] = operands[i]->data[linearizeBroadcast(index, operands[i]->shape)];
    result.data[next++] = scalar(x);
  });
  return result;
}

template <typename A>
auto Evaluation<A>::move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from) -> Result {
  const Value &in = *operands[0];
  Value out(shape);
  size_t next = 0;
  bool outside = false;
  Shape position(in.shape.size(), 0);
  forEachIndex(shape, [&](ArrayRef<int64_t> index) {
    from(index, position);
    for (size_t d = 0; d < position.size(); ++d)
      outside |= position[d] < 0 || position[d] >= in.shape[d];
    out.data[next++] = outside ? Element(0) : in.data[linearize(position, in.shape)];
  });
  if (outside)
    return fail() << "it reads outside of the slice that a rank has";
  return out;
}

template <typename A>
auto Evaluation<A>::mapLines(int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f)
    -> Value {
  Value out = *operands[0];
  int64_t n = out.shape[dim], inner = countElements(ArrayRef(out.shape).drop_front(dim + 1));
  int64_t outer = countElements(ArrayRef(out.shape).take_front(dim));
  std::vector<Element> line(n);
  for (int64_t o = 0; o < outer; ++o)
    for (int64_t i = 0; i < inner; ++i) {
      auto at = [&](int64_t x) -> Element & { return out.data[(o * n + x) * inner + i]; };
      for (int64_t x = 0; x < n; ++x)
        line[x] = at(x);
      f(line);
      for (int64_t x = 0; x < n; ++x)
        at(x) = line[x];
    }
  return out;
}

template <> auto Evaluation<Doubles>::run() -> Result {
  return cast<EvaluatedOpInterface>(op).evaluateDoubles(*this);
}
template <> auto Evaluation<Field>::run() -> Result {
  return cast<EvaluatedOpInterface>(op).evaluateField(*this);
}

template class mlir::tpc::interpret::Evaluation<Doubles>;
template class mlir::tpc::interpret::Evaluation<Field>;
