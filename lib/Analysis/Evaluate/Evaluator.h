//===- Evaluator.h - Programs run on paper ----------------------*- C++ -*-===//
//
// A reference evaluator for small sizes: every element a double, every rank of the grid in
// one process, one op at a time on all ranks. It shares nothing with the partitioner
// or the code generator but the meaning of types: a local type says which global indices
// a rank holds in each dimension, and everything follows from these lists:
// what a parameter's shard is, what a collective moves, how outputs are assembled.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_ANALYSIS_EVALUATOR_H
#define TPC_LIB_ANALYSIS_EVALUATOR_H

#include "tpc/Analysis/Nominal.h"
#include "tpc/Dialect/Dist.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::evaluator {

using Shape = SmallVector<int64_t, 4>;
using Indices = std::vector<std::vector<int64_t>>; // global indices in each dimension
using Coordinates = std::map<std::string, int64_t>;

struct Tensor {
  Shape shape;
  std::vector<double> data;

  Tensor() = default;
  explicit Tensor(ArrayRef<int64_t> shape, double value = 0);
  int64_t size() const { return data.size(); }
};

/// Calls `f` for all indices of a shape, in row-major order.
void forEachIndex(ArrayRef<int64_t> shape, llvm::function_ref<void(ArrayRef<int64_t>)> f);
int64_t linearize(ArrayRef<int64_t> index, ArrayRef<int64_t> shape);

/// What does not change while a program runs.
struct Environment {
  ModuleOp module;
  GridAttr grid;
  const Symbols &symbols;

  int64_t evaluate(const ::tpc::SymExpr &e) const { return e.evaluate(symbols).value_or(0); }
  int64_t evaluate(StringRef text) const;
  /// Global indices that a value of this type has on a rank: all, unless it is local.
  Indices getIndices(Type type, const Coordinates &at) const;
  Shape getShape(Type type, const Coordinates &at) const;
  Shape getGlobalShape(Type type) const;
};

/// The part of `tensor`, which has the indices `from`, that has the indices `to`.
Tensor extract(const Tensor &tensor, const Indices &from, const Indices &to);

/// A weight's element: a function of its name and its place in the file's tensor.
double getWeightElement(StringRef name, int64_t element, unsigned rank, int64_t fanIn);

/// Results of an op without communication on one rank, or failure (with a
/// message) for an op that is not known.
FailureOr<std::vector<Tensor>> evaluateOp(Operation *op, ArrayRef<const Tensor *> operands,
                                          const Environment &env, const Coordinates &at);
/// An embedding, a gather or a gather_nd.
Tensor evaluateLookup(Operation *op, ArrayRef<const Tensor *> operands, ArrayRef<int64_t> shape,
                      const Environment &env, const Coordinates &at);
/// An element-wise op; nothing if `op` is none.
std::optional<Tensor> evaluateScalarOp(Operation *op, ArrayRef<const Tensor *> operands,
                                       ArrayRef<int64_t> shape);

} // namespace mlir::tpc::evaluator

#endif // TPC_LIB_ANALYSIS_EVALUATOR_H
