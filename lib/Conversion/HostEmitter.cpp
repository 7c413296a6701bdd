//===- HostEmitter.cpp - Code around kernels ------------------------------===//

#include "HostEmitter.h"
#include "tpc/Conversion/Kernels/KernelOp.h"

using namespace mlir;
using namespace mlir::tpc;

#include "tpc/Interfaces/HostInterfaces.cpp.inc"

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

LLVM::LLVMFunctionType HostModule::getType(func::FuncOp function) {
  MLIRContext *context = module.getContext();
  auto pointer = LLVM::LLVMPointerType::get(context);
  Type i32 = IntegerType::get(context, 32);
  SmallVector<Type> types{pointer, pointer};
  for (Value arg : function.getArguments()) {
    if (const ParameterNeeds *n = parameters.lookup(arg))
      types.append(n->packed + n->dense, i32);
    else
      types.push_back(pointer);
  }
  types.append(parameters.getHidden(function).size(), i32);
  types.append(function.getNumResults(), pointer);
  return LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types);
}

//===----------------------------------------------------------------------===//
// Small things
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

abi::I64 HostEmitter::bytes(Type tensor) {
  return abi::I64(sizes().mul(sizes().numElements(tensor), i64(elementBytes(tensor))));
}

abi::Pointer HostEmitter::offset(abi::Pointer pointer, Value elements, Type tensor) {
  Value bytes = sizes().mul(elements, i64(elementBytes(tensor)));
  if (asConstant(bytes) == 0)
    return pointer;
  return abi::Pointer(LLVM::GEPOp::create(b, loc, pointer.getType(), b.getI8Type(), pointer,
                                          ArrayRef<LLVM::GEPArg>{bytes}));
}

// Scratch of one type and length is one piece of memory: it is filled just
// before the call that reads it.
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

void HostEmitter::storeAt(Value base, Type type, unsigned place, Value value) {
  SmallVector<LLVM::GEPArg, 2> path;
  if (isa<LLVM::LLVMStructType>(type))
    path.push_back(0);
  path.push_back(static_cast<int32_t>(place));
  Value where = LLVM::GEPOp::create(b, loc, base.getType(), type, base, path);
  LLVM::StoreOp::create(b, loc, value, where);
}

Value HostEmitter::call(const abi::Function &function, ArrayRef<Value> args) {
  auto call = LLVM::CallOp::create(b, loc, host.getRuntimeFunction(function), args);
  return function.result == abi::Kind::Void ? Value() : call.getResult();
}

