//===- Experts.h - Kernels of mixtures of experts for GPUs ------*- C++ -*-===//

#ifndef TPC_CONVERSION_CUDA_EXPERTS_H
#define TPC_CONVERSION_CUDA_EXPERTS_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::cuda {

/// Adds the kernels of cuda/library/ExpertKernels.h to a module of the LLVM dialect. Keeps scalar
/// ops of `arith` and `math`.
void makeExpertKernels(ModuleOp kernels);

/// Adds the kernels of tpc/routed.h.
void makeRoutedKernels(ModuleOp kernels);

} // namespace mlir::tpc::cuda

#endif // TPC_CONVERSION_CUDA_EXPERTS_H
