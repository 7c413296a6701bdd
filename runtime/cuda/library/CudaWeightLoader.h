//===- CudaWeightLoader.h - Weight conversion and packing on a GPU --------===//
//
// The host writes into the device's two pinned buffers. Each buffer is copied to the GEMM
// workspace, from which kernels of this library convert and pack it. All work is on one stream.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDAWEIGHTLOADER_H
#define TPC_RT_CUDA_LIBRARY_CUDAWEIGHTLOADER_H

#include "core/Device.h"
#include "core/WeightLoader.h"
#include "cuda/library/CudaMatrix.h"
#include "cuda/library/Queue.h"
#include <functional>
#include <map>
#include <string_view>

namespace tpc::rt::cuda {

class CudaWeightLoader final : public WeightLoader {
public:
  using AddMatrix = std::function<void(const std::shared_ptr<CudaMatrix> &)>;
  /// Writes through `device`, which owns `queue`, to `bytes` bytes at `staging`. Calls `addMatrix`
  /// for each matrix that it creates.
  CudaWeightLoader(Device &device, Queue &queue, AddMatrix addMatrix, Address staging,
                   int64_t bytes);
  ~CudaWeightLoader() override;

  int64_t maxBytes() const override;
  std::byte *begin(int64_t bytes) override;
  void put(void *to, int32_t dtype, int32_t source, std::span<const LoadFactor> factors) override;
  void draw(void *to, int32_t dtype, int32_t source, const Generator &generator, int64_t first,
            std::span<const LoadFactor> factors) override;
  void clear(void *to, int64_t bytes) override;
  std::vector<std::shared_ptr<Matrix>>
  matricesOf(const void *rows, int64_t k, std::span<const int64_t> widths, int32_t dtype) override;

private:
  struct Work;
  void launch(const char *kernel, Work work, std::span<const LoadFactor> factors);

  Device &device;
  Queue &queue;
  const Driver &driver;
  const AddMatrix addMatrix;
  const Address staging;
  const int64_t stagingBytes;
  Module module = nullptr;
  std::map<std::string_view, Function> functions;
  std::byte *written = nullptr; // buffer that the host writes, and its size
  int64_t writtenBytes = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_CUDAWEIGHTLOADER_H
