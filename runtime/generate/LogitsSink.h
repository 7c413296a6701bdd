//===- LogitsSink.h - Sink for the logits of a rank -----------------------===//
//
// A step delivers logits like outputs, as blocks of the whole tensor. The logits stay on the rank
// that computed them. If its device samples, they stay on the device, and the sink receives the
// sampling results of each row instead.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_LOGITSSINK_H
#define TPC_RT_GENERATE_LOGITSSINK_H

#include "core/Context.h"
#include "generate/Sampler.h"
#include "program/Manifest.h"
#include <optional>

namespace tpc::rt {

class LogitsSink final : public OutputSink {
public:
  explicit LogitsSink(const Manifest &manifest);

  /// Prepares for a step with `rows` rows of logits, of which `wanted` are sampled (ascending).
  /// `samplingInput`: the additional step input with the sampling settings (addSamplingInput); null
  /// if there is none. The input must not change until tokens are sampled. `advances`: a device
  /// that samples also advances the inputs of the step, which has one token per row.
  void expect(int64_t rows, std::vector<int64_t> wanted, const Tensor *samplingInput,
              bool advances = false);
  void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank, const int64_t *global,
            const int64_t *offset, const int64_t *size, const Selection *selection) override;

  /// Returns the delivered vocabulary shards of the wanted rows; rows are indices into `wanted`.
  /// For rows that need them, copies the top-scoring tokens from the device.
  std::vector<LogitsPiece> pieces(tpc_context &ctx);
  /// Copies sums by bin, or all scores, of a vocabulary shard whose top-scoring tokens the device
  /// has computed.
  void copySums(tpc_context &ctx, size_t piece, float largest, std::span<int64_t> sums);
  void copyScores(tpc_context &ctx, size_t piece, std::span<float> scores);
  const std::vector<int64_t> &wantedRows() const { return wanted; }
  /// Whether the device has chosen the tokens of all wanted rows, from the whole vocabulary.
  bool isChosenOnDevice() const;
  /// Number of bytes that this step copied from a device other than the host.
  int64_t copiedBytes() const { return copied; }

private:
  static constexpr int32_t maxRank = 16;
  struct Block {
    int32_t rank;
    int64_t global[maxRank], offset[maxRank], size[maxRank], stride[maxRank];
    int64_t begin; ///< offset of the first element in the source
    int32_t run;   ///< first dimension of the contiguous suffix
  };
  /// A block of dense rows, with a contiguous range of tokens.
  struct Rows {
    int64_t row, rows, first, count;
  };
  /// Tokens [first, first + count) of a row: their scores in `logits` from `begin` on, or the
  /// device's result.
  struct StoredLogits {
    int64_t row, first, begin, count;
    Ranked best;
    int64_t part; ///< index into `parts`; -1: the scores are in `logits`
  };
  std::optional<Rows> rowsOf(const Block &block) const;
  AdvancedInputs advancedOf(const tpc_context &ctx, const Rows &part) const;
  void arrive(const Block &block, const std::byte *from);
  void arrive(const Rows &rows, const std::byte *from, const SamplingResult &result);
  const RowSampling &samplingOf(int64_t row) const;
  void copyLargest(tpc_context &ctx);
  const float *scoresOf(const StoredLogits &own) const;
  void keep(int64_t at, int64_t count, const std::byte *from);

  struct SampledRows {
    Rows rows;
    SamplingResult result;
    size_t begin; ///< offset of its top-scoring tokens in `largest`
  };
  const Manifest &manifest;
  const int32_t output;
  const size_t numInputs; ///< number of inputs of the program
  const tpc_dtype dtype;
  const int64_t vocabulary;
  int64_t rows = 0, copied = 0;
  const Tensor *samplingInput = nullptr;
  bool advances = false;
  std::vector<int64_t> wanted;
  std::vector<SampledRows> parts;
  std::vector<Ranked> largest;
  std::vector<StoredLogits> kept;
  std::vector<float> logits;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_LOGITSSINK_H
