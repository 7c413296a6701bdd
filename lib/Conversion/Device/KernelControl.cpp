//===- KernelControl.cpp - Loops and branches of a kernel ------------------===//

#include "tpc/Conversion/Device/KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace mlir::tpc;

//===----------------------------------------------------------------------===//
// Loops
//===----------------------------------------------------------------------===//

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
  // Short reductions are unrolled, so that LLVM vectorizes the loop over results.
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
