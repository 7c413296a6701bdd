//===- ApiModule.cpp - Modules, functions, launches -----------------------===//

#include "Api.h"
#include "Ptx/Text.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>

using namespace sim;
using ptx::text;

namespace {

/// Returns the number of an architecture, such as 90 for "sm_90a".
int architectureOf(const std::string &target) {
  return std::atoi(target.c_str() + std::min(target.find('_') + 1, target.size()));
}

/// Writes a message of the driver's JIT compiler to the log buffer in the program's options.
void putLog(const std::string &message, unsigned count, const JitOption *options, void **values) {
  char *buffer = nullptr;
  size_t size = 0;
  for (unsigned i = 0; i < count; ++i) {
    if (options[i] == JitErrorLogBuffer)
      buffer = static_cast<char *>(values[i]);
    if (options[i] == JitErrorLogBufferSizeBytes)
      size = reinterpret_cast<uintptr_t>(values[i]);
  }
  if (!buffer || !size)
    return;
  std::memset(buffer, 0, size);
  message.copy(buffer, size - 1);
}

/// Parses a PTX text. Parsed texts are cached, because ranks that are threads load the same text.
std::optional<ptx::Module> parse(const char *image, std::string &error) {
  static auto *parsed = new std::map<std::string, ptx::Module>;
  auto found = parsed->find(image);
  if (found != parsed->end())
    return found->second;
  std::optional<ptx::Module> module = ptx::parse(image, error);
  if (module)
    parsed->emplace(image, *module);
  return module;
}

Result load(Module **result, const void *image, unsigned count, const JitOption *options,
            void **values) {
  if (!result || !image || (count && (!options || !values)))
    return ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < count; ++i)
    if (options[i] < 0 || options[i] >= JitNumOptions)
      return ERROR_INVALID_VALUE;
  // Machine code is a valid image, but always for another architecture.
  uint32_t magic = 0;
  std::memcpy(&magic, image, std::min<size_t>(4, strnlen(static_cast<const char *>(image), 4)));
  constexpr uint32_t elf = 0x464c457f, fatBinary = 0xba55ed50, wrapper = 0x466243b1;
  if (magic == elf || magic == fatBinary || magic == wrapper)
    return ERROR_NO_BINARY_FOR_GPU;
  std::string error;
  std::optional<ptx::Module> parsed = parse(static_cast<const char *>(image), error);
  if (!parsed) {
    putLog(error, count, options, values);
    report("PTX: " + error);
    return ERROR_INVALID_PTX;
  }
  std::string version = parsed->version();
  int major = std::atoi(version.c_str());
  auto dot = version.find('.');
  int minor = dot == std::string::npos ? 0 : std::atoi(version.c_str() + dot + 1);
  // The newest PTX version follows from the driver's: CUDA 12.0 has PTX 8.0, 12.1 has 8.1, 13.0 has
  // 9.0.
  int newest = (settings().driverVersion / 1000 - 4) * 10 + settings().driverVersion % 1000 / 10;
  if (major * 10 + minor > newest) {
    putLog("Unsupported .version " + version, count, options, values);
    return ERROR_UNSUPPORTED_PTX_VERSION;
  }
  if (int own = capabilityOf(currentContext()->device); architectureOf(parsed->target()) > own) {
    putLog(text("Program with .target '{}' cannot be compiled to architecture 'sm_{}'",
                parsed->target(), own),
           count, options, values);
    return ERROR_INVALID_PTX;
  }
  auto module = std::make_unique<Module>();
  module->context = currentContext();
  module->text = *parsed;
  for (const ptx::KernelInfo &info : parsed->kernels()) {
    auto function = std::make_unique<Function>();
    function->module = module.get();
    function->info = info;
    function->maxDynamicShared = 48 * 1024 - std::min<uint32_t>(info.sharedBytes, 48 * 1024);
    module->functions[info.name] = std::move(function);
  }
  putLog("", count, options, values); // also if the log is empty
  *result = module.get();
  state().modules[module.get()] = std::move(module);
  return SUCCESS;
}

Function *findFunction(Function *handle) {
  return state().functions.contains(handle) ? handle : nullptr;
}

} // namespace

Result sim::cuModuleLoadData(Module **module, const void *image) {
  return call("cuModuleLoadData", Current | Safe,
              [&](Lock &) { return load(module, image, 0, nullptr, nullptr); });
}

Result sim::cuModuleLoadDataEx(Module **module, const void *image, unsigned count,
                               JitOption *options, void **values) {
  return call("cuModuleLoadDataEx", Current | Safe,
              [&](Lock &) { return load(module, image, count, options, values); });
}

