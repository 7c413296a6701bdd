//===- Machine.cpp - Interpreter of programs on all ranks -----------------===//

#include "Machine.h"

#include "tpc/Dialect/Elements.h"

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::interpret;

template <typename A> Machine<A>::Machine(World &world, ArrayRef<Data> inputs) : world(world) {
  for (const Data &input : inputs)
    this->inputs.push_back(std::make_shared<Data>(input));
  for (int64_t rank = 0; rank < world.countRanks(); ++rank)
    ranks.push_back(world.getCoordinates(rank));
}

template <typename A> std::string Machine<A>::describe(int rank) const {
  if (ranks.size() == 1)
    return "the only rank";
  std::map<std::string, int64_t> names;
  MeshAttr grid = world.getGrid();
  for (auto [axis, c] : llvm::zip(grid.getOrder(), ranks[rank]))
    if (grid.getAxisSize(axis.getValue()) > 1)
      names[axis.getValue().str()] = c;
  if (grid.getMicroBatches() > 1)
    names[kMicroBatchAxis.str()] = ranks[rank].back();
  std::string text;
  for (auto &[axis, c] : names)
    text += (text.empty() ? "" : ", ") + axis + "=" + std::to_string(c);
  return "the rank at " + text;
}

//===----------------------------------------------------------------------===//
// Local ops
//===----------------------------------------------------------------------===//

template <typename A> LogicalResult Machine<A>::compute(Operation *op, Frame<A> &frame) {
  std::vector<Ref> results(ranks.size());
  std::map<SmallVector<const void *>, Ref> known; // results, by operands and slices
  SmallVector<const Data *> operands;
  for (int rank : frame.active) {
    const RankSlice &part = getSlice(op->getResult(0), rank);
    SmallVector<const void *> key = {&part};
    operands.clear();
    for (Value operand : op->getOperands()) {
      operands.push_back(frame.values.find(operand)->second[rank].get());
      key.append({operands.back(), &getSlice(operand, rank)});
    }
    Ref &result = known[key];
    if (!result) {
      auto computed = Evaluation<A>(op, operands, world, ranks[rank]).run();
      if (failed(computed))
        return failure();
      if (computed->shape != part.shape)
        return fail(op) << describe(rank) << " computes another shape than its type "
                        << op->getResult(0).getType() << " declares";
      if constexpr (std::is_same_v<A, Doubles>)
        if (auto type = dyn_cast<FloatType>(getElementTypeOrSelf(op->getResult(0))); type && rounds)
          for (double &x : computed->data)
            x = roundTo(type, x);
      result = std::make_shared<Data>(std::move(*computed));
    }
    results[rank] = result;
  }
  return finish(op, std::move(results), frame);
}

template <typename A>
LogicalResult Machine<A>::finish(Operation *op, std::vector<Ref> results, Frame<A> &frame) {
  for (int rank : frame.active)
    if (results[rank]->shape != getSlice(op->getResult(0), rank).shape)
      return fail(op) << describe(rank) << " gets another shape than its type "
                      << op->getResult(0).getType() << " declares";
  frame.values[op->getResult(0)] = std::move(results);
  return success();
}

/// Returns the elements of slice `to`, given a tensor of the elements of slice `from`.
template <typename A>
auto Machine<A>::extract(Operation *op, const Ref &tensor, const RankSlice &from,
                         const RankSlice &to, int rank) -> FailureOr<Ref> {
  if (tensor->shape != from.shape || from.indices.size() != to.indices.size())
    return fail(op) << describe(rank) << " has another shape than its type declares";
  if (from.indices == to.indices)
    return tensor;
  SmallVector<std::vector<int64_t>> sources(from.indices.size());
  for (unsigned d = 0; d < sources.size(); ++d)
    for (int64_t index : to.indices[d]) {
      auto it = llvm::lower_bound(from.indices[d], index);
      if (it == from.indices[d].end() || *it != index)
        return fail(op) << describe(rank) << " lacks element " << index << " of dimension " << d;
      sources[d].push_back(it - from.indices[d].begin());
    }
  auto out = std::make_shared<Data>(to.shape);
  size_t next = 0;
  forEachIndex(to.shape, [&](ArrayRef<int64_t> index) {
    int64_t at = 0;
    for (unsigned d = 0; d < index.size(); ++d)
      at = at * from.shape[d] + sources[d][index[d]];
    out->data[next++] = tensor->data[at];
  });
  return Ref(out);
}

