//===- Passes.h - Lowering of kernel IR for GPUs ----------------*- C++ -*-===//

#ifndef TPC_CONVERSION_CUDA_PASSES_H
#define TPC_CONVERSION_CUDA_PASSES_H

#include "mlir/Pass/Pass.h"

namespace mlir::tpc {

#define GEN_PASS_DECL
#define GEN_PASS_REGISTRATION
#include "tpc/Conversion/Cuda/Passes.h.inc"

} // namespace mlir::tpc

#endif // TPC_CONVERSION_CUDA_PASSES_H
