//===- KernelControl.cpp - Loops and branches of a kernel ------------------===//

#include "tpc/Conversion/Device/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

// Loops are emitted rotated, with the test at the end: that is where LLVM wants
// their metadata, and the form that its passes start from.
SmallVector<Value> KernelEmitter::emitLoop(Value lb, Value ub, Value step, ValueRange init,
                                           LoopBody body, LLVM::CondBrOp *again) {
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
  Value more = less(iv, ub);
  SmallVector<Value> repeated{iv};
  llvm::append_range(repeated, next);
  auto back = LLVM::CondBrOp::create(b, loc, more, first, repeated, after, next);
  if (again)
    *again = back;
  b.setInsertionPointToStart(after);
  return SmallVector<Value>(after->getArguments());
}

SmallVector<Value> KernelEmitter::loops(ArrayRef<Value> sizes, Block::BlockArgListType indices,
                                        ValueRange init,
                                        function_ref<SmallVector<Value>(ValueRange)> body,
                                        bool unroll) {
  if (indices.empty())
    return body(init);
  return loop(
      indexLike(sizes.front(), 0), sizes.front(), init,
      [&](Value iv, ValueRange carried) {
        mapIndex(indices.front(), iv, sizes.front());
        return loops(sizes.drop_front(), indices.drop_front(), carried, body, unroll);
      },
      unroll);
}

//===----------------------------------------------------------------------===//
// Branches
//===----------------------------------------------------------------------===//

SmallVector<Value> KernelEmitter::branch(Value condition, TypeRange types,
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

Value KernelEmitter::lookupCarried(Value value) {
  Value found = map.lookup(value);
  return value.getType().isIndex() ? wide(found) : found;
}

void KernelEmitter::lowerFor(scf::ForOp op) {
  auto lookup = [&](ValueRange range) {
    return llvm::map_to_vector(range, [&](Value v) { return lookupCarried(v); });
  };
  SmallVector<Value> results =
      loop(lookupCarried(op.getLowerBound()), lookupCarried(op.getUpperBound()),
           lookup(op.getInitArgs()), [&](Value iv, ValueRange carried) {
             map.map(op.getInductionVar(), iv);
             map.map(op.getRegionIterArgs(), carried);
             lowerBody(*op.getBody());
             return lookup(op.getBody()->getTerminator()->getOperands());
           });
  map.map(op.getResults(), results);
}

void KernelEmitter::lowerIf(scf::IfOp op) {
  SmallVector<Type> types =
      llvm::map_to_vector(op.getResultTypes(), [&](Type type) { return getCarriedType(type); });
  auto fill = [&](Block *body) {
    SmallVector<Value> yielded;
    lowerBody(*body);
    for (Value v : body->getTerminator()->getOperands())
      yielded.push_back(lookupCarried(v));
    return yielded;
  };
  auto otherwise = [&] { return fill(op.elseBlock()); };
  SmallVector<Value> results = branch(
      map.lookup(op.getCondition()), types, [&] { return fill(op.thenBlock()); },
      op.elseBlock() ? function_ref<SmallVector<Value>()>(otherwise) : nullptr);
  map.map(op.getResults(), results);
}

//===----------------------------------------------------------------------===//
// Folds
//===----------------------------------------------------------------------===//

Value KernelEmitter::lowerTerm(kernel::FoldOp op) {
  lowerBody(op.getBody().front());
  return map.lookup(op.getTerm());
}

Value KernelEmitter::foldInOrder(kernel::FoldOp op) {
  SmallVector<Value> sizes = extents(op.getExprs());
  Value first = arith::ConstantOp::create(b, loc, op.getInit());
  // Without a short loop inside, the loop over results vectorizes.
  constexpr int64_t many = 32;
  int64_t terms = 1;
  for (Value size : sizes)
    terms *= asConstant(size).value_or(many);
  return loops(
      sizes, op.getIndices(), first,
      [&](ValueRange result) -> SmallVector<Value> {
        return {kernel::FoldOp::combine(b, loc, op.getKind(), result[0], lowerTerm(op))};
      },
      /*unroll=*/terms < many)[0];
}
