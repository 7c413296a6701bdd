//===- ApiStream.cpp - Streams, events, host functions --------------------===//

#include "Api.h"

#include <algorithm>

using namespace sim;

Stream *sim::find(Stream *handle) {
  Context &context = *currentContext();
  auto number = reinterpret_cast<uintptr_t>(handle);
  if (!number || number == legacyStream)
    return context.legacy;
  for (const auto &stream : context.streams)
    if (stream.get() == handle && !stream->destroyed)
      return stream.get();
  return nullptr;
}

Event *sim::find(Event *handle) {
  auto found = state().events.find(handle);
  return found == state().events.end() ? nullptr : found->second.get();
}

static Result createStream(const char *name, Stream **result, unsigned flags) {
  return call(name, Current, [&](Lock &) {
    if (!result || (flags & ~unsigned(StreamNonBlocking)))
      return ERROR_INVALID_VALUE;
    Context &context = *currentContext();
    auto stream = std::make_unique<Stream>();
    stream->context = &context;
    stream->lane = newLane();
    stream->blocking = !(flags & StreamNonBlocking);
    *result = stream.get();
    context.streams.push_back(std::move(stream));
    return SUCCESS;
  });
}

Result sim::cuStreamCreate(Stream **stream, unsigned flags) {
  return createStream("cuStreamCreate", stream, flags);
}

Result sim::cuStreamCreateWithPriority(Stream **stream, unsigned flags, int) {
  return createStream("cuStreamCreateWithPriority", stream, flags);
}

Result sim::cuStreamDestroy_v2(Stream *handle) {
  return call("cuStreamDestroy_v2", Initialized, [&](Lock &) {
    Context *context = currentContext();
    if (!context || !context->active())
      return ERROR_INVALID_CONTEXT;
    Stream *stream = find(handle);
    if (!stream || stream->legacy)
      return misuse("cuStreamDestroy", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (stream->capture) {
      invalidate(*stream->capture, "cuStreamDestroy of a stream that captures");
      return ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
    // Operations that are enqueued already still run.
    stream->destroyed = true;
    return context->failed;
  });
}

/// Rejects a call that waits for a stream or queries it during its capture.
static Result refuseCapturing(const char *name, Stream &stream) {
  if (stream.capture) {
    invalidate(*stream.capture, std::string(name) + " of a stream that captures");
    return ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (stream.legacy)
    for (const auto &other : stream.context->streams)
      if (other->capture && other->blocking) {
        invalidate(*other->capture, std::string(name) + " of the legacy stream, which waits for a "
                                                        "stream that captures");
        return ERROR_STREAM_CAPTURE_IMPLICIT;
      }
  return SUCCESS;
}

Result sim::cuStreamSynchronize(Stream *handle) {
  return call("cuStreamSynchronize", Current, [&](Lock &lock) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamSynchronize", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (Result result = refuseCapturing("cuStreamSynchronize", *stream))
      return result;
    if (stream->legacy) // waits for all blocking ones as well
      append(*stream, nullptr);
    return wait(lock, *stream->context, stream->last);
  });
}

/// Returns SUCCESS if an operation is complete, otherwise an error. Lets operations run, because
/// the caller polls.
static Result query(Context &context, const OperationRef &operation) {
  if (context.failed)
    return context.failed;
  if (operation && !operation->done) {
    ++context.credit;
    context.wake.notify_one();
    return ERROR_NOT_READY;
  }
  if (operation)
    join(state().host, operation->clock);
  return SUCCESS;
}

Result sim::cuStreamQuery(Stream *handle) {
  return call("cuStreamQuery", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuStreamQuery", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (Result result = refuseCapturing("cuStreamQuery", *stream))
      return result;
    return query(*stream->context, stream->last);
  });
}

Result sim::cuLaunchHostFunc(Stream *handle, HostFunction function, void *data) {
  return call("cuLaunchHostFunc", Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse("cuLaunchHostFunc", ERROR_INVALID_HANDLE,
                    "the handle is no stream of this context");
    if (!function)
      return ERROR_INVALID_VALUE;
    return enqueue(*stream->context, *stream, makeHostCall(function, data));
  });
}

