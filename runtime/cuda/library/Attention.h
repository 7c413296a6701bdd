//===- Attention.h - attention --------------------------------------------===//

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

/// By generated kernels, or by a library where the program leaves that to one and it can.
///
/// What a step's calls say to generated kernels lies in the GPU's memory: one place for each call,
/// of which there are as many as the longest step had.
class Attention {
public:
  Attention(const Driver &driver, Stream stream)
      : driver(driver), stream(stream), fused(driver, stream) {}

  /// All before is done: places are used again.
  void beginStep() { used = 0; }
  void compute(Kernels &kernels, const tpc_attention_args &args);

  /// A step that is recorded has its places in a block of its own, of this size for the calls of
  /// this step. They are written once, when it has been recorded.
  int64_t bytesOfStep() const { return static_cast<int64_t>(used * sizeof(tpc_attention_args)); }
  void beginRecording(Address places) {
    recorded = places;
    isRecording = true;
  }
  void endRecording();
  void abandonRecording() {
    recorded = 0;
    isRecording = false;
  }
  /// Another number when the workspace has gone.
  uint64_t memoryMoves() const { return moves; }

private:
  static constexpr size_t callsOfPiece = 64;
  struct Piece {
    explicit Piece(const Driver &driver)
        : block(driver, callsOfPiece * sizeof(tpc_attention_args)), host(driver) {
      host.reserve(callsOfPiece * sizeof(tpc_attention_args));
    }
    Block block;
    Pinned host;
  };

  Address place(const tpc_attention_args &args);

  const Driver &driver;
  Stream stream;
  FusedAttention fused;
  std::vector<std::unique_ptr<Piece>> pieces;
  size_t used = 0;      // calls of this step
  Address recorded = 0; // 0: none is, or all calls are the library's
  bool isRecording = false;
  std::unique_ptr<Block> workspace;
  int64_t workspaceBytes = 0;
  uint64_t moves = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ATTENTION_H
