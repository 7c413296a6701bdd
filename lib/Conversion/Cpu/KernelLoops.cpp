//===- KernelLoops.cpp - Loops, branches and folds of a kernel -------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;

// Loops are emitted rotated, with the test at the end: that is where LLVM wants
// their metadata, and the form that its vectorizer starts from.
SmallVector<Value> KernelLowering::loop(Value lb, Value ub, ValueRange init, LoopBody body,
                                        bool unroll) {
  MLIRContext *context = b.getContext();
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  SmallVector<Type> types(init.getTypes());
  SmallVector<Location> locs(types.size(), loc);

  Block *after = b.createBlock(region, std::next(before->getIterator()), types, locs);
  Block *first = b.createBlock(after);
  first->addArgument(b.getI64Type(), loc);
  first->addArguments(types, locs);

  SmallVector<Value> entry{lb};
  llvm::append_range(entry, init);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, less(lb, ub), first, entry, after, init);

  b.setInsertionPointToStart(first);
  llvm::SaveAndRestore saved(group, LLVM::AccessGroupAttr::get(context));
  LLVM::AccessGroupAttr own = group;
  SmallVector<Value> next = body(first->getArgument(0), first->getArguments().drop_front());
  Value iv = LLVM::AddOp::create(b, loc, first->getArgument(0), constant(1));
  Value more = less(iv, ub);
  SmallVector<Value> again{iv};
  llvm::append_range(again, next);
  auto branch = LLVM::CondBrOp::create(b, loc, more, first, again, after, next);
  // No element that one iteration writes is read by another: each loop writes
  // one result, and none reads what it writes.
  LLVM::LoopUnrollAttr unrolling;
  if (unroll)
    unrolling = LLVM::LoopUnrollAttr::get(context, {}, {}, {}, b.getBoolAttr(true), {}, {}, {});
  branch.setLoopAnnotationAttr(LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unrolling, {}, {},
                                                             {}, {}, {}, {}, b.getBoolAttr(true),
                                                             {}, {}, {}, {own}));
  b.setInsertionPointToStart(after);
  return SmallVector<Value>(after->getArguments());
}

SmallVector<Value> KernelLowering::loops(ArrayRef<Value> sizes, Block::BlockArgListType indices,
                                         ValueRange init,
                                         function_ref<SmallVector<Value>(ValueRange)> body,
                                         bool unroll) {
  if (indices.empty())
    return body(init);
  return loop(
      constant(0), sizes.front(), init,
      [&](Value iv, ValueRange carried) {
        map.map(indices.front(), iv);
        return loops(sizes.drop_front(), indices.drop_front(), carried, body, unroll);
      },
      unroll);
}

