//===- Memory.cpp - Frame functions of the ABI ----------------------------===//

#include "core/Context.h"
#include "tpc/runtime.h"

using namespace tpc::rt;

extern "C" void *tpc_frame_push(tpc_context *ctx, int64_t bytes) {
  if (void *frame = ctx->arena.push(bytes)) {
    ctx->device->discard(frame, bytes);
    return frame;
  }
  fail(*ctx, "out of memory: a step requested " + std::to_string(bytes) + " bytes in addition to " +
                 std::to_string(ctx->arena.used()) + " in use");
}

extern "C" void tpc_frame_pop(tpc_context *ctx, void *frame) {
  if (!ctx->arena.pop(frame))
    fail(*ctx, "internal error: a frame was freed that is not on the stack");
}
