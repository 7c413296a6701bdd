//===- EmptyCaches.h - On empty caches, a step is the model -----*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
#define TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H

#include "tpc/Dialect/Dist.h"
#include "tpc/Dialect/State.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc::generation {

/// Shows for all sizes that the outputs of `step`, where the symbol `past` is 0, are those of
/// `model`: the same expressions of inputs and weights. Both have no calls, and are changed. What
/// the model takes and the step does not is empty then, or what it is when it is left out.
LogicalResult proveEmpty(ModuleOp model, ModuleOp step, const std::string &past);

/// In types and attributes.
void replaceSymbol(func::FuncOp main, const std::string &name, const ::tpc::SymExpr &by);
/// The number that all elements of a value are, if it is made of constants alone.
std::optional<double> findNumber(Value value);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_EMPTYCACHES_H
