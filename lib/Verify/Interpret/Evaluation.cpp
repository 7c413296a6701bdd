//===- Evaluation.cpp - One op on one rank --------------------------------===//

#include "Evaluation.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A>
auto Evaluation<A>::evaluateElements(const Scalar<Element> &scalar) -> Result {
  for (const Value *operand : operands)
    if (!broadcasts(operand->shape, shape))
      return fail() << "parts on a rank do not fit";
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

template <typename A> auto Evaluation<A>::run() -> Result {
  if (Scalar<Element> scalar = A::getScalar(op))
    return evaluateElements(scalar);
  for (auto group : {&Evaluation::runProduct, &Evaluation::runMove, &Evaluation::runSource,
                     &Evaluation::runRow, &Evaluation::runLookup})
    if (std::optional<Result> result = (this->*group)())
      return std::move(*result);
  return fail() << "nobody knows what it computes";
}

template class mlir::tpc::interpret::Evaluation<Doubles>;
template class mlir::tpc::interpret::Evaluation<Field>;
