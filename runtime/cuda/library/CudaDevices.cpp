//===- CudaDevices.cpp - the GPUs of this machine -------------------------===//

#include "core/Context.h"
#include "cuda/Interface.h"
#include "cuda/library/CudaDevice.h"
#include <cstdlib>
#include <cstring>

namespace tpc::rt::cuda {
namespace {

class CudaDevices final : public DeviceKind {
public:
  CudaDevices(const Driver &driver, const blas::Library &library, std::vector<Gpu> gpus)
      : driver(driver), library(library), gpus(std::move(gpus)),
        architecture("sm_" + std::to_string(this->gpus[0].architecture)) {}

  const char *name() const override { return "cuda"; }
  const char *kernels() const override { return architecture.c_str(); }
  std::string products() const override { return library.describe(); }
  const DeviceKind *withProducts(const std::string &wanted, std::string &problem) const override {
    if (wanted == "tpc") // where nothing else is asked for
      return this;
    problem = "--products=" + wanted + ": on GPUs, " + library.describe() + " computes products";
    return nullptr;
  }
  std::string place(const Placement &wanted, std::string &note) const override;
  std::string communication() const override { return nccl ? nccl->describe() : "the host"; }
  int64_t matrixBytes(int64_t k, int64_t n) const override {
    return k * n * static_cast<int64_t>(sizeof(float));
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    int rank = placement.threads ? ctx.rank : placement.first;
    return std::make_unique<CudaDevice>(driver, library, nccl,
                                        gpus[static_cast<size_t>(rank) % gpus.size()]);
  }

private:
  const Driver &driver;
  const blas::Library &library;
  const std::vector<Gpu> gpus;
  const std::string architecture;
  mutable Placement placement; // of the process, said once
  mutable const nccl::Library *nccl = nullptr;
};

std::string CudaDevices::place(const Placement &wanted, std::string &note) const {
  placement = wanted;
  auto count = static_cast<int>(gpus.size());
  if (wanted.onHost > count && !wanted.share)
    return std::to_string(wanted.onHost) + " ranks are on this machine, which has " +
           std::to_string(count) + (count == 1 ? " GPU" : " GPUs") +
           " (CUDA_VISIBLE_DEVICES chooses among them): run fewer ranks here, or several on one "
           "GPU with --share-gpus";
  // NCCL wants a GPU for each rank, of what it takes for one host.
  std::string problem;
  if (wanted.onHost <= count || std::getenv("NCCL_HOSTID"))
    nccl = nccl::Library::load(problem);
  if (!problem.empty() && wanted.onHost > 1)
    note = problem + ": ranks communicate through the host's memory, which is slow";
  for (const Gpu &gpu : gpus)
    if (gpu.name != gpus[0].name && note.empty())
      note = "GPUs of this machine are not alike: " + gpus[0].name + " and " + gpu.name +
             "; ranks wait for the slower ones";
  return "";
}

/// The GPUs, or why there are none.
struct Attempt {
  std::unique_ptr<CudaDevices> devices;
  std::string problem;

  Attempt() {
    const Driver *driver = Driver::load(problem);
    const blas::Library *library = driver ? blas::Library::load(problem) : nullptr;
    if (!library)
      return;
    int count = 0;
    std::vector<Gpu> gpus;
    driver->check(driver->cuDeviceGetCount(&count), "to be counted");
    for (int i = 0; i < count; ++i)
      gpus.push_back(Gpu::ask(*driver, i));
    if (gpus.empty())
      problem = "there is no GPU (CUDA_VISIBLE_DEVICES may hide them)";
    else
      devices = std::make_unique<CudaDevices>(*driver, *library, std::move(gpus));
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
    return attempt.devices.get();
  } catch (const std::exception &error) {
    problem = error.what();
    return nullptr;
  }
}
