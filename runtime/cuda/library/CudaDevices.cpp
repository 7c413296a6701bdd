//===- CudaDevices.cpp - GPUs of this machine -----------------------------===//

#include "core/Context.h"
#include "core/DType.h"
#include "cuda/Interface.h"
#include "cuda/library/CudaDevice.h"
#include "cuda/library/DryRunLibraries.h"
#include "cuda/library/InstalledTunings.h"
#include "cuda/library/Notes.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <mutex>

namespace tpc::rt::cuda {
namespace {

/// Libraries that all ranks' devices share.
struct VendorLibraries {
  const Driver &driver;
  const blas::Library &library;
};

class CudaDevices final : public DeviceKind {
public:
  CudaDevices(const VendorLibraries &vendor, std::vector<Gpu> gpus)
      : vendor(vendor), gpus(std::move(gpus)),
        architecture("sm_" + std::to_string(this->gpus[0].architecture)) {}

  const char *name() const override { return "cuda"; }
  const char *kernels() const override { return architecture.c_str(); }
  std::string products() const override { return vendor.library.describe(); }
  const DeviceKind *withProducts(const std::string &wanted, std::string &problem) const override {
    if (wanted == "tpc") // the default
      return this;
    problem =
        "--products=" + wanted + ": on GPUs, " + vendor.library.describe() + " computes matmuls";
    return nullptr;
  }
  std::string assign(const Placement &wanted) const override;
  DeviceAssignment assignmentOf(int rank) const override {
    const Gpu &gpu = gpuOf(rank);
    return {gpu.uuid, gpu.name};
  }
  std::string setSharing(bool shared) const override;
  int64_t freeBytes(int rank) const override;
  void releaseUnused() const override {
    std::lock_guard<std::mutex> lock(retaining);
    for (int number : retainedContexts)
      vendor.driver.cuDevicePrimaryCtxRelease_v2(number);
    retainedContexts.clear();
  }
  const DeviceKind *dryRun() const override;
  MemoryUse &use() const override { return DryRunMemory::ofThread().use; }
  std::vector<std::string> takeNotes() const override { return cuda::takeNotes(); }
  void enableTuning(bool enabled) const override { measures = enabled; }
  std::optional<std::string> installedTuning(const std::string &tuningKey) const override {
    return InstalledTunings::ofLibrary().find(tuningKey);
  }
  std::string communication() const override { return nccl ? nccl->describe() : "the host"; }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t dtype) const override {
    return k * n * sizeOf(dtype);
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    const Gpu &gpu = gpuOf(ctx.rank);
    auto device = std::make_unique<CudaDevice>(vendor.driver, vendor.library, nccl, gpu, measures);
    std::lock_guard<std::mutex> lock(retaining);
    if (auto retained = std::find(retainedContexts.begin(), retainedContexts.end(), gpu.number);
        retained != retainedContexts.end()) {
      retainedContexts.erase(retained);
      vendor.driver.cuDevicePrimaryCtxRelease_v2(gpu.number);
    }
    return device;
  }

private:
  const Gpu &gpuOf(int rank) const {
    int index = placement.threads ? rank : placement.first;
    return gpus[static_cast<size_t>(index) % gpus.size()];
  }

