//===- KernelLowering.h - A kernel as loops for a CPU -----------*- C++ -*-===//
//
// A tpc_kernel.func becomes
//
//   void kernel(const int64_t *env, tpc_status *status, void *const *operands,
//               int64_t lo, int64_t hi)
//
// with operands = pointers to the operands, pointers to the results. It goes
// over the rows in [lo, min(hi, rows)), one after the other.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H
#define TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H

#include "tpc/Conversion/Env/RuntimeAbi.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

class KernelLowering {
public:
  /// ONNX nodes that kernels report, by their places.
  using NodeNames = llvm::SetVector<Attribute>;

  KernelLowering(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : source(source), layout(layout), nodes(nodes), b(source) {}

  /// Makes the function beside its source, under the same name.
  void lower();

private:
  using LoopBody = function_ref<SmallVector<Value>(Value, ValueRange)>;
  /// for iv in [lb, ub) with loop-carried values.
  SmallVector<Value> loop(Value lb, Value ub, ValueRange init, LoopBody body, bool unroll = false);
  /// Nested loops over the indices from the first on, which `map` then has.
  SmallVector<Value> loops(ArrayRef<Value> sizes, Block::BlockArgListType indices, ValueRange init,
                           function_ref<SmallVector<Value>(ValueRange)> body, bool unroll = false);

  void lowerRows(kernel::RowsOp rows, Value lo, Value hi);
  /// All ops of a block but its terminator, here.
  void lowerBody(Block &block);
  void lowerOp(Operation *op);
  void lowerElements(kernel::ElementsOp op);
  Value lowerFold(kernel::FoldOp op);
  Value lowerLanes(kernel::FoldOp op, ArrayRef<Value> sizes);
  void lowerFor(scf::ForOp op);
  void lowerIf(scf::IfOp op);
  void lowerCheck(kernel::CheckOp op);
  Value lowerLoad(memref::LoadOp op);
  void lowerStore(memref::StoreOp op);
  /// An op on scalars; indices are 64 bits.
  void lowerScalar(Operation *op);
  /// The value of a fold's or loop's terminator, computed here.
  Value lowerTerm(kernel::FoldOp op);

  // Arithmetic on i64, at the current place.
  Value constant(int64_t value) { return sizes->constant(value); }
  Value add(Value x, Value y);
  Value mul(Value x, Value y);
  Value less(Value x, Value y);
  SmallVector<Value> values(ArrayRef<::tpc::SymExpr> exprs);
  Value address(Value pointer, Type type, Value linear);
  Value elementAddress(Value memref, ValueRange indices);

  kernel::FuncOp source;
  const EnvLayout &layout;
  NodeNames &nodes;
  OpBuilder b;
  Location loc = source.getLoc();
  LLVM::LLVMFuncOp target;
  Value status;
  std::unique_ptr<SizeEmitter> sizes; // at the function's beginning
  IRMapping map;
  DenseMap<Value, SmallVector<Value>> sizesOf; // of memory
  LLVM::AccessGroupAttr group;                 // of the innermost loop
};

} // namespace mlir::tpc

#endif // TPC_LIB_CONVERSION_CPU_KERNELLOWERING_H
