//===- LibraryKernels.h - Runtime-compiled kernels of this library ------------===//

#ifndef TPC_RT_CUDA_LIBRARY_LIBRARYKERNELS_H
#define TPC_RT_CUDA_LIBRARY_LIBRARYKERNELS_H

#include "cuda/library/Queue.h"
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt::cuda {

/// The kernels of one PTX text.
class LibraryKernels {
public:
  /// `purpose` completes messages: "kernels that add to caches".
  LibraryKernels(Queue &queue, std::string (*text)(), std::span<const char *const> names,
                 const char *purpose)
      : queue(queue), text(text), names(names), purpose(purpose) {}
  LibraryKernels(const LibraryKernels &) = delete;
  LibraryKernels &operator=(const LibraryKernels &) = delete;
  ~LibraryKernels();

  /// Loads the kernels once. Call this before other ranks of the world wait for this GPU, because
  /// loading may block while they wait.
  void load();
  /// `launch` provides the parameters and the number of threads per block. `sharedBytes`: dynamic
  /// shared memory of a block. `isDependent`: what the kernel reads before its wait is constant
  /// (tpc/dependent_launch.h).
  template <class Launch>
  void run(const char *kernel, Launch launch, int64_t blocks, int64_t sharedBytes = 0,
           bool isDependent = true) {
    std::vector<void *> parameters;
    launch.forEachParameter([&](auto &parameter) { parameters.push_back(&parameter); });
    run(kernel, parameters.data(), blocks, Launch::threads, sharedBytes, isDependent);
  }

private:
  void run(const char *kernel, void **parameters, int64_t blocks, unsigned threads,
           int64_t sharedBytes, bool isDependent);

  Queue &queue;
  std::string (*const text)();
  const std::span<const char *const> names;
  const char *const purpose;
  struct Kernel {
    Function function = nullptr;
    bool waits = false; ///< for the previous kernel
  };
  Module module = nullptr;
  std::map<std::string_view, Kernel> kernels;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_LIBRARYKERNELS_H
