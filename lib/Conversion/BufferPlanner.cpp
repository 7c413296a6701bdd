//===- BufferPlanner.cpp - Conversion of tensor functions to buffers ------===//

#include "BufferPlanner.h"
#include "tpc/Conversion/Kernels/KernelOp.h"
#include "tpc/Dialect/Accumulate.h"
#include "tpc/Dialect/Elements.h"
#include "tpc/Dialect/State.h"

using namespace mlir;
using namespace mlir::tpc;
using ::tpc::SymExpr;

#include "tpc/Interfaces/HostInterfaces.cpp.inc"

//===----------------------------------------------------------------------===//
// Module
//===----------------------------------------------------------------------===//

buffer::ExtentAttr BufferModule::extent(Type tensor) {
  return buffer::ExtentAttr::get(module.getContext(), expr(getNumElements(tensor, grid)),
                                 getElementTypeOrSelf(tensor));
}

buffer::LoadAttr BufferModule::load(const Parameter &p, ParameterUse use) {
  return buffer::LoadAttr::get(module.getContext(), use, p.weight, p.view, p.type);
}

static buffer::FuncOp makeFunction(SymbolTable &symbols, Location loc, const Twine &name,
                                   StringAttr of, std::optional<int64_t> stage,
                                   ArrayRef<Attribute> arguments, ArrayRef<Attribute> results) {
  OpBuilder b(of.getContext());
  auto function = buffer::FuncOp::create(b, loc, b.getStringAttr(name), FlatSymbolRefAttr::get(of),
                                         stage ? b.getI64IntegerAttr(*stage) : IntegerAttr(),
                                         b.getArrayAttr(arguments), b.getArrayAttr(results));
  Block &body = function.getBody().emplaceBlock();
  auto bufferType = buffer::BufferType::get(b.getContext());
  for (Attribute argument : arguments)
    body.addArgument(cast<buffer::ArgumentAttr>(argument).isBuffer()
                         ? Type(bufferType)
                         : buffer::ParameterType::get(b.getContext()),
                     loc);
  for (size_t i = 0; i < results.size(); ++i)
    body.addArgument(bufferType, loc);
  symbols.insert(function);
  return function;
}

std::optional<unsigned> BufferModule::getAppended(func::FuncOp function, unsigned result) {
  Value value = function.front().getTerminator()->getOperand(result);
  bool appends = false;
  while (Operation *op = value.getDefiningOp()) {
    appends |= isa<AppendOp>(op);
    if (auto append = dyn_cast<AppendOp>(op)) {
      value = append.getCache();
      continue;
    }
    auto call = dyn_cast<func::CallOp>(op);
    if (!call)
      return std::nullopt;
    auto inner = getAppended(getCallee(call), cast<OpResult>(value).getResultNumber());
    if (!inner)
      return std::nullopt;
    appends = true;
    value = call.getOperand(*inner);
  }
  if (!appends)
    return std::nullopt;
  return cast<BlockArgument>(value).getArgNumber();
}

buffer::FuncOp BufferModule::getFunction(func::FuncOp function) {
  buffer::FuncOp &made = functions[function];
  if (made)
    return made;
  MLIRContext *context = module.getContext();
  SmallVector<Attribute> arguments, results;
  DenseMap<unsigned, int64_t> resultOf;
  for (auto [i, type] : llvm::enumerate(function.getResultTypes()))
    if (auto argument = getAppended(function, i))
      resultOf[*argument] = i;
    else
      results.push_back(extent(type));
  for (BlockArgument arg : function.getArguments()) {
    int64_t i = arg.getArgNumber();
    const ParameterNeeds *needs = parameters.lookup(arg);
    auto result = resultOf.find(i);
    if (!needs)
      arguments.push_back(buffer::ArgumentAttr::getBuffer(
          context, i, extent(arg.getType()),
          result == resultOf.end() ? std::nullopt : std::optional<int64_t>(result->second)));
    if (needs && needs->packed)
      arguments.push_back(
          buffer::ArgumentAttr::getParameter(context, i, buffer::ParameterUse::Packed));
    if (needs && needs->dense)
      arguments.push_back(
          buffer::ArgumentAttr::getParameter(context, i, buffer::ParameterUse::Dense));
  }
  for (auto &[parameter, use] : parameters.getImplicitParameters(function))
    arguments.push_back(buffer::ArgumentAttr::getImplicitParameter(load(parameter, use)));
  return made = makeFunction(symbols, function.getLoc(), function.getName() + "_on_buffers",
                             function.getSymNameAttr(), std::nullopt, arguments, results);
}

