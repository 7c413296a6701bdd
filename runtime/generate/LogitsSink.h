//===- LogitsSink.h - keeps the logits that a rank has --------------------===//
//
// A step delivers logits as it delivers outputs: blocks of the whole tensor. They stay with the
// rank that has them. Where its device chooses, they stay there, and what it has chosen of each row
// comes in their place.
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

  /// For a step of so many rows of logits, of which these are wanted, ascending. `choices`: the
  /// step's input behind the program's that says how its device may choose (addChoices); null: it
  /// has none. It stays as it is until tokens are chosen.
  void expect(int64_t rows, std::vector<int64_t> wanted, const Tensor *choices);
  void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank, const int64_t *global,
            const int64_t *offset, const int64_t *size, const Selection *selection) override;

  /// What has been delivered of the rows that were wanted, each under its place among them. Copies
  /// what rows show of what the device has found.
  std::vector<LogitsPiece> pieces(tpc_context &ctx);
  /// Of one of these, which shows its largest: sums of its scores by bins, and all scores.
  void copySums(tpc_context &ctx, size_t piece, float largest, std::span<int64_t> sums);
  void copyScores(tpc_context &ctx, size_t piece, std::span<float> scores);
  const std::vector<int64_t> &wantedRows() const { return wanted; }
  /// In this step, from a device that is not the host.
  int64_t copiedBytes() const { return copied; }

private:
  static constexpr int32_t maxRank = 16;
  struct Block {
    int32_t rank;
    int64_t global[maxRank], offset[maxRank], size[maxRank], stride[maxRank];
    int64_t begin; ///< of the first element in what is read
    int32_t run;   ///< dimensions from here on are one run of memory
  };
  /// A block of dense rows of the last tokens that follow each other.
  struct Rows {
    int64_t row, rows, first, count;
  };
  /// Logits, from `begin` on; or what the device has found, in a part of the rows that it has.
  struct Kept {
    int64_t row, first, begin, count;
    Ranked best;
    int64_t part; ///< -1: logits
  };
  std::optional<Rows> rowsOf(const Block &block) const;
  void arrive(const Block &block, const std::byte *from);
  void arrive(const Rows &rows, const std::byte *from, const SamplingResult &chosen);
  const RowSampling &choiceOf(int64_t row) const;
  void copyLargest(tpc_context &ctx);
  const float *scoresOf(const Kept &own) const;
  void keep(int64_t at, int64_t count, const std::byte *from);

  struct ChosenRows {
    Rows rows;
    SamplingResult chosen;
    size_t begin; ///< of its largest among all that were copied
  };
  const int32_t output;
  const size_t numInputs; ///< of the program
  const tpc_dtype dtype;
  const int64_t vocabulary;
  int64_t rows = 0, copied = 0;
  const Tensor *choices = nullptr;
  std::vector<int64_t> wanted;
  std::vector<ChosenRows> parts;
  std::vector<Ranked> largest;
  std::vector<Kept> kept;
  std::vector<float> logits;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_LOGITSSINK_H
