//===- Passes.h - Lowering of kernel IR for CPUs ----------------*- C++ -*-===//

#ifndef TPC_CONVERSION_CPU_PASSES_H
#define TPC_CONVERSION_CPU_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tpc/Conversion/Cpu/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_CONVERSION_CPU_PASSES_H