buffer::FuncOp BufferModule::makeStage(PipelineOp pipeline, StageOp stage) {
  return makeFunction(symbols, stage.getLoc(),
                      pipeline.getSymName() + "_stage_" + Twine(stage.getIndex()) + "_on_buffers",
                      pipeline.getSymNameAttr(), stage.getIndex(), {}, {});
}

FlatSymbolRefAttr BufferModule::getEntry(int64_t stage, const Parameter &parameter,
                                         ParameterUse use) {
  FlatSymbolRefAttr &symbol = entries[{stage, load(parameter, use)}];
  if (!symbol) {
    OpBuilder b(module.getContext());
    auto entry = buffer::EntryOp::create(b, module.getLoc(),
                                         b.getStringAttr("parameter_" + Twine(entries.size() - 1)),
                                         b.getI64IntegerAttr(stage), load(parameter, use));
    symbols.insert(entry);
    symbol = FlatSymbolRefAttr::get(entry.getSymNameAttr());
  }
  return symbol;
}

//===----------------------------------------------------------------------===//
// Buffers of values
//===----------------------------------------------------------------------===//

OpBuilder BufferPlanner::entry() {
  OpBuilder at = OpBuilder::atBlockBegin(&target.getBody().front());
  if (lastAtEntry)
    at.setInsertionPointAfter(lastAtEntry);
  return at;
}

ArrayAttr BufferPlanner::exprs(ArrayRef<SymExpr> list) {
  SmallVector<Attribute> attrs;
  for (const SymExpr &e : list)
    attrs.push_back(expr(e));
  return b.getArrayAttr(attrs);
}

SmallVector<Value> BufferPlanner::getBuffers(ValueRange tensors) {
  return llvm::map_to_vector(tensors, [&](Value tensor) { return getBuffer(tensor); });
}

Value BufferPlanner::parameter(const Parameter &parameter, ParameterUse use) {
  if (stage) {
    FlatSymbolRefAttr symbol = shared.getEntry(*stage, parameter, use);
    for (auto [known, index] : indices)
      if (known == symbol)
        return index;
    OpBuilder at = entry();
    auto op = buffer::ParameterOp::create(at, loc, symbol);
    lastAtEntry = op;
    indices.push_back({symbol, op});
    return op;
  }
  buffer::LoadAttr load = shared.load(parameter, use);
  for (auto [attr, value] : llvm::zip(target.getArgs(), target.getBody().getArguments()))
    if (cast<buffer::ArgumentAttr>(attr).getLoad() == load)
      return value;
  llvm_unreachable("a function with several calling stages receives its parameters");
}

Value BufferPlanner::parameter(Value tensor, ParameterUse use) {
  if (auto op = tensor.getDefiningOp<ParameterOp>())
    return parameter(ParameterTable::get(op), use);
  int64_t index = cast<BlockArgument>(tensor).getArgNumber();
  auto wanted = buffer::ArgumentAttr::getParameter(b.getContext(), index, use);
  for (auto [attr, value] : llvm::zip(target.getArgs(), target.getBody().getArguments()))
    if (attr == wanted)
      return value;
  llvm_unreachable("unexpected use of a parameter");
}

