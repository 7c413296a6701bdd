//===- CpuDevice.cpp - CPU device -----------------------------------------===//

#include "cpu/CpuDevice.h"
#include "core/Context.h"
#include "core/HostMemory.h"
#include "cpu/Kernels.h"
#include "cpu/OneDnnDevice.h"
#include "cpu/Parallel.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace tpc::rt {

void *CpuDevice::allocate(int64_t bytes) {
  return bytes < 0 ? nullptr : allocateTensor(static_cast<size_t>(bytes));
}

void CpuDevice::release(void *memory) { std::free(memory); }

void CpuDevice::copy(void *to, const void *from, int64_t bytes) {
  std::memcpy(to, from, static_cast<size_t>(bytes));
}

void CpuDevice::launch(int32_t kernel, void *const *operands, int32_t, int64_t rows,
                       int64_t grain) {
  tpc_kernel_fn function = program->kernels[kernel].function;
  // Chunks have at least `grain` rows. A few chunks per thread suffice for load balance and keep a
  // thread on adjacent rows.
  int64_t maxPieces = ctx.threadsPerRank == 1 ? 1 : 3 * ctx.threadsPerRank;
  int64_t pieces = std::clamp<int64_t>(rows / grain, 1, maxPieces);
  forEachTask(ctx, ctx.threadsPerRank, pieces, [&](int64_t piece, int) {
    Part part = partOf(rows, pieces, piece);
    function(env.data(), &status, operands, part.offset, part.offset + part.size);
  });
}

tpc_status CpuDevice::endStep() { return std::exchange(status, tpc_status{}); }

namespace {
class CpuDevices : public DeviceKind {
public:
  const char *name() const override { return "cpu"; }
  const char *kernels() const override { return rt::kernels().name; }
  void shareKernels(const std::vector<std::string> &names) const override {
    // Each table's instruction set includes the earlier ones, so all processes can run the first
    // table that is in `names`.
    for (const char *name : {"generic", "avx2", "avx512"})
      if (std::find(names.begin(), names.end(), name) != names.end())
        if (const KernelTable *table = kernelsNamed(name))
          return chooseKernels(*table);
  }
  std::string environmentProblem() const override {
    const char *wanted = std::getenv("TPC_CPU");
    if (!wanted || !*wanted || kernelsNamed(wanted))
      return "";
    return std::string("TPC_CPU=") + wanted +
           ": unknown kernels, or this processor cannot run them; the best supported are " +
           rt::kernels().name;
  }
  const DeviceKind *withProducts(const std::string &name, std::string &problem) const override {
    return name == "onednn" ? oneDnnDevices(problem) : DeviceKind::withProducts(name, problem);
  }
  int32_t storedType(int32_t dtype, int32_t sourceDtype) const override {
    return PackedMatrix::storedType(dtype, sourceDtype);
  }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t stored) const override {
    return PackedMatrix::bytesFor(k, n, stored);
  }
  std::unique_ptr<Device> make(tpc_context &ctx) const override {
    return std::make_unique<CpuDevice>(ctx);
  }
};
} // namespace

const DeviceKind &cpuDevices() {
  static const CpuDevices devices;
  return devices;
}

} // namespace tpc::rt
