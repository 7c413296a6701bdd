//===- CudaDevice.h - a GPU as a device -----------------------------------===//
//
// All work is on one stream, in the order in which it is called for. The host runs ahead of it, up
// to where it reads something or the step ends.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDADEVICE_H
#define TPC_RT_CUDA_LIBRARY_CUDADEVICE_H

#include "core/Device.h"
#include "cuda/library/Attention.h"
#include "cuda/library/Block.h"
#include "cuda/library/Kernels.h"
#include "cuda/library/Nccl.h"
#include "cuda/library/Pinned.h"
#include "cuda/library/Products.h"
#include <exception>
#include <list>

namespace tpc::rt::cuda {

/// A context of a GPU and a stream in it; what goes with them is destroyed before.
class Queue {
public:
  Queue(const Driver &driver, const Gpu &gpu);
  Queue(const Queue &) = delete;
  Queue &operator=(const Queue &) = delete;
  ~Queue();

  /// The calling thread works here from now on. Ranks are made on one thread and run on another.
  void enter() const;
  void synchronize() const;

  const Driver &driver;
  const Gpu gpu;
  Context context = nullptr;
  Stream stream = nullptr;
};

class CudaDevice final : public Device {
public:
  /// `nccl`: null if ranks talk over the host.
  CudaDevice(const Driver &driver, const blas::Library &library, const nccl::Library *nccl,
             const Gpu &gpu);
  ~CudaDevice() override;

  bool isHosts() const override { return false; }
  void *allocate(int64_t bytes) override;
  void release(void *memory) override;
  const void *share(const void *host, int64_t bytes) override;
  void unshare(const void *shared) override;
  int64_t writeBytes() const override;
  std::byte *beginWrite(void *to, int64_t bytes) override;
  void endWrite() override;
  const std::byte *beginRead(const void *from, int64_t bytes) override;
  void endRead() override {}
  void beginAccess() override;
  void endAccess() override;
  void *map(void *data, int64_t bytes, Use use) override;

  void load(const tpc_program &loaded) override;
  const void *constant(int32_t index) override;
  std::vector<std::shared_ptr<Matrix>> makeMatrices(int64_t k,
                                                    std::span<const int64_t> widths) override;
  void setRows(Matrix &matrix, int64_t row0, int64_t row1, const float *rows) override;
  std::shared_ptr<Matrix> transposeOf(const void *rows, int64_t k, int64_t n) override;

  void beginStep(const std::vector<int64_t> &values) override;
  void setEnv(int32_t place, int64_t value) override;
  void copy(void *to, const void *from, int64_t bytes) override;
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              int64_t grain) override;
  void multiply(const rt::Products &products) override;
  void batchProduct(const BatchProduct &product) override;
  void attention(const tpc_attention_args &args) override;
  tpc_status endStep() override;
  std::unique_ptr<Links> makeLinks() override;

private:
  /// The calling thread's calls are this device's. Throws what could not be thrown where it arose.
  void enter();
  void upload(Address to, const std::byte *from, int64_t bytes);

  /// Pinned memory on its way to the GPU, and when it has arrived.
  struct Upload {
    explicit Upload(const Driver &driver) : memory(driver), arrived(driver) {}
    /// As soon as it may be written again.
    std::byte *begin(int64_t bytes) {
      arrived.wait();
      return memory.reserve(bytes);
    }
    Pinned memory;
    Mark arrived;
  };
  /// A tensor of the host's.
  struct Shared {
    Shared(const Driver &driver, int64_t bytes)
        : bytes(bytes), block(driver, bytes), upload(driver) {}
    int64_t bytes;
    Block block;
    Upload upload;
    bool isFree = false;
  };
  /// What the host does to the device's memory within an access.
  struct Mapping {
    Pinned memory;
    Address at;
    int64_t bytes;
    bool written;
  };

  const Driver &driver;
  const nccl::Library *const nccl;
  Queue queue;
  Block workspace, status;
  cuda::Products products;
  std::list<Shared> shared;
  Upload uploads[2];
  int current = 0; // of those
  Address writeTo = 0;
  int64_t writeSize = 0;
  Pinned download;
  std::vector<Mapping> mappings;
  size_t numMappings = 0; // in use
  std::exception_ptr pending;

  const tpc_program *program = nullptr;
  std::unique_ptr<Kernels> kernels;
  Attention attentions;
  std::list<Block> constants;
  std::vector<Address> constantAddresses;
  std::vector<int64_t> env;
  std::unique_ptr<Block> gpuEnv;
  Upload envUpload;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CUDADEVICE_H
