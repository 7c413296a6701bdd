//===- Kernels.h - Loaded kernels of a program ----------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_KERNELS_H
#define TPC_RT_CUDA_LIBRARY_KERNELS_H

#include "cuda/library/Driver.h"
#include "tpc/gpu.h"
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace tpc::rt::cuda {

class Queue;

/// Properties of a GPU.
struct Gpu {
  DeviceNumber number = 0;
  std::string name;
  std::string uuid;     ///< "GPU-0a1b…", as nvidia-smi prints it
  int architecture = 0; ///< 90: sm_90
  int multiprocessors = 1;
  int64_t bytes = 0;

  /// Queries the driver; throws on errors.
  static Gpu query(const Driver &driver, int ordinal);
};

/// Returns the number of blocks to launch for `rows` rows of a kernel: at most one per unit of
/// work, and at most the number that keeps a GPU busy.
unsigned blocksFor(const tpc_gpu_kernel &kernel, int64_t rows, const int64_t *env,
                   int multiprocessors);

/// A program's kernels in the current context.
class Kernels {
public:
  /// Loads all kernels, so that none is loaded at its first launch. Throws on errors.
  Kernels(const Queue &queue, const tpc_program &program);
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;
  ~Kernels();

  /// Returns the attention variant of the program that computes a call.
  const tpc_gpu_attention &attentionOf(const tpc_attention_args &args) const;
  /// Launches a kernel by its index in the code's table. Blocks loop over `items`.
  /// `blocksOfMultiprocessor`: limits the number of blocks; 0: one per item.
  void launch(int32_t index, int64_t items, std::initializer_list<Address> parameters,
              int64_t blocksOfMultiprocessor = 0);
  /// Launches a kernel of the program's table. `env` is the host's copy, `gpuEnv` the GPU's.
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              const int64_t *env, Address gpuEnv, Address status);

private:
  struct Entry {
    Function function = nullptr;
    const tpc_gpu_kernel *kernel = nullptr;
  };
  void loadModule();
  Entry load(const tpc_gpu_kernel &kernel);
  void launch(const Entry &entry, int64_t blocks, std::span<void *> parameters);

  const Queue &queue;
  const Driver &driver;
  const Gpu &gpu;
  Module module = nullptr;
  const tpc_gpu_code &code;
  std::vector<Entry> loaded;          // by index in the code's table
  std::vector<const Entry *> entries; // by index in the program's table
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_KERNELS_H