Value BufferPlanner::getBuffer(Value tensor) {
  if (auto it = buffers.find(tensor); it != buffers.end())
    return it->second;
  Operation *op = tensor.getDefiningOp();
  if (shared.parameters.lookup(tensor)) {
    Value index = parameter(tensor, ParameterUse::Dense);
    OpBuilder at = entry();
    auto dense = buffer::DenseOp::create(at, loc, index, shared.extent(tensor.getType()));
    lastAtEntry = dense;
    return buffers[tensor] = dense;
  }
  if (auto constant = dyn_cast_or_null<ConstantOp>(op)) {
    Value &known = constants[constant.getValue()];
    if (!known) {
      OpBuilder at = entry();
      auto data =
          buffer::ConstantOp::create(at, loc, constant.getValue(), shared.extent(tensor.getType()));
      lastAtEntry = data;
      known = data;
    }
    return buffers[tensor] = known;
  }
  if (auto input = dyn_cast<BlockArgument>(tensor)) {
    auto pipeline = cast<PipelineOp>(input.getOwner()->getParentOp());
    if (getCache(cast<DictionaryAttr>(pipeline.getInputAttrs()[input.getArgNumber()])))
      return buffers[tensor] = getCacheSlice(tensor);
    OpBuilder at = entry();
    auto inputOp = buffer::InputOp::create(at, loc, at.getI64IntegerAttr(input.getArgNumber()),
                                           shared.extent(tensor.getType()));
    lastAtEntry = inputOp;
    return buffers[tensor] = inputOp;
  }
  Value root = getAliasRoot(tensor);
  if (root != tensor)
    return getBuffer(root);
  auto slot = slotOf.find(tensor);
  assert(slot != slotOf.end() && "a value without a buffer");
  if (auto columns = getResultColumns(tensor))
    return buffers[tensor] = makeColumns(*columns, tensor);
  return buffers[tensor] = buffer::SlotOp::create(b, loc, frame, expr(slots[slot->second].begin),
                                                  shared.extent(tensor.getType()));
}

Value BufferPlanner::makeColumns(const ResultColumns &columns, Value tensor) {
  Value &whole = wholes[getMerged(columns.matmul).front().getResult()];
  if (!whole)
    whole = buffer::SlotOp::create(b, loc, frame, expr(slots[slotOf.lookup(tensor)].begin),
                                   buffer::ExtentAttr::get(b.getContext(),
                                                           expr(columns.rows * columns.stride),
                                                           getElementTypeOrSelf(tensor)));
  return buffer::ColumnsOp::create(b, loc, whole, expr(columns.first), expr(columns.width),
                                   expr(columns.stride), shared.extent(tensor.getType()));
}

/// Returns the value whose buffer `value` aliases; null if it has its own buffer.
Value BufferPlanner::getAliased(Value value) const {
  if (auto call = value.getDefiningOp<func::CallOp>()) {
    auto argument =
        shared.getAppended(shared.getCallee(call), cast<OpResult>(value).getResultNumber());
    return argument ? call.getOperand(*argument) : Value();
  }
  auto op = value.getDefiningOp<HostOpInterface>();
  return op && op.isHostOp() ? op.getAliased() : Value();
}

Value BufferPlanner::getAliasRoot(Value value) const {
  while (Value aliased = getAliased(value))
    value = aliased;
  return value;
}

Value BufferPlanner::getCacheSlice(Value tensor) {
  Value argument = tensor;
  while (Operation *op = argument.getDefiningOp())
    argument = op->getOperand(0);
  auto input = cast<BlockArgument>(argument);
  auto pipeline = cast<PipelineOp>(input.getOwner()->getParentOp());
  FlatSymbolRefAttr cache =
      getCache(cast<DictionaryAttr>(pipeline.getInputAttrs()[input.getArgNumber()]));
  // The cache has the sequences of all micro-batches; a micro-batch uses its shard of the batch,
  // the outermost dimension.
  FactorAttr batch;
  Type whole = tensor.getType();
  if (DimAttr dim = getDist(tensor).getDims()[0]; dim.usesAxis(kMicroBatchAxis)) {
    batch = dim.getFactors()[0];
    whole = withoutAxis(whole, 0, kMicroBatchAxis, grid());
  }
  Value &state = states[cache];
  if (!state) {
    OpBuilder at = entry();
    state = buffer::StateOp::create(at, loc, cache, shared.extent(whole));
    lastAtEntry = state.getDefiningOp();
  }
  if (!batch)
    return state;
  SymExpr n = toNamedSize(batch.getExpr());
  for (StringAttr axis : batch.getAxes().drop_back())
    n = getShardSize(n, axis.getValue(), grid());
  SymExpr begin =
      getShardBegin(n, kMicroBatchAxis, grid()) * product(ArrayRef(sizes(whole)).drop_front());
  return buffer::PartOp::create(b, loc, state, expr(begin), shared.extent(tensor.getType()));
}