template <typename A> LogicalResult Machine<A>::slice(LocalSliceOp op, Frame<A> &frame) {
  ArrayRef<Ref> value = frame.values[op.getOperand()];
  std::vector<Ref> results(ranks.size());
  std::map<std::array<const void *, 3>, Ref> known;
  for (int rank : frame.active) {
    const RankSlice &from = getSlice(op.getOperand(), rank), &to = getSlice(op.getResult(), rank);
    Ref &result = known[{value[rank].get(), &from, &to}];
    if (!result) {
      FailureOr<Ref> part = extract(op, value[rank], from, to, rank);
      if (failed(part))
        return failure();
      result = *part;
    }
    results[rank] = result;
  }
  return finish(op, std::move(results), frame);
}

//===----------------------------------------------------------------------===//
// Communication
//===----------------------------------------------------------------------===//

template <typename A> const std::vector<SmallVector<int>> &Machine<A>::getGroups(ArrayAttr axes) {
  auto [it, first] = groups.try_emplace(axes);
  if (!first)
    return it->second;
  std::map<Coordinates, SmallVector<int>> byRest;
  for (int rank = 0; rank < int(ranks.size()); ++rank) {
    Coordinates rest;
    for (auto [axis, c] : llvm::zip(world.getGrid().getOrder(), ranks[rank]))
      if (!llvm::is_contained(axes, axis))
        rest.push_back(c);
    // Micro-batches of a function without loops are ranks (runMain).
    if (!llvm::is_contained(axes, StringAttr::get(axes.getContext(), kMicroBatchAxis)))
      rest.push_back(ranks[rank].back());
    byRest[rest].push_back(rank);
  }
  for (auto &[rest, group] : byRest)
    it->second.push_back(group);
  return it->second;
}

template <typename A>
LogicalResult Machine<A>::reduce(Operation *op, ArrayRef<Ref> value, Ranks group,
                                 std::vector<Ref> &results) {
  PartialAttr partial = getDist(op->getOperand(0)).getPartial();
  ReductionKind kind = partial ? partial.getKind() : ReductionKind::Sum;
  auto sum = std::make_shared<Data>(*value[group.front()]);
  for (int other : group.drop_front()) {
    if (value[other]->shape != sum->shape)
      return fail(op) << describe(other) << " and " << describe(group.front())
                      << " add values of different shapes";
    for (auto [x, y] : llvm::zip(sum->data, value[other]->data))
      x = kind == ReductionKind::Sum   ? A::add(x, y)
          : kind == ReductionKind::Max ? (A::less(x, y) ? y : x)
                                       : (A::less(y, x) ? y : x);
  }
  std::map<std::pair<const RankSlice *, const RankSlice *>, Ref> known;
  for (int rank : group) {
    const RankSlice &from = getSlice(op->getOperand(0), rank),
                    &to = getSlice(op->getResult(0), rank);
    Ref &result = known[{&from, &to}];
    if (!result) {
      FailureOr<Ref> part = extract(op, sum, from, to, rank);
      if (failed(part))
        return failure();
      result = *part;
    }
    results[rank] = result;
  }
  return success();
}