abi::I32 HostEmitter::dtype(Type tensor) {
  Type t = getElementTypeOrSelf(tensor);
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

void HostEmitter::copy(Value to, Value from, Type tensor) {
  call(TPC_ABI(tpc_copy), abi::Pointer(to), abi::Pointer(from), bytes(tensor));
}

//===----------------------------------------------------------------------===//
// Where values are
//===----------------------------------------------------------------------===//

abi::I32 HostEmitter::parameterIndex(const Parameter &parameter, ParameterUse use) {
  if (stage)
    return i32(host.parameters.getIndex(*stage, parameter, use));
  for (auto [entry, arg] : llvm::zip_equal(host.parameters.getHidden(source), hiddenArguments))
    if (entry.first == parameter && entry.second == use)
      return abi::I32(arg);
  // A function that no stage calls; its code never runs.
  return i32(0);
}

abi::I32 HostEmitter::parameterIndex(Value tensor, ParameterUse use) {
  if (auto op = tensor.getDefiningOp<ParameterOp>())
    return parameterIndex(ParameterTable::get(op), use);
  return abi::I32((use == ParameterUse::Packed ? packed : dense).lookup(tensor));
}

abi::Pointer HostEmitter::pointer(Value tensor) {
  if (auto it = pointers.find(tensor); it != pointers.end())
    return abi::Pointer(it->second);
  if (host.parameters.lookup(tensor))
    return call(TPC_ABI(tpc_parameter), parameterIndex(tensor, ParameterUse::Dense));
  Value root = aliasRoot(tensor);
  if (root != tensor)
    return pointer(root);
  auto slot = slotOf.find(tensor);
  assert(slot != slotOf.end() && "a value without memory");
  return abi::Pointer(slots[slot->second].begin);
}

Value HostEmitter::aliasRoot(Value value) const {
  while (auto op = value.getDefiningOp<HostOpInterface>()) {
    Value aliased = op.getAliased();
    if (!aliased || !op.isHostOp())
      break;
    value = aliased;
  }
  return value;
}

//===----------------------------------------------------------------------===//
// Frames
//===----------------------------------------------------------------------===//

// Values are intervals over the block's ops, from the op that makes them to the
// last use of them or of another name of theirs. Going along the ops, a value
// takes a slot that is free, best one of just its size.
void HostEmitter::planFrame(Block &block, ValueRange results) {
  DenseMap<Operation *, int64_t> position;
  int64_t next = 0;
  for (Operation &op : block)
    position[&op] = next++;

  // Results lie in the caller's memory from the beginning on.
  if (Operation *terminator = block.mightHaveTerminator() ? block.getTerminator() : nullptr)
    for (auto [operand, out] : llvm::zip(terminator->getOperands(), results)) {
      Value root = operand;
      while (auto op = root.getDefiningOp<HostOpInterface>()) {
        if (!op.isHostOp() || !op.getAliased() || !op.isSameMemory())
          break;
        root = op.getAliased();
      }
      auto op = root.getDefiningOp<HostOpInterface>();
      if (op && op.isHostOp() && op.needsMemory() && !op.getAliased() && !pointers.count(root))
        pointers[root] = out;
      else
        copies.push_back({out, operand});
    }

  DenseMap<Value, int64_t> lastUse;
  auto extend = [&](Value value) {
    Value root = aliasRoot(value);
    for (Operation *user : value.getUsers()) {
      Operation *inBlock = block.findAncestorOpInBlock(*user);
      if (inBlock)
        lastUse[root] = std::max(lastUse[root], position[inBlock]);
    }
  };
  for (Operation &op : block)
    for (Value result : op.getResults())
      extend(result);

  for (Operation &op : block) {
    auto hostOp = dyn_cast<HostOpInterface>(op);
    if (!hostOp || !hostOp.needsMemory())
      continue;
    for (Value result : op.getResults()) {
      if (pointers.count(result) || aliasRoot(result) != result)
        continue;
      int64_t now = position[&op];
      int64_t end = std::max(lastUse.lookup(result), now);
      Value bytes = this->bytes(result.getType());
      unsigned best = slots.size();
      // An operand that dies here may give its memory to the result.
      if (Value reusable = hostOp.getReusable()) {
        auto slot = slotOf.find(aliasRoot(reusable));
        if (slot != slotOf.end() && slots[slot->second].freeAt == now)
          best = slot->second;
      }
      for (unsigned i = 0; i < slots.size() && best == slots.size(); ++i)
        if (slots[i].freeAt < now && llvm::is_contained(slots[i].sizes, bytes))
          best = i;
      for (unsigned i = 0; i < slots.size() && best == slots.size(); ++i)
        if (slots[i].freeAt < now)
          best = i;
      if (best == slots.size())
        slots.emplace_back();
      if (!llvm::is_contained(slots[best].sizes, bytes))
        slots[best].sizes.push_back(bytes);
      slots[best].freeAt = end;
      slotOf[result] = best;
    }
  }
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

void HostEmitter::begin(StringRef name, LLVM::LLVMFunctionType type, LLVM::Linkage linkage,
                        bool copiesEnvironment) {
  b.setInsertionPointToEnd(host.module.getBody());
  target = LLVM::LLVMFuncOp::create(b, loc, name, type, linkage);
  // It runs once in a step, to call what takes the time: optimizing it costs more than it saves.
  target.setOptimizeNone(true);
  target.setNoInline(true);
  Block *first = target.addEntryBlock(b);
  Block *body = b.createBlock(&target.getBody());
  ctx = first->getArgument(0);
  env = first->getArgument(1);
  b.setInsertionPointToStart(first);
  if (copiesEnvironment) {
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
  auto branch = LLVM::BrOp::create(b, loc, body);
  b.setInsertionPoint(branch);
  sizeEmitter = std::make_unique<SizeEmitter>(b, loc, host.layout, env);
  entry.emplace(b);
  b.setInsertionPointToStart(body);
}

LogicalResult HostEmitter::emitBody(Block &block, ValueRange results) {
  planFrame(block, results);
  Value total = i64(0);
  SmallVector<Value> begins;
  for (Slot &slot : slots) {
    Value size = i64(0);
    for (Value s : slot.sizes)
      size = sizes().max(size, s);
    begins.push_back(total);
    // Rounded up to the alignment of slots.
    Value lines = sizes().floorDiv(sizes().add(size, i64(63)), i64(64));
    total = sizes().add(total, sizes().mul(lines, i64(64)));
  }
  Value frame;
  if (!slots.empty()) {
    frame = call(TPC_ABI(tpc_frame_push), abi::I64(total));
    for (auto [slot, begin] : llvm::zip_equal(slots, begins))
      slot.begin = LLVM::GEPOp::create(b, loc, ctx.getType(), b.getI8Type(), frame,
                                       ArrayRef<LLVM::GEPArg>{begin});
  }

  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    loc = op.getLoc();
    auto hostOp = dyn_cast<HostOpInterface>(op);
    if (!hostOp || !hostOp.isHostOp()) {
      if (auto kernel = dyn_cast<KernelOpInterface>(op); kernel && kernel.isKernelOp())
        return op.emitOpError("is not in a kernel: run tpc-outline-kernels first");
      InFlightDiagnostic error = op.emitOpError("cannot be computed on CPUs");
      if (op.getNumResults())
        error
            << " with elements of type " << getElementTypeOrSelf(op.getResult(0).getType())
            << ": export the model in f32, f16 or bf16, or put an ONNX Cast to one of them before "
               "this node and a Cast back behind it";
      return error;
    }
    if (failed(hostOp.lower(*this)))
      return failure();
  }
  for (auto &[to, value] : copies)
    copy(to, pointer(value), value.getType());
  if (frame)
    call(TPC_ABI(tpc_frame_pop), abi::Pointer(frame));
  LLVM::ReturnOp::create(b, loc, ValueRange());
  return success();
}

LogicalResult HostEmitter::emitFunction(func::FuncOp function) {
  source = function;
  stage = host.parameters.getStage(function);
  begin(function.getName(), host.getType(function), LLVM::Linkage::Internal);
  Block &first = target.getBody().front();
  unsigned next = 2;
  for (Value arg : function.getArguments()) {
    if (const ParameterNeeds *n = host.parameters.lookup(arg)) {
      if (n->packed)
        packed[arg] = first.getArgument(next++);
      if (n->dense)
        dense[arg] = first.getArgument(next++);
    } else {
      pointers[arg] = first.getArgument(next++);
    }
  }
  for (unsigned i = 0; i < host.parameters.getHidden(function).size(); ++i)
    hiddenArguments.push_back(first.getArgument(next++));
  return emitBody(function.front(), first.getArguments().drop_front(next));
}

/// Of the inputs, those that ops of the block itself read.
void HostEmitter::loadInputs(StageOp stage, Block &block) {
  for (BlockArgument arg : stage->getBlock()->getArguments())
    if (llvm::any_of(arg.getUsers(), [&](Operation *user) { return user->getBlock() == &block; }))
      pointers[arg] = call(TPC_ABI(tpc_input), i32(arg.getArgNumber()));
}

LogicalResult HostEmitter::emitStage(StringRef name, StageOp op) {
  stage = op.getIndex();
  for (Operation &inner : op.getBody().front())
    if (isa<SendOp, RecvOp, OutputOp>(inner))
      return inner.emitOpError("stands in a stage, but outside of tpc.micro_batches");
  begin(name, abi::getType<tpc_stage_fn>(b.getContext()), LLVM::Linkage::Internal,
        /*copiesEnvironment=*/true);
  loadInputs(op, op.getBody().front());
  return emitBody(op.getBody().front(), {});
}

LogicalResult HostEmitter::emitRound(StringRef name, MicroBatchesOp loop, ArrayRef<Value> shared) {
  auto parent = cast<StageOp>(loop->getParentOp());
  stage = parent.getIndex();
  MLIRContext *context = b.getContext();
  SmallVector<Type> types(2 + shared.size(), LLVM::LLVMPointerType::get(context));
  begin(name, LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(context), types),
        LLVM::Linkage::Internal);
  for (auto [i, value] : llvm::enumerate(shared))
    pointers[value] = target.getBody().front().getArgument(2 + i);
  if (DimAttr batch = loop.getBatchAttr()) {
    Value size = sizes().localSize(batch);
    if (!batch.usesAxis("mb"))
      size = sizes().shardSize(size, StringAttr::get(context, "mb"));
    Value empty = LLVM::ICmpOp::create(b, loc, LLVM::ICmpPredicate::eq, size, i64(0));
    Region &region = target.getBody();
    Block *before = b.getInsertionBlock();
    Block *idle = b.createBlock(&region, region.end());
    LLVM::ReturnOp::create(b, loc, ValueRange());
    Block *work = b.createBlock(&region, region.end());
    b.setInsertionPointToEnd(before);
    LLVM::CondBrOp::create(b, loc, empty, idle, ValueRange(), work, ValueRange());
    b.setInsertionPointToStart(work);
  }
  loadInputs(parent, loop.getBody().front());
  return emitBody(loop.getBody().front(), {});
}
