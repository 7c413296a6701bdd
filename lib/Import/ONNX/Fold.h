//===- Fold.h - Arithmetic on known contents --------------------*- C++ -*-===//
//
// Models compute shapes with nodes on small integer tensors. If all operands of a node are known
// during import, the result is computed, and no op is created.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_IMPORT_ONNX_FOLD_H
#define TPC_LIB_IMPORT_ONNX_FOLD_H

#include "Tensor.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::tpc::frontend {

enum class Arithmetic { Add, Sub, Mul, Div, Mod, FMod, Pow, Min, Max, And, Or, Xor };

/// Computes x op y for integers, booleans and sizes. Returns nothing if the result is unknown.
std::optional<SymExpr> foldInt(Arithmetic op, const SymExpr &x, const SymExpr &y);
/// Computes x op y for numbers of a floating-point type, rounded to that type.
std::optional<double> foldFloat(Arithmetic op, double x, double y, Type element);
/// Returns true or false if the comparison has this result for all sizes.
std::optional<bool> foldCompare(Predicate predicate, const SymExpr &x, const SymExpr &y);

/// Wraps an integer into the range of a type. Sizes are assumed to fit.
std::optional<SymExpr> wrapInt(const SymExpr &e, Type type);

/// Visits all positions of `shape` with each operand's row-major position. Operand strides are 0 in
/// dimensions that broadcast to `shape`. Shapes are constant and small.
void forEachBroadcast(ArrayRef<SymExpr> shape, ArrayRef<const Tensor *> operands,
                      llvm::function_ref<void(ArrayRef<int64_t> positions)> body);

/// Returns true if all tensors are known and `shape` has few elements.
bool canFold(ArrayRef<SymExpr> shape, ArrayRef<const Tensor *> operands);

} // namespace mlir::tpc::frontend

#endif
