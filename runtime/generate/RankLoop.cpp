//===- RankLoop.cpp - Generation loop of one rank -------------------------===//

#include "generate/RankLoop.h"
#include "core/DType.h"
#include "core/Step.h"
#include "core/Transport.h"
#include "generate/ServiceLines.h"
#include <algorithm>
#include <cstring>
#include <sstream>

namespace tpc::rt {
namespace {

int groupsOf(const Manifest &manifest, const GenerationMode &mode) {
  return hasReplicas(manifest) || mode.givesLogits ? 1 : manifest.generation->inFlight;
}

/// Encodes a token whose logit is NaN as a negative number.
int64_t codeOf(const SampledToken &token) { return token.isNaN ? ~token.token : token.token; }
SampledToken tokenOfCode(int64_t code) { return {code < 0 ? ~code : code, code < 0}; }

/// `shownBefore`: sum of `shown` over all earlier rows.
RowSampling samplingOf(const SampledRow &row, int32_t shownBefore) {
  const SamplingSettings &settings = row.settings;
  return {1,
          !settings.isGreedy(),
          row.temperature(),
          static_cast<uint32_t>(row.position),
          settings.seed,
          row.sequence,
          row.isPenalized() ? settings.repetitionPenalty : 1,
          static_cast<int32_t>(row.shown()),
          shownBefore,
          0};
}

/// Writes the sampling settings of all rows of a step; only the rows in item.sampled are sampled.
void writeSampling(Tensor &samplingInput, int64_t vocabulary, const StepItem &item,
                   const std::vector<SampledRow> &rows) {
  const int64_t bytes = RowSampling::bytes(vocabulary);
  auto next = item.sampled.begin();
  int32_t shownBefore = 0;
  for (int64_t row = 0; row < item.rows(); ++row) {
    std::byte *to = samplingInput.data.data() + row * bytes;
    RowSampling choice{};
    choice.shownBefore = shownBefore;
    if (next != item.sampled.end() && *next == row) {
      const SampledRow &own = rows[static_cast<size_t>(next++ - item.sampled.begin())];
      choice = samplingOf(own, shownBefore);
      if (choice.penalty != 1) {
        std::byte *bits = to + sizeof(RowSampling);
        std::memset(bits, 0, static_cast<size_t>(bytes) - sizeof(RowSampling));
        for (int64_t token : own.seen)
          bits[token / 8] |= std::byte(1 << token % 8);
      }
    }
    std::memcpy(to, &choice, sizeof(choice));
    shownBefore += choice.shown;
  }
}

void put(Tensor &tensor, const std::vector<int64_t> &values) {
  for (size_t i = 0; i < values.size(); ++i)
    if (tensor.dtype == TPC_I32)
      tensor.as<int32_t>()[i] = static_cast<int32_t>(values[i]);
    else
      tensor.as<int64_t>()[i] = values[i];
}

} // namespace

RankLoop::RankLoop(const Manifest &manifest, GenerationLimits limits, const GenerationMode &mode)
    : manifest(manifest), generation(*manifest.generation), limits(limits), mode(mode),
      schedule(limits, groupsOf(manifest, mode), hasReplicas(manifest), prefersFewShapes(),
               generation.lastToken),
      sink(manifest), hasInput(mode.pollsClient) {
  if (generation.windowed)
    windows.emplace(generation.windowed->window, windowCapacityOf(*generation.windowed, limits),
                    limits.slots);
}

void RankLoop::exchangeInput(GenerationClient *client) {
  std::string text;
  if (client) {
    GenerationClient::ClientInput input = client->pollInput(schedule.isIdle() && inFlight.empty());
    for (const std::string &request : input.requests)
      text += "r" + request + "\n";
    for (uint64_t number : input.cancelled)
      text += "c" + std::to_string(number) + "\n";
    if (input.isLast)
      text += "e\n";
  }
  ranks->broadcast(text);
  readInput(text);
  deliverEvents(client);
}

void RankLoop::readInput(const std::string &text) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);)
    if (line[0] == 'r') {
      ClientLine parsed = parseClientLine(std::string_view(line).substr(1), mode.defaults);
      bindSource(parsed, manifest);
      GenerationRequest &request = *parsed.request;
      // Each request without a seed has its own random stream.
      if (!parsed.hasSeed)
        request.stream = numRequests + 1;
      ++numRequests;
      schedule.add(std::move(request));
    } else if (line[0] == 'c') {
      schedule.cancel(std::stoull(line.substr(1)));
    } else {
      hasInput = false;
    }
}

