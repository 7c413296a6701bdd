//===- EmptyCaches.h - Equivalence of model and step without past ---------===//

#ifndef TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
#define TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::generation {

/// Proves for all sizes that the outputs of `step`, with the symbol `past` set to 0, are those of
/// `model`: the same expressions of inputs and weights. Both must have no calls, and are modified.
/// Inputs that only the model has are empty then, or have their defaults.
LogicalResult proveEmpty(ModuleOp model, ModuleOp step, const std::string &past);

/// Replaces a symbol in types and attributes.
void replaceSymbol(func::FuncOp main, const std::string &name, const ::tpc::SymExpr &by);
/// Returns the number that all elements of a value equal, if it is computed from constants alone.
std::optional<double> findNumber(Value value);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
