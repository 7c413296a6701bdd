//===- LibraryKernels.cpp - runtime-compiled kernels of this library ----------===//

#include "cuda/library/LibraryKernels.h"
#include "cuda/library/InFlightOperations.h"

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
  driver.check(driver.cuModuleLoadDataEx(&module, text().c_str(), 0, nullptr, nullptr),
               ("to load kernels that " + std::string(purpose)).c_str());
  for (const char *name : names) {
    Function &function = functions[name];
    driver.check(driver.cuModuleGetFunction(&function, module, name),
                 ("to find kernel '" + std::string(name) + "'").c_str());
    driver.check(driver.cuFuncLoad(function), "to load a kernel");
  }
}

void LibraryKernels::run(const char *kernel, void **parameters, int64_t blocks, unsigned threads,
                         int64_t sharedBytes) {
  const Driver &driver = queue.driver;
  load();
  Function function = functions.at(kernel);
  Result result =
      driver.cuLaunchKernel(function, static_cast<unsigned>(blocks), 1, 1, threads, 1, 1,
                            static_cast<unsigned>(sharedBytes), queue.stream, parameters, nullptr);
  if (result != success)
    driver.raise(result, ("to launch kernel '" + std::string(kernel) + "'").c_str());
  InFlightOperations::add(driver, queue.stream, "kernel", kernel);
}

} // namespace tpc::rt::cuda
