//===- Threads.h - Entry points and shuffles of GPU kernels -----*- C++ -*-===//

#ifndef TPC_LIB_CONVERSION_CUDA_THREADS_H
#define TPC_LIB_CONVERSION_CUDA_THREADS_H

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

namespace mlir::tpc::cuda {

/// Creates an entry point; its parameters are pointers to global memory, then 32-bit integers.
LLVM::LLVMFuncOp createEntry(OpBuilder &builder, Location loc, StringRef name, unsigned pointers,
                             unsigned integers = 0);
/// Sets the number of threads per block.
void setThreads(LLVM::LLVMFuncOp entry, unsigned threads);
/// Sets the number of blocks per multiprocessor that ptxas must make possible. Without it, ptxas
/// spills registers to reach the maximum occupancy.
void setMinBlocks(LLVM::LLVMFuncOp entry, unsigned blocks);

/// Emits an instruction of tpc/dependent_launch.h. No memory access moves across it.
void createDependency(OpBuilder &builder, Location loc, StringRef text);
/// Lets the next kernel begin, and waits for the previous one.
void createWait(OpBuilder &builder, Location loc);

/// Returns the 32-bit value of the lane whose number is this lane's number XOR `distance`.
Value createShuffle(OpBuilder &builder, Location loc, Value value, int32_t distance);

} // namespace mlir::tpc::cuda

#endif // TPC_LIB_CONVERSION_CUDA_THREADS_H