Result sim::cuModuleUnload(Module *handle) {
  return call("cuModuleUnload", Current | Safe, [&](Lock &lock) {
    auto found = state().modules.find(handle);
    if (found == state().modules.end())
      return misuse("cuModuleUnload", ERROR_INVALID_HANDLE, "no module");
    // A real driver waits for operations in flight. Programs must not rely on this, so the module
    // is unloaded at once.
    *found->second->isLoaded = false;
    if (Result result = drain(lock, *currentContext()))
      return result;
    found = state().modules.find(handle);
    if (found == state().modules.end())
      return ERROR_INVALID_HANDLE;
    for (const auto &[name, function] : found->second->functions)
      state().functions.erase(function.get());
    state().modules.erase(found);
    return SUCCESS;
  });
}

Result sim::cuModuleGetFunction(Function **result, Module *handle, const char *name) {
  return call("cuModuleGetFunction", Current, [&](Lock &) {
    auto module = state().modules.find(handle);
    if (module == state().modules.end())
      return misuse("cuModuleGetFunction", ERROR_INVALID_HANDLE, "no module");
    if (!result || !name)
      return ERROR_INVALID_VALUE;
    auto found = module->second->functions.find(name);
    if (found == module->second->functions.end())
      return ERROR_NOT_FOUND;
    *result = found->second.get();
    state().functions.insert(*result);
    return SUCCESS;
  });
}

Result sim::cuFuncLoad(Function *handle) {
  return call("cuFuncLoad", Current | Safe, [&](Lock &) {
    Function *function = findFunction(handle);
    if (!function)
      return misuse("cuFuncLoad", ERROR_INVALID_HANDLE, "no function");
    function->loaded = true;
    return SUCCESS;
  });
}

Result sim::cuFuncGetAttribute(int *value, FunctionAttribute attribute, Function *handle) {
  return call("cuFuncGetAttribute", Current, [&](Lock &) {
    Function *function = findFunction(handle);
    if (!function)
      return misuse("cuFuncGetAttribute", ERROR_INVALID_HANDLE, "no function");
    if (!value)
      return ERROR_INVALID_VALUE;
    switch (attribute) {
    case FunctionMaxThreadsPerBlock:
      *value = function->info.maxThreads ? int(function->info.maxThreads) : 1024;
      return SUCCESS;
    case FunctionSharedSizeBytes:
      *value = int(function->info.sharedBytes);
      return SUCCESS;
    case FunctionConstSizeBytes:
    case FunctionLocalSizeBytes:
      *value = 0;
      return SUCCESS;
    case FunctionNumRegs:
      *value = 32;
      return SUCCESS;
    case FunctionPtxVersion:
      *value = architectureOf(function->module->text.target());
      return SUCCESS;
    case FunctionBinaryVersion:
      *value = capabilityOf(function->module->context->device);
      return SUCCESS;
    case FunctionMaxDynamicSharedSizeBytes:
      *value = int(function->maxDynamicShared);
      return SUCCESS;
    case FunctionPreferredSharedMemoryCarveout:
      *value = -1;
      return SUCCESS;
    }
    report(text("not simulated: attribute {} of functions", int(attribute)));
    return ERROR_INVALID_VALUE;
  });
}

Result sim::cuFuncSetAttribute(Function *handle, FunctionAttribute attribute, int value) {
  return call("cuFuncSetAttribute", Current, [&](Lock &) {
    Function *function = findFunction(handle);
    if (!function)
      return misuse("cuFuncSetAttribute", ERROR_INVALID_HANDLE, "no function");
    if (attribute == FunctionPreferredSharedMemoryCarveout)
      return value >= -1 && value <= 100 ? SUCCESS : ERROR_INVALID_VALUE;
    if (attribute != FunctionMaxDynamicSharedSizeBytes || value < 0 ||
        value + int(function->info.sharedBytes) >
            sharedBytesOfBlock(capabilityOf(function->module->context->device)))
      return ERROR_INVALID_VALUE;
    function->maxDynamicShared = uint32_t(value);
    return SUCCESS;
  });
}

Result sim::cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, Function *handle, int threads,
                                                        size_t sharedBytes) {
  return call("cuOccupancyMaxActiveBlocksPerMultiprocessor", Current, [&](Lock &) {
    Function *function = findFunction(handle);
    if (!function)
      return misuse("cuOccupancyMaxActiveBlocksPerMultiprocessor", ERROR_INVALID_HANDLE,
                    "no function");
    if (!blocks || threads < 1)
      return ERROR_INVALID_VALUE;
    // The number of registers is unknown. Half of the maximum threads are assumed to fit.
    int capability = capabilityOf(function->module->context->device);
    int byThreads = threadsOfMultiprocessor(capability) / 2 / ((threads + 31) / 32 * 32);
    size_t shared = function->info.sharedBytes + sharedBytes + 1024; // reserved by the system
    int byShared = int(size_t(sharedBytesOfBlock(capability) + 1024) / shared);
    *blocks = threads > 1024 || sharedBytes > function->maxDynamicShared
                  ? 0
                  : std::min(std::max(byThreads, 1), byShared);
    return SUCCESS;
  });
}

/// Whether the last operation of a stream, or of its capture, is a kernel.
static bool isAfterKernel(const Stream &stream) {
  if (stream.capture)
    return stream.tips.size() == 1 && stream.capture->graph.nodes[stream.tips[0]].work->isKernel;
  return stream.last && stream.last->isKernel;
}

