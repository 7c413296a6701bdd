//===- ApiMemory.cpp - Device and host memory, copies ---------------------===//

#include "Api.h"
#include "Ptx/Text.h"

#include <cstring>
#include <sys/mman.h>

using namespace sim;
using ptx::text;

/// Returns the device memory that an allocation occupies. Allocations of libraries occupy whole
/// pages.
static uint64_t occupiedBytes(const Context::Allocation &piece) {
  constexpr uint64_t page = 2 << 20;
  return piece.ofLibrary ? (piece.bytes + page - 1) / page * page : piece.bytes;
}

Context::Allocation *Context::allocationOf(uint64_t address, uint64_t bytes) {
  auto above = allocations.upper_bound(address);
  if (above == allocations.begin())
    return nullptr;
  auto &[begin, piece] = *std::prev(above);
  uint64_t offset = address - begin;
  return offset <= piece.bytes && bytes <= piece.bytes - offset ? &piece : nullptr;
}

Result sim::allocate(Context &context, DevicePointer *address, size_t bytes, size_t alignment,
                     const std::string &name, bool ofLibrary) {
  if (injected("oom", ++context.allocated, context))
    return ERROR_OUT_OF_MEMORY;
  Context::Allocation piece{bytes, ofLibrary};
  uint64_t with =
      bytes > settings().memory ? UINT64_MAX : usedWith(context, occupiedBytes(piece), true);
  if (with > context.used && with - context.used > freeBytes(context))
    return ERROR_OUT_OF_MEMORY;
  std::lock_guard memory(context.memoryMutex);
  *address = context.memory.allocate(bytes, name, alignment);
  context.allocations[*address] = piece;
  count(context, occupiedBytes(piece), true);
  return SUCCESS;
}

Result sim::release(Lock &lock, const char *name, DevicePointer address, bool ofLibrary) {
  Context &context = *currentContext();
  auto found = context.allocations.find(address);
  if (found == context.allocations.end() || found->second.ofLibrary != ofLibrary)
    return misuse(name, ERROR_INVALID_VALUE,
                  describeAddress(context, address) + " is not the address of an allocation" +
                      (found == context.allocations.end() ? "" : " that this function may free"));
  Context::Allocation piece = found->second;
  if (piece.uses)
    report("misuse: " + std::string(name) + ": " + describeAddress(context, address) +
           " is registered");
  context.allocations.erase(found);
  count(context, occupiedBytes(piece), false);
  {
    std::lock_guard memory(context.memoryMutex);
    context.memory.free(address);
    context.races.forget(address, address + piece.bytes);
  }
  // A real driver waits for operations in flight. Programs must not rely on this, so the memory is
  // freed at once.
  return drain(lock, context);
}

Result sim::cuMemGetInfo_v2(size_t *free, size_t *total) {
  return call("cuMemGetInfo_v2", Current, [&](Lock &) {
    if (!free || !total)
      return ERROR_INVALID_VALUE;
    *total = settings().memory;
    *free = freeBytes(*currentContext());
    return SUCCESS;
  });
}

Result sim::cuMemAlloc_v2(DevicePointer *address, size_t bytes) {
  return call("cuMemAlloc_v2", Current | Safe, [&](Lock &) {
    if (!address || !bytes)
      return ERROR_INVALID_VALUE;
    Context &context = *currentContext();
    return allocate(context, address, bytes, 256,
                    text("allocation {} of device {}", context.allocated + 1, context.device));
  });
}

Result sim::cuMemFree_v2(DevicePointer address) {
  return call("cuMemFree_v2", Current | Safe, [&](Lock &lock) {
    return address ? release(lock, "cuMemFree", address, /*ofLibrary=*/false) : SUCCESS;
  });
}

// ---- host memory ----

static Result allocateHost(const char *name, void **host, size_t bytes) {
  return call(name, Current | Safe, [&](Lock &) {
    if (!host || !bytes)
      return ERROR_INVALID_VALUE;
    if (injected("pinned", ++state().pinnedAllocations, *currentContext()))
      return ERROR_OUT_OF_MEMORY;
    void *made = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED)
      return ERROR_OUT_OF_MEMORY;
    std::memset(made, 0xff, bytes);
    state().pinned[reinterpret_cast<uintptr_t>(made)] = {bytes, true};
    *host = made;
    return SUCCESS;
  });
}

Result sim::cuMemAllocHost_v2(void **host, size_t bytes) {
  return allocateHost("cuMemAllocHost_v2", host, bytes);
}

Result sim::cuMemHostAlloc(void **host, size_t bytes, unsigned flags) {
  if (flags & ~unsigned(HostAllocAll))
    return ERROR_INVALID_VALUE;
  return allocateHost("cuMemHostAlloc", host, bytes);
}

