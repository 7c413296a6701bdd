//===- Evaluation.h - One op on one rank ------------------------*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_INTERPRET_EVALUATION_H
#define TPC_LIB_ANALYSIS_INTERPRET_EVALUATION_H

#include "Arithmetic.h"
#include "World.h"

namespace mlir::tpc::interpret {

/// Computes the result of an op without communication on the rank at `at`. Errors: an op that is
/// not known, operands whose parts do not fit. Ranks that have equal operands and the same part of
/// all types have the same result: nothing else of `at` is looked at.
template <typename A> class Evaluation {
public:
  using Element = typename A::Element;
  using Value = Tensor<Element>;
  using Result = FailureOr<Value>;

  Evaluation(Operation *op, ArrayRef<const Value *> operands, World &world, const Coordinates &at)
      : op(op), operands(operands), world(world), at(at), shape(getPart(op->getResult(0)).shape) {}
  Result run();

private:
  // Each takes the ops that it knows; nothing for others.
  std::optional<Result> runProduct(); // EvaluateProducts.cpp
  std::optional<Result> runLookup();  // EvaluateLookups.cpp
  std::optional<Result> runRow();     // EvaluateRows.cpp
  std::optional<Result> runMove();    // EvaluateMoves.cpp
  std::optional<Result> runSource();  // EvaluateSources.cpp

  Result evaluateElements(const Scalar<Element> &scalar);
  Result evaluateMatmul();
  Result evaluateAttention(AttentionOp attention);
  Result evaluateNorm(double epsilon, bool center);
  Result evaluateReduce(ReduceOp reduce);
  Result evaluateRotary(bool interleaved);
  Result evaluateEmbedding();
  Result evaluateGather(int64_t dim);
  Result evaluateGatherND(int64_t batch);
  Result evaluateSlice(SliceOp slice);
  Result evaluateConcat(int64_t dim);
  Result evaluateTrilu(TriluOp trilu);
  Result evaluateParameter(ParameterOp parameter);
  Result evaluateConstant(ConstantOp constant);
  /// An op that only moves elements: `from` gives the place in the operand.
  Result move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from);
  /// `f` of each line of the operand along a dimension.
  Value mapLines(int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f);

  InFlightDiagnostic fail() {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << A::what;
  }
  const Part &getPart(mlir::Value value) { return world.getPart(value.getType(), at); }

  Operation *op;
  ArrayRef<const Value *> operands;
  World &world;
  const Coordinates &at;
  const Shape &shape; // of the result
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_ANALYSIS_INTERPRET_EVALUATION_H
