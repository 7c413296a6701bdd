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

  /// For a step of so many rows of logits, of which these are wanted, ascending. `isForDevice`: it
  /// has an input behind the program's that says how the device may choose (addChoices).
  void expect(int64_t rows, std::vector<int64_t> wanted, bool isForDevice);
  void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank, const int64_t *global,
            const int64_t *offset, const int64_t *size, const Selection *selection) override;

  /// What has been delivered of the rows that were wanted, each under its place among them.
  std::vector<LogitsPiece> pieces() const;
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
  std::optional<Rows> rowsOf(const Block &block) const;
  void arrive(const Block &block, const std::byte *from);
  void arrive(const Rows &rows, const std::byte *from);
  void keep(int64_t at, int64_t count, const std::byte *from);

  struct Kept {
    int64_t row, first, begin, count;
    Ranked best;
  };
  const int32_t output;
  const size_t numInputs; ///< of the program
  const tpc_dtype dtype;
  const int64_t vocabulary;
  int64_t rows = 0, copied = 0;
  bool isForDevice = false;
  std::vector<int64_t> wanted;
  std::vector<Kept> kept;
  std::vector<float> logits;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_LOGITSSINK_H
