//===- BlockEmitter.cpp - Emission of loops and branches as CFG blocks ----===//

#include "tpc/Conversion/Device/BlockEmitter.h"

using namespace mlir;
using namespace mlir::tpc;

Value BlockEmitter::less(Value x, Value y) {
  return LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, x, y);
}

// Emits rotated loops, with the test at the end, because LLVM's loop metadata and loop passes
// require this form.
SmallVector<Value> BlockEmitter::emitLoop(Value lb, Value ub, Value step, ValueRange init,
                                          LoopBody body, LLVM::CondBrOp *backEdge) {
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  SmallVector<Type> types(init.getTypes());
  SmallVector<Location> locs(types.size(), loc);

  Block *after = b.createBlock(region, std::next(before->getIterator()), types, locs);
  Block *first = b.createBlock(after);
  first->addArgument(lb.getType(), loc);
  first->addArguments(types, locs);

  SmallVector<Value> entry{lb};
  llvm::append_range(entry, init);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, less(lb, ub), first, entry, after, init);

  b.setInsertionPointToStart(first);
  SmallVector<Value> next = body(first->getArgument(0), first->getArguments().drop_front());
  Value iv = LLVM::AddOp::create(b, loc, first->getArgument(0), step);
  Value hasNext = less(iv, ub);
  SmallVector<Value> repeated{iv};
  llvm::append_range(repeated, next);
  auto back = LLVM::CondBrOp::create(b, loc, hasNext, first, repeated, after, next);
  if (backEdge)
    *backEdge = back;
  b.setInsertionPointToStart(after);
  return SmallVector<Value>(after->getArguments());
}

SmallVector<Value> BlockEmitter::branch(Value condition, TypeRange types,
                                        function_ref<SmallVector<Value>()> then,
                                        function_ref<SmallVector<Value>()> otherwise) {
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *after = b.createBlock(region, std::next(before->getIterator()), types,
                               SmallVector<Location>(types.size(), loc));
  auto fill = [&](function_ref<SmallVector<Value>()> build) {
    if (!build)
      return after;
    Block *block = b.createBlock(after);
    LLVM::BrOp::create(b, loc, build(), after);
    return block;
  };
  Block *yes = fill(then), *no = fill(otherwise);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, condition, yes, ValueRange(), no, ValueRange());
  b.setInsertionPointToStart(after);
  return SmallVector<Value>(after->getArguments());
}
