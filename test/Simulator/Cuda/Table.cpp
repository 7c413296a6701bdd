//===- Table.cpp - Function table for the other simulated libraries -------===//

#include "Api.h"

#include <algorithm>
#include <cstring>

using namespace sim;

namespace {

class Table final : public Driver {
public:
  int currentDevice() override {
    Lock lock(state().mutex);
    Context *context = currentContext();
    return context && context->active() ? context->device : -1;
  }

  Result describe(Stream *handle, StreamInfo &info) override {
    return call("(stream of a library)", Current, [&](Lock &) {
      Stream *stream = find(handle);
      if (!stream)
        return ERROR_INVALID_HANDLE;
      info = {stream->context->device, bool(stream->capture), stream->legacy};
      return SUCCESS;
    });
  }

  Result enqueue(Stream *handle, std::shared_ptr<Work> work) override {
    std::string name = work->name;
    return call(name.c_str(), Current, [&](Lock &) {
      Stream *stream = find(handle);
      if (!stream)
        return misuse(name.c_str(), ERROR_INVALID_HANDLE,
                      "the handle is no stream of this context");
      if (sim::injected("launch", ++stream->context->launches, stream->context->device))
        return ERROR_LAUNCH_OUT_OF_RESOURCES;
      return sim::enqueue(*stream->context, *stream, std::move(work));
    });
  }

  Result allocate(DevicePointer *address, size_t bytes, size_t alignment,
                  const char *name) override {
    return call(name, Current | Safe, [&](Lock &) {
      return sim::allocate(*currentContext(), address, bytes, alignment, name, /*ofLibrary=*/true);
    });
  }

  Result release(DevicePointer address, const char *name) override {
    return call(name, Current | Safe,
                [&](Lock &lock) { return sim::release(lock, name, address, /*ofLibrary=*/true); });
  }

  bool setInUse(uint64_t address, bool inUse) override {
    Lock lock(state().mutex);
    Context *context = currentContext();
    Context::Allocation *piece = context ? context->allocationOf(address, 1) : nullptr;
    if (!piece || (!inUse && !piece->uses))
      return false;
    piece->uses += inUse ? 1 : -1u;
    return true;
  }

  bool allocated(uint64_t address, size_t bytes) override {
    Lock lock(state().mutex);
    Context *context = currentContext();
    return context && context->allocationOf(address, bytes);
  }

  void invalidate(Stream *handle) override {
    Lock lock(state().mutex);
    Stream *stream = currentContext() ? find(handle) : nullptr;
    if (stream && stream->capture)
      sim::invalidate(*stream->capture, "a library made a call that is not allowed");
  }

  int capability(int device) override { return capabilityOf(device); }
  void finding(const std::string &text) override { report(text); }
  uint64_t seed() override { return settings().seed; }
  bool injected(const char *what, uint64_t count, int device) override {
    return sim::injected(what, count, device);
  }
  void trace(const std::string &text) override { sim::trace(text); }
};

} // namespace

Result sim::cuGetExportTable(const void **table, const Uuid *id) {
  if (!table || !id)
    return ERROR_INVALID_VALUE;
  if (std::memcmp(id, &driverTable, sizeof(Uuid)))
    return ERROR_NOT_FOUND;
  static auto *made = new Table;
  *table = static_cast<Driver *>(made);
  return SUCCESS;
}

void sim::destroyAll(Context &context) {
  Lock memory(context.memoryMutex, std::defer_lock);
  std::erase_if(state().events, [&](const auto &one) { return one.second->context == &context; });
  std::erase_if(state().execs, [&](const auto &one) { return one.second->context == &context; });
  for (auto it = state().modules.begin(); it != state().modules.end();) {
    if (it->second->context != &context) {
      ++it;
      continue;
    }
    for (const auto &[name, function] : it->second->functions)
      state().functions.erase(function.get());
    it = state().modules.erase(it);
  }
  context.streams.clear();
  context.legacy = nullptr;
  memory.lock();
  for (const auto &[address, piece] : context.allocations) {
    context.memory.free(address);
    context.races.forget(address, address + piece.bytes);
  }
  context.allocations.clear();
  forgetUsed(context);
}
