//===- HostEmitter.cpp - Emitter of runtime calls -------------------------===//

#include "HostEmitter.h"

#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/RankSizes.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;

#include "RuntimeCallOp.cpp.inc"

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

LLVM::LLVMFuncOp HostModule::getRuntimeFunction(const abi::Function &function) {
  if (auto known = module.lookupSymbol<LLVM::LLVMFuncOp>(function.name))
    return known;
  OpBuilder b = OpBuilder::atBlockBegin(module.getBody());
  return LLVM::LLVMFuncOp::create(b, module.getLoc(), function.name,
                                  function.getType(module.getContext()));
}

HostModule::HostModule(ModuleOp module, const EnvLayout &layout)
    : module(module), layout(layout), checks(module) {
  for (auto [i, entry] : llvm::enumerate(module.getOps<buffer::EntryOp>()))
    entries[entry.getSymNameAttr()] = i;
  for (auto [i, cache] : llvm::enumerate(module.getOps<CacheOp>()))
    caches[cache.getSymNameAttr()] = i;
}

std::string HostModule::getName(buffer::FuncOp function) {
  if (auto stage = function.getStage())
    return "tpc_stage_" + std::to_string(*stage);
  return function.getOf().str();
}

LLVM::LLVMFunctionType HostModule::getType(buffer::FuncOp function) {
  MLIRContext *context = module.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  SmallVector<Type> types{pointer, pointer};
  for (Value argument : function.getBody().getArguments())
    types.push_back(isa<buffer::BufferType>(argument.getType()) ? Type(pointer)
                                                                : IntegerType::get(context, 32));
  return LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
}

//===----------------------------------------------------------------------===//
// Helpers
//===----------------------------------------------------------------------===//

abi::I32 HostEmitter::i32(int64_t value) {
  return abi::I32(LLVM::ConstantOp::create(b, loc, b.getI32Type(), b.getI32IntegerAttr(value)));
}

abi::F32 HostEmitter::f32(double value) {
  return abi::F32(LLVM::ConstantOp::create(b, loc, b.getF32Type(), b.getF32FloatAttr(value)));
}

abi::Pointer HostEmitter::null() {
  return abi::Pointer(LLVM::ZeroOp::create(b, loc, LLVM::LLVMPointerType::get(b.getContext())));
}

abi::I64 HostEmitter::expr(buffer::ExprAttr attr) {
  return abi::I64(sizes().expr(substituteNumbers(attr.getExpr(), host.layout.grid)));
}

SmallVector<Value> HostEmitter::exprs(ArrayAttr list) {
  return llvm::map_to_vector(list.getAsRange<buffer::ExprAttr>(),
                             [&](buffer::ExprAttr attr) -> Value { return expr(attr); });
}

abi::Pointer HostEmitter::offset(abi::Pointer pointer, Value bytes) {
  if (asConstant(bytes) == 0)
    return pointer;
  return abi::Pointer(LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer,
                                          ArrayRef<LLVM::GEPArg>{bytes}));
}

int64_t HostEmitter::axis(StringRef axis) {
  auto index = host.layout.axisIndex(axis);
  return index ? *index - host.layout.symbols.size() : 0;
}

abi::I32 HostEmitter::axes(ArrayAttr axes) {
  uint32_t mask = 0;
  for (auto name : axes.getAsValueRange<StringAttr>())
    for (auto [i, known] : llvm::enumerate(host.layout.axes()))
      if (known.getValue() == name)
        mask |= 1u << i;
  return i32(mask);
}

// Scratch memory of the same type and length is allocated once and reused, because it is written
// just before the call that reads it.
abi::Pointer HostEmitter::scratch(Type type, int64_t count) {
  Value &slot = scratches[{const_cast<void *>(type.getAsOpaquePointer()), count}];
  if (!slot) {
    OpBuilder at = OpBuilder::atBlockBegin(&target.getBody().front());
    Value n = LLVM::ConstantOp::create(at, loc, at.getI64Type(), at.getI64IntegerAttr(count));
    slot = LLVM::AllocaOp::create(at, loc, LLVM::LLVMPointerType::get(b.getContext()), type, n,
                                  /*alignment=*/16);
  }
  return abi::Pointer(slot);
}

void HostEmitter::storeAt(Value base, Type type, unsigned index, Value value) {
  SmallVector<LLVM::GEPArg, 2> path;
  if (isa<LLVM::LLVMStructType>(type))
    path.push_back(0);
  path.push_back(static_cast<int32_t>(index));
  Value where = LLVM::GEPOp::create(b, loc, base.getType(), type, base, path);
  LLVM::StoreOp::create(b, loc, value, where);
}

abi::Pointer HostEmitter::store(Type type, ArrayRef<Value> list) {
  abi::Pointer memory = scratch(type, std::max<size_t>(1, list.size()));
  for (auto [i, value] : llvm::enumerate(list))
    storeAt(memory, type, i, value);
  return memory;
}

void HostEmitter::setNode(Operation *op) { call(TPC_ABI(tpc_at), i32(host.object.getNode(op))); }

Value HostEmitter::call(const abi::Function &function, ArrayRef<Value> args) {
  auto call = LLVM::CallOp::create(b, loc, host.getRuntimeFunction(function), args);
  return function.result == abi::Kind::Void ? Value() : call.getResult();
}

int64_t HostEmitter::elementBytes(Value buffer) {
  return getElementBytes(buffer::getExtent(buffer).getElement());
}

