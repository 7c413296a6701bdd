//===- LoadCuda.cpp - Loader of the CUDA device library -------------------===//

#include "core/Cores.h"
#include "core/DescribeDevices.h"
#include "core/RuntimeLibrary.h"
#include "cuda/Interface.h"
#include <atomic>
#include <dlfcn.h>

namespace tpc::rt {

const DeviceKind *cudaDevices(std::string &problem) {
  static std::atomic<const DeviceKind *> known{nullptr};
  if (const DeviceKind *kind = known.load())
    return kind;
  const std::string why = "this program computes on GPUs, but ";
  std::string reason;
  // The library is never unloaded, because a thread may still use its code or objects at the end of
  // the process.
  void *library = loadRuntimeLibrary(cuda::libraryName, RTLD_NOW | RTLD_LOCAL, reason);
  auto *entry =
      library ? reinterpret_cast<cuda::Entry *>(dlsym(library, cuda::entryName)) : nullptr;
  if (library && !entry)
    reason = std::string(cuda::libraryName) + " is not a library of this runtime";
  const DeviceKind *kind = entry ? entry(cuda::tag, reason) : nullptr;
  if (!kind)
    problem = why + reason;
  known.store(kind);
  return kind;
}

std::string describeDevices(const tpc_program &program, std::string &problem) {
  if (!program.gpu_code) {
    const DeviceKind &kind = deviceKind();
    return "processors: " + std::string(kind.kernels()) + " kernels, " +
           std::to_string(usableCores()) + " cores\n";
  }
  std::string text;
  void *library = loadRuntimeLibrary(cuda::libraryName, RTLD_NOW | RTLD_LOCAL, problem);
  auto *describe =
      library ? reinterpret_cast<cuda::Describe *>(dlsym(library, cuda::describeName)) : nullptr;
  if (describe)
    describe(cuda::tag, text, problem);
  else if (library)
    problem = std::string(cuda::libraryName) + " is not a library of this runtime";
  return text;
}

} // namespace tpc::rt