void KernelLowering::lowerElements(kernel::ElementsOp op) {
  SmallVector<Value> sizes = values(op.getExprs());
  loops(sizes, op.getIndices(), {}, [&](ValueRange) {
    lowerBody(op.getBody().front());
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Folds
//===----------------------------------------------------------------------===//

Value KernelLowering::lowerTerm(kernel::FoldOp op) {
  lowerBody(op.getBody().front());
  return map.lookup(op.getTerm());
}

Value KernelLowering::lowerFold(kernel::FoldOp op) {
  SmallVector<Value> sizes = values(op.getExprs());
  if (isa<FloatType>(op.getType()) && op.getAdjacent())
    return lowerLanes(op, sizes);
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

// Lanes are vectors of 8 in registers, and a buffer holds the terms of one step:
//
//   for i in [0, n / 32)
//     for j in [0, 32): buffer[j] = term(32 i + j)
//     lanes = combine(lanes, buffer)
//
// The inner loop is what LLVM vectorizes, whatever a term is made of; then the buffer is in
// registers as well. Of a last step that is not full the other terms are the identity.
Value KernelLowering::lowerLanes(kernel::FoldOp op, ArrayRef<Value> sizes) {
  constexpr int64_t step = 32, width = 8;
  Type type = op.getType();
  auto combine = [&](Value x, Value y) {
    return kernel::FoldOp::combine(b, loc, op.getKind(), x, y);
  };
  auto vector = VectorType::get(width, type);
  auto splat = [&](Attribute value) -> Value {
    return arith::ConstantOp::create(b, loc, DenseElementsAttr::get(vector, value));
  };
  Value buffer;
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToStart(&target.getBody().front());
    Value size = LLVM::ConstantOp::create(b, loc, b.getI64Type(), b.getI64IntegerAttr(step));
    buffer = LLVM::AllocaOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext()), type, size,
                                    /*alignment=*/64);
  }
  auto part = [&](int64_t i) { return address(buffer, type, constant(i)); };
  Value lastIndex = op.getIndices().back();
  auto addStep = [&](Value begin, Value count, ValueRange lanes) {
    loop(constant(0), count, {}, [&](Value j, ValueRange) {
      map.map(lastIndex, add(begin, j));
      Value term = lowerTerm(op);
      auto store = LLVM::StoreOp::create(b, loc, term, address(buffer, type, j));
      store.setAccessGroupsAttr(b.getArrayAttr({group}));
      return SmallVector<Value>();
    });
    SmallVector<Value> next;
    for (auto [i, lane] : llvm::enumerate(lanes))
      next.push_back(
          combine(lane, LLVM::LoadOp::create(b, loc, vector, part(i * width), /*alignment=*/32)));
    return next;
  };
  Value steps = constant(step), n = sizes.back();
  auto number = asConstant(n);
  Value full = number ? constant(*number / step) : LLVM::UDivOp::create(b, loc, n, steps);
  Value rest = number ? constant(*number % step) : LLVM::URemOp::create(b, loc, n, steps);
  SmallVector<Value> first(step / width, splat(op.getInit()));
  SmallVector<Value> lanes =
      loops(sizes.drop_back(), op.getIndices().drop_back(), first, [&](ValueRange before) {
        SmallVector<Value> results = before;
        if (asConstant(full) != 0)
          results = loop(constant(0), full, results, [&](Value i, ValueRange carried) {
            return addStep(mul(i, steps), steps, carried);
          });
        if (asConstant(rest) == 0)
          return results;
        // At most once.
        Value any = LLVM::ZExtOp::create(b, loc, b.getI64Type(), less(constant(0), rest));
        return loop(constant(0), any, results, [&](Value, ValueRange carried) {
          for (int64_t i = 0; i < step; i += width)
            LLVM::StoreOp::create(b, loc, splat(op.getIdentity()), part(i), /*alignment=*/32);
          return addStep(mul(full, steps), rest, carried);
        });
      });
  Value result = combine(combine(lanes[0], lanes[1]), combine(lanes[2], lanes[3]));
  for (int32_t half = width / 2; half >= 1; half /= 2) {
    auto take = [&](int32_t from) -> Value {
      auto mask = llvm::to_vector(llvm::seq<int32_t>(from, from + half));
      return LLVM::ShuffleVectorOp::create(b, loc, result, result, mask);
    };
    result = combine(take(0), take(half));
  }
  return LLVM::ExtractElementOp::create(b, loc, result, constant(0));
}

//===----------------------------------------------------------------------===//
// scf
//===----------------------------------------------------------------------===//

void KernelLowering::lowerFor(scf::ForOp op) {
  auto lookup = [&](ValueRange range) {
    return llvm::map_to_vector(range, [&](Value v) { return map.lookup(v); });
  };
  SmallVector<Value> results = loop(map.lookup(op.getLowerBound()), map.lookup(op.getUpperBound()),
                                    lookup(op.getInitArgs()), [&](Value iv, ValueRange carried) {
                                      map.map(op.getInductionVar(), iv);
                                      map.map(op.getRegionIterArgs(), carried);
                                      lowerBody(*op.getBody());
                                      return lookup(op.getBody()->getTerminator()->getOperands());
                                    });
  map.map(op.getResults(), results);
}

void KernelLowering::lowerIf(scf::IfOp op) {
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  SmallVector<Type> types = llvm::map_to_vector(op.getResultTypes(), [&](Type type) -> Type {
    return type.isIndex() ? b.getI64Type() : type;
  });
  Block *after = b.createBlock(region, std::next(before->getIterator()), types,
                               SmallVector<Location>(types.size(), loc));
  auto branch = [&](Block *body) {
    if (!body)
      return after;
    Block *block = b.createBlock(after);
    lowerBody(*body);
    SmallVector<Value> yielded = llvm::map_to_vector(body->getTerminator()->getOperands(),
                                                     [&](Value v) { return map.lookup(v); });
    LLVM::BrOp::create(b, loc, yielded, after);
    return block;
  };
  Block *yes = branch(op.thenBlock()), *no = branch(op.elseBlock());
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, map.lookup(op.getCondition()), yes, ValueRange(), no,
                         ValueRange());
  b.setInsertionPointToStart(after);
  map.map(op.getResults(), after->getArguments());
}
