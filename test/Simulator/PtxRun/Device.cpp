//===- Device.cpp - Launch on a real device -------------------------------===//
//
// The driver is loaded on demand, and declared here, so that building needs no CUDA toolkit.
//
//===----------------------------------------------------------------------===//

#include "Device.h"

#include <dlfcn.h>
#include <memory>

using namespace ptxrun;

namespace {

using Status = int;
using DevicePointer = uint64_t;
struct Context;
struct DriverModule;
struct Function;
struct Stream;

constexpr int maxDynamicShared = 8; // CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

class Driver {
public:
  Driver() {
    library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    if (!library)
      throw UserError(std::string("--device: there is no driver, so nothing was compared: ") +
                      dlerror());
    find(init, "cuInit");
    find(errorName, "cuGetErrorName");
    find(deviceGet, "cuDeviceGet");
    find(deviceName, "cuDeviceGetName");
    find(retain, "cuDevicePrimaryCtxRetain");
    find(setCurrent, "cuCtxSetCurrent");
    find(synchronize, "cuCtxSynchronize");
    find(loadData, "cuModuleLoadData");
    find(getFunction, "cuModuleGetFunction");
    find(setAttribute, "cuFuncSetAttribute");
    find(alloc, "cuMemAlloc_v2");
    find(release, "cuMemFree_v2");
    find(toDevice, "cuMemcpyHtoD_v2");
    find(toHost, "cuMemcpyDtoH_v2");
    find(launchKernel, "cuLaunchKernel");
  }

  void check(Status status, const std::string &what) const {
    if (status == 0)
      return;
    const char *name = nullptr;
    errorName(status, &name);
    throw UserError("--device: " + what + ": " + (name ? name : "error " + std::to_string(status)));
  }

  Status (*init)(unsigned);
  Status (*errorName)(Status, const char **);
  Status (*deviceGet)(int *, int);
  Status (*deviceName)(char *, int, int);
  Status (*retain)(Context **, int);
  Status (*setCurrent)(Context *);
  Status (*synchronize)();
  Status (*loadData)(DriverModule **, const void *);
  Status (*getFunction)(Function **, DriverModule *, const char *);
  Status (*setAttribute)(Function *, int, int);
  Status (*alloc)(DevicePointer *, size_t);
  Status (*release)(DevicePointer);
  Status (*toDevice)(DevicePointer, const void *, size_t);
  Status (*toHost)(void *, DevicePointer, size_t);
  Status (*launchKernel)(Function *, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                         unsigned, Stream *, void **, void **);

private:
  template <class F> void find(F &function, const char *name) {
    function = reinterpret_cast<F>(dlsym(library, name));
    if (!function)
      throw UserError(std::string("--device: the driver has no ") + name);
  }
  void *library;
};

/// Device memory with exactly the requested alignment.
struct Buffer {
  Buffer(const Driver &driver, const Parameter &parameter) : driver(driver), bytes(parameter.size) {
    driver.check(driver.alloc(&allocation, bytes + 4 * parameter.alignment),
                 "allocating " + parameter.name);
    uint64_t step = 2 * parameter.alignment;
    begin = (allocation + step - 1) / step * step + parameter.alignment;
    std::vector<uint8_t> contents = parameter.bytes;
    contents.resize(bytes, 0xff);
    if (bytes)
      driver.check(driver.toDevice(begin, contents.data(), bytes), "copying " + parameter.name);
  }
  ~Buffer() { driver.release(allocation); }
  Buffer(const Buffer &) = delete;

  const Driver &driver;
  DevicePointer allocation = 0, begin = 0;
  uint64_t bytes;
};

} // namespace

std::vector<std::vector<uint8_t>> ptxrun::runOnDevice(const std::string &text,
                                                      const Options &options) {
  Driver driver;
  driver.check(driver.init(0), "the driver finds no device, so nothing was compared");
  int device = 0;
  driver.check(driver.deviceGet(&device, 0), "selecting the first device");
  Context *context = nullptr;
  driver.check(driver.retain(&context, device), "creating its context");
  driver.check(driver.setCurrent(context), "selecting its context");
  DriverModule *module = nullptr;
  driver.check(driver.loadData(&module, text.c_str()), "loading the text");
  Function *function = nullptr;
  driver.check(driver.getFunction(&function, module, options.kernel.c_str()),
               "finding " + options.kernel);
  const ptx::LaunchConfig &config = options.config;
  driver.check(driver.setAttribute(function, maxDynamicShared, int(config.sharedBytes)),
               "requesting dynamic shared memory");

  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<std::vector<uint8_t>> values; // bytes of parameters
  for (const Parameter &parameter : options.parameters) {
    buffers.push_back(parameter.isBuffer ? std::make_unique<Buffer>(driver, parameter) : nullptr);
    values.push_back(parameter.isBuffer
                         ? ptx::Argument::pointer(buffers.back()->begin + parameter.offset).bytes
                         : parameter.bytes);
  }
  std::vector<void *> pointers;
  for (auto &value : values)
    pointers.push_back(value.data());
  driver.check(driver.launchKernel(function, config.grid.x, config.grid.y, config.grid.z,
                                   config.block.x, config.block.y, config.block.z,
                                   config.sharedBytes, nullptr, pointers.data(), nullptr),
               "launching " + options.kernel);
  driver.check(driver.synchronize(), "running " + options.kernel);

  std::vector<std::vector<uint8_t>> results;
  for (auto &buffer : buffers) {
    results.emplace_back(buffer ? buffer->bytes : 0);
    if (buffer && buffer->bytes)
      driver.check(driver.toHost(results.back().data(), buffer->begin, buffer->bytes),
                   "copying results");
  }
  return results;
}
