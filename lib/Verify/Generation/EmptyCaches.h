//===- EmptyCaches.h - Equivalence of model and step without past ---------===//

#ifndef TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
#define TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/PatternMatch.h"

namespace mlir::tpc::generation {

/// Proves for all sizes that `step` with the symbol `past` set to 0 and `model` have equal outputs,
/// that is, equal expressions over inputs and weights. Inputs that only the model has are empty or
/// have their defaults. Both modules must have no calls, and are modified.
LogicalResult proveEmpty(ModuleOp model, ModuleOp step, const std::string &past);

/// Adds patterns that move casts before movements.
void populateCastPatterns(RewritePatternSet &patterns);
/// Replaces a symbol in types and attributes.
void replaceSymbol(func::FuncOp main, const std::string &name, const ::tpc::SymExpr &by);
/// Returns the number that all elements of a value equal, if it can be computed from constants.
std::optional<double> findNumber(Value value);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