Inputs &RankLoop::inputsOf(const tpc_context &ctx, const StepItem &item) {
  constexpr size_t maximum = 64;
  const bool isForDevices = !ctx.device->isHost() && !mode.givesLogits && generation.lastOnly;
  std::tuple key(item.rows(), item.sequence, item.source);
  if (inputs.size() == maximum && !inputs.contains(key))
    inputs.clear();
  auto [entry, isNew] = inputs.try_emplace(key);
  Inputs &made = entry->second;
  if (isNew) {
    made = stepInputs(manifest, limits, item.rows(), item.sequence, item.source);
    if (isForDevices)
      addSamplingInput(made, generation);
  }
  if (isForDevices)
    writeSampling(made.tensors.back(), generation.vocabulary, item, schedule.rowsOf(item));
  made.stateRow = item.first;
  put(made.tensors[static_cast<size_t>(generation.tokens)], item.ids);
  put(made.tensors[static_cast<size_t>(generation.lengths)], item.lengths);
  put(made.tensors[static_cast<size_t>(generation.counts)], item.counts);
  if (generation.source)
    putSources(made, item);
  return made;
}

void RankLoop::putSources(Inputs &made, const StepItem &item) const {
  put(made.tensors[static_cast<size_t>(generation.source->lengths)], item.sourceLengths);
  Tensor &all = made.tensors[static_cast<size_t>(generation.source->input)];
  int64_t each = all.data.size() / std::max<int64_t>(item.rows(), 1);
  for (size_t row = 0; row < item.sources.size() && each > 0; ++row) {
    std::byte *to = all.data.data() + static_cast<int64_t>(row) * each;
    const GenerationSource *source = item.sources[row];
    if (!source) {
      std::memset(to, 0, static_cast<size_t>(each));
    } else if (source->states) {
      std::memcpy(to, source->states->data.data(), static_cast<size_t>(each));
    } else {
      for (size_t i = 0; i < source->ids.size(); ++i)
        if (all.dtype == TPC_I32)
          reinterpret_cast<int32_t *>(to)[i] = static_cast<int32_t>(source->ids[i]);
        else
          reinterpret_cast<int64_t *>(to)[i] = source->ids[i];
    }
  }
}

void RankLoop::moveWindows(tpc_context &ctx) {
  const StepItem &item = *current;
  const Generation::Windowed &windowed = *generation.windowed;
  int64_t capacity = windowCapacityOf(windowed, limits);
  std::vector<Windows::Move> moves = windows->advance(item.first, item.lengths, item.counts);
  put(nextInputs->tensors[static_cast<size_t>(windowed.lengths)],
      windows->lengthsOf(item.first, item.lengths));
  std::vector<int64_t> coordinates = manifest.grid.coordinatesOf(ctx.rank);
  for (size_t i = 0; i < manifest.caches.size() && !moves.empty(); ++i) {
    const Cache &cache = manifest.caches[i];
    std::span<std::byte> memory = ctx.state.find(static_cast<int32_t>(i));
    if (cache.shape[2] != windowed.capacity || memory.empty())
      continue;
    int64_t parts = 1, part = 0;
    for (int axis : cache.axes[0]) {
      int64_t size = manifest.grid.axes()[static_cast<size_t>(axis)].size;
      parts *= size;
      part = part * size + coordinates[static_cast<size_t>(axis)];
    }
    Part rows = partOf(limits.slots, parts, part);
    int64_t token = std::stoll(cache.shape[3]) * sizeOf(cache.dtype);
    int64_t row = std::ssize(memory) / rows.size, head = capacity * token;
    for (const Windows::Move &move : moves) {
      if (move.slot < rows.offset || move.slot >= rows.offset + rows.size)
        continue;
      std::byte *cacheRow = memory.data() + (move.slot - rows.offset) * row;
      ctx.device->copyRows(
          {cacheRow, cacheRow + move.from * token, head, head, move.count * token, row / head});
    }
  }
}

/// Steps launched ahead delay requests that arrive in the meantime, and are useless if a stop id is
/// sampled. Two suffice unless the host is interrupted.
constexpr int64_t maxUncertain = 2;

