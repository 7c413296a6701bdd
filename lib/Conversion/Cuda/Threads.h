//===- Threads.h - What kernels of a GPU have in common ---------*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_CUDA_THREADS_H
#define TPC_LIB_CONVERSION_CUDA_THREADS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::tpc::cuda {

/// An entry point; its parameters are pointers to global memory.
LLVM::LLVMFuncOp createEntry(OpBuilder &builder, Location loc, StringRef name, unsigned parameters);
/// Of each block.
void setThreads(LLVM::LLVMFuncOp entry, unsigned threads);
/// So many blocks for each multiprocessor are enough: where nothing is said, ptxas would rather
/// spill than have fewer than there can be.
void setLeastBlocks(LLVM::LLVMFuncOp entry, unsigned blocks);

/// A value of 32 bits, of the lane whose number differs in this bit.
Value createShuffle(OpBuilder &builder, Location loc, Value value, int32_t distance);

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_THREADS_H