Result sim::cuMemFreeHost(void *host) {
  return call("cuMemFreeHost", Current | Safe, [&](Lock &lock) {
    auto &pinned = state().pinned;
    auto found = pinned.find(reinterpret_cast<uintptr_t>(host));
    if (found == pinned.end() || !found->second.ours)
      return misuse("cuMemFreeHost", ERROR_INVALID_VALUE, "no memory that the driver allocated");
    size_t bytes = found->second.bytes;
    pinned.erase(found);
    if (Result result =
            drain(lock, *currentContext())) // a pending copy then finds the memory freed
      return result;
    munmap(host, bytes);
    return SUCCESS;
  });
}

Result sim::cuMemHostRegister_v2(void *host, size_t bytes, unsigned flags) {
  return call("cuMemHostRegister_v2", Current | Safe, [&](Lock &) {
    if (!host || !bytes || (flags & ~unsigned(HostRegisterAll)))
      return ERROR_INVALID_VALUE;
    if (kindOf(host, bytes) != HostMemory::Pageable)
      return ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    state().pinned[reinterpret_cast<uintptr_t>(host)] = {bytes, false};
    return SUCCESS;
  });
}

Result sim::cuMemHostUnregister(void *host) {
  return call("cuMemHostUnregister", Current | Safe, [&](Lock &lock) {
    auto &pinned = state().pinned;
    auto found = pinned.find(reinterpret_cast<uintptr_t>(host));
    if (found == pinned.end() || found->second.ours)
      return ERROR_HOST_MEMORY_NOT_REGISTERED;
    pinned.erase(found);
    return drain(lock, *currentContext());
  });
}

// ---- copies ----

namespace {

/// Checks an argument of a copy: a device address must be in an allocation, and a host address must
/// not be a device address.
Result checkDevice(const char *name, DevicePointer address, size_t bytes) {
  Context &context = *currentContext();
  if (context.allocationOf(address, bytes))
    return SUCCESS;
  return misuse(
      name, ERROR_INVALID_VALUE,
      text("{} bytes at {}: {}", bytes, ptx::hex(address), describeAddress(context, address)));
}

Result checkHost(const char *name, const void *host) {
  if (!host)
    return ERROR_INVALID_VALUE;
  auto address = reinterpret_cast<uintptr_t>(host);
  if (address >> 44 == 6) // where devices map their memory
    return misuse(name, ERROR_INVALID_VALUE, "the host address is an address of a device");
  return SUCCESS;
}

/// Rejects a copy of pageable memory during a capture, because it cannot be part of a graph.
Result refusePageable(const char *name, Stream &stream) {
  invalidate(*stream.capture, std::string(name) + " with pageable memory while a stream captures");
  return ERROR_STREAM_CAPTURE_UNSUPPORTED;
}

/// Whether bytes may be copied between host and device. `pageable` is set if the host memory is not
/// mapped for the device.
Result checkCopy(const char *name, const void *host, DevicePointer device, size_t bytes,
                 Stream &stream, bool &pageable) {
  if (Result result = checkHost(name, host))
    return result;
  if (Result result = checkDevice(name, device, bytes))
    return result;
  HostMemory kind = kindOf(host, bytes);
  if (kind == HostMemory::Both)
    return misuse(name, ERROR_INVALID_VALUE, "only a part of the host memory is pinned");
  pageable = kind == HostMemory::Pageable;
  return pageable && stream.capture ? refusePageable(name, stream) : SUCCESS;
}

Result upload(const char *name, DevicePointer to, const void *from, size_t bytes, Stream *handle,
              bool synchronous) {
  return call(name, synchronous ? Current | Safe : Current, [&](Lock &lock) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    if (!bytes)
      return SUCCESS;
    bool pageable = false;
    if (Result result = checkCopy(name, from, to, bytes, *stream, pageable))
      return result;
    // A driver may stage pageable memory at once, or when the stream reaches the copy.
    Context &context = *currentContext();
    if (pageable && context.random() % 2 && !synchronous)
      if (Result result = wait(lock, context, stream->last))
        return result;
    Result result = enqueue(context, *stream, makeUpload(to, from, bytes, pageable));
    if (!result && synchronous)
      result = wait(lock, context, stream->last);
    return result;
  });
}

Result download(const char *name, void *to, DevicePointer from, size_t bytes, Stream *handle,
                bool synchronous) {
  return call(name, synchronous ? Current | Safe : Current, [&](Lock &lock) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    if (!bytes)
      return SUCCESS;
    bool pageable = false;
    if (Result result = checkCopy(name, to, from, bytes, *stream, pageable))
      return result;
    Context &context = *currentContext();
    Result result = enqueue(context, *stream, makeDownload(to, from, bytes, !pageable));
    // "For transfers from device memory to pageable host memory, the function will return only once
    // the copy has completed."
    if (!result && (synchronous || pageable))
      result = wait(lock, context, stream->last);
    return result;
  });
}

