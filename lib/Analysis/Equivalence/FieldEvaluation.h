//===- FieldEvaluation.h - One op on one rank, over a field -----*- C++ -*-===//

#ifndef TPC_LIB_ANALYSIS_FIELDEVALUATION_H
#define TPC_LIB_ANALYSIS_FIELDEVALUATION_H

#include "Field.h"

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc::equivalence {

/// What an index outside of a table gives, in both programs.
inline constexpr Element nowhere = 0x5EED;

inline Element hashDouble(uint64_t key, double x) {
  return hash(key, llvm::bit_cast<uint64_t>(x) % prime);
}

/// Sums of products, reduced now and then.
struct Accumulator {
  unsigned __int128 sum = 0;
  unsigned count = 0;
  void add(Element a, Element b) {
    sum += (unsigned __int128)a * b;
    if (++count == 32) { // of below 2^122 each
      sum = reduceWide(sum);
      count = 0;
    }
  }
  Element get() const { return reduceWide(sum); }
};

class Evaluation {
public:
  using Operands = ArrayRef<const Tensor *>;
  Evaluation(Operation *op, Operands operands, const FieldContext &context, const Coordinates &at)
      : op(op), operands(operands), context(context), at(at),
        shape(context.getShape(op->getResult(0).getType(), at)) {}
  FailureOr<Tensor> run();

private:
  InFlightDiagnostic fail() {
    return op->emitError() << "'" << getSourceName(op->getLoc()) << "' (" << op->getName()
                           << "): run at small sizes, ";
  }
  struct Lookup;
  FailureOr<Tensor> matmul();
  FailureOr<Tensor> attention(AttentionOp attention);
  FailureOr<Tensor> norm(double epsilon, bool center);
  FailureOr<Tensor> softmax(int64_t dim);
  FailureOr<Tensor> cumsum(CumSumOp cumsum);
  FailureOr<Tensor> reduce(ReduceOp reduce);
  FailureOr<Tensor> rotary(bool interleaved);
  FailureOr<Tensor> embedding();
  FailureOr<Tensor> gather(int64_t dim);
  FailureOr<Tensor> gatherND(int64_t batch);
  FailureOr<Tensor> concat(int64_t dim);
  FailureOr<Tensor> parameter(ParameterOp parameter);
  FailureOr<Tensor> constant(ConstantOp constant);
  FailureOr<Tensor> slice(SliceOp slice);
  FailureOr<Tensor> trilu(TriluOp trilu);
  /// An op that only moves elements: `from` gives the place in the operand.
  FailureOr<Tensor> move(llvm::function_ref<void(ArrayRef<int64_t>, Shape &)> from);
  void alongDim(Tensor &tensor, int64_t dim, llvm::function_ref<void(MutableArrayRef<Element>)> f);
  Indices getIndices(Value value) const { return context.getIndices(value.getType(), at); }
  int64_t evaluate(StringRef text) const {
    auto e = ::tpc::SymExpr::parse(text.str());
    return e ? context.sizes.evaluate(*e) : 0;
  }

  Operation *op;
  Operands operands;
  const FieldContext &context;
  const Coordinates &at;
  Shape shape;
};

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_ANALYSIS_FIELDEVALUATION_H
