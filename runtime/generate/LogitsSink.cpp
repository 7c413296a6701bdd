//===- LogitsSink.cpp - Sink for the logits of a rank ---------------------===//

#include "generate/LogitsSink.h"
#include "core/Half.h"
#include <algorithm>
#include <cstring>

namespace tpc::rt {

LogitsSink::LogitsSink(const Manifest &manifest)
    : manifest(manifest), output(manifest.generation->logits), numInputs(manifest.inputs.size()),
      dtype(manifest.outputs[static_cast<size_t>(output)].dtype),
      vocabulary(manifest.generation->vocabulary) {}

void LogitsSink::expect(int64_t numRows, std::vector<int64_t> wantedRows, const Tensor *input,
                        bool advancesInputs) {
  rows = numRows;
  copied = 0;
  samplingInput = input;
  advances = advancesInputs;
  parts.clear();
  wanted = std::move(wantedRows);
  kept.clear();
  logits.clear();
}

void LogitsSink::take(tpc_context &ctx, int32_t index, const void *data, int32_t rank,
                      const int64_t *global, const int64_t *offset, const int64_t *size,
                      const Selection *selection) {
  if (index != output)
    return;
  auto refuse = [&](const std::string &what) { fail(ctx, "internal error: logits: " + what); };
  if (rank < 1 || rank > maxRank)
    refuse("a block of " + std::to_string(rank) + " dimensions");
  Block block{rank, {}, {}, {}, {}, 0, rank - 1};
  int64_t stored = 1, elements = 1;
  for (int32_t d = rank; d-- > 0;) {
    if (global[d] < 0 || offset[d] < 0 || size[d] < 0 || size[d] > global[d] - offset[d])
      refuse("a block of " + std::to_string(size[d]) + " from " + std::to_string(offset[d]) +
             " on exceeds dimension " + std::to_string(d) + ", of size " +
             std::to_string(global[d]));
    bool isSelected = selection && selection->dim == d;
    block.global[d] = global[d];
    block.offset[d] = offset[d];
    block.size[d] = size[d];
    block.stride[d] = stored * (isSelected ? selection->step : 1);
    if (isSelected)
      block.begin = selection->first * stored;
    stored *= isSelected ? selection->entries : size[d];
    elements *= global[d];
  }
  if (elements != rows * vocabulary)
    refuse("a block of another tensor");
  // The trailing dimensions that the block covers completely are contiguous.
  auto isSelected = [&](int32_t d) { return selection && selection->dim == d; };
  if (isSelected(rank - 1))
    block.run = rank;
  while (block.run > 0 && block.run < rank && size[block.run] == global[block.run] &&
         !isSelected(block.run - 1))
    --block.run;
  if (stored == 0 || std::any_of(size, size + rank, [](int64_t n) { return n == 0; }))
    return;
  // A recorded step may be replayed for another generation, so the sink is looked up at replay
  // time.
  auto arrived = [&ctx](int64_t bytes) -> LogitsSink & {
    auto &sink = static_cast<LogitsSink &>(*ctx.outputs);
    sink.copied += ctx.device->isHost() ? 0 : bytes;
    return sink;
  };
  if (std::optional<Rows> part = samplingInput && !selection ? rowsOf(block) : std::nullopt) {
    int64_t bytes = RowSampling::bytes(vocabulary);
    auto *settings = static_cast<const std::byte *>(ctx.data.inputs[numInputs]) + part->row * bytes;
    if (ctx.device->sample(
            {data, dtype, part->rows, part->count, part->first,
             reinterpret_cast<const RowSampling *>(settings), bytes, advancedOf(ctx, *part)},
            [arrived, part = *part](const std::byte *best, const SamplingResult &result) {
              arrived(part.rows * static_cast<int64_t>(sizeof(Ranked))).arrive(part, best, result);
            }))
      return;
  }
  int64_t bytes = stored * dtypeBytes(dtype);
  ctx.device->deliver(data, bytes, [arrived, block, bytes](const std::byte *from) {
    arrived(bytes).arrive(block, from);
  });
}

/// Returns begin and length of the block's range in these dimensions, if it is contiguous.
static std::optional<std::pair<int64_t, int64_t>>
runOf(int32_t dims, const int64_t *global, const int64_t *offset, const int64_t *size) {
  int64_t begin = 0, count = 1;
  for (int32_t d = 0; d < dims; ++d) {
    if (count > 1 && size[d] != global[d])
      return std::nullopt;
    begin = begin * global[d] + offset[d];
    count *= size[d];
  }
  return std::pair(begin, count);
}

std::optional<LogitsSink::Rows> LogitsSink::rowsOf(const Block &block) const {
  // Finds the dimensions that make up the vocabulary.
  int32_t split = block.rank;
  int64_t length = 1;
  while (split > 0 && length < vocabulary)
    length *= block.global[--split];
  if (length != vocabulary)
    return std::nullopt;
  auto ofRows = runOf(split, block.global, block.offset, block.size);
  auto ofTokens =
      runOf(block.rank - split, block.global + split, block.offset + split, block.size + split);
  if (!ofRows || !ofTokens)
    return std::nullopt;
  return Rows{ofRows->first, ofRows->second, ofTokens->first, ofTokens->second};
}

AdvancedInputs LogitsSink::advancedOf(const tpc_context &ctx, const Rows &part) const {
  if (!advances || part.count != vocabulary)
    return {};
  const Generation &generation = *manifest.generation;
  AdvancedInputs made;
  auto rowsOf = [&](int index, int32_t &bytes) -> void * {
    auto at = static_cast<size_t>(index);
    bytes = static_cast<int32_t>(dtypeBytes(manifest.inputs[at].dtype));
    auto *begin = const_cast<void *>(ctx.data.inputs[at]);
    return static_cast<std::byte *>(begin) + part.row * bytes;
  };
  made.tokens = rowsOf(generation.tokens, made.tokenBytes);
  made.lengths = rowsOf(generation.lengths, made.lengthBytes);
  if (generation.windowed)
    made.windowLengths = rowsOf(generation.windowed->lengths, made.windowBytes);
  made.lastToken = generation.lastToken;
  return made;
}

bool LogitsSink::isChosenOnDevice() const {
  return kept.size() == wanted.size() &&
         std::all_of(kept.begin(), kept.end(), [&](const StoredLogits &each) {
           return each.part >= 0 && each.count == vocabulary &&
                  samplingOf(wanted[static_cast<size_t>(each.row)]).shown == 0;
         });
}

const RowSampling &LogitsSink::samplingOf(int64_t row) const {
  return *reinterpret_cast<const RowSampling *>(samplingInput->data.data() +
                                                row * RowSampling::bytes(vocabulary));
}

void LogitsSink::arrive(const Rows &part, const std::byte *from, const SamplingResult &result) {
  for (int64_t row = part.row; row < part.row + part.rows; ++row, from += sizeof(Ranked)) {
    auto found = std::lower_bound(wanted.begin(), wanted.end(), row);
    if (found == wanted.end() || *found != row)
      continue;
    Ranked best = noToken;
    std::memcpy(&best, from, sizeof(best));
    kept.push_back({found - wanted.begin(), part.first, 0, part.count, best, std::ssize(parts)});
  }
  parts.push_back({part, result, 0});
}

// The top-scoring tokens of consecutive rows are stored contiguously.
void LogitsSink::copyLargest(tpc_context &ctx) {
  largest.clear();
  for (SampledRows &part : parts) {
    const RowSampling &end = samplingOf(part.rows.row + part.rows.rows - 1);
    int64_t count = end.shownBefore + end.shown - samplingOf(part.rows.row).shownBefore;
    part.begin = largest.size();
    if (count == 0)
      continue;
    auto bytes = count * static_cast<int64_t>(sizeof(Ranked));
    Reading reading(*ctx.device, part.result.largest, bytes);
    largest.resize(part.begin + static_cast<size_t>(count));
    std::memcpy(largest.data() + part.begin, reading.data, static_cast<size_t>(bytes));
    copied += bytes;
  }
}

const float *LogitsSink::scoresOf(const StoredLogits &own) const {
  const SampledRows &part = parts[static_cast<size_t>(own.part)];
  int64_t row = wanted[static_cast<size_t>(own.row)] - part.rows.row;
  return part.result.scores + row * own.count;
}

void LogitsSink::copySums(tpc_context &ctx, size_t piece, float ofLargest,
                          std::span<int64_t> sums) {
  ctx.device->sumBins(scoresOf(kept[piece]), kept[piece].count, ofLargest, sums);
  copied += static_cast<int64_t>(sums.size_bytes());
}

void LogitsSink::copyScores(tpc_context &ctx, size_t piece, std::span<float> scores) {
  auto bytes = static_cast<int64_t>(scores.size_bytes());
  Reading reading(*ctx.device, scoresOf(kept[piece]), bytes);
  std::memcpy(scores.data(), reading.data, scores.size_bytes());
  copied += bytes;
}

void LogitsSink::arrive(const Block &block, const std::byte *from) {
  int64_t length = 1, index[maxRank] = {};
  for (int32_t d = block.run; d < block.rank; ++d)
    length *= block.size[d];
  int64_t bytes = dtypeBytes(dtype);
  while (true) {
    int64_t at = 0, offset = block.begin;
    for (int32_t d = 0; d < block.rank; ++d) {
      at = at * block.global[d] + block.offset[d] + index[d];
      offset += index[d] * block.stride[d];
    }
    keep(at, length, from + offset * bytes);
    int32_t d = block.run;
    while (d-- > 0 && ++index[d] == block.size[d])
      index[d] = 0;
    if (d < 0)
      return;
  }
}

void LogitsSink::keep(int64_t at, int64_t count, const std::byte *from) {
  int64_t bytes = dtypeBytes(dtype);
  for (int64_t part; count > 0; at += part, count -= part, from += part * bytes) {
    int64_t row = at / vocabulary, first = at % vocabulary;
    part = std::min(count, vocabulary - first);
    auto found = std::lower_bound(wanted.begin(), wanted.end(), row);
    if (found == wanted.end() || *found != row)
      continue;
    size_t begin = logits.size();
    logits.resize(begin + static_cast<size_t>(part));
    float *to = logits.data() + begin;
    kept.push_back({found - wanted.begin(), first, static_cast<int64_t>(begin), part, noToken, -1});
    if (dtype == TPC_F32) {
      std::memcpy(to, from, static_cast<size_t>(part) * sizeof(float));
      continue;
    }
    for (int64_t i = 0; i < part; ++i) {
      uint16_t half = 0;
      double number = 0;
      std::memcpy(dtype == TPC_F64 ? static_cast<void *>(&number) : &half, from + i * bytes,
                  static_cast<size_t>(bytes));
      to[i] = dtype == TPC_F64    ? static_cast<float>(number)
              : dtype == TPC_BF16 ? bfloatToFloat(half)
                                  : halfToFloat(half);
    }
  }
}

std::vector<LogitsPiece> LogitsSink::pieces(tpc_context &ctx) {
  copyLargest(ctx);
  std::vector<LogitsPiece> result;
  for (const StoredLogits &each : kept) {
    LogitsPiece &piece =
        result.emplace_back(LogitsPiece{each.row, each.first, {}, each.best, each.count, {}});
    if (each.part < 0) {
      piece.logits = std::span(logits).subspan(static_cast<size_t>(each.begin),
                                               static_cast<size_t>(each.count));
      continue;
    }
    const SampledRows &part = parts[static_cast<size_t>(each.part)];
    const RowSampling &own = samplingOf(wanted[static_cast<size_t>(each.row)]);
    size_t begin =
        part.begin + static_cast<size_t>(own.shownBefore - samplingOf(part.rows.row).shownBefore);
    piece.largest = std::span(largest).subspan(
        begin, static_cast<size_t>(std::min<int64_t>(own.shown, each.count)));
  }
  return result;
}

} // namespace tpc::rt
