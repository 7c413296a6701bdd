//===- Step.cpp - Execution, recording and replay of a step ---------------===//

#include "core/Step.h"
#include "core/Transport.h"
#include <algorithm>
#include <stdexcept>

namespace tpc::rt {

static std::string describe(const tpc_status &status, const tpc_program &program) {
  std::string text = "node '" + std::string(program.nodes[status.node]) + "' looks up index " +
                     std::to_string(status.index) + " of " + std::to_string(status.size);
  if (status.size)
    text +=
        "; valid are " + std::to_string(-status.size) + " to " + std::to_string(status.size - 1);
  return text;
}

std::vector<int64_t> envOf(const tpc_context &ctx, const std::vector<int64_t> &symbols) {
  std::vector<int64_t> env = symbols;
  env.insert(env.end(), ctx.coordinates.begin(), ctx.coordinates.end());
  env.push_back(0);
  return env;
}

void runStage(tpc_context &ctx, const tpc_program &program, int stage,
              const std::vector<int64_t> &symbols) {
  std::vector<int64_t> env = envOf(ctx, symbols);
  ctx.code = &program;
  ctx.envSize = static_cast<int32_t>(env.size());
  ctx.device->load(program);
  ctx.device->beginStep(env);
  if (tpc_status status = ctx.steps->run(program, stage, env); status.missing)
    fail(ctx, describe(status, program));
}

void StepCache::runFunction(const Key &key) {
  key.program->stages[key.stage](&ctx, key.env.data());
}

static std::type_index kindOf(const OutputSink *outputs) {
  return outputs ? typeid(*outputs) : typeid(void);
}

// The sizes of a shape determine the input addresses.
bool StepCache::isAgreed(const tpc_program &program, int stage, const std::vector<int64_t> &env,
                         size_t inputs, int64_t stateRows, int64_t stateRow) const {
  if (!ctx.device->canRecord() || ctx.worldSize() == 1 || !ctx.transport->isOnDevice())
    return true;
  return std::any_of(shapes.begin(), shapes.end(), [&](const Shape &shape) {
    const Key &key = shape.key;
    return key.program == &program && key.stage == stage && key.env == env &&
           key.inputs.size() == inputs && key.stateRows == stateRows && key.stateRow == stateRow &&
           key.outputs == kindOf(ctx.outputs);
  });
}

tpc_status StepCache::run(const tpc_program &program, int stage, const std::vector<int64_t> &env) {
  Device &device = *ctx.device;
  isReplayed = false;
  Key key{&program, stage, env, ctx.data.inputs, ctx.stateRows, ctx.stateRow, kindOf(ctx.outputs)};
  if (!device.canRecord() || !records) {
    runFunction(key);
    return device.endStep();
  }
  auto known = std::find_if(shapes.begin(), shapes.end(),
                            [&](const Shape &shape) { return shape.key == key; });
  if (known == shapes.end())
    return runFirst(std::move(key));
  shapes.splice(shapes.begin(), shapes, known);
  Shape &shape = shapes.front();
  if (!shape.recording) {
    runFunction(key);
    return device.endStep();
  }
  if (device.memoryVersion() != moves)
    throw std::logic_error("internal error: memory has moved in a step of a known shape");
  if (!shape.isRecorded) {
    record(shape);
  } else {
    ctx.counters.add(shape.counters);
    for (auto &work : shape.hostWork)
      work();
  }
  device.replay(*shape.recording);
  isReplayed = true;
  return device.endStep();
}

bool StepCache::canRunAhead() const {
  return isReplayed && ctx.worldSize() == 1 && ctx.device->memoryVersion() == moves &&
         ctx.state.moves() == stateMoves && ctx.device->canReplayAhead(*shapes.front().recording);
}

void StepCache::runAhead() {
  ctx.counters.add(shapes.front().counters);
  ctx.device->replayAhead(*shapes.front().recording);
}

void StepCache::takeAhead() {
  if (tpc_status status = ctx.device->takeAhead(); status.missing)
    fail(ctx, describe(status, *shapes.front().key.program));
}

void StepCache::dropAhead() { ctx.device->dropAhead(); }

tpc_status StepCache::runFirst(Key key) {
  Device &device = *ctx.device;
  runFunction(key);
  tpc_status status = device.endStep();
  if (status.missing)
    return status;
  std::unique_ptr<Recording> recording = device.prepareRecording();
  int32_t findings[] = {!recording, device.memoryVersion() != moves,
                        ctx.state.moves() != stateMoves};
  if (ctx.worldSize() > 1 && ctx.transport->isOnDevice())
    ctx.transport->largest(ctx, findings);
  if (findings[0])
    recording = nullptr;
  if (findings[1])
    forget();
  if (findings[2])
    shapes.clear();
  moves = device.memoryVersion();
  stateMoves = ctx.state.moves();
  shapes.push_front({std::move(key), std::move(recording), false, {}, {}});
  if (shapes.size() > maxShapes)
    shapes.pop_back();
  return status;
}

void StepCache::record(Shape &shape) {
  Device &device = *ctx.device;
  auto isRecorded = [](const Shape &each) { return each.isRecorded; };
  if (static_cast<size_t>(std::count_if(shapes.begin(), shapes.end(), isRecorded)) == maxRecordings)
    forget(*std::find_if(shapes.rbegin(), shapes.rend(), isRecorded));

  Counters before;
  std::swap(before, ctx.counters);
  ctx.hostWork = &shape.hostWork;
  device.beginRecording(*shape.recording);
  try {
    runFunction(shape.key);
    device.endRecording(*shape.recording);
  } catch (...) {
    ctx.hostWork = nullptr;
    device.abandonRecording();
    throw;
  }
  ctx.hostWork = nullptr;
  shape.counters = ctx.counters;
  ctx.counters.add(before);
  shape.isRecorded = true;
}

void StepCache::forget(Shape &shape) {
  if (!shape.isRecorded)
    return;
  shape.recording->forget();
  shape.hostWork.clear();
  shape.isRecorded = false;
}

void StepCache::forget() {
  for (Shape &shape : shapes)
    forget(shape);
}

} // namespace tpc::rt