template <typename A>
LogicalResult Machine<A>::gather(Operation *op, ArrayRef<Ref> value, Ranks group,
                                 std::vector<Ref> &results, Shift shift) {
  Value in = op->getOperand(0);
  Partial whole(world.getWholeShape(in.getType()));
  const Shape &shape = whole.tensor.shape;
  for (int rank : group) {
    const RankSlice &from = getSlice(in, rank);
    if (value[rank]->shape != from.shape)
      return fail(op) << describe(rank) << " has another shape than its type declares";
    size_t next = 0;
    forEachIndex(from.shape, [&](ArrayRef<int64_t> index) {
      int64_t at = 0;
      for (size_t d = 0; d < index.size(); ++d)
        at = at * shape[d] + from.indices[d][index[d]];
      whole.tensor.data[at] = value[rank]->data[next++];
      whole.known[at] = true;
    });
  }
  std::map<const RankSlice *, Ref> known;
  for (int rank : group) {
    const RankSlice &to = getSlice(op->getResult(0), rank);
    Ref &result = known[&to];
    if (!result) {
      bool missing = to.shape.size() != shape.size();
      for (size_t d = 0; !missing && d < shape.size(); ++d)
        missing = !to.indices[d].empty() && to.indices[d].back() >= shape[d];
      auto out = std::make_shared<Data>(to.shape);
      size_t next = 0;
      if (!missing)
        forEachIndex(to.shape, [&](ArrayRef<int64_t> index) {
          int64_t at = 0;
          for (size_t d = 0; d < index.size(); ++d) {
            int64_t i = to.indices[d][index[d]];
            at = at * shape[d] +
                 (int64_t(d) == shift.dim ? rollIndex(i, shift.first, shift.every) : i);
          }
          missing |= !whole.known[at];
          out->data[next++] = whole.tensor.data[at];
        });
      if (missing)
        return fail(op) << "no rank has the elements that " << describe(rank) << " needs";
      result = out;
    }
    results[rank] = result;
  }
  return success();
}

template <typename A>
LogicalResult Machine<A>::communicate(
    Operation *op, Frame<A> &frame,
    llvm::function_ref<LogicalResult(ArrayRef<Ref>, Ranks, std::vector<Ref> &)> combine) {
  ArrayRef<Ref> value = frame.values[op->getOperand(0)];
  std::vector<Ref> results(ranks.size());
  for (Ranks group : getGroups(op->getAttrOfType<ArrayAttr>("axes"))) {
    auto comes = [&](int rank) { return llvm::is_contained(frame.active, rank); };
    auto waits = llvm::find_if(group, comes);
    if (waits == group.end())
      continue;
    if (auto lacks = llvm::find_if_not(group, comes); lacks != group.end())
      return fail(op) << describe(*waits) << " would wait for " << describe(*lacks)
                      << ", which does not take part";
    if (failed(combine(value, group, results)))
      return failure();
  }
  return finish(op, std::move(results), frame);
}

template <typename A> void Machine<A>::send(SendOp op, Frame<A> &frame) {
  ArrayRef<Ref> value = frame.values[op.getValue()];
  std::optional<unsigned> stage =
      world.getPosition(StringAttr::get(op.getContext(), kPipelineAxis));
  for (int rank : frame.active) {
    Coordinates to = ranks[rank];
    int64_t from = stage ? to[*stage] : 0;
    if (stage)
      to[*stage] = op.getTo();
    for (int other = 0; other < int(ranks.size()); ++other)
      if (ArrayRef(ranks[other]).drop_back() == ArrayRef(to).drop_back())
        messages[{other, from}].push_back(value[rank]);
  }
}

template <typename A> LogicalResult Machine<A>::receive(RecvOp op, Frame<A> &frame) {
  std::vector<Ref> results(ranks.size());
  for (int rank : frame.active) {
    auto &queue = messages[{rank, int64_t(op.getFrom())}];
    if (queue.empty())
      return fail(op) << describe(rank) << " waits for a message that no rank sent";
    results[rank] = std::move(queue.front());
    queue.pop_front();
  }
  return finish(op, std::move(results), frame);
}

/// Stores slices of an output; ranks with overlapping slices must agree.
template <typename A>
LogicalResult Machine<A>::deliver(Operation *op, unsigned index, Value value, ArrayRef<Ref> tensors,
                                  Ranks active, Copies copies) {
  std::set<std::pair<const Data *, const RankSlice *>> seen;
  for (int rank : active) {
    const RankSlice &part = getSlice(value, rank);
    const Data &tensor = *tensors[rank];
    if (!seen.insert({&tensor, &part}).second)
      continue;
    if (index >= outputs.size() || outputs[index].tensor.shape.size() != part.shape.size() ||
        tensor.shape != part.shape)
      return fail(op) << "there is no output " << index << " of this shape";
    Output &output = outputs[index];
    output.delivered = op;
    const Shape &shape = output.tensor.shape;
    std::string wrong;
    size_t next = 0;
    forEachIndex(tensor.shape, [&](ArrayRef<int64_t> position) {
      int64_t at = 0;
      bool outside = false;
      for (size_t d = 0; d < position.size(); ++d) {
        int64_t i = part.indices[d][position[d]];
        if (int64_t(d) == copies.dim) // all copies must agree
          i /= copies.times;
        outside |= i >= shape[d];
        at = at * shape[d] + i;
      }
      Element x = tensor.data[next++];
      if (wrong.empty() && (outside || (output.known[at] && !A::agree(output.tensor.data[at], x))))
        for (size_t d = 0; d < position.size(); ++d)
          wrong += (d ? ", " : "") + std::to_string(part.indices[d][position[d]]);
      if (outside)
        return;
      output.tensor.data[at] = x;
      output.known[at] = true;
    });
    if (!wrong.empty())
      return fail(op) << describe(rank) << " has another element [" << wrong << "] of output "
                      << index << " than a rank before it";
  }
  return success();
}

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

