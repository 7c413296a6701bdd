//===- FlatProgram.h - A program without calls ------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H
#define TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/OwningOpRef.h"

namespace mlir::tpc::generation {

/// A copy of a module in which @main has what it calls in place of the calls. Errors: there is no
/// @main; functions without a body, of another form, that call themselves or are called too often.
FailureOr<OwningOpRef<ModuleOp>> makeFlat(ModuleOp module);

inline func::FuncOp getMain(ModuleOp module) { return module.lookupSymbol<func::FuncOp>("main"); }

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_FLATPROGRAM_H
