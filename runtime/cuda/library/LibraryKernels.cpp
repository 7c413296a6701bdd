//===- LibraryKernels.cpp - Runtime-compiled kernels of this library ----------===//

#include "cuda/library/LibraryKernels.h"
#include "cuda/library/InFlightOperations.h"
#include "tpc/dependent_launch.h"

namespace tpc::rt::cuda {

LibraryKernels::~LibraryKernels() {
  if (!module)
    return;
  queue.driver.cuCtxSetCurrent(queue.context);
  queue.driver.cuModuleUnload(module);
}

void LibraryKernels::load() {
  if (module)
    return;
  const Driver &driver = queue.driver;
  const std::string source = text();
  const std::string ptx = dependent_launch::getText(source, queue.gpu.architecture);
  driver.check(driver.cuModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr),
               ("to load kernels that " + std::string(purpose)).c_str());
  for (const char *name : names) {
    Kernel &kernel = kernels[name];
    driver.check(driver.cuModuleGetFunction(&kernel.function, module, name),
                 ("to find kernel '" + std::string(name) + "'").c_str());
    driver.check(driver.cuFuncLoad(kernel.function), "to load a kernel");
    size_t begin = source.find(".entry " + std::string(name) + "(");
    size_t wait = source.find(dependent_launch::kWait, begin);
    kernel.waits = begin != std::string::npos && wait < source.find(".entry ", begin + 1);
  }
}

void LibraryKernels::run(const char *kernel, void **parameters, int64_t blocks, unsigned threads,
                         int64_t sharedBytes, bool isDependent) {
  const Driver &driver = queue.driver;
  load();
  const Kernel &loaded = kernels.at(kernel);
  Result result = queue.launch(loaded.function, blocks, threads, sharedBytes, parameters,
                               loaded.waits && isDependent);
  if (result != success)
    driver.raise(result, ("to launch kernel '" + std::string(kernel) + "'").c_str());
  InFlightOperations::add(driver, queue.stream, "kernel", kernel);
}

} // namespace tpc::rt::cuda