SymExpr mlir::tpc::getFirstIndex(DimAttr dim, MeshAttr grid) {
  FactorAttr outer = dim.getFactors().front();
  SymExpr first = getBegin(outer, grid);
  for (FactorAttr inner : dim.getFactors().drop_front())
    first = first * toNamedSize(inner.getExpr());
  return first + getProductBegin(dim, grid);
}

Value BufferPlanner::pushBuffer(Type tensor) {
  auto frame = buffer::PushOp::create(b, loc, expr(roundUpToSlot(bytes(tensor))));
  return buffer::SlotOp::create(b, loc, frame, expr(0), shared.extent(tensor));
}

void BufferPlanner::pop(Value buffer) {
  buffer::PopOp::create(b, loc, buffer.getDefiningOp<buffer::SlotOp>().getFrame());
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

SmallVector<Operation *> mlir::tpc::listOps(Block &block) {
  return llvm::map_to_vector(block, [](Operation &op) { return &op; });
}

LogicalResult BufferPlanner::planBlock(Block &block, ArrayRef<Operation *> ops,
                                       ValueRange results) {
  findSlots(block, ops, results);
  SymExpr total = assignOffsets(slots);
  if (!slots.empty())
    frame = buffer::PushOp::create(b, loc, expr(total));
  if (failed(planOps(ops)))
    return failure();
  for (auto &[to, value] : copies)
    buffer::CopyOp::create(b, loc, getBuffer(value), to, expr(bytes(value.getType())));
  if (frame)
    buffer::PopOp::create(b, loc, frame);
  return success();
}

LogicalResult BufferPlanner::planOps(ArrayRef<Operation *> ops) {
  Block *outer = b.getInsertionBlock();
  for (Operation *next : ops) {
    Operation &op = *next;
    if (op.hasTrait<OpTrait::IsTerminator>())
      continue;
    loc = op.getLoc();
    const ProductFusion *fusion = fusionOf.lookup(&op);
    if (fusion && &op == fusion->getFirst())
      b.setInsertionPointToEnd(beginFusion(*fusion));
    auto hostOp = dyn_cast<HostOpInterface>(op);
    if (!hostOp || !hostOp.isHostOp()) {
      if (auto kernel = dyn_cast<KernelOpInterface>(op); kernel && kernel.isKernelOp())
        return op.emitOpError("is not in a kernel: run tpc-outline-kernels first");
      InFlightDiagnostic error = op.emitOpError("cannot be computed on CPUs");
      if (op.getNumResults())
        error
            << " with elements of type " << getElementTypeOrSelf(op.getResult(0).getType())
            << ": export the model in f32, f16 or bf16, or put an ONNX Cast to one of them before "
               "this node and a Cast back after it";
      return error;
    }
    if (failed(hostOp.plan(*this)))
      return failure();
    if (fusion && &op == fusion->getLast())
      b.setInsertionPointToEnd(outer);
  }
  return success();
}

/// Creates the op of a fusion and returns the op's body. First defines the buffers of the fused
/// ops, which must precede the op.
Block *BufferPlanner::beginFusion(const ProductFusion &fusion) {
  for (Operation *op : fusion.ops) {
    for (Value operand : op->getOperands())
      if (!isa<MatmulOp>(op) || operand == op->getOperand(0))
        getBuffer(operand);
    for (Value result : op->getResults())
      getBuffer(result);
  }
  auto bufferOf = [&](Value tensor) { return tensor ? getBuffer(tensor) : Value(); };
  Value to = fusion.activationCall ? getBuffer(fusion.getLast()->getResult(0)) : Value();
  auto fused = buffer::FusedOp::create(b, loc, bufferOf(fusion.source), bufferOf(fusion.scale),
                                       bufferOf(fusion.shift), to, fusion.norm, fusion.epsilon,
                                       fusion.activation, fusion.isGated);
  return &fused.getBody().emplaceBlock();
}

LogicalResult BufferPlanner::planInner(Block &block, ArrayRef<Operation *> ops, Block &into) {
  SmallVector<Slot> outerSlots = std::exchange(slots, SmallVector<Slot>());
  auto outerSlotOf = std::exchange(slotOf, DenseMap<Value, unsigned>());
  auto outerCopies = std::exchange(copies, SmallVector<std::pair<Value, Value>>());
  auto outerWholes = std::exchange(wholes, DenseMap<Value, Value>());
  auto outerFusions = std::exchange(fusions, std::vector<ProductFusion>());
  auto outerFusionOf = std::exchange(fusionOf, DenseMap<Operation *, const ProductFusion *>());
  Value outerFrame = std::exchange(frame, {});
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(&into);
  LogicalResult result = planBlock(block, ops, {});
  slots = std::move(outerSlots);
  slotOf = std::move(outerSlotOf);
  copies = std::move(outerCopies);
  wholes = std::move(outerWholes);
  fusions = std::move(outerFusions);
  fusionOf = std::move(outerFusionOf);
  frame = outerFrame;
  return result;
}

LogicalResult BufferPlanner::planFunction(func::FuncOp function) {
  source = function;
  stage = shared.parameters.getStage(function);
  // A module without stages is treated like a program with one stage.
  if (!stage && shared.module.getOps<PipelineOp>().empty())
    stage = 0;
  target = shared.getFunction(function);
  loc = function.getLoc();
  Block &body = target.getBody().front();
  for (auto [attr, value] : llvm::zip(target.getArgs(), body.getArguments()))
    if (auto argument = cast<buffer::ArgumentAttr>(attr); argument.isBuffer())
      buffers[function.getArgument(argument.getArgument().getInt())] = value;
  b.setInsertionPointToEnd(&body);
  return planBlock(function.front(), listOps(function.front()), target.getResultBuffers());
}

/// Allocates the sums over micro-batches, which are live from loop to loop. Returns their frame;
/// null if the stage has none.
Value BufferPlanner::allocateSums(StageOp stage) {
  SmallVector<AccumulatedOp> ops;
  stage.walk([&](AccumulatedOp op) { ops.push_back(op); });
  if (ops.empty())
    return {};
  SymExpr total(0);
  SmallVector<SymExpr> offsets;
  for (AccumulatedOp op : ops) {
    offsets.push_back(total);
    total = total + roundUpToSlot(bytes(op.getType()));
  }
  auto sums = buffer::PushOp::create(b, loc, expr(total));
  for (auto [op, offset] : llvm::zip_equal(ops, offsets))
    buffers[op.getResult()] =
        buffer::SlotOp::create(b, loc, sums, expr(offset), shared.extent(op.getType()));
  return sums;
}

LogicalResult BufferPlanner::planStage(PipelineOp pipeline, StageOp op) {
  for (Operation &inner : op.getBody().front())
    if (isa<SendOp, RecvOp, OutputOp>(inner))
      return inner.emitOpError("is in a stage, but outside of tpc.micro_batches");
  stage = op.getIndex();
  target = shared.makeStage(pipeline, op);
  loc = op.getLoc();
  b.setInsertionPointToEnd(&target.getBody().front());
  if (ScheduleAttr schedule = pipeline.getScheduleAttr())
    return planEvents(op, schedule);
  Value sums = allocateSums(op);
  if (failed(planBlock(op.getBody().front(), listOps(op.getBody().front()), {})))
    return failure();
  if (sums)
    buffer::PopOp::create(b, op.getLoc(), sums);
  return success();
}
