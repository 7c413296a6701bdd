//===- KernelEmitter.h - Device-independent lowering of kernel IR to LLVM -===//
//
// Converts a tpc_kernel.func to a function of the LLVM dialect. Sizes are computed from `env` at
// the function's beginning, memory becomes pointers, branches and loops become blocks; scalar ops
// of `arith` and `math` are kept. Subclasses in Conversion/Cpu and Conversion/Cuda define the
// assignment of rows and elements to threads and the order of reductions.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_DEVICE_KERNELEMITTER_H
#define TPC_CONVERSION_DEVICE_KERNELEMITTER_H

#include "tpc/Conversion/Device/BlockEmitter.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Kernel/Kernel.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/Dialect/MemRef/IR/MemRef.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace mlir::tpc {

class KernelEmitter : protected BlockEmitter {
public:
  /// Names of ONNX nodes in run-time errors of kernels, by index.
  using NodeNames = llvm::SetVector<Attribute>;

  virtual ~KernelEmitter() = default;

protected:
  KernelEmitter(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : BlockEmitter(OpBuilder(source), source.getLoc()), source(source), layout(layout),
        nodes(nodes) {}

  //===--- device-specific hooks ----------------------------------------------===//

  virtual void lowerElements(kernel::ElementsOp op) = 0;
  virtual Value lowerFold(kernel::FoldOp op) = 0;
  virtual void lowerBarrier(kernel::BarrierOp op) = 0;
  /// Lowers a scalar op. By default indices have 64 bits.
  virtual void lowerScalar(Operation *op);
  /// Returns the address of an element.
  virtual Value elementAddress(Value memref, ValueRange indices);
  /// Returns a loop bound in the type of loop indices.
  virtual Value extent(const ::tpc::SymExpr &expr) { return sizes->expr(expr); }
  /// Emits a loop whose iterations are independent except for loop-carried values.
  virtual SmallVector<Value> loop(Value lb, Value ub, ValueRange init, LoopBody body,
                                  bool unroll = false) {
    return emitLoop(lb, ub, indexLike(lb, 1), init, body);
  }
  virtual void annotate(LLVM::LoadOp) {}
  virtual void annotate(LLVM::StoreOp) {}
  virtual void lowerSize(kernel::SizeOp op) { map.map(op.getResult(), extent(op.getExpr())); }
  /// Maps the index of a loop over [0, size) to its lowered value.
  virtual void mapIndex(Value index, Value value, Value size) { map.map(index, value); }

  //===--- the walk over a kernel -------------------------------------------===//

  /// Lowers all ops of a block except its terminator, at the insertion point.
  virtual void lowerBody(Block &block);
  virtual void lowerOp(Operation *op);
  virtual void lowerFor(scf::ForOp op);
  virtual void lowerIf(scf::IfOp op);
  void lowerCheck(kernel::CheckOp op);
  virtual Value lowerLoad(memref::LoadOp op);
  virtual void lowerStore(memref::StoreOp op);
  /// Emits the body of a fold at the insertion point, and returns its term.
  Value lowerTerm(kernel::FoldOp op);
  /// Emits a reduction of all terms in one thread, in ascending order.
  Value foldInOrder(kernel::FoldOp op);

  //===--- loops and branches -----------------------------------------------===//

  /// Emits nested loops over `indices`, outermost first, and maps the indices to the loops'
  /// induction variables.
  SmallVector<Value> loops(ArrayRef<Value> sizes, Block::BlockArgListType indices, ValueRange init,
                           function_ref<SmallVector<Value>(ValueRange)> body, bool unroll = false);
  /// Returns the type of loop-carried values and branch results for kernel values of `type`.
  Type getCarriedType(Type type) { return type.isIndex() ? Type(b.getI64Type()) : type; }
  /// Returns the lowered value of a kernel value, converted to getCarriedType.
  Value lookupCarried(Value value);

  //===--- arithmetic at the insertion point ----------------------------------===//

  Value constant(int64_t value) { return sizes->constant(value); }
  /// Returns a constant with the type of `index`.
  Value indexLike(Value index, int64_t value);
  /// Sign-extends an index to 64 bits.
  Value wide(Value index);
  Value add(Value x, Value y);
  Value mul(Value x, Value y);
  SmallVector<Value> extents(ArrayRef<::tpc::SymExpr> exprs);
  /// Returns the sizes of a memref of the kernel, as 64-bit values.
  ArrayRef<Value> memorySizes(Value memref);
  Value address(Value pointer, Type type, Value linear);
  /// Returns the type of an element in memory: a boolean takes a byte.
  Type getMemoryType(Type type) { return type.isInteger(1) ? b.getI8Type() : type; }
  Value fromMemory(Value loaded, Type type);
  Value toMemory(Value value);
  bool isOperand(Value memref);

  kernel::FuncOp source;
  const EnvLayout &layout;
  NodeNames &nodes;
  LLVM::LLVMFuncOp target;
  Value status;
  std::unique_ptr<SizeEmitter> sizes; // emits in the entry block
  IRMapping map;

private:
  DenseMap<Value, SmallVector<Value>> sizesOf; // by memref
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_KERNELEMITTER_H
