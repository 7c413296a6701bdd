//===- State.cpp - Caches that persist between steps ----------------------===//

#include "core/State.h"
#include "core/Context.h"

using namespace tpc::rt;

std::byte *StateMemory::get(Device &device, int32_t index, int64_t bytes) {
  auto slot = static_cast<size_t>(index);
  if (slot >= buffers.size())
    buffers.resize(slot + 1);
  std::optional<CacheBuffer> &buffer = buffers[slot];
  if (!buffer || buffer->bytes != bytes) {
    // The capacity or the number of sequences differs, so none of the contents is reusable.
    numMoves += buffer.has_value();
    buffer.reset();
    buffer.emplace(DeviceMemory(device, bytes), bytes);
  }
  return static_cast<std::byte *>(buffer->memory.data());
}

std::span<std::byte> StateMemory::find(int32_t index) const {
  auto slot = static_cast<size_t>(index);
  if (slot >= buffers.size() || !buffers[slot])
    return {};
  return {static_cast<std::byte *>(buffers[slot]->memory.data()),
          static_cast<size_t>(buffers[slot]->bytes)};
}

void StateMemory::clear(Device &device) {
  for (std::optional<CacheBuffer> &buffer : buffers)
    if (buffer)
      device.clear(buffer->memory.data(), buffer->bytes);
}

int64_t StateMemory::bytes() const {
  int64_t all = 0;
  for (const std::optional<CacheBuffer> &buffer : buffers)
    all += buffer ? buffer->bytes : 0;
  return all;
}

extern "C" void *tpc_state(tpc_context *ctx, int32_t index, int64_t bytes) {
  if (index < 0 || bytes < 0)
    fail(*ctx, "internal error: state " + std::to_string(index) + " of " + std::to_string(bytes) +
                   " bytes");
  int64_t all = bytes, before = 0;
  if (ctx->stateRows != ctx->stepRows) {
    if (ctx->stepRows <= 0 || bytes % ctx->stepRows != 0 || ctx->stateRow < 0 ||
        ctx->stateRow + ctx->stepRows > ctx->stateRows)
      fail(*ctx, "internal error: " + std::to_string(bytes) + " bytes of state are not " +
                     std::to_string(ctx->stepRows) + " rows of " + std::to_string(ctx->stateRows) +
                     ", from row " + std::to_string(ctx->stateRow));
    int64_t row = bytes / ctx->stepRows;
    all = row * ctx->stateRows;
    before = row * ctx->stateRow;
  }
  try {
    return ctx->state.get(*ctx->device, index, all) + before;
  } catch (const std::bad_alloc &) {
    fail(*ctx, "out of memory: a cache takes " + std::to_string(all) +
                   " bytes; use fewer or shorter sequences");
  }
}
