//===- Outputs.h - Assembly of outputs on world rank 0 --------------------===//

#ifndef TPC_RT_PROGRAM_OUTPUTS_H
#define TPC_RT_PROGRAM_OUTPUTS_H

#include "core/Context.h"
#include "program/Manifest.h"
#include "program/OutputMemory.h"
#include "program/SizeExpr.h"
#include <atomic>
#include <cstddef>
#include <memory>
#include <optional>

namespace tpc::rt {

/// Receives the blocks that ranks deliver in a step. If ranks share memory, blocks are copied into
/// the output at once. A separate process buffers them until `collect` sends them to rank 0.
class OutputAssembler : public OutputSink {
public:
  static constexpr int32_t maxBlockRank = 16;

  /// Prepares for steps with these sizes. Memory is reused if it fits, and pinned if the device of
  /// `firstLocal` can copy to it directly.
  void prepare(const Manifest &manifest, const SymbolValues &symbols, tpc_context &firstLocal);

  void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank, const int64_t *global,
            const int64_t *offset, const int64_t *size, const Selection *selection) override;

  /// Every rank calls this after its stage function. Adds a gather to the statistics for each
  /// output of which the rank delivered a block, with the bytes of the whole output.
  void collect(tpc_context &ctx);

  /// In rank 0's process, after all ranks have collected: returns an error that names an output
  /// with missing or repeated elements, or an empty string. Resets `delivered`.
  std::string problem();

  std::vector<Tensor> &tensors() { return outputs; }

  /// Ends the use of the memory of outputs by devices, before they are destroyed.
  void closeMemory(bool unpins) {
    if (memory)
      memory->close(unpins);
  }

private:
  /// A delivered block of an output. `rank`: number of dimensions. `bounds`: global shape, offset
  /// and size, concatenated.
  struct Block {
    int32_t index, rank;
    int64_t bytes;
    int64_t bounds[3 * maxBlockRank];
    std::optional<Selection> selection;
  };
  /// Returns the byte offset of a block in the output; nullopt if it is not contiguous there.
  std::optional<int64_t> offsetOf(const Block &block) const;
  void arrive(tpc_context &ctx, const Block &block, const std::byte *from);
  void copyBlock(tpc_context &ctx, int32_t index, const std::byte *data, int32_t rank,
                 const int64_t *global, const int64_t *offset, const int64_t *size);
  void copyBlocks(tpc_context &ctx, const std::vector<std::byte> &blocks);

  const Manifest *manifest = nullptr;
  bool holdsRankZero = false;
  std::optional<OutputMemory> memory;
  std::vector<Tensor> outputs;
  std::vector<bool> isPinned; ///< by output
  std::vector<int64_t> outputBytes;
  /// Number of elements received, by output.
  std::unique_ptr<std::atomic<int64_t>[]> delivered;
  /// By local rank (world rank if all are local): outputs that the rank delivered blocks of.
  std::vector<std::vector<bool>> contributed;
  /// Blocks for rank 0: index, number of dimensions, global, offset, size as int64, then data.
  std::vector<std::byte> pending;
  std::vector<std::vector<std::byte>> gathered;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_OUTPUTS_H
