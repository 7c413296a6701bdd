//===- ApiDevice.cpp - Devices, contexts, errors --------------------------===//

#include "Api.h"
#include "Ptx/Text.h"

#include <algorithm>
#include <cstring>

using namespace sim;

void sim::traceCall(const char *name, Result result) {
  if (tracing())
    trace(ptx::text("{} = {}", name, int(result)));
}

Result sim::misuse(const char *call, Result result, const std::string &what) {
  report(ptx::text("misuse: {}: {}", call, what));
  return result;
}

Context *sim::contextOf(DeviceNumber device) {
  auto &all = state().contexts;
  return device >= 0 && size_t(device) < all.size() ? all[size_t(device)].get() : nullptr;
}

Result sim::cuInit(unsigned flags) {
  return call("cuInit", Nothing, [&](Lock &) {
    if (flags)
      return ERROR_INVALID_VALUE;
    if (state().initialized)
      return SUCCESS;
    const std::vector<int> &visible = settings().visible;
    if (visible.empty())
      return ERROR_NO_DEVICE;
    for (size_t i = 0; i < visible.size(); ++i)
      state().contexts.push_back(std::make_unique<Context>(visible[i], int(i)));
    state().initialized = true;
    return SUCCESS;
  });
}

Result sim::cuDriverGetVersion(int *version) {
  if (!version)
    return ERROR_INVALID_VALUE;
  *version = settings().driverVersion;
  return SUCCESS;
}

static const char *describe(Result error, bool name) {
  switch (error) {
#define TPC_SIM_RESULT(value, spelled, text)                                                       \
  case value:                                                                                      \
    return name ? "CUDA_" #spelled : text;
    TPC_SIM_RESULTS(TPC_SIM_RESULT)
#undef TPC_SIM_RESULT
  }
  return nullptr;
}

Result sim::cuGetErrorName(Result error, const char **text) {
  if (!text)
    return ERROR_INVALID_VALUE;
  *text = describe(error, true);
  return *text ? SUCCESS : ERROR_INVALID_VALUE;
}

Result sim::cuGetErrorString(Result error, const char **text) {
  if (!text)
    return ERROR_INVALID_VALUE;
  *text = describe(error, false);
  return *text ? SUCCESS : ERROR_INVALID_VALUE;
}

Result sim::cuDeviceGetCount(int *count) {
  return call("cuDeviceGetCount", Initialized, [&](Lock &) {
    if (!count)
      return ERROR_INVALID_VALUE;
    *count = int(state().contexts.size());
    return SUCCESS;
  });
}

Result sim::cuDeviceGet(DeviceNumber *device, int ordinal) {
  return call("cuDeviceGet", Initialized, [&](Lock &) {
    if (!device)
      return ERROR_INVALID_VALUE;
    if (!contextOf(ordinal))
      return ERROR_INVALID_DEVICE;
    *device = ordinal;
    return SUCCESS;
  });
}

/// Runs f for a call that queries a device.
template <class F> static Result ask(const char *name, DeviceNumber device, bool valid, F f) {
  return call(name, Initialized, [&](Lock &) {
    if (!valid)
      return ERROR_INVALID_VALUE;
    Context *context = contextOf(device);
    return context ? f(*context) : ERROR_INVALID_DEVICE;
  });
}

static Result putText(char *to, int length, const std::string &text) {
  std::memset(to, 0, size_t(length));
  text.copy(to, size_t(length - 1));
  return SUCCESS;
}

Result sim::cuDeviceGetName(char *name, int length, DeviceNumber device) {
  return ask("cuDeviceGetName", device, name && length > 0,
             [&](Context &context) { return putText(name, length, nameOf(context.device)); });
}

Result sim::cuDeviceGetPCIBusId(char *id, int length, DeviceNumber device) {
  return ask("cuDeviceGetPCIBusId", device, id && length >= 13, [&](Context &context) {
    return putText(id, length,
                   "0000:" + ptx::hex(uint64_t(context.device) + 16, 2).substr(2) + ":00.0");
  });
}

Result sim::cuDeviceGetUuid_v2(Uuid *uuid, DeviceNumber device) {
  return ask("cuDeviceGetUuid_v2", device, uuid, [&](Context &context) {
    uuidOf(context.device).copy(uuid->bytes, sizeof(uuid->bytes));
    return SUCCESS;
  });
}

Result sim::cuDeviceTotalMem_v2(size_t *bytes, DeviceNumber device) {
  return ask("cuDeviceTotalMem_v2", device, bytes, [&](Context &) {
    *bytes = settings().memory;
    return SUCCESS;
  });
}

static bool isLarge(int capability) {
  return capability == 80 || capability == 90 || capability / 10 == 10;
}

int sim::sharedBytesOfBlock(int capability) {
  return capability == 80 ? 163 * 1024 : isLarge(capability) ? 227 * 1024 : 99 * 1024;
}

int sim::threadsOfMultiprocessor(int capability) { return isLarge(capability) ? 2048 : 1536; }

