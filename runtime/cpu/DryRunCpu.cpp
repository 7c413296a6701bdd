//===- DryRunCpu.cpp - Dry-run CPU device for memory estimates ------------===//

#include "core/Context.h"
#include "core/DryRunDevices.h"
#include "core/WeightLoader.h"
#include <algorithm>
#include <map>
#include <sys/mman.h>

namespace tpc::rt {
namespace {

/// Memory use of the devices that a thread creates.
struct Count {
  MemoryUse use;
  void add(int64_t bytes) {
    use.now += bytes;
    use.requested += bytes;
    use.peak = std::max(use.peak, use.now);
    use.peakRequested = std::max(use.peakRequested, use.requested);
  }
  static Count &ofThread() {
    static thread_local Count count;
    return count;
  }
};

class NoMatrix : public Matrix {
public:
  NoMatrix(int64_t k, int64_t n, int32_t dtype) : Matrix(k, n, dtype) {}
};

class NoWeightLoader : public WeightLoader {
public:
  int64_t maxBytes() const override { return 0; }
  std::byte *begin(int64_t) override { return nullptr; }
  void put(void *, int32_t, int32_t, std::span<const LoadFactor>) override {}
  void draw(void *, int32_t, int32_t, const tpc::rt::Generator &, int64_t,
            std::span<const LoadFactor>) override {}
  void clear(void *, int64_t) override {}
  std::vector<std::shared_ptr<Matrix>>
  matricesOf(const void *, int64_t k, std::span<const int64_t> widths, int32_t dtype) override {
    std::vector<std::shared_ptr<Matrix>> matrices;
    for (int64_t n : widths)
      matrices.push_back(std::make_shared<NoMatrix>(k, n, dtype));
    return matrices;
  }
};

/// Device without work, on memory that is never touched: computes the memory use of a step in
/// advance.
class DryRunCpu : public Device {
public:
  void *allocate(int64_t bytes) override {
    if (bytes < 0)
      return nullptr;
    // Reserves address space without memory, so that address arithmetic is valid.
    void *memory = mmap(nullptr, static_cast<size_t>(std::max<int64_t>(bytes, 1)), PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED)
      return nullptr;
    sizes[memory] = bytes;
    Count::ofThread().add(bytes);
    return memory;
  }
  void release(void *memory) override {
    auto known = sizes.find(memory);
    if (known == sizes.end())
      return;
    munmap(memory, static_cast<size_t>(std::max<int64_t>(known->second, 1)));
    Count::ofThread().add(-known->second);
    sizes.erase(known);
  }
  const void *share(const void *host, int64_t) override { return host; }
  void unshare(const void *) override {}
  std::byte *beginWrite(void *, int64_t) override { return nullptr; }
  void endWrite() override {}
  const std::byte *beginRead(const void *, int64_t) override { return nullptr; }
  void endRead() override {}
  void deliver(const void *, int64_t, Taker, Destination) override {}
  void beginAccess() override {}
  void endAccess() override {}
  void *map(void *, int64_t, Use) override { return nullptr; } // there are no data
  bool computes(int32_t) const override { return true; }
  void load(const tpc_program &loaded) override { program = &loaded; }
  const void *constant(int32_t index) override { return program->constants[index].data; }
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k, std::span<const int64_t> widths,
                                                    int32_t dtype) override {
    std::vector<std::shared_ptr<Matrix>> matrices;
    for (int64_t n : widths)
      matrices.push_back(std::make_shared<NoMatrix>(k, n, dtype));
    return matrices;
  }
  void setRows(Matrix &, int64_t, int64_t, const void *) override {}
  std::unique_ptr<WeightLoader> makeWeightLoader() override {
    return std::make_unique<NoWeightLoader>();
  }
  std::shared_ptr<Matrix> transposeOf(const void *, int64_t k, int64_t n, int32_t dtype) override {
    return std::make_shared<NoMatrix>(k, n, dtype);
  }
  void beginStep(const std::vector<int64_t> &) override {}
  void setEnv(int32_t, int64_t) override {}
  void copy(void *, const void *, int64_t) override {}
  void launch(int32_t, void *const *, int32_t, int64_t, int64_t) override {}
  void multiply(const Products &) override {}
  void batchProduct(const BatchProduct &) override {}
  void quantizedProduct(const tpc_quantized_args &) override {}
  void attention(const tpc_attention_args &) override {}
  void attentionGrad(const tpc_attention_args &, const float *, float *, float *,
                     float *) override {}
  void experts(const tpc_experts_args &) override {}
  void append(const tpc_append_args &) override {}
  void clear(void *, int64_t) override {}
  tpc_status endStep() override { return {}; }

private:
  std::map<void *, int64_t> sizes;
  const tpc_program *program = nullptr;
};

class DryRunCpus : public DeviceKind {
public:
  const char *name() const override { return "dry-run cpu"; }
  const char *kernels() const override { return "none"; }
  MemoryUse &use() const override { return Count::ofThread().use; }
  int64_t matrixBytes(int64_t k, int64_t n, int32_t) const override { return k * n * 4; }
  std::unique_ptr<Device> make(tpc_context &) const override {
    return std::make_unique<DryRunCpu>();
  }
};

} // namespace

const DeviceKind &dryRunDevices() {
  static const DryRunCpus processors;
  const DeviceKind *dryRun = deviceKind().dryRun();
  return dryRun ? *dryRun : processors;
}

} // namespace tpc::rt
