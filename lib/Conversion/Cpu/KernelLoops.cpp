//===- KernelLoops.cpp - Loops and folds of CPU kernels -------------------===//

#include "KernelLowering.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;

SmallVector<Value> KernelLowering::loop(Value lb, Value ub, ValueRange init, LoopBody body,
                                        bool unroll) {
  MLIRContext *context = b.getContext();
  llvm::SaveAndRestore saved(group, LLVM::AccessGroupAttr::get(context));
  LLVM::AccessGroupAttr groupOfLoop = group;
  LLVM::CondBrOp backEdge;
  SmallVector<Value> results = emitLoop(lb, ub, constant(1), init, body, &backEdge);
  // Lets LLVM vectorize the loop: iterations are independent, because a loop never reads the memory
  // that it writes.
  LLVM::LoopUnrollAttr unrolling;
  if (unroll)
    unrolling = LLVM::LoopUnrollAttr::get(context, {}, {}, {}, b.getBoolAttr(true), {}, {}, {});
  backEdge.setLoopAnnotationAttr(
      LLVM::LoopAnnotationAttr::get(context, {}, {}, {}, unrolling, {}, {}, {}, {}, {}, {},
                                    b.getBoolAttr(true), {}, {}, {}, {groupOfLoop}));
  return results;
}

void KernelLowering::lowerElements(kernel::ElementsOp op) {
  SmallVector<Value> sizes = extents(op.getExprs());
  loops(sizes, op.getIndices(), {}, [&](ValueRange) {
    lowerBody(op.getBody().front());
    return SmallVector<Value>();
  });
}

//===----------------------------------------------------------------------===//
// Folds
//===----------------------------------------------------------------------===//

Value KernelLowering::lowerFold(kernel::FoldOp op) {
  if (isa<FloatType>(op.getType()) && op.getAdjacent())
    return lowerLanes(op, extents(op.getExprs()));
  return foldInOrder(op);
}

// The 32 lanes are vectors of 8 elements in registers. A buffer receives the terms of one step:
//
//   for i in [0, n / 32)
//     for j in [0, 32): buffer[j] = term(32 i + j)
//     lanes = combine(lanes, buffer)
//
// LLVM vectorizes the inner loop for any term and promotes the buffer to registers. In an
// incomplete last step, the missing terms are the identity.
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
        // The loop runs at most once.
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