Result sim::cuDeviceGetAttribute(int *value, DeviceAttribute attribute, DeviceNumber device) {
  return ask("cuDeviceGetAttribute", device, value, [&](Context &context) {
    int capability = capabilityOf(context.device);
    switch (attribute) {
    case MaxThreadsPerBlock:
    case MaxBlockDimX:
    case MaxBlockDimY:
      *value = 1024;
      return SUCCESS;
    case MaxBlockDimZ:
      *value = 64;
      return SUCCESS;
    case MaxGridDimX:
      *value = 0x7fffffff;
      return SUCCESS;
    case MaxGridDimY:
    case MaxGridDimZ:
      *value = 65535;
      return SUCCESS;
    case MaxSharedMemoryPerBlock:
      *value = 48 * 1024;
      return SUCCESS;
    case MaxSharedMemoryPerBlockOptin:
      *value = sharedBytesOfBlock(capability);
      return SUCCESS;
    case MaxSharedMemoryPerMultiprocessor:
      *value = sharedBytesOfBlock(capability) + 1024;
      return SUCCESS;
    case WarpSize:
      *value = 32;
      return SUCCESS;
    case MaxRegistersPerBlock:
      *value = 65536;
      return SUCCESS;
    case MultiprocessorCount:
      *value = 4;
      return SUCCESS;
    case MaxThreadsPerMultiprocessor:
      *value = threadsOfMultiprocessor(capability);
      return SUCCESS;
    case MaxBlocksPerMultiprocessor:
      *value = isLarge(capability) ? 32 : 24;
      return SUCCESS;
    case ClockRate:
    case MemoryClockRate:
      *value = 1000000;
      return SUCCESS;
    case GlobalMemoryBusWidth:
      *value = 5120;
      return SUCCESS;
    case L2CacheSize:
      *value = 40 << 20;
      return SUCCESS;
    case CanMapHostMemory:
    case ConcurrentKernels:
    case EccEnabled:
    case UnifiedAddressing:
    case CooperativeLaunch:
      *value = 1;
      return SUCCESS;
    case AsyncEngineCount:
      *value = 2;
      return SUCCESS;
    case Integrated:
    case ComputeMode:
    case PciDeviceId:
    case PciDomainId:
    case ManagedMemory:
    case MulticastSupported:
      *value = 0;
      return SUCCESS;
    case PciBusId:
      *value = context.device + 16;
      return SUCCESS;
    case ComputeCapabilityMajor:
      *value = capability / 10;
      return SUCCESS;
    case ComputeCapabilityMinor:
      *value = capability % 10;
      return SUCCESS;
    }
    report(ptx::text("not simulated: attribute {} of devices", int(attribute)));
    return ERROR_INVALID_VALUE;
  });
}

Result sim::cuDevicePrimaryCtxRetain(Context **result, DeviceNumber device) {
  return ask("cuDevicePrimaryCtxRetain", device, result, [&](Context &context) {
    if (context.failed)
      return context.failed;
    if (!context.retained++) {
      auto stream = std::make_unique<Stream>();
      stream->context = &context;
      stream->lane = newLane();
      stream->blocking = false;
      stream->legacy = true;
      context.legacy = stream.get();
      context.streams.push_back(std::move(stream));
    }
    *result = &context;
    return SUCCESS;
  });
}

Result sim::cuDevicePrimaryCtxRelease_v2(DeviceNumber device) {
  return call("cuDevicePrimaryCtxRelease_v2", Initialized, [&](Lock &lock) {
    Context *context = contextOf(device);
    if (!context)
      return ERROR_INVALID_DEVICE;
    if (!context->active())
      return ERROR_INVALID_CONTEXT;
    if (--context->retained)
      return SUCCESS;
    // With its last reference, everything in the context is destroyed.
    context->retained = 1;
    drain(lock, *context);
    context->retained = 0;
    destroyAll(*context);
    return SUCCESS;
  });
}

Result sim::cuCtxSetCurrent(Context *context) {
  return call("cuCtxSetCurrent", Initialized, [&](Lock &) {
    auto &all = state().contexts;
    if (context && (std::none_of(all.begin(), all.end(),
                                 [&](const auto &one) { return one.get() == context; }) ||
                    !context->active()))
      return ERROR_INVALID_CONTEXT;
    currentContext() = context;
    return SUCCESS;
  });
}

Result sim::cuCtxGetCurrent(Context **context) {
  return call("cuCtxGetCurrent", Initialized, [&](Lock &) {
    if (!context)
      return ERROR_INVALID_VALUE;
    *context = currentContext();
    return SUCCESS;
  });
}

Result sim::cuCtxGetDevice(DeviceNumber *device) {
  return call("cuCtxGetDevice", Initialized, [&](Lock &) {
    if (!device)
      return ERROR_INVALID_VALUE;
    if (!currentContext())
      return ERROR_INVALID_CONTEXT;
    *device = currentContext()->ordinal;
    return SUCCESS;
  });
}

Result sim::cuCtxSynchronize() {
  return call("cuCtxSynchronize", Current | Safe, [&](Lock &lock) {
    Context &context = *currentContext();
    for (const auto &stream : context.streams)
      if (stream->capture) {
        invalidate(*stream->capture, "cuCtxSynchronize while a stream captures");
        return ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
    return drain(lock, context);
  });
}
