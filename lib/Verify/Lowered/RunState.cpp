//===- RunState.cpp - Interpretation of caches and of updates -------------===//
//
// Before the step, a rank's memory of a cache is initialized with its slice of the argument. After
// the step, the memory is delivered as the cache's output, which is compared with the model's.
//
//===----------------------------------------------------------------------===//

#include "RunBuffers.h"

#include "tpc/Dialect/HeadReplication.h"
#include "tpc/Dialect/State.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;

namespace {
/// Location of a cache in the staged program.
struct CacheLocation {
  OutputOp output;
  unsigned input = 0;
  int64_t stage = 0;
  Copies copies;
};
} // namespace

static std::optional<CacheLocation> findCache(PipelineOp pipeline, FlatSymbolRefAttr cache) {
  std::optional<CacheLocation> location;
  pipeline.walk([&](OutputOp output) {
    if (getCache(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()])) != cache)
      return;
    location = CacheLocation{output, 0, int64_t(output->getParentOfType<StageOp>().getIndex()),
                             getCopies(pipeline, output.getIndex())};
  });
  for (auto [i, attrs] : llvm::enumerate(pipeline.getInputAttrs().getAsRange<DictionaryAttr>()))
    if (location && getCache(attrs) == cache)
      location->input = i;
  return location;
}

/// Calls `body` for each element of a rank's cache, in order, with its index in the argument.
static void forEachCacheElement(interpret::World &world, const CacheLocation &location,
                                Coordinates at, function_ref<void(int64_t)> body) {
  OutputOp output = location.output;
  Type type = output.getValue().getType();
  int64_t microBatches =
      getDist(type).usesAxis(kMicroBatchAxis) ? world.getGrid().getMicroBatches() : 1;
  interpret::Shape whole = world.getWholeShape(type);
  whole[location.copies.dim] /= location.copies.times;
  for (at.back() = 0; at.back() < microBatches; ++at.back()) {
    const interpret::RankSlice &part = world.getSlice(type, at);
    interpret::forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
      int64_t element = 0;
      for (auto [d, i] : llvm::enumerate(index)) {
        int64_t global = part.indices[d][i];
        if (int64_t(d) == location.copies.dim)
          global /= location.copies.times;
        element = element * whole[d] + global;
      }
      body(element);
    });
  }
}

FailureOr<MemoryView> BufferMachine::getState(Operation *op, FlatSymbolRefAttr cache, int rank) {
  MemoryView &view = states[{cache, rank}];
  if (view.memory)
    return view;
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  std::optional<CacheLocation> location = findCache(pipeline, cache);
  if (!location)
    return fail(op, rank) << "there is no cache " << cache;
  const MemoryView &argument = inputs[location->input];
  std::vector<int64_t> from;
  forEachCacheElement(world, *location, ranks[rank],
                      [&](int64_t element) { from.push_back(element); });
  int64_t count = from.size();
  view = MemoryView{std::make_shared<Memory>(count * argument.type.getBytes(), roundsNumbers), 0,
                    count, argument.type};
  for (auto [i, element] : llvm::enumerate(from)) {
    if (!argument.exists(element))
      return fail(op, rank) << "has an element that argument " << location->input
                            << " does not have";
    view.store(i, argument.load(element));
  }
  return view;
}

LogicalResult BufferMachine::deliverStates() {
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  for (auto [i, attrs] : llvm::enumerate(pipeline.getOutputs().getAsRange<DictionaryAttr>())) {
    FlatSymbolRefAttr cache = getCache(attrs);
    if (!cache)
      continue;
    std::optional<CacheLocation> location = findCache(pipeline, cache);
    if (!location)
      return pipeline.emitOpError() << "has no cache " << cache;
    Output &output = outputs[i];
    output.delivered = location->output;
    for (int rank = 0; rank < int(ranks.size()); ++rank) {
      if (coordinate(kPipelineAxis, rank) != location->stage)
        continue;
      auto state = getState(location->output, cache, rank);
      if (failed(state))
        return failure();
      int64_t next = 0;
      bool differs = false;
      Scalar unspecified;
      const double slack = roundsNumbers ? 0.02 : 1e-9;
      forEachCacheElement(world, *location, ranks[rank], [&](int64_t element) {
        Scalar value = state->load(next++);
        if (value.isUnspecified())
          unspecified = value;
        // Replicas have equal values, except for rounding differences due to the order of
        // reductions.
        double other = output.data[element].f,
               size = std::max(std::fabs(other), std::fabs(value.f));
        differs |= output.known[element] && !(std::fabs(value.f - other) <= slack * (1 + size));
        output.data[element] = value;
        output.known[element] = true;
      });
      if (unspecified.isUnspecified())
        return fail(location->output, rank)
               << "has an element of cache " << cache
               << " that is not specified: " << explainUnspecified(unspecified);
      if (differs)
        return fail(location->output, rank)
               << "has other contents of cache " << cache << " than a rank with the same slice";
    }
  }
  return success();
}