static Result launch(const char *name, Function *handle, const LaunchSettings &settings,
                     void **parameters, void **extra) {
  auto [gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, streamHandle, attributes, count] =
      settings;
  bool isDependent = false;
  for (unsigned i = 0; i < count; ++i) {
    const LaunchAttribute &one = attributes[i];
    if (one.kind == LaunchProgrammaticSerialization) {
      isDependent = one.value.allowed != 0;
    } else if (one.kind != LaunchIgnore) {
      report(text("not simulated: attribute {} of launches", int(one.kind)));
      return ERROR_NOT_SUPPORTED;
    }
  }
  return call(name, Current, [&](Lock &) {
    Context &context = *currentContext();
    Function *function = findFunction(handle);
    Stream *stream = find(streamHandle);
    if (!function || function->module->context != &context)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no function of this context");
    if (!stream)
      return misuse(name, ERROR_INVALID_HANDLE, "the handle is no stream of this context");
    const ptx::KernelInfo &info = function->info;
    auto refuse = [&](Result result, const std::string &what) {
      return misuse(name, result, info.name + ": " + what);
    };
    if (extra) {
      report("not simulated: a launch with `extra`");
      return ERROR_NOT_SUPPORTED;
    }
    if (!gridX || !gridY || !gridZ || !blockX || !blockY || !blockZ)
      return refuse(ERROR_INVALID_VALUE, "the grid or the block has no threads");
    uint64_t threads = uint64_t(blockX) * blockY * blockZ;
    if (gridX > 0x7fffffffu || gridY > 65535 || gridZ > 65535 || blockX > 1024 || blockY > 1024 ||
        blockZ > 64 || threads > 1024)
      return refuse(ERROR_INVALID_VALUE, "the grid or the block exceeds the device's limits");
    if (info.maxThreads && threads > info.maxThreads)
      return refuse(ERROR_INVALID_VALUE, "the block has more threads than .maxntid");
    if (info.block[0] &&
        (blockX != info.block[0] || blockY != info.block[1] || blockZ != info.block[2]))
      return refuse(ERROR_INVALID_VALUE, "the block differs from .reqntid");
    if (sharedBytes > function->maxDynamicShared)
      return refuse(ERROR_INVALID_VALUE, text("{} bytes of dynamic shared memory; it has {}",
                                              sharedBytes, function->maxDynamicShared));
    if (!info.parameters.empty() && !parameters)
      return refuse(ERROR_INVALID_VALUE, "no parameters");
    if (injected("launch", ++context.launches, context))
      return ERROR_LAUNCH_OUT_OF_RESOURCES;
    if (!function->loaded) {
      // Lazy loading may synchronize with the device, so a graph cannot contain it.
      if (stream->capture) {
        invalidate(*stream->capture,
                   info.name + " is loaded when it is first launched, which is now");
        return ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
      function->loaded = true;
    }
    // Parameters are read now.
    std::vector<ptx::Argument> arguments(info.parameters.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!parameters[i])
        return refuse(ERROR_INVALID_VALUE, text("parameter {} is null", i));
      const auto *bytes = static_cast<const uint8_t *>(parameters[i]);
      arguments[i].bytes.assign(bytes, bytes + info.parameters[i].bytes);
    }
    if (isDependent && capabilityOf(context.device) < 90)
      return refuse(ERROR_NOT_SUPPORTED, "a programmatic dependent launch needs sm_90");
    if (isDependent && !isAfterKernel(*stream)) {
      if (stream->capture)
        invalidate(*stream->capture, info.name + " depends on a node that is no kernel");
      return refuse(ERROR_INVALID_VALUE,
                    "a programmatic dependent launch after an operation that is no kernel");
    }
    if (isDependent)
      trace("(dependent launch of " + info.name + ")");
    ptx::LaunchConfig config;
    config.dependent = isDependent;
    config.grid = {gridX, gridY, gridZ};
    config.block = {blockX, blockY, blockZ};
    config.sharedBytes = sharedBytes;
    return enqueue(context, *stream,
                   makeLaunch(*function->module, info.name, std::move(arguments), config));
  });
}

Result sim::cuLaunchKernel(Function *handle, unsigned gridX, unsigned gridY, unsigned gridZ,
                           unsigned blockX, unsigned blockY, unsigned blockZ, unsigned sharedBytes,
                           Stream *stream, void **parameters, void **extra) {
  return launch("cuLaunchKernel", handle,
                {gridX, gridY, gridZ, blockX, blockY, blockZ, sharedBytes, stream, nullptr, 0},
                parameters, extra);
}

Result sim::cuLaunchKernelEx(const LaunchSettings *settings, Function *handle, void **parameters,
                             void **extra) {
  if (!settings || (settings->count && !settings->attributes))
    return ERROR_INVALID_VALUE;
  return launch("cuLaunchKernelEx", handle, *settings, parameters, extra);
}
