//===- Evaluation.h - One op on one rank ------------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_INTERPRET_EVALUATION_H
#define TPC_LIB_VERIFY_INTERPRET_EVALUATION_H

#include "Arithmetic.h"
#include "World.h"

namespace mlir::tpc::interpret {

/// Computes the result of an op without communication on the rank at `at`, as its
/// EvaluatedOpInterface says. Errors: operands whose parts do not fit. Ranks that have equal
/// operands and the same part of all types have the same result: nothing else of `at` is looked at.
template <typename A> class Evaluation {
public:
  using Element = typename A::Element;
  using Value = Tensor<Element>;
  using Result = FailureOr<Value>;

  Evaluation(Operation *op, ArrayRef<const Value *> operands, World &world, const Coordinates &at)
      : operands(operands), world(world),
        shape(world.getPart(op->getResult(0).getType(), at).shape), at(at), op(op) {}
  Result run();

  // For ops.
  ArrayRef<const Value *> operands;
  World &world;
  const Shape &shape; // of the result
  const Coordinates &at;

  InFlightDiagnostic fail() {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): " << A::what;
  }
  /// The op has the facts `all`, of which these elements exercise `seen`.
  void note(Facts all, Facts seen, Magnitudes magnitudes = {}) {
    if (world.coverage)
      world.coverage->note(op, all, seen, magnitudes);
  }
  const Part &getPart(mlir::Value value) { return world.getPart(value.getType(), at); }
  /// Each element of the result of the elements of operands at its place; they broadcast.
  Result evaluateElements(const Scalar<Element> &scalar);
  /// An op that only moves elements: `from` gives the place in the operand.
  Result move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from);
  /// `f` of each line of the operand along a dimension.
  Value mapLines(int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f);

private:
  Operation *op;
};

} // namespace mlir::tpc::interpret

#endif // TPC_LIB_VERIFY_INTERPRET_EVALUATION_H