template <typename A> LogicalResult Machine<A>::runCall(func::CallOp call, Frame<A> &frame) {
  auto callee = world.getModule().lookupSymbol<func::FuncOp>(call.getCallee());
  if (!callee || callee.isExternal() || depth > 64)
    return fail(call) << "@" << call.getCallee() << " cannot be called";
  Values inner;
  for (auto [argument, operand] : llvm::zip(callee.getArguments(), call.getOperands()))
    inner[argument] = frame.values[operand];
  SmallVector<Value> returned;
  ++depth;
  if (failed(runBlock(callee.front(), inner, frame.active, &returned)))
    return failure();
  --depth;
  for (auto [result, value] : llvm::zip(call.getResults(), returned))
    frame.values[result] = inner[value];
  return success();
}

template <typename A> LogicalResult Machine<A>::runOp(Operation *op, Values &values, Ranks active) {
  for (Value operand : op->getOperands())
    if (!values.contains(operand))
      return fail(op) << "it takes a value that is not computed before";
  if (!inMicroBatch && isa<SendOp, RecvOp, OutputOp>(op))
    return fail(op) << "it is outside of tpc.micro_batches";
  for (Type type : op->getResultTypes())
    if (!inMicroBatch && world.getGrid().getMicroBatches() > 1 && isa<RankedTensorType>(type) &&
        getDist(type).usesAxis(kMicroBatchAxis))
      return fail(op) << "there is no micro-batch here for the type " << type;
  Frame<A> frame{values, active};
  if (auto known = dyn_cast<RankOpInterface>(op)) {
    if constexpr (std::is_same_v<A, Field>)
      return known.runField(*this, frame);
    else
      return known.runDoubles(*this, frame);
  }
  if (!isa<EvaluatedOpInterface>(op))
    return fail(op) << "the interpreter does not support this op";
  return compute(op, frame);
}

template <typename A>
LogicalResult Machine<A>::runBlock(Block &block, Values &values, Ranks active,
                                   SmallVectorImpl<Value> *returned) {
  for (Operation &op : block) {
    if (isa<func::ReturnOp>(op)) {
      for (Value operand : op.getOperands())
        if (!values.contains(operand))
          return fail(&op) << "it takes a value that is not computed before";
      returned->assign(op.operand_begin(), op.operand_end());
      return success();
    }
    if (failed(runOp(&op, values, active)))
      return failure();
  }
  return success();
}

template <typename A>
SmallVector<int> Machine<A>::enterMicroBatch(MicroBatchesOp loop, int64_t mb, Ranks ofStage) {
  DimAttr batch = loop.getBatchAttr();
  bool skips = batch && !runsEveryMicroBatch(loop, world.getGrid());
  for (Coordinates &at : ranks)
    at.back() = mb;
  SmallVector<int> active;
  llvm::copy_if(ofStage, std::back_inserter(active),
                [&](int rank) { return !skips || !world.getIndices(batch, ranks[rank]).empty(); });
  return active;
}

template <typename A>
LogicalResult Machine<A>::runLoop(MicroBatchesOp loop, const Values &outside, Ranks ofStage) {
  MeshAttr grid = world.getGrid();
  DimAttr batch = loop.getBatchAttr();
  for (int64_t mb = 0; mb < (batch ? grid.getMicroBatches() : 1); ++mb) {
    SmallVector<int> active = enterMicroBatch(loop, mb, ofStage);
    Values values = outside;
    if (failed(runBlock(loop.getBody().front(), values, active, nullptr)))
      return failure();
  }
  return success();
}

