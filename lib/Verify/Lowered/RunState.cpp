//===- RunState.cpp - What stays from step to step ------------------------===//
//
// Before the step a rank's memory of a cache holds its part of the argument; after it, that is
// compared as the result that has the cache.
//
//===----------------------------------------------------------------------===//

#include "RunBuffers.h"

#include "tpc/Dialect/Copies.h"
#include "tpc/Dialect/State.h"

#include <cmath>

using namespace mlir;
using namespace mlir::tpc;
using namespace mlir::tpc::lowered;
using interpret::Coordinates;

namespace {
/// Where the staged program has a cache.
struct Kept {
  OutputOp output;
  unsigned input = 0;
  int64_t stage = 0;
  Copies copies;
};
} // namespace

static std::optional<Kept> findKept(PipelineOp pipeline, FlatSymbolRefAttr cache) {
  std::optional<Kept> kept;
  pipeline.walk([&](OutputOp output) {
    if (getCache(cast<DictionaryAttr>(pipeline.getOutputs()[output.getIndex()])) != cache)
      return;
    kept = Kept{output, 0, int64_t(output->getParentOfType<StageOp>().getIndex()),
                getCopies(pipeline, output.getIndex())};
  });
  for (auto [i, attrs] : llvm::enumerate(pipeline.getInputAttrs().getAsRange<DictionaryAttr>()))
    if (kept && getCache(attrs) == cache)
      kept->input = i;
  return kept;
}

/// Calls `body` for each element that a rank keeps, in order, with its place in the argument.
static void forEachKept(interpret::World &world, const Kept &kept, Coordinates at,
                        function_ref<void(int64_t)> body) {
  OutputOp output = kept.output;
  Type type = output.getValue().getType();
  int64_t rounds = getDist(type).usesAxis("mb") ? world.getGrid().getMicroBatches() : 1;
  interpret::Shape whole = world.getWholeShape(type);
  whole[kept.copies.dim] /= kept.copies.times;
  for (at.back() = 0; at.back() < rounds; ++at.back()) {
    const interpret::Part &part = world.getPart(type, at);
    interpret::forEachIndex(part.shape, [&](ArrayRef<int64_t> index) {
      int64_t place = 0;
      for (auto [d, i] : llvm::enumerate(index)) {
        int64_t own = part.indices[d][i];
        if (int64_t(d) == kept.copies.dim)
          own /= kept.copies.times;
        place = place * whole[d] + own;
      }
      body(place);
    });
  }
}

FailureOr<Place> BufferMachine::getState(Operation *op, FlatSymbolRefAttr cache, int rank) {
  Place &place = states[{cache, rank}];
  if (place.memory)
    return place;
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  std::optional<Kept> kept = findKept(pipeline, cache);
  if (!kept)
    return fail(op, rank) << "there is no cache " << cache;
  const Place &argument = inputs[kept->input];
  std::vector<int64_t> from;
  forEachKept(world, *kept, ranks[rank], [&](int64_t place) { from.push_back(place); });
  int64_t count = from.size();
  place = Place{std::make_shared<Memory>(count * argument.type.getBytes(), roundsNumbers), 0, count,
                argument.type};
  for (auto [i, element] : llvm::enumerate(from)) {
    if (!argument.exists(element))
      return fail(op, rank) << "keeps what argument " << kept->input << " does not have";
    place.store(i, argument.load(element));
  }
  return place;
}

LogicalResult BufferMachine::deliverStates() {
  PipelineOp pipeline = *world.getModule().getOps<PipelineOp>().begin();
  for (auto [i, attrs] : llvm::enumerate(pipeline.getOutputs().getAsRange<DictionaryAttr>())) {
    FlatSymbolRefAttr cache = getCache(attrs);
    if (!cache)
      continue;
    std::optional<Kept> kept = findKept(pipeline, cache);
    if (!kept)
      return pipeline.emitOpError() << "has no cache " << cache;
    Output &output = outputs[i];
    output.delivered = kept->output;
    for (int rank = 0; rank < int(ranks.size()); ++rank) {
      if (coordinate("pp", rank) != kept->stage)
        continue;
      auto state = getState(kept->output, cache, rank);
      if (failed(state))
        return failure();
      int64_t next = 0;
      bool differs = false;
      const double slack = roundsNumbers ? 0.02 : 1e-9;
      forEachKept(world, *kept, ranks[rank], [&](int64_t place) {
        Scalar value = state->load(next++);
        // Other ranks and copies have the same, but for the order in which they add.
        double other = output.data[place].f, size = std::max(std::fabs(other), std::fabs(value.f));
        differs |= output.known[place] && !(std::fabs(value.f - other) <= slack * (1 + size));
        output.data[place] = value;
        output.known[place] = true;
      });
      if (differs)
        return fail(kept->output, rank)
               << "keeps other contents of cache " << cache << " than a rank that has the same";
    }
  }
  return success();
}

namespace {
struct StateRun : RunModel<StateRun, buffer::StateOp> {
  LogicalResult runOnBuffers(Operation *base, BufferMachine &m, Frame &frame) const {
    auto op = cast<buffer::StateOp>(base);
    for (int rank : frame.active) {
      FailureOr<Place> state = m.getState(op, op.getCacheAttr(), rank);
      if (failed(state) || failed(m.setPlace(op, frame, rank, state->memory, 0, op.getExtent())))
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
      const Place &cache = m.get(frame, op.getCache(), rank).place;
      auto from =
          m.read(op, frame, op.getFrom(), rank, m.get(frame, op.getFrom(), rank).place.elements);
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