void RankLoop::launchAhead(tpc_context &ctx, const StepItem &item) {
  if (item.sampled.size() != rowsAhead)
    return;
  int64_t limit = stepsAhead();
  if (mode.pollsClient || schedule.mayStop(item))
    limit = std::min(limit, maxUncertain);
  limit = std::min(limit, schedule.stepsAfter(item));
  if (windows)
    limit = std::min(limit, windows->roomAfter(item.first, item.lengths, item.counts));
  for (int64_t taken = numAhead > 0; numAhead < limit + taken; ++numAhead) {
    ctx.steps->runAhead();
    ++theCounts.ahead;
  }
}

void RankLoop::dropAhead(tpc_context &ctx) {
  ctx.steps->dropAhead();
  theCounts.dropped += std::exchange(numAhead, 0);
}

std::optional<StepItem> RankLoop::nextItem(tpc_context &ctx) {
  if (numAhead > 0) {
    if (std::optional<StepItem> item = schedule.following(*lastTaken))
      return item;
    dropAhead(ctx);
  }
  return schedule.next();
}

void RankLoop::runItem(tpc_context &ctx, Execution &execution, GenerationClient *client) {
  const StepItem &item = *current;
  int64_t width = generation.lastOnly ? 1 : item.sequence;
  bool wantsAll = mode.givesLogits && !generation.lastOnly;
  std::vector<int64_t> wanted;
  auto nextSampled = item.sampled.begin();
  for (int64_t row = 0; row < item.rows(); ++row) {
    int64_t count = item.counts[static_cast<size_t>(row)];
    bool isSampled = nextSampled != item.sampled.end() && *nextSampled == row;
    nextSampled += isSampled;
    for (int64_t i = wantsAll ? 0 : count - 1; i < count; ++i)
      if (wantsAll || isSampled)
        wanted.push_back(row * width + (generation.lastOnly ? 0 : i));
  }
  bool isForDevices = nextInputs->tensors.size() > manifest.inputs.size();
  bool advances = isForDevices && item.sequence == 1 && ctx.worldSize() == 1 && stepsAhead() > 0;
  sink.expect(item.rows() * width, std::move(wanted),
              isForDevices ? &nextInputs->tensors.back() : nullptr, advances);
  if (numAhead == 0) {
    if (windows)
      moveWindows(ctx);
    execution.runRank(ctx, *nextInputs);
    rowsAhead =
        advances && sink.isChosenOnDevice() && ctx.steps->canRunAhead() ? item.sampled.size() : 0;
    launchAhead(ctx, item);
  } else {
    if (windows && !windows->advance(item.first, item.lengths, item.counts).empty())
      fail(ctx, "internal error: tokens must move before a step that was launched ahead");
    launchAhead(ctx, item);
    ctx.steps->takeAhead();
    --numAhead;
  }
  if (numAhead > 0)
    lastTaken = item;
  ++theCounts.steps;
  if (mode.givesLogits)
    giveLogits(ctx, client);
  std::vector<int64_t> tokens;
  if (!item.sampled.empty() && ranks->isLastStage()) {
    tokens = sample(ctx, item);
    ranks->sendToEarlier(tokens);
  }
  theCounts.bytes += sink.copiedBytes();
  inFlight.push_back({std::move(*current), std::move(tokens)});
  current.reset();
}

std::vector<int64_t> RankLoop::sample(tpc_context &ctx, const StepItem &item) {
  // If all logits are computed, selects the rows of last tokens.
  std::vector<int64_t> sampledOf(sink.wantedRows().size(), -1);
  int64_t next = 0;
  for (int64_t row : item.sampled) {
    int64_t wantedRow =
        generation.lastOnly ? row : row * item.sequence + item.counts[static_cast<size_t>(row)] - 1;
    auto found = std::lower_bound(sink.wantedRows().begin(), sink.wantedRows().end(), wantedRow);
    sampledOf[static_cast<size_t>(found - sink.wantedRows().begin())] = next++;
  }
  std::vector<LogitsPiece> pieces;
  std::vector<size_t> indices; // indices of `pieces` in the sink's pieces
  const std::vector<LogitsPiece> delivered = sink.pieces(ctx);
  for (size_t i = 0; i < delivered.size(); ++i)
    if (int64_t row = sampledOf[static_cast<size_t>(delivered[i].row)]; row >= 0) {
      pieces.push_back(delivered[i]);
      pieces.back().row = row;
      indices.push_back(i);
    }
  struct OnDevice final : DevicePieces {
    OnDevice(LogitsSink &sink, tpc_context &ctx, const std::vector<size_t> &indices)
        : sink(sink), ctx(ctx), indices(indices) {}
    void sumsOf(size_t piece, float largest, std::span<int64_t> sums) override {
      sink.copySums(ctx, indices[piece], largest, sums);
    }
    void scoresOf(size_t piece, std::span<float> scores) override {
      sink.copyScores(ctx, indices[piece], scores);
    }
    LogitsSink &sink;
    tpc_context &ctx;
    const std::vector<size_t> &indices;
  } onDevice(sink, ctx, indices);
  std::vector<SampledRow> rows = schedule.rowsOf(item);
  std::vector<int64_t> tokens;
  for (const SampledToken &token : sampler.sample(*ranks, rows, pieces, &onDevice))
    tokens.push_back(codeOf(token));
  return tokens;
}