Result sim::cuStreamWaitEvent(Stream *handle, Event *eventHandle, unsigned flags) {
  return call("cuStreamWaitEvent", Current, [&](Lock &) {
    Stream *stream = find(handle);
    Event *event = find(eventHandle);
    if (!stream || !event)
      return misuse("cuStreamWaitEvent", ERROR_INVALID_HANDLE, "no stream or no event");
    if (flags)
      return ERROR_INVALID_VALUE;
    if (event->capture) {
      if (event->capture->ended)
        return misuse("cuStreamWaitEvent", ERROR_INVALID_VALUE,
                      "an event of a capture that has ended");
      if (event->capture->invalidated)
        return ERROR_STREAM_CAPTURE_INVALIDATED;
      if (stream->capture && stream->capture != event->capture) {
        invalidate(*stream->capture, "an event of another capture");
        return ERROR_STREAM_CAPTURE_MERGE;
      }
      if (!stream->capture) {
        if (stream->legacy) {
          invalidate(*event->capture, "the legacy stream cannot be part of it");
          return ERROR_STREAM_CAPTURE_IMPLICIT;
        }
        // The stream joins.
        stream->capture = event->capture;
        stream->captureLane = event->capture->graph.lanes++;
        stream->tips.clear();
        event->capture->streams.push_back(stream);
      }
      for (size_t tip : event->tips)
        if (std::find(stream->tips.begin(), stream->tips.end(), tip) == stream->tips.end())
          stream->tips.push_back(tip);
      return SUCCESS;
    }
    if (stream->capture) {
      if (!event->recorded) // waits for nothing
        return SUCCESS;
      invalidate(*stream->capture, "waits for an event that was recorded outside of the capture");
      return ERROR_STREAM_CAPTURE_ISOLATION;
    }
    if (event->recorded)
      append(*stream, nullptr, {event->recorded});
    return SUCCESS;
  });
}

// ---- events ----

Result sim::cuEventCreate(Event **result, unsigned flags) {
  return call("cuEventCreate", Current, [&](Lock &) {
    if (!result || (flags & ~unsigned(EventBlockingSync | EventDisableTiming)))
      return ERROR_INVALID_VALUE;
    auto event = std::make_unique<Event>();
    event->context = currentContext();
    event->flags = flags;
    *result = event.get();
    state().events[event.get()] = std::move(event);
    return SUCCESS;
  });
}

Result sim::cuEventDestroy_v2(Event *handle) {
  return call("cuEventDestroy_v2", Initialized, [&](Lock &) {
    if (!state().events.erase(handle))
      return misuse("cuEventDestroy", ERROR_INVALID_HANDLE, "no event");
    return SUCCESS;
  });
}

Result sim::cuEventRecord(Event *handle, Stream *streamHandle) {
  return call("cuEventRecord", Current, [&](Lock &) {
    Event *event = find(handle);
    Stream *stream = find(streamHandle);
    if (!event || !stream || event->context != stream->context)
      return misuse("cuEventRecord", ERROR_INVALID_HANDLE,
                    "a handle is no event or stream of this context");
    if (stream->capture) {
      if (stream->capture->invalidated)
        return ERROR_STREAM_CAPTURE_INVALIDATED;
      event->capture = stream->capture;
      event->tips = stream->tips;
      event->recorded = nullptr;
      return SUCCESS;
    }
    if (Result result = refuseCapturing("cuEventRecord", *stream))
      return result;
    event->capture = nullptr;
    event->tips.clear();
    event->time = nullptr;
    std::shared_ptr<Work> work;
    if (!(event->flags & EventDisableTiming)) {
      event->time = std::make_shared<double>();
      work = makeClock(event->time);
    }
    event->recorded = append(*stream, std::move(work));
    return SUCCESS;
  });
}

Result sim::cuEventSynchronize(Event *handle) {
  return call("cuEventSynchronize", Current, [&](Lock &lock) {
    Event *event = find(handle);
    if (!event)
      return misuse("cuEventSynchronize", ERROR_INVALID_HANDLE, "no event");
    if (event->capture) {
      invalidate(*event->capture, "cuEventSynchronize of an event that was captured");
      return ERROR_CAPTURED_EVENT;
    }
    return wait(lock, *event->context, event->recorded);
  });
}

Result sim::cuEventQuery(Event *handle) {
  return call("cuEventQuery", Current, [&](Lock &) {
    Event *event = find(handle);
    if (!event)
      return misuse("cuEventQuery", ERROR_INVALID_HANDLE, "no event");
    if (event->capture) {
      invalidate(*event->capture, "cuEventQuery of an event that was captured");
      return ERROR_CAPTURED_EVENT;
    }
    return query(*event->context, event->recorded);
  });
}

Result sim::cuEventElapsedTime(float *milliseconds, Event *beginHandle, Event *endHandle) {
  return call("cuEventElapsedTime", Current, [&](Lock &) {
    Event *begin = find(beginHandle), *end = find(endHandle);
    if (!milliseconds)
      return ERROR_INVALID_VALUE;
    if (!begin || !end || !begin->recorded || !end->recorded || !begin->time || !end->time)
      return misuse("cuEventElapsedTime", ERROR_INVALID_HANDLE,
                    "both events must be recorded, with timing");
    if (!begin->recorded->done || !end->recorded->done)
      return ERROR_NOT_READY;
    *milliseconds = float(*end->time - *begin->time);
    return SUCCESS;
  });
}

Result sim::cuEventElapsedTime_v2(float *milliseconds, Event *begin, Event *end) {
  return cuEventElapsedTime(milliseconds, begin, end);
}
