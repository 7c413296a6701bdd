//===- FlatProgram.h - Inlining of all calls --------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H
#define TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::tpc::generation {

/// Returns a copy of a module in which all calls in @main are inlined. Errors: @main is missing; a
/// function has no body, does not consist of one block, is recursive, or is called too often.
FailureOr<OwningOpRef<ModuleOp>> inlineCalls(ModuleOp module);

inline func::FuncOp getMain(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H
