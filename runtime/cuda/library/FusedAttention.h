//===- FusedAttention.h - Attention by cuDNN ------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
#define TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H

#include "cuda/library/Block.h"
#include "cuda/library/CudnnPlan.h"
#include <map>
#include <memory>

namespace tpc::rt::cuda {

/// Computes attention by cuDNN, if it is installed and the program allows a library for the
/// variant. This pays off for many queries, as in a prompt, but not for decoding, where each step
/// has a different length. Building a plan takes 0.4 to 0.8 s for the first shape of a variant, and
/// about 50 ms for others (cuDNN 9.19, H100).
///
/// Caches: a plan has fixed numbers of queries and keys, so it needs the lengths of a call in host
/// memory. Plans with lengths as tensors were up to 10 times slower, because they computed all keys
/// up to the capacity, and NaN after the last key reached results. A plan with the kernels of
/// another shape, from a kernel cache, had wrong results. So a plan is built only for a shape of
/// many queries that occurs in a third step, and steps with such calls are not recorded.
class FusedAttention {
public:
  /// `usesCaches`: whether calls with caches may be computed. Whether such a call uses a plan, and
  /// therefore the last bits of its result, depends on earlier steps.
  FusedAttention(const Driver &driver, Stream stream, bool usesCaches);
  FusedAttention(const FusedAttention &) = delete;
  FusedAttention &operator=(const FusedAttention &) = delete;
  ~FusedAttention();

  void beginStep() { ++step; }
  /// Returns false without any effect if generated kernels must compute the call. Uses the current
  /// context. `isRecorded`: a step is being recorded, so that nothing may be loaded or allocated.
  /// `lengths`: those of the call, in host memory; null if the call has none, or if they are only
  /// in device memory.
  bool compute(const tpc_attention_args &args, const int64_t *lengths, bool isRecorded);
  /// Whether a call of this step depends on lengths in host memory. Such a step must not be
  /// recorded.
  bool dependsOnLengths() const { return stepOfLengths == step; }

private:
  struct Entry {
    std::unique_ptr<dnn::AttentionPlan> plan; // null: the library has no plan
    std::unique_ptr<Block> workspace;
  };
  /// A shape with caches, in steps so far.
  struct Occurrences {
    int64_t steps = 0, lastStep = -1;
  };
  /// Whether a call with caches may be computed; sets `past`.
  bool takesCaches(const tpc_attention_args &args, const int64_t *lengths, bool isRecorded,
                   int64_t &past);
  bool start();
  Entry make(const dnn::AttentionShape &shape);

  const Driver &driver;
  Stream stream;
  const int64_t minCachedQueries;
  int64_t step = 0, stepOfLengths = -1;
  std::map<dnn::AttentionShape, Occurrences> occurrences;
  bool isStarted = false;
  const dnn::Library *library = nullptr;
  dnn::Handle handle = nullptr;
  /// Never erased: recorded graphs refer to the entries.
  std::map<dnn::AttentionShape, Entry> plans;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_FUSEDATTENTION_H