  const VendorLibraries vendor;
  const std::vector<Gpu> gpus;
  const std::string architecture;
  // State of the program, set while none of its models is open:
  mutable Placement placement;
  mutable const nccl::Library *nccl = nullptr;
  mutable bool measures = true;
  mutable std::mutex retaining;              // guards retainedContexts
  mutable std::vector<int> retainedContexts; // GPUs whose contexts freeBytes() created
};

std::string CudaDevices::assign(const Placement &wanted) const {
  placement = wanted;
  auto count = static_cast<int>(gpus.size());
  // Ranks that are processes may each see different GPUs.
  if (wanted.threads && wanted.onHost > count && !wanted.share)
    return std::to_string(wanted.onHost) + " ranks are on this machine, which has " +
           std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
           " (CUDA_VISIBLE_DEVICES chooses among them): run fewer ranks here, or several on one "
           "GPU with --share-gpus";
  return "";
}

std::string CudaDevices::setSharing(bool shared) const {
  // NCCL requires a GPU of its own for each rank of a host, as identified by NCCL_HOSTID.
  std::string problem;
  if (!shared || std::getenv("NCCL_HOSTID"))
    nccl = nccl::Library::load(problem);
  if (nccl && !nccl->registersMemory())
    return nccl->describe() +
           " does not register memory, as 2.19 and later do: communication makes an "
           "additional copy";
  return problem.empty() ? ""
                         : problem + ": ranks communicate through the host's memory, which is slow";
}

int64_t CudaDevices::freeBytes(int rank) const {
  const Driver &driver = vendor.driver;
  // Keeps the context until the rank's device uses it, because the context itself takes memory.
  Context context = nullptr;
  driver.check(driver.cuDevicePrimaryCtxRetain(&context, gpuOf(rank).number), "to be set up");
  {
    std::lock_guard<std::mutex> lock(retaining);
    retainedContexts.push_back(gpuOf(rank).number);
  }
  driver.check(driver.cuCtxSetCurrent(context), "to be used");
  size_t free = 0, total = 0;
  driver.check(driver.cuMemGetInfo_v2(&free, &total), "to report its free memory");
  return static_cast<int64_t>(free);
}

const DeviceKind *CudaDevices::dryRun() const {
  // Threads of several models make estimates at the same time.
  static thread_local std::unique_ptr<DryRunLibraries> libraries;
  static thread_local std::unique_ptr<CudaDevices> dryRunKind;
  if (this == dryRunKind.get())
    return this;
  if (!libraries)
    libraries = std::make_unique<DryRunLibraries>(vendor.driver, vendor.library);
  dryRunKind =
      std::make_unique<CudaDevices>(VendorLibraries{libraries->driver, libraries->library}, gpus);
  dryRunKind->placement = placement;
  dryRunKind->measures = measures;
  if (nccl) {
    libraries->nccl.version = nccl->version;
    if (!nccl->registersMemory())
      libraries->nccl.MemAlloc = nullptr;
    dryRunKind->nccl = &libraries->nccl;
  }
  return dryRunKind.get();
}

/// The GPUs, or the reason why none is usable.
struct Attempt {
  const Driver *driver = nullptr;
  const blas::Library *library = nullptr;
  std::vector<Gpu> gpus;
  std::string problem;

  Attempt() {
    driver = Driver::load(problem);
    library = driver ? blas::Library::load(problem) : nullptr;
    if (!library)
      return;
    int count = 0;
    driver->check(driver->cuDeviceGetCount(&count), "to be counted");
    for (int i = 0; i < count; ++i)
      gpus.push_back(Gpu::query(*driver, i));
    if (gpus.empty())
      problem = "there is no GPU (CUDA_VISIBLE_DEVICES may hide them)";
  }
};

} // namespace
} // namespace tpc::rt::cuda

extern "C" __attribute__((visibility("default"))) const tpc::rt::DeviceKind *
tpc_cuda_devices(const char *tag, std::string &problem) {
  using namespace tpc::rt::cuda;
  if (std::strcmp(tag, tpc::rt::cuda::tag) != 0) {
    problem = std::string(libraryName) + " is of another version of the runtime";
    return nullptr;
  }
  try {
    static const Attempt attempt;
    problem = attempt.problem;
    if (!problem.empty())
      return nullptr;
    // Never destroyed: it exists once for each program of the process, because programs assign
    // devices to their ranks differently.
    return new CudaDevices(VendorLibraries{*attempt.driver, *attempt.library}, attempt.gpus);
  } catch (const std::exception &error) {
    problem = error.what();
    return nullptr;
  }
}
