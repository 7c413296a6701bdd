//===- FusedAttention.h - attention by cuDNN ------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
#define TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H

#include "cuda/library/Block.h"
#include "cuda/library/CudnnPlan.h"
#include <map>
#include <memory>

namespace tpc::rt::cuda {

/// Computes attention by cuDNN, if it is installed and the program allows a library for the
/// variant. Building a plan takes about a second per shape. This pays off for many queries, as in a
/// prompt, but not for decoding, where each step has a different length.
class FusedAttention {
public:
  FusedAttention(const Driver &driver, Stream stream) : driver(driver), stream(stream) {}
  FusedAttention(const FusedAttention &) = delete;
  FusedAttention &operator=(const FusedAttention &) = delete;
  ~FusedAttention();

  /// Returns false without any effect if generated kernels must compute the call. Uses the current
  /// context. `isRecorded`: the stream is being captured, so that nothing may be loaded or
  /// allocated.
  bool compute(const tpc_attention_args &args, bool isRecorded);

private:
  struct Entry {
    std::unique_ptr<dnn::AttentionPlan> plan; // null: the library has no plan
    std::unique_ptr<Block> workspace;
  };
  bool start();
  Entry make(const dnn::AttentionShape &shape);

  const Driver &driver;
  Stream stream;
  bool isStarted = false;
  const dnn::Library *library = nullptr;
  dnn::Handle handle = nullptr;
  /// Never erased: recorded graphs refer to the entries.
  std::map<dnn::AttentionShape, Entry> plans;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
