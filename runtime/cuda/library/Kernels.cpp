//===- Kernels.cpp - Loaded kernels of a program --------------------------===//

#include "cuda/library/Kernels.h"
#include "cuda/library/InFlightOperations.h"
#include "cuda/library/Queue.h"
#include "tpc/attention.h"
#include "tpc/dependent_launch.h"
#include <algorithm>
#include <cstdlib>
#include <map>
#include <span>
#include <stdexcept>
#include <string_view>

namespace tpc::rt::cuda {

Gpu Gpu::query(const Driver &driver, int ordinal) {
  Gpu gpu;
  driver.check(driver.cuDeviceGet(&gpu.number, ordinal), "to be found");
  char name[256] = "";
  driver.check(driver.cuDeviceGetName(name, sizeof(name), gpu.number), "to report its name");
  gpu.name = name;
  Uuid uuid = {};
  driver.check(driver.cuDeviceGetUuid_v2(&uuid, gpu.number), "to report its UUID");
  gpu.uuid = "GPU-";
  for (size_t i = 0; i < sizeof(uuid.bytes); ++i) {
    constexpr const char *digits = "0123456789abcdef";
    gpu.uuid += i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "";
    gpu.uuid += digits[uuid.bytes[i] >> 4];
    gpu.uuid += digits[uuid.bytes[i] & 15];
  }
  auto query = [&](int attribute) {
    int value = 0;
    driver.check(driver.cuDeviceGetAttribute(&value, attribute, gpu.number),
                 "to report its properties");
    return value;
  };
  gpu.architecture = 10 * query(capabilityMajor) + query(capabilityMinor);
  gpu.multiprocessors = query(cuda::multiprocessors);
  size_t bytes = 0;
  driver.check(driver.cuDeviceTotalMem_v2(&bytes, gpu.number), "to report its memory");
  gpu.bytes = static_cast<int64_t>(bytes);
  return gpu;
}

//===----------------------------------------------------------------------===//
// Grids
//===----------------------------------------------------------------------===//

namespace {

constexpr int64_t warp = 32;
/// Maximum number of blocks per multiprocessor: of 256 threads, 8 can run at once.
constexpr int64_t maxBlocksPerMultiprocessor = 32;

int64_t ceilDiv(int64_t x, int64_t y) { return (x + y - 1) / y; }

} // namespace

unsigned blocksFor(const tpc_gpu_kernel &kernel, int64_t rows, const int64_t *env,
                   int multiprocessors) {
  int64_t length = std::max<int64_t>(kernel.elements_per_row(env), 1);
  int64_t maxBlocks = maxBlocksPerMultiprocessor * std::max(multiprocessors, 1);
  int64_t threadsPerRow = kernel.threads, partsOfRow = 1;
  switch (kernel.shape) {
  case TPC_GPU_ELEMENTS: {
    // Consecutive threads take consecutive chunks, also across the ends of rows.
    int64_t chunks = ceilDiv(length, kernel.elements_per_thread);
    rows = rows > maxBlocks * kernel.threads ? rows : rows * chunks;
    threadsPerRow = 1;
    break;
  }
  case TPC_GPU_WARP_PER_ROW:
    threadsPerRow = warp;
    break;
  case TPC_GPU_BLOCK_PER_ROW:
    break;
  case TPC_GPU_ROW_BY_LENGTH:
    threadsPerRow = length > TPC_GPU_LONG_ROW ? kernel.threads : warp;
    break;
  case TPC_GPU_TILES:
    rows = ceilDiv(rows, TPC_GPU_TILE);
    partsOfRow = ceilDiv(length, TPC_GPU_TILE);
    break;
  }
  int64_t ofRows = ceilDiv(rows, kernel.threads / threadsPerRow);
  // The product may overflow.
  return static_cast<unsigned>(
      std::clamp<int64_t>(ofRows >= maxBlocks ? maxBlocks : ofRows * partsOfRow, 1, maxBlocks));
}

//===----------------------------------------------------------------------===//
// Code
//===----------------------------------------------------------------------===//

Kernels::Kernels(const Queue &queue, const tpc_program &program)
    : queue(queue), driver(queue.driver), gpu(queue.gpu), code(*program.gpu_code) {
  if (code.num_kernels == 0)
    return;
  loadModule();
  std::map<std::string_view, size_t> byName;
  for (int32_t i = 0; i < code.num_kernels; ++i) {
    byName[code.kernels[i].name] = loaded.size();
    loaded.push_back(load(code.kernels[i]));
  }
  for (int32_t i = 0; i < program.num_kernels; ++i) {
    auto known = byName.find(program.kernels[i].name);
    if (known == byName.end())
      throw std::runtime_error("the program is damaged: its code for GPUs has no kernel '" +
                               std::string(program.kernels[i].name) + "'");
    entries.push_back(&loaded[known->second]);
  }
}

Kernels::Entry Kernels::load(const tpc_gpu_kernel &kernel) {
  Entry entry;
  entry.kernel = &kernel;
  if (driver.cuModuleGetFunction(&entry.function, module, kernel.name) != success)
    throw std::runtime_error("the program is damaged: its code for GPUs has no kernel '" +
                             std::string(kernel.name) + "'");
  driver.check(driver.cuFuncLoad(entry.function), "to load a kernel");
  if (kernel.dynamic_shared_bytes > 0)
    driver.check(
        driver.cuFuncSetAttribute(entry.function, dynamicSharedBytes, kernel.dynamic_shared_bytes),
        "to give a kernel shared memory");
  return entry;
}

Kernels::~Kernels() {
  if (module)
    driver.cuModuleUnload(module);
}

/// Returns whether TPC_CUDA_CODE=ptx requests that the driver compiles the PTX even if there is
/// machine code.
static bool requestsPtx() {
  const char *text = std::getenv("TPC_CUDA_CODE");
  std::string_view value = text ? text : "";
  if (value.empty() || value == "ptx")
    return !value.empty();
  throw std::runtime_error("TPC_CUDA_CODE=" + std::string(value) +
                           ": the only value is ptx (the driver compiles the kernels' PTX); unset "
                           "it for the machine code of this GPU");
}

void Kernels::loadModule() {
  std::string thisGpu = "this GPU (" + gpu.name + ", sm_" + std::to_string(gpu.architecture) + ")";
  if (gpu.architecture < code.architecture)
    throw std::runtime_error(thisGpu + " is older than what the program was compiled for: name its "
                                       "architecture with tpcc --gpu-arch");
  // The latest architecture of the GPU's family.
  const tpc_gpu_cubin *best = nullptr;
  int32_t numCubins = requestsPtx() ? 0 : code.num_cubins;
  for (int32_t i = 0; i < numCubins; ++i) {
    const tpc_gpu_cubin &cubin = code.cubins[i];
    if (cubin.architecture / 10 == gpu.architecture / 10 &&
        cubin.architecture <= gpu.architecture &&
        (!best || cubin.architecture > best->architecture))
      best = &cubin;
  }
  if (best) {
    Result result = driver.cuModuleLoadDataEx(&module, best->data, 0, nullptr, nullptr);
    if (result == success)
      return;
    // The driver may be older than the assembler; it can still compile the PTX.
    module = nullptr;
    if (result != noBinaryForGpu && result != invalidImage)
      driver.raise(result, "to load the program's kernels");
  }
  char log[4096] = "";
  int options[] = {errorLog, errorLogBytes};
  void *values[] = {log, reinterpret_cast<void *>(sizeof(log))};
  std::string ptx = dependent_launch::getText(code.ptx, gpu.architecture);
  Result result = driver.cuModuleLoadDataEx(&module, ptx.c_str(), 2, options, values);
  if (result == success)
    return;
  std::string why = driver.describe(result) + (*log ? "\n" + std::string(log) : "");
  if (result == unsupportedPtx)
    why += "\nthe driver is older than the program's kernels: compile them with tpcc --gpu-arch "
           "for this GPU alone, with a ptxas that this driver supports, or install a newer driver";
  throw std::runtime_error(thisGpu + " does not take the program's kernels: " + why);
}

void Kernels::launch(const Entry &entry, int64_t blocks, std::span<void *> parameters) {
  const tpc_gpu_kernel &kernel = *entry.kernel;
  // tpcc checks that all kernels wait for the previous one.
  Result result = queue.launch(entry.function, blocks, static_cast<unsigned>(kernel.threads),
                               kernel.dynamic_shared_bytes, parameters.data(), /*waits=*/true);
  if (result != success)
    driver.raise(result, ("to launch kernel '" + std::string(kernel.name) + "'").c_str());
  InFlightOperations::add(driver, queue.stream, "kernel", kernel.name);
}

void Kernels::launch(int32_t index, void *const *operands, int32_t count, int64_t rows,
                     const int64_t *env, Address gpuEnv, Address status) {
  const Entry &entry = *entries[static_cast<size_t>(index)];
  const tpc_gpu_kernel &kernel = *entry.kernel;
  if (count != kernel.operands)
    throw std::runtime_error("internal error: kernel '" + std::string(kernel.name) + "' takes " +
                             std::to_string(kernel.operands) + " operands, not " +
                             std::to_string(count));
  if (int64_t extent = kernel.largest_extent(env); extent > INT32_MAX)
    throw std::runtime_error("kernel '" + std::string(kernel.name) + "': a dimension of " +
                             std::to_string(extent) +
                             " is too long for 32-bit indices: run smaller sizes");
  std::vector<void *> parameters{&gpuEnv, &status};
  for (int32_t i = 0; i < count; ++i)
    parameters.push_back(const_cast<void **>(&operands[i]));
  launch(entry, blocksFor(kernel, rows, env, gpu.multiprocessors), parameters);
}

//===----------------------------------------------------------------------===//
// Attention
//===----------------------------------------------------------------------===//

const tpc_gpu_attention &Kernels::attentionOf(const tpc_attention_args &args) const {
  for (const tpc_gpu_attention &candidate :
       std::span(code.attentions, static_cast<size_t>(code.num_attentions))) {
    attention::Variant variant{.element = candidate.element,
                               .bias = candidate.bias,
                               .slopes = candidate.slopes,
                               .sinks = candidate.sinks,
                               .headSize = candidate.head_size,
                               .valueSize = candidate.value_size,
                               .causal = candidate.causal != 0,
                               .windowed = candidate.windowed != 0,
                               .keyMask = candidate.key_mask != 0,
                               .mask = candidate.mask != 0,
                               .softcap = candidate.softcap != 0,
                               .uniformRows = candidate.uniform_rows != 0,
                               .cached = candidate.cached != 0};
    if (variant.takes(args) && candidate.element == args.dtype &&
        (candidate.bias < 0 || candidate.bias == args.bias_dtype) &&
        (candidate.slopes < 0 || candidate.slopes == args.slopes_dtype) &&
        (candidate.sinks < 0 || candidate.sinks == args.sinks_dtype))
      return candidate;
  }
  throw std::runtime_error("internal error: the program's code for GPUs has no kernels for this "
                           "attention");
}

void Kernels::launch(int32_t index, int64_t items, std::initializer_list<Address> addresses,
                     int64_t blocksOfMultiprocessor) {
  if (items <= 0)
    return;
  std::vector<Address> values(addresses);
  std::vector<void *> parameters;
  for (Address &value : values)
    parameters.push_back(&value);
  int64_t blockLimit =
      blocksOfMultiprocessor ? blocksOfMultiprocessor * gpu.multiprocessors : int64_t(INT32_MAX);
  launch(loaded[static_cast<size_t>(index)], std::min(items, blockLimit), parameters);
}

} // namespace tpc::rt::cuda
