//===- RunBuffers.cpp - Interpreter of programs on buffers ----------------===//

#include "RunBuffers.h"
#include "CheckKernels.h"

#include "../Interpret/Inputs.h"

#include "tpc/Dialect/RankSizes.h"

#include "RunOps.cpp.inc"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;
using ::tpc::SymExpr;

//===----------------------------------------------------------------------===//
// Sizes
//===----------------------------------------------------------------------===//

int64_t RankSizesEvaluator::getSymbol(StringRef name, const Coordinates &at) const {
  MeshAttr grid = world.getGrid();
  const interpret::Sizes &sizes = world.getSizes();
  std::optional<NamedSize> named = getNamedSize(name);
  if (!named)
    return sizes.evaluate(SymExpr::symbol(std::string_view(name.data(), name.size())));
  auto countRanks = [&](StringRef axis) -> int64_t {
    return axis == kMicroBatchAxis || grid.hasAxis(axis) ? grid.getAxisSize(axis) : 1;
  };
  switch (named->kind) {
  case NamedSize::Size: {
    int64_t size = sizes.evaluate(SymExpr(named->size));
    for (StringRef axis : named->axes)
      size /= countRanks(axis);
    return size;
  }
  case NamedSize::Offset:
    return sizes.scale(named->offset, named->size);
  case NamedSize::Window:
    return sizes.evaluateWindow(named->size);
  case NamedSize::Ranks:
    return countRanks(named->axes[0]);
  case NamedSize::Rank: {
    auto position = world.getPosition(StringAttr::get(grid.getContext(), named->axes[0]));
    return position ? at[*position] : 0;
  }
  }
  llvm_unreachable("all kinds are listed");
}

int64_t RankSizesEvaluator::evaluate(const SymExpr &expr, const Coordinates &at) const {
  std::set<std::string> names;
  expr.collectSymbols(names);
  std::map<std::string, int64_t> values;
  for (const std::string &name : names)
    values[name] = getSymbol(name, at);
  return expr.evaluate(values).value_or(0);
}

int64_t BufferMachine::evaluate(buffer::ExprAttr expr, int rank) {
  auto [it, isNew] = evaluated.try_emplace({expr.getAsOpaquePointer(), ranks[rank]}, 0);
  if (isNew)
    it->second = sizes.evaluate(expr.getExpr(), ranks[rank]);
  return it->second;
}

SmallVector<int64_t> BufferMachine::evaluate(ArrayAttr exprs, int rank) {
  SmallVector<int64_t> values;
  for (auto expr : exprs.getAsRange<buffer::ExprAttr>())
    values.push_back(evaluate(expr, rank));
  return values;
}

int64_t BufferMachine::coordinate(StringRef axis, int rank) const {
  auto position = world.getPosition(StringAttr::get(world.getGrid().getContext(), axis));
  return position ? ranks[rank][*position] : 0;
}

//===----------------------------------------------------------------------===//
// Messages
//===----------------------------------------------------------------------===//

std::string BufferMachine::describe(int rank) const {
  std::string text;
  MeshAttr grid = world.getGrid();
  for (auto [axis, c] : llvm::zip(grid.getOrder(), ranks[rank]))
    if (grid.getAxisSize(axis.getValue()) > 1)
      text += (text.empty() ? "" : ", ") + axis.str() + "=" + std::to_string(c);
  if (grid.getMicroBatches() > 1)
    text += (text.empty() ? "" : ", ") + std::string("mb=") + std::to_string(ranks[rank].back());
  return text.empty() ? "the only rank" : "the rank at " + text;
}

InFlightDiagnostic BufferMachine::fail(Operation *op, int rank) const {
  return op->emitError() << "run at small sizes, '" << getSourceName(op->getLoc()) << "' ("
                         << op->getName() << ") on " << describe(rank) << ": ";
}

//===----------------------------------------------------------------------===//
// Memory
//===----------------------------------------------------------------------===//

void BufferMachine::set(Frame &frame, Value value, int rank, BufferValue bufferValue) {
  std::vector<BufferValue> &all = frame.values[value];
  all.resize(ranks.size());
  all[rank] = std::move(bufferValue);
}

