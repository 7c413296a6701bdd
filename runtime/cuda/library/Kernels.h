//===- Kernels.h - a program's kernels on a GPU ---------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_KERNELS_H
#define TPC_RT_CUDA_LIBRARY_KERNELS_H

#include "cuda/library/Driver.h"
#include "tpc/gpu.h"
#include <initializer_list>
#include <span>
#include <string>
#include <vector>

namespace tpc::rt::cuda {

/// What is asked of a GPU about itself.
struct Gpu {
  DeviceNumber number = 0;
  std::string name;
  std::string uuid;     ///< "GPU-0a1b…", as nvidia-smi says it
  int architecture = 0; ///< 90: sm_90
  int multiprocessors = 1;
  int64_t bytes = 0;

  /// Throws.
  static Gpu ask(const Driver &driver, int ordinal);
};

/// How many blocks are worth launching for `rows` rows of a kernel: as many as have something to
/// do, but not more than keep a GPU busy.
unsigned blocksFor(const tpc_gpu_kernel &kernel, int64_t rows, const int64_t *env,
                   int multiprocessors);

/// In the context that is current.
class Kernels {
public:
  /// Throws. All kernels are there when this returns: none is loaded at its first launch.
  Kernels(const Driver &driver, const Gpu &gpu, const tpc_program &program);
  Kernels(const Kernels &) = delete;
  Kernels &operator=(const Kernels &) = delete;
  ~Kernels();

  /// The variant that a call is of.
  const tpc_gpu_attention &attentionOf(const tpc_attention_args &args) const;
  /// A kernel by its place in the code's table, with these parameters. Blocks go through `items`.
  void launch(int32_t place, int64_t items, std::initializer_list<Address> parameters,
              Stream stream);
  /// One of the program's table. `env`: as the host has it, and where the GPU has it.
  void launch(int32_t kernel, void *const *operands, int32_t count, int64_t rows,
              const int64_t *env, Address gpuEnv, Address status, Stream stream);

private:
  struct Entry {
    Function function = nullptr;
    const tpc_gpu_kernel *kernel = nullptr;
  };
  void loadModule();
  Entry load(const tpc_gpu_kernel &kernel);
  void launch(const Entry &entry, int64_t blocks, std::span<void *> parameters, Stream stream);

  const Driver &driver;
  const Gpu &gpu;
  Module module = nullptr;
  const tpc_gpu_code &code;
  std::vector<Entry> loaded;         // by places of the code's table
  std::vector<const Entry *> places; // by places of the program's table
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_KERNELS_H
