//===- Append.h - what steps add to caches --------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_APPEND_H
#define TPC_RT_CUDA_LIBRARY_APPEND_H

#include "cuda/library/AppendKernels.h"
#include "cuda/library/Queue.h"

namespace tpc::rt::cuda {

class Append {
public:
  explicit Append(Queue &queue) : queue(queue) {}
  Append(const Append &) = delete;
  Append &operator=(const Append &) = delete;
  ~Append();

  /// Loads its kernels, if that has not been done: a GPU that others of the world wait for may not
  /// be able to.
  void load();
  void compute(const tpc_append_args &args);

private:
  Queue &queue;
  Module module = nullptr;
  Function functions[std::size(AppendLaunch::widths)] = {};
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_APPEND_H
