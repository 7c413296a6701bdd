//===- CudnnPlan.h - attention as a graph of cuDNN's ----------------------===//
//
// cuDNN's attention is a graph of operations that it knows as a whole, and of which it keeps
// nothing in memory between:
//
//   out = softmax(mask(scale * q k' + bias)) v
//
// Softmax is spelled out (largest, difference, power, sum, quotient), and so is the mask: rows and
// columns are counted, compared, and what is not to be seen is -inf. Tensors are [batch, heads,
// tokens, size], with whatever strides; keys stand transposed.
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

/// What a plan is for. All but the scale and addresses.
struct AttentionShape {
  int32_t dtype, biasType; // -1: there is none
  int64_t batch, queries, keys, heads, kvHeads, headSize, valueSize;
  int64_t qStride, kStride, vStride, outStride; // from one token to the next
  int64_t biasBatchStride, biasHeadStride;
  int32_t causal;
  int64_t causalOffset;
  auto operator<=>(const AttentionShape &) const = default;

  static AttentionShape of(const tpc_attention_args &args);
};

/// A descriptor, which the library destroys. All calls throw what the library refuses.
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

/// How an attention is computed. With a handle it is for its device; without one for the device
/// that `deviceJson` describes, and can be made, but not run.
class AttentionPlan {
public:
  /// Throws where the library has none.
  AttentionPlan(const Library &library, Handle handle, const AttentionShape &shape,
                const std::string &deviceJson = "");

  int64_t workspaceBytes() const { return workspace; }
  /// On the handle's stream.
  void run(Handle handle, const tpc_attention_args &args, void *workspace) const;

private:
  const Library &library;
  AttentionShape shape;
  std::deque<Descriptor> made; // the plan is the last; it needs what it was made of
  int64_t workspace = 0;
};

} // namespace tpc::rt::cuda::dnn

#endif // TPC_RT_CUDA_LIBRARY_CUDNNPLAN_H
