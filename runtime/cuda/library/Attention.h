//===- Attention.h - Attention on a GPU -----------------------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_ATTENTION_H
#define TPC_RT_CUDA_LIBRARY_ATTENTION_H

#include "cuda/library/Block.h"
#include "cuda/library/FusedAttention.h"
#include "cuda/library/Kernels.h"
#include "cuda/library/Pinned.h"
#include "tpc/attention.h"
#include <memory>
#include <vector>

namespace tpc::rt::cuda {

/// Computes attention by generated kernels, or by cuDNN where the program allows it and cuDNN
/// supports the call. The arguments of generated kernels reside in GPU memory: one slot for each
/// call of a step, as many as the longest step needed.
class Attention {
public:
  /// `isStable`: equal calls have equal results, whatever the earlier steps are.
  Attention(const Driver &driver, Stream stream, bool isStable)
      : driver(driver), stream(stream), fused(driver, stream, !isStable) {}

  /// Starts a step. All earlier calls must have completed: slots are reused.
  void beginStep() {
    used = 0;
    fused.beginStep();
  }
  /// `lengths`: those of the call, in host memory, or null.
  void compute(Kernels &kernels, const tpc_attention_args &args, const int64_t *lengths);
  /// Whether this step must not be recorded.
  bool dependsOnLengths() const { return fused.dependsOnLengths(); }

  /// Bytes of the arguments of this step's calls. A recorded step has its slots in a separate block
  /// of this size, which is written once, after the recording.
  int64_t bytesOfStep() const { return static_cast<int64_t>(used * sizeof(tpc_attention_args)); }
  void beginRecording(Address slots) {
    recorded = slots;
    isRecording = true;
  }
  void endRecording();
  void abandonRecording() {
    recorded = 0;
    isRecording = false;
  }
  /// A number that changes when the workspace or the counters are allocated.
  uint64_t memoryVersion() const { return moves; }

private:
  static constexpr size_t callsPerChunk = 64;
  struct Piece {
    explicit Piece(const Driver &driver)
        : block(driver, callsPerChunk * sizeof(tpc_attention_args)), host(driver) {
      host.reserve(callsPerChunk * sizeof(tpc_attention_args));
    }
    Block block;
    Pinned host;
  };

  /// Writes the arguments to the next slot. Returns the address of the slot.
  Address writeArguments(const tpc_attention_args &args);
  /// Allocates a block that is missing or too small. Returns whether it did.
  bool reserve(std::unique_ptr<Block> &block, int64_t bytes);

  const Driver &driver;
  Stream stream;
  FusedAttention fused;
  std::vector<std::unique_ptr<Piece>> pieces;
  size_t used = 0;      // number of calls in this step
  Address recorded = 0; // 0: not recording, or no call uses generated kernels
  bool isRecording = false;
  std::unique_ptr<Block> workspace, counters;
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ATTENTION_H