template <typename A> SmallVector<int> Machine<A>::getRanks(StageOp stage) const {
  std::optional<unsigned> position =
      world.getPosition(StringAttr::get(stage.getContext(), kPipelineAxis));
  SmallVector<int> ofStage;
  for (int rank = 0; rank < int(ranks.size()); ++rank)
    if ((position ? ranks[rank][*position] : 0) == int64_t(stage.getIndex()))
      ofStage.push_back(rank);
  return ofStage;
}

/// Ops outside of the micro-batch loops run on all ranks of the stage, including ranks without
/// samples.
template <typename A> LogicalResult Machine<A>::runStage(StageOp stage, Values values) {
  SmallVector<int> ofStage = getRanks(stage);
  for (Operation &op : stage.getBody().front()) {
    auto loop = dyn_cast<MicroBatchesOp>(op);
    inMicroBatch = bool(loop);
    if (failed(loop ? runLoop(loop, values, ofStage) : runOp(&op, values, ofStage)))
      return failure();
  }
  return success();
}

template <typename A> LogicalResult Machine<A>::runPipeline(PipelineOp pipeline) {
  for (auto output : pipeline.getOutputs().getAsRange<DictionaryAttr>())
    outputs.emplace_back(world.getWholeShape(output.getAs<TypeAttr>("type").getValue())).delivered =
        pipeline;
  Block &body = pipeline.getBody().front();
  Values values;
  for (auto [argument, input] : llvm::zip(body.getArguments(), inputs))
    values[argument].assign(ranks.size(), input);
  if (ScheduleAttr schedule = pipeline.getScheduleAttr()) {
    if (failed(runSchedule(pipeline, schedule, values)))
      return failure();
  } else {
    for (auto stage : body.getOps<StageOp>())
      if (failed(runStage(stage, values)))
        return failure();
  }
  for (auto &[key, queue] : messages)
    if (!queue.empty())
      return fail(pipeline) << "a message from stage " << key.second << " to "
                            << describe(key.first) << " is never received";
  return success();
}

template <typename A> LogicalResult Machine<A>::runMain(func::FuncOp main) {
  for (auto [i, type] : llvm::enumerate(main.getResultTypes())) {
    Copies copies = getCopies(main, i);
    Shape shape = world.getWholeShape(type);
    if (copies.times > 1)
      shape[copies.dim] /= copies.times;
    outputs.emplace_back(shape).delivered = main;
  }
  // Micro-batches run in lockstep, as ranks of their own, so that a reduction over mb is one over a
  // group.
  for (int64_t mb = 1, numRanks = ranks.size();
       mb < (world.isLocal() ? world.getGrid().getMicroBatches() : 1); ++mb)
    for (int64_t rank = 0; rank < numRanks; ++rank) {
      ranks.push_back(ranks[rank]);
      ranks.back().back() = mb;
    }
  SmallVector<int> active(llvm::to_vector(llvm::seq<int>(0, ranks.size())));
  Values values;
  for (auto [argument, input] : llvm::zip(main.getArguments(), inputs))
    values[argument].assign(ranks.size(), input);
  SmallVector<Value> returned;
  if (failed(runBlock(main.front(), values, active, &returned)))
    return failure();
  for (auto [i, value] : llvm::enumerate(returned))
    if (Operation *op = value.getDefiningOp();
        failed(deliver(op ? op : main, i, value, values[value], active, getCopies(main, i))))
      return failure();
  return success();
}

template <typename A> LogicalResult Machine<A>::run() {
  ModuleOp module = world.getModule();
  for (auto pipeline : module.getOps<PipelineOp>())
    return runPipeline(pipeline);
  auto main = module.lookupSymbol<func::FuncOp>("main");
  if (!main || main.isExternal())
    return emitError(module.getLoc()) << "there is no function @main to run";
  return runMain(main);
}

template class mlir::tpc::interpret::Machine<Doubles>;
template class mlir::tpc::interpret::Machine<Field>;
