//===- KernelControlFlow.cpp - Loops, branches and sums of a kernel -------===//

#include "KernelEmitter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/SaveAndRestore.h"

using namespace mlir;
using namespace mlir::tpc;

// Loops are emitted rotated, with the test at the end: that is where LLVM wants
// their metadata, and the form that its vectorizer starts from.
SmallVector<Value> KernelEmitter::loop(Value lb, Value ub, ValueRange init, LoopBody body,
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
  SmallVector<Value> next;
  {
    Scope scope(*this);
    next = body(first->getArgument(0), first->getArguments().drop_front());
  }
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

SmallVector<Value>
KernelEmitter::loops(ArrayRef<Value> sizes, ArrayRef<int64_t> dims, SmallVectorImpl<Value> &index,
                     ValueRange init, function_ref<SmallVector<Value>(ValueRange, ValueRange)> body,
                     bool unroll) {
  if (dims.empty())
    return body(index, init);
  return loop(
      constant(0), sizes[dims.front()], init,
      [&](Value iv, ValueRange carried) {
        index[dims.front()] = iv;
        return loops(sizes, dims.drop_front(), index, carried, body, unroll);
      },
      unroll);
}

// Lanes are vectors of 8 in registers, and a buffer holds the terms of one step:
//
//   for i in [0, n / 32)
//     for j in [0, 32): buffer[j] = term(32 i + j)
//     lanes = combine(lanes, buffer)
//
// The inner loop is what LLVM vectorizes, whatever a term is made of; then the buffer is in
// registers as well. Of a last step that is not full the other terms are neutral.
Value KernelEmitter::fold(Type tensor, ArrayRef<Value> sizes, ArrayRef<int64_t> dims,
                          SmallVectorImpl<Value> &index, Attribute init, Attribute neutral,
                          function_ref<Value(Value, Value)> combine,
                          function_ref<Value(ValueRange)> term) {
  constexpr int64_t step = 32, width = 8;
  Type type = getComputeType(tensor);
  int64_t last = sizes.size() - 1;
  if (!isa<FloatType>(type) || dims.empty() || dims.back() != last) {
    Value first = arith::ConstantOp::create(b, loc, cast<TypedAttr>(init));
    // Without a short loop inside, the loop over results vectorizes.
    int64_t terms = 1;
    for (int64_t dim : dims)
      terms *= asConstant(sizes[dim]).value_or(step);
    return loops(
        sizes, dims, index, first,
        [&](ValueRange at, ValueRange result) -> SmallVector<Value> {
          return {combine(result[0], term(at))};
        },
        /*unroll=*/terms < step)[0];
  }

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
  auto addStep = [&](Value begin, Value count, ValueRange lanes) {
    loop(constant(0), count, {}, [&](Value j, ValueRange) {
      index[last] = add(begin, j);
      auto store = LLVM::StoreOp::create(b, loc, term(index), address(buffer, type, j));
      store.setAccessGroupsAttr(b.getArrayAttr({group}));
      return SmallVector<Value>();
    });
    SmallVector<Value> next;
    for (auto [i, lane] : llvm::enumerate(lanes))
      next.push_back(
          combine(lane, LLVM::LoadOp::create(b, loc, vector, part(i * width), /*alignment=*/32)));
    return next;
  };
  Value steps = constant(step), full = quotient(sizes[last], steps);
  Value rest = remainder(sizes[last], steps);
  SmallVector<Value> first(step / width, splat(init));
  SmallVector<Value> lanes =
      loops(sizes, dims.drop_back(), index, first, [&](ValueRange at, ValueRange before) {
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
            LLVM::StoreOp::create(b, loc, splat(neutral), part(i), /*alignment=*/32);
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

Value KernelEmitter::sum(Type tensor, ArrayRef<Value> sizes, ArrayRef<int64_t> dims,
                         SmallVectorImpl<Value> &index, function_ref<Value(ValueRange)> term) {
  Type type = getComputeType(tensor);
  auto zero = [&](double value) -> Attribute {
    return isa<FloatType>(type) ? Attribute(b.getFloatAttr(type, value))
                                : b.getIntegerAttr(type, 0);
  };
  return fold(
      tensor, sizes, dims, index, zero(0), zero(-0.0), [&](Value x, Value y) { return plus(x, y); },
      term);
}

Value KernelEmitter::ifElse(Value condition, Type type, function_ref<Value()> then,
                            function_ref<Value()> otherwise) {
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *after = b.createBlock(region, std::next(before->getIterator()), type, loc);
  auto branch = [&](function_ref<Value()> build) {
    Block *block = b.createBlock(after);
    Scope scope(*this);
    Value value = build();
    LLVM::BrOp::create(b, loc, value, after);
    return block;
  };
  Block *yes = branch(then), *no = branch(otherwise);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, condition, yes, ValueRange(), no, ValueRange());
  b.setInsertionPointToStart(after);
  return after->getArgument(0);
}

void KernelEmitter::reportUnless(Value inside, Operation *lookup, Value index, Value size) {
  Block *before = b.getInsertionBlock();
  Region *region = before->getParent();
  Block *after = b.createBlock(region, std::next(before->getIterator()));
  Block *missing = b.createBlock(after), *first = b.createBlock(after);
  using Layout = abi::Layout<tpc_status>;
  auto field = [&](Layout::Place place) -> Value {
    return LLVM::GEPOp::create(b, loc, status.getType(),
                               abi::getStructType<tpc_status>(b.getContext()), status,
                               ArrayRef<LLVM::GEPArg>{0, place});
  };
  auto i32 = [&](int32_t value) -> Value {
    return LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value));
  };
  // Others may meet one at the same time: the first one stays.
  b.setInsertionPointToEnd(missing);
  Value known = LLVM::AtomicRMWOp::create(b, loc, LLVM::AtomicBinOp::xchg, field(Layout::missing),
                                          i32(1), LLVM::AtomicOrdering::monotonic);
  Value none = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, known, i32(0));
  LLVM::CondBrOp::create(b, loc, none, first, ValueRange(), after, ValueRange());
  b.setInsertionPointToEnd(first);
  LLVM::StoreOp::create(b, loc, i32(host.object.getNode(lookup)), field(Layout::node));
  LLVM::StoreOp::create(b, loc, index, field(Layout::index));
  LLVM::StoreOp::create(b, loc, size, field(Layout::size));
  LLVM::BrOp::create(b, loc, ValueRange(), after);
  b.setInsertionPointToEnd(before);
  LLVM::CondBrOp::create(b, loc, inside, after, ValueRange(), missing, ValueRange());
  b.setInsertionPointToStart(after);
}