abi::I32 HostEmitter::dtype(Value buffer) {
  Type t = buffer::getExtent(buffer).getElement();
  if (t.isF32())
    return i32(TPC_F32);
  if (t.isF64())
    return i32(TPC_F64);
  if (t.isF16())
    return i32(TPC_F16);
  if (t.isBF16())
    return i32(TPC_BF16);
  switch (t.getIntOrFloatBitWidth()) {
  case 1:
    return i32(TPC_BOOL);
  case 8:
    return i32(t.isUnsignedInteger() ? TPC_U8 : TPC_I8);
  case 16:
    return i32(TPC_I16);
  case 32:
    return i32(TPC_I32);
  default:
    return i32(TPC_I64);
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

Block *HostEmitter::makeBlock() {
  OpBuilder::InsertionGuard guard(b);
  Region &region = target.getBody();
  return b.createBlock(&region, region.end());
}

void HostEmitter::emitBlock(Block &block) {
  for (Operation &op : block) {
    loc = op.getLoc();
    if (auto call = dyn_cast<buffer::CallOp>(op))
      host.checks.enter(call, *this);
    cast<RuntimeCallOpInterface>(op).emit(*this);
    host.checks.check(&op, *this);
  }
}

void HostEmitter::emit(buffer::FuncOp function) {
  b.setInsertionPointToEnd(host.module.getBody());
  target = LLVM::LLVMFuncOp::create(b, loc, host.getName(function), host.getType(function),
                                    LLVM::Linkage::Internal);
  // Nearly all time is spent in the runtime calls, so optimization of the code between them would
  // have little effect.
  target.setOptimizeNone(true);
  target.setNoInline(true);
  Block *first = target.addEntryBlock(b);
  Block *body = makeBlock();
  ctx = first->getArgument(0);
  env = first->getArgument(1);
  for (auto [argument, value] :
       llvm::zip_equal(function.getBody().getArguments(), first->getArguments().drop_front(2)))
    values[argument] = value;
  b.setInsertionPointToStart(first);
  if (function.getStage()) {
    // The runtime's env has no micro-batch index, so the stage uses a copy with the index.
    Type word = b.getI64Type();
    auto constant = [&](int64_t value) {
      return LLVM::ConstantOp::create(b, loc, word, b.getI64IntegerAttr(value));
    };
    unsigned size = host.layout.size();
    Value copy = LLVM::AllocaOp::create(b, loc, env.getType(), word, constant(size), 16);
    if (size > 1)
      LLVM::MemcpyOp::create(b, loc, copy, env, constant((size - 1) * sizeof(int64_t)), false);
    env = copy;
  }
  // Size arithmetic is inserted before the branch.
  b.setInsertionPoint(LLVM::BrOp::create(b, loc, body));
  sizeEmitter = std::make_unique<SizeEmitter>(b, loc, host.layout, env);
  b.setInsertionPointToStart(body);
  emitBlock(function.getBody().front());
  LLVM::ReturnOp::create(b, loc, ValueRange());
}

void HostEmitter::emitIf(Value condition, function_ref<void()> body) {
  // Keeps blocks in program order.
  Block *then = makeBlock(), *after = new Block();
  LLVM::CondBrOp::create(b, loc, condition, then, ValueRange(), after, ValueRange());
  b.setInsertionPointToStart(then);
  body();
  LLVM::BrOp::create(b, loc, after);
  target.getBody().push_back(after);
  b.setInsertionPointToStart(after);
}

void HostEmitter::emitMicroBatches(buffer::MicroBatchesOp iterations) {
  int64_t start = iterations.getFirst().value_or(0);
  abi::I64 first = i64(start), one = i64(1), count = expr(iterations.getCount());
  if (start)
    count = abi::I64(LLVM::AddOp::create(b, loc, count, first));
  Block *header = makeBlock(), *body = makeBlock(), *after = new Block();
  Value microBatch = header->addArgument(b.getI64Type(), loc);
  LLVM::BrOp::create(b, loc, ValueRange{first}, header);
  b.setInsertionPointToStart(header);
  Value where = LLVM::GEPOp::create(b, loc, env.getType(), b.getI64Type(), env,
                                    ArrayRef<LLVM::GEPArg>{(int32_t)host.layout.microBatchSlot()});
  LLVM::StoreOp::create(b, loc, microBatch, where);
  // A device has its own copy of env, which is updated in stream order.
  if (host.layout.axisSize(kMicroBatchAxis) > 1)
    call(TPC_ABI(tpc_set_env), i32(host.layout.microBatchSlot()), abi::I64(microBatch));
  // Sizes may depend on the micro-batch: each iteration recomputes them.
  auto branch = LLVM::BrOp::create(b, loc, body);
  b.setInsertionPoint(branch);
  auto outer = std::exchange(sizeEmitter, std::make_unique<SizeEmitter>(b, loc, host.layout, env));
  b.setInsertionPointToStart(body);
  auto emitBody = [&] { emitBlock(iterations.getBody().front()); };
  if (buffer::ExprAttr size = iterations.getSizeAttr()) {
    Value isNonempty = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::ne, expr(size), i64(0));
    emitIf(isNonempty, emitBody);
  } else {
    emitBody();
  }
  sizeEmitter = std::move(outer);
  Value next = LLVM::AddOp::create(b, loc, microBatch, one);
  Value hasNext = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::slt, next, count);
  LLVM::CondBrOp::create(b, loc, hasNext, header, ValueRange{next}, after, ValueRange());
  target.getBody().push_back(after);
  b.setInsertionPointToStart(after);
}
