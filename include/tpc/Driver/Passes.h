//===- Passes.h - Passes that run other pass pipelines ----------*- C++ -*-===//

#ifndef TPC_DRIVER_PASSES_H
#define TPC_DRIVER_PASSES_H

#include "tpc/Dialect/ShardOption.h"

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tpc/Driver/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_DRIVER_PASSES_H