LogicalResult BufferMachine::setView(Operation *op, Frame &frame, int rank,
                                     std::shared_ptr<Memory> memory, int64_t begin,
                                     buffer::ExtentAttr extent) {
  MemoryView view{std::move(memory), begin, evaluate(extent.getElements(), rank),
                  extent.getElement()};
  if (auto columns = dyn_cast<buffer::ColumnsOp>(op)) {
    view.width = evaluate(columns.getWidth(), rank);
    view.stride = evaluate(columns.getStride(), rank);
    if (view.width < 0 || view.stride < view.width)
      return fail(op, rank) << "has rows of " << view.width << " elements at distances of "
                            << view.stride;
  }
  if (view.begin < 0 || view.elements < 0 || view.getEnd() > int64_t(view.memory->bytes.size()))
    return fail(op, rank) << view.elements << " elements at byte " << begin
                          << " exceed a memory of " << view.memory->bytes.size() << " bytes";
  set(frame, op->getResult(0), rank, {std::move(view), {}});
  return success();
}

FailureOr<Numbers> BufferMachine::readSpan(Operation *op, Frame &frame, Value value, int rank) {
  const MemoryView &view = get(frame, value, rank).view;
  auto numbers = read(op, frame, value, rank, view.elements);
  if (failed(numbers) || !view.width)
    return numbers;
  Scalar unknown;
  if (view.type.isFloat())
    unknown.f = std::numeric_limits<double>::quiet_NaN();
  else
    unknown.i = 0;
  Numbers span(view.getSpan().elements, unknown);
  for (auto [i, number] : llvm::enumerate(*numbers))
    span[view.positionOf(i)] = number;
  return span;
}

FailureOr<Numbers> BufferMachine::read(Operation *op, Frame &frame, Value value, int rank,
                                       int64_t count, bool mayBeUnspecified) {
  const MemoryView &view = get(frame, value, rank).view;
  if (count > view.elements)
    return fail(op, rank) << "takes " << count << " elements of a buffer of " << view.elements;
  Numbers numbers;
  numbers.reserve(std::max<int64_t>(0, count));
  for (int64_t i = 0; i < count; ++i) {
    if (!view.isWritten(i))
      return fail(op, rank) << "reads element " << i << ", which was not written";
    numbers.push_back(view.load(i));
    if (numbers.back().isUnspecified() && !mayBeUnspecified)
      return fail(op, rank) << "depends on an element that is not specified: "
                            << explainUnspecified(numbers.back());
  }
  return numbers;
}

LogicalResult BufferMachine::write(Operation *op, Frame &frame, Value value, int rank,
                                   const Numbers &numbers) {
  const MemoryView &view = get(frame, value, rank).view;
  if (int64_t(numbers.size()) > view.elements)
    return fail(op, rank) << "writes " << numbers.size() << " elements to a buffer of "
                          << view.elements;
  for (auto [i, x] : llvm::enumerate(numbers))
    view.store(i, x);
  return success();
}

static MemoryView makeView(Type type, ArrayRef<double> data, bool rounds) {
  MemoryView view{std::make_shared<Memory>(data.size() * getElementBytes(type), rounds), 0,
                  int64_t(data.size()), type};
  bool isFloat = isa<FloatType>(type);
  for (auto [i, x] : llvm::enumerate(data)) {
    Scalar value;
    if (isFloat)
      value.f = x;
    else
      value.i = int64_t(x);
    view.store(i, value);
  }
  return view;
}

FailureOr<MemoryView> BufferMachine::getInput(Operation *op, int64_t index) {
  if (index < 0 || index >= int64_t(inputs.size()))
    return op->emitError() << "there is no input " << index, failure();
  return inputs[index];
}

