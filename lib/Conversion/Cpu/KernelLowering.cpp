//===- KernelLowering.cpp - Lowering of kernels to CPU loops --------------===//

#include "KernelLowering.h"

#include "tpc/Conversion/Env/RuntimeAbi.h"

using namespace mlir;
using namespace mlir::tpc;

void KernelLowering::annotate(LLVM::LoadOp load) {
  if (group)
    load.setAccessGroupsAttr(b.getArrayAttr({group}));
}

void KernelLowering::annotate(LLVM::StoreOp store) {
  if (group)
    store.setAccessGroupsAttr(b.getArrayAttr({group}));
}

//===----------------------------------------------------------------------===//
// The kernel
//===----------------------------------------------------------------------===//

void KernelLowering::lowerRows(kernel::RowsOp rows, Value lo, Value hi) {
  Block &body = rows.getBody().front();
  auto indices = rows.getIndices();
  unsigned rank = indices.size();
  if (rank == 0)
    return lowerBody(body);
  SmallVector<Value> counts = extents(rows.getExprs());
  // Advances the row indices by increments with carries, which avoids divisions.
  SmallVector<Value> init;
  if (rank > 1) {
    init.resize(rank);
    Value linear = lo;
    for (unsigned i = rank - 1; i > 0; --i) {
      bool isOne = asConstant(counts[i]) == 1;
      init[i] = isOne ? constant(0) : LLVM::URemOp::create(b, loc, linear, counts[i]).getResult();
      if (!isOne)
        linear = LLVM::UDivOp::create(b, loc, linear, counts[i]);
    }
    init[0] = linear;
  }
  loop(lo, hi, init, [&](Value iv, ValueRange carried) {
    SmallVector<Value> row(carried);
    if (rank == 1)
      row = {iv};
    map.map(indices, row);
    lowerBody(body);
    if (rank == 1)
      return SmallVector<Value>();
    Value carry = constant(1);
    for (unsigned i = rank - 1; i > 0; --i) {
      Value next = add(row[i], carry);
      Value wraps = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, next, counts[i]);
      row[i] = LLVM::SelectOp::create(b, loc, wraps, constant(0), next);
      carry = LLVM::ZExtOp::create(b, loc, b.getI64Type(), wraps);
    }
    row[0] = add(row[0], carry);
    return row;
  });
}

void KernelLowering::lower() {
  MLIRContext *context = b.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  target = LLVM::LLVMFuncOp::create(b, loc, source.getName(), abi::getType<tpc_kernel_fn>(context),
                                    LLVM::Linkage::Internal);
  Block *entry = target.addEntryBlock(b);
  Block *body = b.createBlock(&target.getBody());
  b.setInsertionPointToStart(entry);
  auto branch = LLVM::BrOp::create(b, loc, body);
  b.setInsertionPoint(branch);
  // Parameters of tpc_kernel_fn.
  Value env = entry->getArgument(0), operands = entry->getArgument(2);
  Value lo = entry->getArgument(3), hi = entry->getArgument(4);
  status = entry->getArgument(1);
  for (BlockArgument memory : source.getBody().getArguments()) {
    Value slot = LLVM::GEPOp::create(b, loc, pointer, pointer, operands,
                                     ArrayRef<LLVM::GEPArg>{(int32_t)memory.getArgNumber()});
    auto load = LLVM::LoadOp::create(b, loc, pointer, slot);
    load.setInvariant(true);
    map.map(memory, load);
  }
  sizes = std::make_unique<SizeEmitter>(b, loc, layout, env);
  kernel::RowsOp rows = source.getRows();
  // The launched range may exceed the number of rows.
  hi = LLVM::SMinOp::create(b, loc, hi, sizes->product(extents(rows.getExprs())));

  b.setInsertionPointToStart(body);
  for (Operation &op : llvm::drop_end(source.getBody().front()))
    lowerOp(&op);
  lowerRows(rows, lo, hi);
  LLVM::ReturnOp::create(b, loc, ValueRange());
}