void RankLoop::finishFirst(GenerationClient *client) {
  InFlightStep done = std::move(inFlight.front());
  inFlight.pop_front();
  if (!done.item.sampled.empty() && !ranks->isLastStage()) {
    done.tokens.resize(done.item.sampled.size());
    ranks->receiveFromLast(done.tokens);
  }
  std::vector<SampledToken> tokens;
  for (int64_t code : done.tokens)
    tokens.push_back(tokenOfCode(code));
  theCounts.tokens += std::ssize(tokens);
  schedule.finish(done.item, tokens);
  deliverEvents(client);
}

void RankLoop::deliverEvents(GenerationClient *client) {
  std::vector<GenerationEvent> events = schedule.takeEvents();
  if (!client || events.empty())
    return;
  for (const GenerationEvent &event : events)
    if (event.finish)
      client->onFinish(event.request, *event.finish, event.message);
    else
      client->onToken(event.request, event.token, event.index);
  client->afterStep();
}

void RankLoop::giveLogits(tpc_context &ctx, GenerationClient *client) {
  std::vector<std::byte> mine;
  auto append = [&](const void *data, size_t bytes) {
    auto *begin = static_cast<const std::byte *>(data);
    mine.insert(mine.end(), begin, begin + bytes);
  };
  for (const LogitsPiece &piece : sink.pieces(ctx)) {
    int64_t header[] = {piece.row, piece.first, std::ssize(piece.logits)};
    append(header, sizeof(header));
    append(piece.logits.data(), piece.logits.size_bytes());
  }
  ctx.counters.add(CollectiveKind::Gather, outputAxes, std::ssize(mine));
  ctx.transport->gatherBytes(ctx, mine.data(), std::ssize(mine), gathered);
  if (!client)
    return;
  std::vector<std::vector<float>> rows(
      sink.wantedRows().size(), std::vector<float>(static_cast<size_t>(generation.vocabulary)));
  int64_t missing = std::ssize(rows) * generation.vocabulary;
  for (const std::vector<std::byte> &bytes : gathered)
    for (size_t at = 0; at < bytes.size();) {
      int64_t header[3];
      std::memcpy(header, bytes.data() + at, sizeof(header));
      at += sizeof(header);
      auto size = static_cast<size_t>(header[2]) * sizeof(float);
      std::memcpy(rows[static_cast<size_t>(header[0])].data() + header[1], bytes.data() + at, size);
      at += size;
      missing -= header[2];
    }
  if (missing)
    fail(ctx, "internal error: " + std::to_string(missing) + " logits of a step are missing");
  for (std::vector<float> &row : rows)
    client->onLogits(std::move(row));
}

bool RankLoop::run(tpc_context &ctx, Execution &execution, GenerationClient *client) {
  ranks.emplace(ctx, manifest.pipelineAxis);
  ctx.outputs = &sink;
  while (true) {
    bool mayRun = inFlight.size() < static_cast<size_t>(schedule.numGroups());
    if (!current && mayRun) {
      if (schedule.isIdle())
        dropAhead(ctx); // before the client waits for requests
      if (hasInput)
        exchangeInput(client);
      current = nextItem(ctx);
    }
    if (current) {
      if (numAhead == 0)
        nextInputs = &inputsOf(ctx, *current);
      bool isPrepared = execution.isPrepared(*nextInputs);
      // If ranks must agree on the step, they first receive pending tokens, because messages would
      // interleave.
      if (isPrepared && (inFlight.empty() || execution.isAgreed(ctx, *nextInputs))) {
        runItem(ctx, execution, client);
        continue;
      }
      // No rank may wait for a rank that has left the loop.
      if (!isPrepared && inFlight.empty()) {
        ranks->flush();
        return false;
      }
    }
    if (!inFlight.empty())
      finishFirst(client);
    else if (!hasInput) {
      ranks->flush();
      return true;
    }
  }
}

} // namespace tpc::rt
