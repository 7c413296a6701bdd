//===- KernelLowering.h - Lowering of kernels to CPU loops ------*- C++ -*-===//
//
// A tpc_kernel.func becomes
//
//   void kernel(const int64_t *env, tpc_status *status, void *const *operands,
//               int64_t lo, int64_t hi)
//
// where `operands` has the pointers to operands, then to results. The function computes rows [lo,
// min(hi, rows)) in order.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H
#define TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H

#include "tpc/Conversion/Device/KernelEmitter.h"

namespace mlir::tpc {

class KernelLowering : KernelEmitter {
public:
  using KernelEmitter::NodeNames;

  KernelLowering(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : KernelEmitter(source, layout, nodes) {}

  /// Creates the LLVM function next to its source, with the same name.
  void lower();

private:
  SmallVector<Value> loop(Value lb, Value ub, ValueRange init, LoopBody body,
                          bool unroll = false) override;
  void annotate(LLVM::LoadOp load) override;
  void annotate(LLVM::StoreOp store) override;
  void lowerElements(kernel::ElementsOp op) override;
  Value lowerFold(kernel::FoldOp op) override;
  void lowerBarrier(kernel::BarrierOp) override {} // a row is computed by one thread
  /// Reduces adjacent elements in several independent lanes, which are combined at the end.
  Value lowerLanes(kernel::FoldOp op, ArrayRef<Value> sizes);
  void lowerRows(kernel::RowsOp rows, Value lo, Value hi);

  LLVM::AccessGroupAttr group; // access group of the loads and stores in the innermost loop
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H
