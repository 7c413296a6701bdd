//===- Evaluation.h - Evaluation of one op on one rank ----------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_EVALUATION_H
#define TPC_LIB_VERIFY_INTERPRET_EVALUATION_H

#include "Arithmetic.h"
#include "World.h"

namespace mlir::tpc::interpret {

/// Computes the result of an op without communication on the rank at `at` (EvaluatedOpInterface).
/// Error: slices of operands do not match. The result is a function of the operands and of the
/// slices of all types; `at` affects only the slices.
template <typename A> class Evaluation {
public:
  using Element = typename A::Element;
  using Value = Tensor<Element>;
  using Result = FailureOr<Value>;

  Evaluation(Operation *op, ArrayRef<const Value *> operands, World &world, const Coordinates &at)
      : operands(operands), world(world),
        shape(world.getSlice(op->getResult(0).getType(), at).shape), at(at), op(op) {}
  Result run();

  // For op models.
  ArrayRef<const Value *> operands;
  World &world;
  const Shape &shape; // of the result
  const Coordinates &at;

  InFlightDiagnostic fail() {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << A::what;
  }
  /// Records that the op has the facts `all`, and that this evaluation exercised `seen`.
  void note(Facts all, Facts seen, Magnitudes magnitudes = {}) {
    if (world.coverage)
      world.coverage->note(op, all, seen, magnitudes);
  }
  const RankSlice &getSlice(mlir::Value value) { return world.getSlice(value.getType(), at); }
  /// Applies `scalar` element-wise, with broadcasting.
  Result evaluateElements(const Scalar<Element> &scalar);
  /// Evaluates an op that only moves elements. `from` maps an index of the result to the index of
  /// the same element in the operand.
  Result move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from);
  /// Applies `f` to each line of the operand along a dimension.
  Value mapLines(int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f);

private:
  Operation *op;
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_EVALUATION_H
