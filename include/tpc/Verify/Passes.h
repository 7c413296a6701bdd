//===- Passes.h - Verifiers, and interpreters of programs -------*- C++ -*-===//

#ifndef TPC_VERIFY_PASSES_H
#define TPC_VERIFY_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#include "tpc/Verify/Passes.h.inc"

#define GEN_PASS_REGISTRATION
#include "tpc/Verify/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_VERIFY_PASSES_H