Result copy(const char *name, DevicePointer to, DevicePointer from, size_t bytes, Stream *handle) {
  return call(name, Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    if (!bytes)
      return SUCCESS;
    for (DevicePointer address : {to, from})
      if (Result result = checkDevice(name, address, bytes))
        return result;
    return enqueue(*currentContext(), *stream, makeCopy(to, from, bytes));
  });
}

Result fill(const char *name, DevicePointer to, unsigned value, size_t count, unsigned width,
            Stream *handle) {
  return call(name, Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    if (to % width)
      return misuse(name, ERROR_INVALID_VALUE, "the address is not aligned to its elements");
    if (!count)
      return SUCCESS;
    if (Result result = checkDevice(name, to, count * width))
      return result;
    return enqueue(*currentContext(), *stream, makeFill(to, value, count, width));
  });
}

} // namespace

Result sim::cuMemcpyHtoD_v2(DevicePointer to, const void *from, size_t bytes) {
  return upload("cuMemcpyHtoD_v2", to, from, bytes, nullptr, true);
}
Result sim::cuMemcpyDtoH_v2(void *to, DevicePointer from, size_t bytes) {
  return download("cuMemcpyDtoH_v2", to, from, bytes, nullptr, true);
}
Result sim::cuMemcpyDtoD_v2(DevicePointer to, DevicePointer from, size_t bytes) {
  return copy("cuMemcpyDtoD_v2", to, from, bytes, nullptr);
}
Result sim::cuMemcpyHtoDAsync_v2(DevicePointer to, const void *from, size_t bytes, Stream *stream) {
  return upload("cuMemcpyHtoDAsync_v2", to, from, bytes, stream, false);
}
Result sim::cuMemcpyDtoHAsync_v2(void *to, DevicePointer from, size_t bytes, Stream *stream) {
  return download("cuMemcpyDtoHAsync_v2", to, from, bytes, stream, false);
}
Result sim::cuMemcpyDtoDAsync_v2(DevicePointer to, DevicePointer from, size_t bytes,
                                 Stream *stream) {
  return copy("cuMemcpyDtoDAsync_v2", to, from, bytes, stream);
}
Result sim::cuMemcpy2DAsync_v2(const Copy2D *copy, Stream *handle) {
  const char *name = "cuMemcpy2DAsync_v2";
  return call(name, Current, [&](Lock &) {
    Stream *stream = find(handle);
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    if (!copy)
      return ERROR_INVALID_VALUE;
    if (copy->fromType != MemoryDevice || copy->toType != MemoryDevice) {
      report("not simulated: cuMemcpy2DAsync other than from device to device");
      return ERROR_NOT_SUPPORTED;
    }
    if (!copy->width || !copy->height)
      return SUCCESS;
    size_t width = copy->fromX + copy->width, toWidth = copy->toX + copy->width;
    if (copy->height > 1 && (copy->fromPitch < width || copy->toPitch < toWidth))
      return misuse(name, ERROR_INVALID_VALUE, "a pitch must be at least the width of a row");
    DevicePointer from = copy->fromDevice + copy->fromY * copy->fromPitch + copy->fromX;
    DevicePointer to = copy->toDevice + copy->toY * copy->toPitch + copy->toX;
    for (auto [address, pitch] : {std::pair(from, copy->fromPitch), {to, copy->toPitch}})
      if (Result result = checkDevice(name, address, (copy->height - 1) * pitch + copy->width))
        return result;
    return enqueue(
        *currentContext(), *stream,
        makeCopyRows(to, copy->toPitch, from, copy->fromPitch, copy->width, copy->height));
  });
}
Result sim::cuMemsetD8_v2(DevicePointer to, unsigned char value, size_t count) {
  return fill("cuMemsetD8_v2", to, value, count, 1, nullptr);
}
Result sim::cuMemsetD32_v2(DevicePointer to, unsigned value, size_t count) {
  return fill("cuMemsetD32_v2", to, value, count, 4, nullptr);
}
Result sim::cuMemsetD8Async(DevicePointer to, unsigned char value, size_t count, Stream *stream) {
  return fill("cuMemsetD8Async", to, value, count, 1, stream);
}
Result sim::cuMemsetD32Async(DevicePointer to, unsigned value, size_t count, Stream *stream) {
  return fill("cuMemsetD32Async", to, value, count, 4, stream);
}
