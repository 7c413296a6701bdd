//===- FusedAttention.h - attention by cuDNN ------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
#define TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H

#include "cuda/library/Block.h"
#include "cuda/library/CudnnPlan.h"
#include <map>
#include <memory>

namespace tpc::rt::cuda {

/// Attention of variants that the program leaves to a library, where cuDNN is found. A plan takes
/// about a second, once for each shape: it is worth that for many queries, as of a prompt, and not
/// for decoding, of which each step has another length.
class FusedAttention {
public:
  FusedAttention(const Driver &driver, Stream stream) : driver(driver), stream(stream) {}
  FusedAttention(const FusedAttention &) = delete;
  FusedAttention &operator=(const FusedAttention &) = delete;
  ~FusedAttention();

  /// False: nothing was done, generated kernels are to compute it. In the context that is current.
  /// `isRecorded`: the stream is captured, so that nothing may be loaded or allocated.
  bool compute(const tpc_attention_args &args, bool isRecorded);

private:
  struct Entry {
    std::unique_ptr<dnn::AttentionPlan> plan; // null: there is none
    std::unique_ptr<Block> workspace;
  };
  bool start();
  Entry make(const dnn::AttentionShape &shape);

  const Driver &driver;
  Stream stream;
  bool isStarted = false;
  const dnn::Library *library = nullptr;
  dnn::Handle handle = nullptr;
  /// Stay for good: graphs that were recorded refer to them.
  std::map<dnn::AttentionShape, Entry> plans;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
