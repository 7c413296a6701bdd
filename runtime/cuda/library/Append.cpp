//===- Append.cpp - what steps add to caches ------------------------------===//

#include "cuda/library/Append.h"
#include "cuda/library/Trail.h"
#include <algorithm>
#include <vector>

namespace tpc::rt::cuda {

/// Each thread has little to do: blocks for all of them, up to so many.
constexpr int64_t blocksOfMultiprocessor = 32;

Append::~Append() {
  if (!module)
    return;
  queue.driver.cuCtxSetCurrent(queue.context);
  queue.driver.cuModuleUnload(module);
}

void Append::load() {
  if (module)
    return;
  const Driver &driver = queue.driver;
  driver.check(driver.cuModuleLoadDataEx(&module, appendKernels().c_str(), 0, nullptr, nullptr),
               "to load kernels that add to caches");
  for (size_t i = 0; i < std::size(functions); ++i) {
    driver.check(driver.cuModuleGetFunction(&functions[i], module,
                                            AppendLaunch::nameOf(AppendLaunch::widths[i])),
                 "to find a kernel that adds to caches");
    driver.check(driver.cuFuncLoad(functions[i]), "to load a kernel");
  }
}

void Append::compute(const tpc_append_args &args) {
  load();
  AppendLaunch launch(args);
  std::vector<void *> parameters;
  launch.forEachParameter([&](auto &parameter) { parameters.push_back(&parameter); });
  auto which =
      std::find(std::begin(AppendLaunch::widths), std::end(AppendLaunch::widths), launch.width) -
      std::begin(AppendLaunch::widths);
  int64_t needed = (int64_t(launch.count) + AppendLaunch::threads - 1) / AppendLaunch::threads;
  auto blocks = static_cast<unsigned>(
      std::min(needed, blocksOfMultiprocessor * std::max(queue.gpu.multiprocessors, 1)));
  const Driver &driver = queue.driver;
  driver.check(driver.cuLaunchKernel(functions[which], blocks, 1, 1, AppendLaunch::threads, 1, 1, 0,
                                     queue.stream, parameters.data(), nullptr),
               "to launch a kernel that adds to a cache");
  Trail::add(driver, queue.stream, "kernel", AppendLaunch::nameOf(launch.width));
}

} // namespace tpc::rt::cuda
