//===- CudnnPlan.h - Attention as a cuDNN graph ---------------------------===//
//
// cuDNN recognizes attention as a graph of operations, which it fuses without storing intermediate
// tensors:
//
//   out = softmax(mask(scale * q k' + bias)) v
//
// The graph contains all steps of softmax (maximum, difference, exponential, sum, quotient) and of
// the mask: row and column indices are generated and compared, and masked scores become -inf.
// Tensors are [batch, heads, tokens, size] with any strides; keys are transposed.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_CUDNNPLAN_H
#define TPC_RT_CUDA_LIBRARY_CUDNNPLAN_H

#include "cuda/library/Cudnn.h"
#include "tpc/runtime.h"
#include <compare>
#include <deque>
#include <string>
#include <vector>

namespace tpc::rt::cuda::dnn {

/// Key of a plan: all parameters except the scale and addresses.
struct AttentionShape {
  int32_t dtype, biasType; // -1: absent
  int64_t batch, queries, keys, heads, kvHeads, headSize, valueSize;
  int64_t qStride, kStride, vStride, outStride; // between consecutive tokens
  int64_t biasBatchStride, biasHeadStride;
  int32_t causal;
  int64_t causalOffset;
  int64_t kBatchStride, kHeadStride, vBatchStride, vHeadStride;
  auto operator<=>(const AttentionShape &) const = default;

  /// `past`: with caches, the number of keys before the first query of each sequence. The shape has
  /// as many keys as are visible to the last query, so that the memory after them is not read.
  static AttentionShape of(const tpc_attention_args &args, int64_t past = 0);
};

/// An owned cuDNN descriptor. All calls throw if the library reports an error.
class Descriptor {
public:
  Descriptor(const Library &library, Kind kind);
  Descriptor(Descriptor &&other) : library(other.library), object(other.object) {
    other.object = nullptr;
  }
  Descriptor &operator=(Descriptor &&) = delete;
  ~Descriptor();

  Descriptor &set(Attribute attribute, Type type, int64_t count, const void *values);
  Descriptor &set(Attribute attribute, const Descriptor &other);
  Descriptor &finalize();
  operator Object() const { return object; }

private:
  const Library *library;
  Object object = nullptr;
};

/// An execution plan of attention. With a handle, the plan is for the handle's device. Without a
/// handle, it is for the device that `deviceJson` describes; such a plan can be built, but not run.
class AttentionPlan {
public:
  /// Throws if the library has no plan.
  AttentionPlan(const Library &library, Handle handle, const AttentionShape &shape,
                const std::string &deviceJson = "");

  int64_t workspaceBytes() const { return workspace; }
  /// Runs on the handle's stream.
  void run(Handle handle, const tpc_attention_args &args, void *workspace) const;

private:
  const Library &library;
  AttentionShape shape;
  std::deque<Descriptor> made; // all descriptors; the plan is the last and refers to the others
  int64_t workspace = 0;
};

} // namespace tpc::rt::cuda::dnn

#endif // TPC_RT_CUDA_LIBRARY_CUDNNPLAN_H