FailureOr<MemoryView> BufferMachine::getParameter(Operation *op, buffer::EntryOp entry, int rank,
                                                  Type element) {
  MemoryView &view = parameters[{entry, ranks[rank]}];
  if (view.memory)
    return view;
  buffer::LoadAttr load = entry.getLoad();
  auto drawn = interpret::drawParameter<interpret::Doubles>(world, load.getWeight(), load.getView(),
                                                            load.getType(), ranks[rank]);
  if (failed(drawn))
    return fail(op, rank) << "there is no weight @" << load.getWeight().getValue();
  // Rounds to the weight's type; stores then round to the requested type.
  Type weightType = getElementTypeOrSelf(load.getType());
  if (isa<FloatType>(weightType) && roundsNumbers)
    for (double &x : drawn->data)
      x = roundTo(weightType, x);
  return view = makeView(element, drawn->data, roundsNumbers);
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

const KernelProgram *BufferMachine::getKernel(buffer::LaunchOp op) {
  std::unique_ptr<KernelProgram> &cached = kernels[op.getKernelAttr()];
  if (cached)
    return cached.get();
  ModuleOp library = kernel::getKernels(program);
  auto function = library ? library.lookupSymbol<kernel::FuncOp>(op.getKernel()) : kernel::FuncOp();
  if (!function) {
    op.emitError() << "there is no kernel @" << op.getKernel();
    return nullptr;
  }
  if (auto compiled = KernelProgram::get(function); succeeded(compiled))
    cached = std::move(*compiled);
  return cached.get();
}

/// Returns the number of elements of all tensors of a function on a rank.
static int64_t countElements(func::FuncOp tensors, interpret::World &world, const Coordinates &at) {
  int64_t count = 0;
  auto add = [&](Value value) {
    int64_t elements = 1;
    if (isa<RankedTensorType>(value.getType()))
      for (int64_t size : world.getSlice(value.getType(), at).shape)
        if (__builtin_mul_overflow(elements, size, &elements))
          elements = std::numeric_limits<int32_t>::max();
    count += std::min<int64_t>(elements, std::numeric_limits<int32_t>::max());
  };
  llvm::for_each(tensors.getArguments(), add);
  for (Operation &op : tensors.front())
    llvm::for_each(op.getResults(), add);
  return count;
}

LogicalResult BufferMachine::compareAlone(const KernelProgram &kernel, ArrayRef<MemoryView> memory,
                                          int rank) {
  FailureOr<func::FuncOp> tensors = getTensors(program, kernel.getFunction());
  if (failed(tensors))
    return failure();
  SmallVector<interpret::World *> worlds{&world};
  llvm::append_range(worlds, alone);
  constexpr int64_t most = 4096;
  if (countElements(*tensors, *real, ranks[rank]) <= most)
    worlds.push_back(real);
  for (auto [i, at] : llvm::enumerate(worlds)) {
    RankSizesEvaluator evaluator(*at);
    auto evaluateHere = [&](const SymExpr &size) { return evaluator.evaluate(size, ranks[rank]); };
    KernelOutcomes &outcomes = choices->ofKernel(kernel);
    outcomes.atRealSizes |= at == real;
    if (failed(compareKernel(kernel, *tensors, memory, /*isGiven=*/i == 0, /*isBrief=*/i > 1, *at,
                             ranks[rank], evaluateHere, outcomes)))
      return failure();
  }
  return success();
}

LogicalResult BufferMachine::launch(buffer::LaunchOp op, Frame &frame) {
  const KernelProgram *kernel = getKernel(op);
  if (!kernel)
    return failure();
  if (op->getNumOperands() != kernel->countArguments())
    return op.emitError() << "passes " << op->getNumOperands() << " buffers to @" << op.getKernel()
                          << ", which takes " << kernel->countArguments();
  bool isFirst = comparesKernels && !roundsNumbers && compared.insert(kernel).second;
  for (int rank : frame.active) {
    SmallVector<MemoryView> memory;
    for (Value value : op.getReads())
      memory.push_back(get(frame, value, rank).view);
    for (Value value : op.getWrites()) {
      memory.push_back(get(frame, value, rank).view);
      // The memory of a parameter that is updated in place has operands of the kernel.
      if (!kernel->isPartlyWritten(memory.size() - 1) && !value.getDefiningOp<buffer::DenseOp>())
        memory.back().forget();
    }
    auto evaluateHere = [&](const SymExpr &size) { return sizes.evaluate(size, ranks[rank]); };
    if (int64_t rows = kernel->countRows(evaluateHere); rows != evaluate(op.getRows(), rank))
      return fail(op, rank) << "is launched over " << evaluate(op.getRows(), rank)
                            << " rows, but the kernel has " << rows;
    if (isFirst && (rank == frame.active.front() || rank == frame.active.back()) &&
        failed(compareAlone(*kernel, memory, rank)))
      return failure();
    bool missing = false;
    Outcomes *outcomes = comparesKernels && !roundsNumbers ? &choices->ofProgram(*kernel) : nullptr;
    if (failed(kernel->run(memory, evaluateHere, ++seed,
                           roundsNumbers ? Rounding::Casts : Rounding::None, missing,
                           /*failed=*/nullptr, /*narrowings=*/nullptr, outcomes)))
      return fail(op, rank) << "the launched kernel fails";
    if (missing) {
      reported = "an index is out of bounds, reported by @" + op.getKernel().str();
      return success();
    }
    for (Value value : op.getWrites())
      if (auto dense = value.getDefiningOp<buffer::DenseOp>();
          dense && failed(deliverElements(op, frame, dense, rank)))
        return failure();
  }
  return success();
}

/// Delivers the elements of a parameter that a launch has updated in place.
LogicalResult BufferMachine::deliverElements(Operation *op, Frame &frame, buffer::DenseOp dense,
                                             int rank) {
  buffer::EntryOp entry = get(frame, dense.getIndex(), rank).entry;
  FailureOr<Numbers> numbers = read(op, frame, dense, rank, get(frame, dense, rank).view.elements);
  return failure(!entry || failed(numbers) ||
                 failed(deliverUpdate(op, entry.getLoad(), rank, *numbers)));
}

//===----------------------------------------------------------------------===//
// Between ranks
//===----------------------------------------------------------------------===//

LogicalResult BufferMachine::forEachGroup(Operation *op, Frame &frame, ArrayRef<StringRef> axes,
                                          function_ref<LogicalResult(Ranks)> body) {
  std::map<Coordinates, SmallVector<int>> groups;
  for (int rank = 0; rank < int(ranks.size()); ++rank) {
    Coordinates rest;
    for (auto [axis, c] : llvm::zip(world.getGrid().getOrder(), ranks[rank]))
      if (!llvm::is_contained(axes, axis.getValue()))
        rest.push_back(c);
    groups[rest].push_back(rank);
  }
  auto comes = [&](int rank) { return llvm::is_contained(frame.active, rank); };
  for (auto &[rest, group] : groups) {
    auto waits = llvm::find_if(group, comes);
    if (waits == group.end())
      continue;
    if (auto lacks = llvm::find_if_not(group, comes); lacks != group.end())
      return fail(op, *waits) << "would wait for " << describe(*lacks)
                              << ", which does not take part";
    if (failed(body(group)))
      return failure();
  }
  return success();
}

LogicalResult BufferMachine::send(buffer::SendOp op, Frame &frame) {
  auto stage = world.getPosition(StringAttr::get(op.getContext(), kPipelineAxis));
  for (int rank : frame.active) {
    FailureOr<Numbers> numbers = read(op, frame, op.getData(), rank, evaluate(op.getCount(), rank),
                                      /*mayBeUnspecified=*/true);
    if (failed(numbers))
      return failure();
    Coordinates to = ranks[rank];
    int64_t from = stage ? to[*stage] : 0;
    if (stage)
      to[*stage] = op.getTo();
    for (int other = 0; other < int(ranks.size()); ++other)
      if (ArrayRef(ranks[other]).drop_back() == ArrayRef(to).drop_back())
        messages[{other, from}].push_back(*numbers);
  }
  return success();
}

LogicalResult BufferMachine::receive(buffer::RecvOp op, Frame &frame) {
  for (int rank : frame.active) {
    auto &queue = messages[{rank, int64_t(op.getFrom())}];
    if (queue.empty())
      return fail(op, rank) << "waits for a message that no rank sent";
    Numbers numbers = std::move(queue.front());
    queue.pop_front();
    int64_t count = evaluate(op.getCount(), rank);
    if (int64_t(numbers.size()) != count)
      return fail(op, rank) << "expects " << count << " elements but receives " << numbers.size();
    if (failed(write(op, frame, op.getData(), rank, numbers)))
      return failure();
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

LogicalResult BufferMachine::runBlock(Block &block, Frame frame) {
  for (Operation &op : block) {
    auto known = dyn_cast<RunOpInterface>(op);
    if (!known)
      return op.emitError("cannot be run at small sizes: the interpreter does not support this op");
    if (failed(known.runOnBuffers(*this, frame)))
      return failure();
    if (!reported.empty())
      break;
  }
  return success();
}

LogicalResult BufferMachine::runCall(buffer::CallOp call, Frame &frame) {
  auto callee = symbols.lookup<buffer::FuncOp>(call.getCallee());
  if (!callee || depth > 64)
    return call.emitError() << "@" << call.getCallee() << " cannot be called";
  Values inner;
  for (auto [argument, operand] :
       llvm::zip_equal(callee.getBody().getArguments(), call->getOperands()))
    inner[argument] = frame.values[operand];
  for (Value buffer : callee.getResultBuffers())
    for (int rank : frame.active)
      inner[buffer][rank].view.forget();
  ++depth;
  if (failed(runBlock(callee.getBody().front(), {inner, frame.active})))
    return failure();
  --depth;
  return success();
}

LogicalResult BufferMachine::runMicroBatches(buffer::MicroBatchesOp iterations, Frame &frame) {
  int64_t first = iterations.getFirst().value_or(0), count = 0;
  for (int rank : frame.active)
    count = std::max(count, evaluate(iterations.getCount(), rank));
  // A reduced grid has fewer micro-batches.
  if (iterations.getFirst() && first >= world.getGrid().getMicroBatches())
    return success();
  for (int64_t mb = first; mb < first + count; ++mb) {
    for (Coordinates &at : ranks)
      at.back() = mb;
    SmallVector<int> active;
    for (int rank : frame.active)
      if (!iterations.getSizeAttr() || evaluate(iterations.getSizeAttr(), rank) != 0)
        active.push_back(rank);
    if (failed(runBlock(iterations.getBody().front(), {frame.values, active})))
      return failure();
  }
  for (Coordinates &at : ranks)
    at.back() = 0;
  return success();
}

BufferMachine::BufferMachine(ModuleOp program, interpret::World &world,
                             ArrayRef<interpret::Tensor<double>> inputs, uint64_t seed, bool rounds)
    : program(program), symbols(program), world(world), sizes(world), seed(seed),
      roundsNumbers(rounds) {
  int64_t count = world.getGrid().getWorldSize();
  for (int64_t rank = 0; rank < count; ++rank)
    ranks.push_back(world.getCoordinates(rank));
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  for (auto [type, input] :
       llvm::zip_equal(pipeline.getBody().front().getArgumentTypes(), inputs)) {
    Type element = getElementTypeOrSelf(type);
    if (auto integer = dyn_cast<IntegerType>(element))
      element = IntegerType::get(element.getContext(), integer.getWidth());
    this->inputs.push_back(makeView(element, input.data, rounds));
  }
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>()) {
    Output &made = outputs.emplace_back();
    made.shape = world.getWholeShape(output.getAs<TypeAttr>("type").getValue());
    made.data.resize(interpret::countElements(made.shape));
    made.known.resize(made.data.size());
    made.isFloat = isa<FloatType>(getElementTypeOrSelf(output.getAs<TypeAttr>("type").getValue()));
    made.delivered = pipeline;
  }
}

LogicalResult BufferMachine::run() {
  SmallVector<buffer::FuncOp> stages;
  for (auto function : program.getOps<buffer::FuncOp>())
    if (function.getStage())
      stages.push_back(function);
  llvm::sort(stages,
             [](buffer::FuncOp a, buffer::FuncOp b) { return *a.getStage() < *b.getStage(); });
  std::vector<StageState> states;
  for (buffer::FuncOp stage : stages)
    states.push_back(startStage(stage));
  for (bool progress = true; progress;) {
    progress = false;
    for (StageState &state : states) {
      FailureOr<bool> moved = advance(state);
      if (failed(moved) || !reported.empty())
        return failure(reported.empty());
      progress |= *moved;
    }
  }
  for (StageState &state : states)
    if (state.next != state.block->end())
      return state.next->emitError("run at small sizes, waits for a message that no rank sent");
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return emitError(program.getLoc())
             << "run at small sizes: a message from stage " << key.second << " to "
             << describe(key.first) << " is never received";
  return deliverStates();
}
