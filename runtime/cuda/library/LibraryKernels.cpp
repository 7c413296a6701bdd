//===- LibraryKernels.cpp - runtime-compiled kernels of this library ----------===//

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
  std::string ptx = text();
  waits = ptx.find(dependent_launch::kWait) != std::string::npos;
  ptx = dependent_launch::getText(ptx, queue.gpu.architecture);
  driver.check(driver.cuModuleLoadDataEx(&module, ptx.c_str(), 0, nullptr, nullptr),
               ("to load kernels that " + std::string(purpose)).c_str());
  for (const char *name : names) {
    Function &function = functions[name];
    driver.check(driver.cuModuleGetFunction(&function, module, name),
                 ("to find kernel '" + std::string(name) + "'").c_str());
    driver.check(driver.cuFuncLoad(function), "to load a kernel");
  }
}

void LibraryKernels::run(const char *kernel, void **parameters, int64_t blocks, unsigned threads,
                         int64_t sharedBytes, bool isDependent) {
  const Driver &driver = queue.driver;
  load();
  Result result = queue.launch(functions.at(kernel), blocks, threads, sharedBytes, parameters,
                               waits && isDependent);
  if (result != success)
    driver.raise(result, ("to launch kernel '" + std::string(kernel) + "'").c_str());
  InFlightOperations::add(driver, queue.stream, "kernel", kernel);
}

} // namespace tpc::rt::cuda
