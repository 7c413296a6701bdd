//===- OwnKernels.h - kernels of this library, at run time ----------------===//

#ifndef TPC_RT_CUDA_LIBRARY_OWNKERNELS_H
#define TPC_RT_CUDA_LIBRARY_OWNKERNELS_H

#include "cuda/library/Queue.h"
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt::cuda {

/// Those of one text.
class OwnKernels {
public:
  /// `purpose`: what they do, for messages: "add to caches".
  OwnKernels(Queue &queue, std::string (*text)(), std::span<const char *const> names,
             const char *purpose)
      : queue(queue), text(text), names(names), purpose(purpose) {}
  OwnKernels(const OwnKernels &) = delete;
  OwnKernels &operator=(const OwnKernels &) = delete;
  ~OwnKernels();

  /// Loads them, if that has not been done: best before others of the world wait for this GPU,
  /// which then may not be able to.
  void load();
  /// `launch` has the parameters, and how many threads are in a block.
  template <class Launch> void run(const char *kernel, Launch launch, int64_t blocks) {
    std::vector<void *> parameters;
    launch.forEachParameter([&](auto &parameter) { parameters.push_back(&parameter); });
    run(kernel, parameters.data(), blocks, Launch::threads);
  }

private:
  void run(const char *kernel, void **parameters, int64_t blocks, unsigned threads);

  Queue &queue;
  std::string (*const text)();
  const std::span<const char *const> names;
  const char *const purpose;
  Module module = nullptr;
  std::map<std::string_view, Function> functions;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_OWNKERNELS_H
