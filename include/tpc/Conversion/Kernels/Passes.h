//===- Passes.h - Conversion of kernel functions to kernel IR ---*- C++ -*-===//

#ifndef TPC_CONVERSION_KERNELS_PASSES_H
#define TPC_CONVERSION_KERNELS_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tpc/Conversion/Kernels/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_CONVERSION_KERNELS_PASSES_H
