//===- Attention.h - attention by generated kernels -----------------------===//

#ifndef TPC_RT_CUDA_LIBRARY_ATTENTION_H
#define TPC_RT_CUDA_LIBRARY_ATTENTION_H

#include "cuda/library/Block.h"
#include "cuda/library/Kernels.h"
#include "cuda/library/Pinned.h"
#include "tpc/attention.h"
#include <memory>
#include <vector>

namespace tpc::rt::cuda {

/// What a step's calls say to their kernels lies in the GPU's memory: one place for each call, of
/// which there are as many as the longest step had.
class Attention {
public:
  Attention(const Driver &driver, Stream stream) : driver(driver), stream(stream) {}

  /// All before is done: places are used again.
  void beginStep() { used = 0; }
  void compute(Kernels &kernels, const tpc_attention_args &args);

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
  std::vector<std::unique_ptr<Piece>> pieces;
  size_t used = 0; // calls of this step
  std::unique_ptr<Block> workspace;
  int64_t workspaceBytes = 0;
};

} // namespace tpc::rt::cuda

#endif // TPC_RT_CUDA_LIBRARY_ATTENTION_H