LogicalResult BufferMachine::deliverUpdate(Operation *op, buffer::LoadAttr load, int rank,
                                           const Numbers &numbers) {
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  for (auto [i, attrs] : llvm::enumerate(pipeline.getOutputs().getAsRange<DictionaryAttr>())) {
    std::optional<Update> update = Update::get(attrs);
    if (!update || update->weight.getAttr() != load.getWeight() || update->view != load.getView())
      continue;
    Output &output = outputs[i];
    const interpret::RankSlice &part = world.getSlice(load.getType(), ranks[rank]);
    interpret::Shape whole = world.getWholeShape(load.getType());
    int64_t next = 0;
    bool differs = false;
    const double slack = roundsNumbers ? 0.02 : 1e-9;
    if (interpret::countElements(part.shape) != int64_t(numbers.size()) ||
        interpret::countElements(whole) != int64_t(output.data.size()))
      return fail(op, rank) << "updates a parameter of another size than output " << i;
    output.delivered = op;
    interpret::forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
      int64_t element = 0;
      for (auto [d, at] : llvm::enumerate(index))
        element = element * whole[d] + part.indices[d][at];
      double value = numbers[next].f, other = output.data[element].f,
             size = std::max(std::fabs(other), std::fabs(value));
      differs |= output.known[element] && !(std::fabs(value - other) <= slack * (1 + size));
      output.data[element] = numbers[next++];
      output.known[element] = true;
    });
    if (differs)
      return fail(op, rank) << "updates " << load
                            << " to other elements than a rank with the same shard";
    return success();
  }
  return fail(op, rank) << "updates " << load << ", which no output replaces";
}

namespace {
struct StateRun : RunModel<StateRun, buffer::StateOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::StateOp>(base);
    for (int rank : frame.active) {
      FailureOr<MemoryView> state = m.getState(op, op.getCacheAttr(), rank);
      if (failed(state) || failed(m.setView(op, frame, rank, state->memory, 0, op.getExtent())))
        return failure();
    }
    return success();
  }
};

struct AppendRun : RunModel<AppendRun, buffer::AppendOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::AppendOp>(base);
    for (int rank : frame.active) {
      auto size = [&](buffer::ExprAttr expr) { return m.evaluate(expr, rank); };
      int64_t batch = size(op.getBatch()), heads = size(op.getHeads()), n = size(op.getTokens());
      int64_t capacity = size(op.getCapacity()), d = size(op.getSize());
      SmallVector<int64_t> strides = m.evaluate(op.getStrides(), rank);
      const MemoryView &cache = m.get(frame, op.getCache(), rank).view;
      auto from = m.readSpan(op, frame, op.getFrom(), rank);
      auto lengths = m.read(op, frame, op.getLengths(), rank, batch);
      if (failed(from) || failed(lengths))
        return failure();
      if (strides.size() != 3 || cache.elements != batch * heads * capacity * d)
        return m.fail(op, rank) << "takes a cache of " << cache.elements << " elements as ["
                                << batch << ", " << heads << ", " << capacity << ", " << d << "]";
      for (int64_t b = 0; b < batch; ++b)
        for (int64_t h = 0; h < heads; ++h)
          for (int64_t i = 0; i < n; ++i) {
            int64_t at = (*lengths)[b].i + i;
            if (at < 0 || at >= capacity)
              continue;
            for (int64_t c = 0; c < d; ++c) {
              int64_t element = b * strides[0] + h * strides[1] + i * strides[2] + c;
              if (element < 0 || element >= int64_t(from->size()))
                return m.fail(op, rank) << "reads element " << element << " of new tokens, which "
                                        << "has " << from->size();
              cache.store(((b * heads + h) * capacity + at) * d + c, (*from)[element]);
            }
          }
    }
    return success();
  }
};
} // namespace

void lowered::attachStateRuns(MLIRContext *context) {
  buffer::StateOp::attachInterface<StateRun>(*context);
  buffer::AppendOp::attachInterface<AppendRun>(*context);
}
