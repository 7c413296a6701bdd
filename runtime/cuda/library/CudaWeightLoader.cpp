//===- CudaWeightLoader.cpp - Weight conversion and packing on a GPU ------===//

#include "cuda/library/CudaWeightLoader.h"
#include "core/DType.h"
#include "cuda/library/InFlightOperations.h"
#include "cuda/library/WeightKernels.h"
#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tpc::rt::cuda {

/// Parameter layout of the kernels (WeightKernels.cpp).
struct CudaWeightLoader::Work {
  uint32_t count, factors;
  Address source, target;
  int64_t first;
  Generator generator;
};

namespace {

struct WorkFactor {
  uint32_t size, unused;
  int64_t to, from;
  Address table; ///< address of the offsets, or 0
};
static_assert(sizeof(WorkFactor) == 32 && sizeof(Generator) == 16);

constexpr unsigned threads = 256, blocksOfMultiprocessor = 16;
/// Maximum size of the work and its factors. Offset tables take space from the elements.
constexpr int64_t maxWorkBytes = 4 << 10;
constexpr int64_t alignment = 16;

int64_t alignUp(int64_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

} // namespace

CudaWeightLoader::CudaWeightLoader(Device &device, Queue &queue, AddMatrix addMatrix,
                                   Address staging, int64_t bytes)
    : device(device), queue(queue), driver(queue.driver), addMatrix(std::move(addMatrix)),
      staging(staging), stagingBytes(bytes) {}

CudaWeightLoader::~CudaWeightLoader() {
  if (!module)
    return;
  try {
    queue.enter();
    queue.synchronize();
  } catch (const std::exception &) {
    // The error surfaces at the next wait.
  }
  driver.cuModuleUnload(module);
}

int64_t CudaWeightLoader::maxBytes() const { return stagingBytes - maxWorkBytes - alignment; }

std::byte *CudaWeightLoader::begin(int64_t bytes) {
  writtenBytes = alignUp(bytes);
  written = device.beginWrite(pointerTo(staging), writtenBytes + maxWorkBytes);
  return written;
}

void CudaWeightLoader::put(void *to, int32_t dtype, int32_t source,
                           std::span<const LoadFactor> factors) {
  launch(dtype == source ? copyKernel(sizeOf(dtype)) : convertKernel(source),
         {0, 0, staging, addressOf(to), 0, {}}, factors);
}

void CudaWeightLoader::draw(void *to, int32_t dtype, int32_t source, const Generator &generator,
                            int64_t first, std::span<const LoadFactor> factors) {
  int64_t bytes = 0;
  for (const LoadFactor &factor : factors)
    bytes += static_cast<int64_t>(factor.offsets.size_bytes());
  begin(bytes);
  launch(drawKernel(dtype, source), {0, 0, 0, addressOf(to), first, generator}, factors);
}

void CudaWeightLoader::launch(const char *kernel, Work work, std::span<const LoadFactor> factors) {
  if (sizeof(Work) + factors.size() * sizeof(WorkFactor) > maxWorkBytes)
    throw std::runtime_error("a weight's shard has " + std::to_string(factors.size()) +
                             " factors, too many for GPUs");
  if (!module) {
    driver.check(driver.cuModuleLoadDataEx(&module, weightKernels().c_str(), 0, nullptr, nullptr),
                 "to load kernels that convert weights");
  }
  Function &function = functions[kernel];
  if (!function) {
    driver.check(driver.cuModuleGetFunction(&function, module, kernel),
                 "to find a kernel that converts weights");
    driver.check(driver.cuFuncLoad(function), "to load a kernel");
  }
  int64_t count = 1, table = 0;
  std::byte *nextFactor = written + writtenBytes + sizeof(Work);
  for (const LoadFactor &factor : factors) {
    WorkFactor entry{static_cast<uint32_t>(factor.size), 0, factor.to, factor.from, 0};
    if (!factor.offsets.empty()) {
      entry.table = staging + static_cast<Address>(table);
      std::memcpy(written + table, factor.offsets.data(), factor.offsets.size_bytes());
      table += static_cast<int64_t>(factor.offsets.size_bytes());
    }
    std::memcpy(nextFactor, &entry, sizeof(entry));
    nextFactor += sizeof(entry);
    count *= factor.size;
  }
  work.count = static_cast<uint32_t>(count);
  work.factors = static_cast<uint32_t>(factors.size());
  std::memcpy(written + writtenBytes, &work, sizeof(work));
  device.endWrite();
  Address at = staging + static_cast<Address>(writtenBytes);
  void *parameters[] = {&at};
  auto blocks = static_cast<unsigned>(
      std::min<int64_t>((count + threads - 1) / threads,
                        int64_t(blocksOfMultiprocessor) * std::max(queue.gpu.multiprocessors, 1)));
  driver.check(driver.cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, queue.stream,
                                     parameters, nullptr),
               "to launch a kernel that converts weights");
  InFlightOperations::add(driver, queue.stream, "kernel", kernel);
}

void CudaWeightLoader::clear(void *to, int64_t bytes) {
  queue.enter();
  if (bytes > 0)
    driver.check(driver.cuMemsetD8Async(addressOf(to), 0, static_cast<size_t>(bytes), queue.stream),
                 "to clear memory");
}

std::vector<std::shared_ptr<Matrix>> CudaWeightLoader::matricesOf(const void *rows, int64_t k,
                                                                  std::span<const int64_t> widths,
                                                                  int32_t dtype) {
  return makeColumns(addressOf(rows), k, widths, dtype, nullptr, addMatrix);
}

} // namespace tpc::rt::cuda
