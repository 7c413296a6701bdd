//===- DescribeGpus.cpp - Description of the libraries and GPUs found -----===//

#include "cuda/Interface.h"
#include "cuda/library/CublasLt.h"
#include "cuda/library/Cudnn.h"
#include "cuda/library/Kernels.h"
#include "cuda/library/Nccl.h"
#include "cuda/library/VendorLibrary.h"
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

namespace tpc::rt::cuda {
namespace {

std::string line(const std::string &what, const std::string &text) {
  return what + std::string(what.size() < 12 ? 12 - what.size() : 1, ' ') + text + "\n";
}

std::string describe(const Gpu &gpu) {
  char memory[32];
  std::snprintf(memory, sizeof(memory), "%.1f GiB", static_cast<double>(gpu.bytes) / (1 << 30));
  return gpu.name + ", sm_" + std::to_string(gpu.architecture) + ", " +
         std::to_string(gpu.multiprocessors) + " multiprocessors, " + memory + ", " + gpu.uuid;
}

/// Version and file of a library, or the reason why it is missing.
template <class Library> std::string describe(const Library *library, const std::string &problem) {
  return library ? library->describe() + ", " + library->file : "none: " + problem;
}

std::string describeAll(std::string &problem) {
  std::string text = line("", libraryName + std::string(", ") + fileOf(&describeAll)).substr(12);
  const Driver *driver = Driver::load(problem);
  if (!driver) {
    text += line("driver", "none: " + problem);
  } else {
    text += line("driver", "for CUDA " + driver->versionText() + ", " + driver->file);
    int count = 0;
    driver->check(driver->cuDeviceGetCount(&count), "to be counted");
    for (int i = 0; i < count; ++i)
      text += line("GPU " + std::to_string(i), describe(Gpu::query(*driver, i)));
    if (count == 0)
      problem = "there is no GPU (CUDA_VISIBLE_DEVICES may hide them)";
    if (count == 0)
      text += line("GPUs", "none");
  }
  if (const char *visible = std::getenv("CUDA_VISIBLE_DEVICES"))
    text += line("", "as limited by CUDA_VISIBLE_DEVICES=" + std::string(visible));
  std::string missing;
  const blas::Library *blas = blas::Library::load(missing);
  text += line("cuBLASLt", describe(blas, missing));
  if (problem.empty())
    problem = missing;
  missing.clear();
  const nccl::Library *nccl = nccl::Library::load(missing);
  text += line("NCCL", describe(nccl, missing) +
                           (nccl ? "" : "; ranks communicate through the host's memory"));
  missing.clear();
  const dnn::Library *dnn = dnn::Library::load(missing);
  text +=
      line("cuDNN", describe(dnn, missing) +
                        (dnn ? "" : "; generated kernels compute attention of 16 bits as well"));
  return text;
}

} // namespace
} // namespace tpc::rt::cuda

extern "C" __attribute__((visibility("default"))) void
tpc_cuda_describe(const char *tag, std::string &text, std::string &problem) {
  using namespace tpc::rt::cuda;
  if (std::strcmp(tag, tpc::rt::cuda::tag) != 0) {
    problem = std::string(libraryName) + " is of another version of the runtime";
    return;
  }
  try {
    text = describeAll(problem);
  } catch (const std::exception &error) {
    problem = error.what();
  }
}
