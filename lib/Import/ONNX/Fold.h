//===- Fold.h - Arithmetic on known contents -------------------*- C++ -*-===//
//
// Shapes are computed by nodes on small integer tensors. Where all operands
// are known, so is the result, and no op enters the program.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_IMPORT_ONNX_FOLD_H
#define TPC_LIB_IMPORT_ONNX_FOLD_H

#include "Tensor.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace mlir::tpc::frontend {

enum class Arithmetic { Add, Sub, Mul, Div, Mod, FMod, Pow, Min, Max, And, Or, Xor };

/// x op y for integers, booleans and sizes; nothing where it cannot be told.
std::optional<SymExpr> foldInt(Arithmetic op, const SymExpr &x, const SymExpr &y);
/// The same for numbers of a floating-point type, rounded to it.
std::optional<double> foldFloat(Arithmetic op, double x, double y, Type element);
/// True or false where it is so for all sizes.
std::optional<bool> foldCompare(Predicate predicate, const SymExpr &x, const SymExpr &y);

/// An integer in the range of a type; sizes are taken to fit.
std::optional<SymExpr> wrapInt(const SymExpr &e, Type type);

/// Row-major strides with 0 for dimensions that broadcast to `shape`, and the
/// loop over all positions of `shape`. Shapes are constant and small.
void forEachBroadcast(ArrayRef<SymExpr> shape, ArrayRef<const Tensor *> operands,
                      llvm::function_ref<void(ArrayRef<int64_t> positions)> body);

/// True if all tensors are known and the number of elements of `shape` is small.
bool canFold(ArrayRef<SymExpr> shape, ArrayRef<const Tensor *> operands);

} // namespace mlir::tpc::frontend

#endif
