//===- Capture.cpp - Stream capture and its restrictions ------------------===//

#include "Execute.h"
#include "Ptx/Text.h"

#include <algorithm>

using namespace sim;

void sim::invalidate(Capture &capture, const std::string &why) {
  if (capture.invalidated)
    return;
  capture.invalidated = true;
  capture.reason = why;
  report("capture: " + why);
}

Result sim::enqueue(Context &context, Stream &stream, std::shared_ptr<Work> work) {
  if (context.failed)
    return context.failed;
  if (!stream.capture) {
    if (stream.legacy)
      for (const auto &other : context.streams)
        if (other->capture && other->blocking) {
          invalidate(*other->capture, work->name + " in the legacy stream, which waits for a "
                                                   "stream that captures");
          return ERROR_STREAM_CAPTURE_IMPLICIT;
        }
    append(stream, std::move(work));
    return SUCCESS;
  }
  Capture &capture = *stream.capture;
  if (capture.invalidated)
    return ERROR_STREAM_CAPTURE_INVALIDATED;
  capture.graph.nodes.push_back({std::move(work), stream.tips, stream.captureLane});
  stream.tips = {capture.graph.nodes.size() - 1};
  return SUCCESS;
}

Result sim::checkUnsafe(const char *call) {
  CaptureMode mode = captureModeOfThread();
  if (mode == CaptureRelaxed)
    return SUCCESS;
  Result result = SUCCESS;
  for (const auto &capture : state().captures) {
    bool own = capture->thread == std::this_thread::get_id() && capture->mode != CaptureRelaxed;
    bool global = mode == CaptureGlobal && capture->mode == CaptureGlobal;
    if (!own && !global)
      continue;
    invalidate(*capture, std::string(call) + " while a stream captures");
    result = ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  return result;
}
