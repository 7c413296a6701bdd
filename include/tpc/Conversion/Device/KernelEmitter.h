//===- KernelEmitter.h - Kernel IR as LLVM, as far as devices agree -*- C++ -*-===//
//
// A tpc_kernel.func becomes a function of the LLVM dialect: its sizes are computed from `env` at
// the function's beginning, its memory is pointers, its branches and loops are blocks; scalar ops
// of `arith` and `math` stay. Who does which rows and elements, and how a fold is shared, is the
// device's affair: Conversion/Cpu and Conversion/Cuda derive from this.
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
  /// ONNX nodes that kernels report, by their places.
  using NodeNames = llvm::SetVector<Attribute>;

  virtual ~KernelEmitter() = default;

protected:
  KernelEmitter(kernel::FuncOp source, const EnvLayout &layout, NodeNames &nodes)
      : BlockEmitter(OpBuilder(source), source.getLoc()), source(source), layout(layout),
        nodes(nodes) {}

  //===--- what devices do in their own way ---------------------------------===//

  virtual void lowerElements(kernel::ElementsOp op) = 0;
  virtual Value lowerFold(kernel::FoldOp op) = 0;
  virtual void lowerBarrier(kernel::BarrierOp op) = 0;
  /// An op on scalars; here, indices are 64 bits.
  virtual void lowerScalar(Operation *op);
  /// Where an element lies.
  virtual Value elementAddress(Value memref, ValueRange indices);
  /// A size that loops run to, in the type of their indices.
  virtual Value extent(const ::tpc::SymExpr &expr) { return sizes->expr(expr); }
  /// A loop whose iterations are independent but for what they carry.
  virtual SmallVector<Value> loop(Value lb, Value ub, ValueRange init, LoopBody body,
                                  bool unroll = false) {
    return emitLoop(lb, ub, indexLike(lb, 1), init, body);
  }
  virtual void annotate(LLVM::LoadOp) {}
  virtual void annotate(LLVM::StoreOp) {}
  virtual void lowerSize(kernel::SizeOp op) { map.map(op.getResult(), extent(op.getExpr())); }
  /// The index of a loop up to a size becomes known.
  virtual void mapIndex(Value index, Value value, Value size) { map.map(index, value); }

  //===--- the walk over a kernel -------------------------------------------===//

  /// All ops of a block but its terminator, here.
  virtual void lowerBody(Block &block);
  virtual void lowerOp(Operation *op);
  virtual void lowerFor(scf::ForOp op);
  virtual void lowerIf(scf::IfOp op);
  void lowerCheck(kernel::CheckOp op);
  virtual Value lowerLoad(memref::LoadOp op);
  virtual void lowerStore(memref::StoreOp op);
  /// The value of a fold's terminator, computed here.
  Value lowerTerm(kernel::FoldOp op);
  /// One thread combines all terms, in ascending order.
  Value foldInOrder(kernel::FoldOp op);

  //===--- loops and branches -----------------------------------------------===//

  /// Nested loops over the indices from the first on, which `map` then has.
  SmallVector<Value> loops(ArrayRef<Value> sizes, Block::BlockArgListType indices, ValueRange init,
                           function_ref<SmallVector<Value>(ValueRange)> body, bool unroll = false);
  /// The type in which regions yield values of this type.
  Type getCarriedType(Type type) { return type.isIndex() ? Type(b.getI64Type()) : type; }
  /// A value of a kernel as regions carry it.
  Value lookupCarried(Value value);

  //===--- arithmetic at the current place ----------------------------------===//

  Value constant(int64_t value) { return sizes->constant(value); }
  /// A number of the type that an index has.
  Value indexLike(Value index, int64_t value);
  /// To 64 bits, signed.
  Value wide(Value index);
  Value add(Value x, Value y);
  Value mul(Value x, Value y);
  SmallVector<Value> extents(ArrayRef<::tpc::SymExpr> exprs);
  /// Sizes of memory, as 64 bits.
  ArrayRef<Value> memorySizes(Value memref);
  Value address(Value pointer, Type type, Value linear);
  /// A boolean takes a byte.
  Type getMemoryType(Type type) { return type.isInteger(1) ? b.getI8Type() : type; }
  Value fromMemory(Value loaded, Type type);
  Value toMemory(Value value);
  bool isOperand(Value memref);

  kernel::FuncOp source;
  const EnvLayout &layout;
  NodeNames &nodes;
  LLVM::LLVMFuncOp target;
  Value status;
  std::unique_ptr<SizeEmitter> sizes; // at the function's beginning
  IRMapping map;

private:
  DenseMap<Value, SmallVector<Value>> sizesOf; // of memory
};

} // namespace mlir::tpc

#endif // TPC_CONVERSION_DEVICE_KERNELEMITTER_H
