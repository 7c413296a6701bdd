//===- Schedule.h - Continuous-batching scheduler -------------------------===//
//
// A request waits for a slot, a row of the caches. A prompt is processed in chunks; after it, the
// sequence is processed one token at a time. Slots past their prompt share a step. Prompt chunks
// alternate with steps of the running slots, so that neither blocks the other.
//
// Slots form groups. The next step of a group needs the tokens of its previous one; steps of other
// groups do not. With as many groups as pipeline stages, all stages are busy.
//
// If a new step shape is expensive (a GPU tunes and records each shape), only few shapes are used.
// The number of rows is a power of two, and the first row a multiple of it. The number of prompt
// tokens is a power of two or a multiple of 64.
//
// Every rank has a copy and updates it in the same order, so that all agree on the next step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_GENERATE_SCHEDULE_H
#define TPC_RT_GENERATE_SCHEDULE_H

#include "generate/Request.h"
#include "generate/Sampler.h"
#include <deque>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <utility>

namespace tpc::rt {

/// One step. Its rows are the slots [first, first + rows()).
struct StepItem {
  int group = 0;
  int64_t first = 0, sequence = 0;
  std::vector<int64_t> ids; ///< [rows, sequence], padded on the right
  std::vector<int64_t> lengths, counts;
  int64_t source = 0;                 ///< source tokens of each row that brings one
  std::vector<int64_t> sourceLengths; ///< source tokens in the caches
  /// Sources that rows bring; null: none. Valid until the item is finished.
  std::vector<const GenerationSource *> sources;
  /// Rows to sample, ascending.
  std::vector<int64_t> sampled;

  int64_t rows() const { return std::ssize(counts); }
};

/// Event for a client: a token, or the end of a request.
struct GenerationEvent {
  uint64_t request = 0;
  int64_t token = 0, index = 0;
  std::optional<Finish> finish;
  std::string message;
};

/// Rounds up to one of few step lengths, at most `maximum`.
int64_t roundedLength(int64_t tokens, int64_t maximum);

class Schedule {
public:
  /// `groups`: number of groups, at most the number of slots. `wholeGroups`: a step covers all rows
  /// of a group, as data-parallel replicas require. `lastToken`: the maximum token that the model
  /// accepts as input.
  Schedule(GenerationLimits limits, int groups, bool wholeGroups, bool fewShapes = false,
           int64_t lastToken = std::numeric_limits<int64_t>::max());

  /// Adds a request that problemOf accepts. Returns its number, counted from 0.
  uint64_t add(GenerationRequest request);
  /// Has no effect if the request has ended.
  void cancel(uint64_t request);

  /// Whether no request is waiting or running.
  bool isIdle() const { return waiting.empty() && running == 0; }
  /// Returns a step that can run before the unfinished steps end; nullopt if there is none.
  std::optional<StepItem> next();
  /// Returns how many steps of the same rows may follow `item`, which is not finished, without
  /// another decision of the schedule. `item` has one token per row.
  int64_t stepsAfter(const StepItem &item) const;
  /// Whether a request of the item has stop ids.
  bool mayStop(const StepItem &item) const;
  /// Returns the step that follows a finished item of one token per row: the same rows, without the
  /// requests that have ended. Nullopt if all have ended. Neither prompts nor other rows precede
  /// it, and no request is admitted.
  std::optional<StepItem> following(const StepItem &item);
  /// Returns the rows of an item to sample. Valid until the item is finished.
  std::vector<SampledRow> rowsOf(const StepItem &item) const;
  /// Finishes an item. Items of a group are finished in the order in which they were taken.
  /// `tokens`: one for each row in `item.sampled`.
  void finish(const StepItem &item, std::span<const SampledToken> tokens);
  /// Returns the events since the last call.
  std::vector<GenerationEvent> takeEvents() { return std::exchange(events, {}); }

  const GenerationLimits &limits() const { return theLimits; }
  int numGroups() const { return static_cast<int>(groups.size()); }

private:
  struct Slot {
    std::optional<uint64_t> number; ///< number of its request; nullopt: free
    GenerationRequest request;
    int64_t length = 0;    ///< tokens in the caches
    int64_t generated = 0; ///< tokens sampled
    int64_t token = 0;     ///< last sampled token
    std::vector<int64_t> seen;
    std::set<int64_t> isSeen;
    bool isCancelled = false;

    /// Number of source tokens that the next step brings.
    int64_t newSource() const { return length == 0 ? request.source.size() : 0; }
    bool isInPrompt() const { return length < std::ssize(request.ids); }
    void see(int64_t token) {
      if (isSeen.insert(token).second)
        seen.push_back(token);
    }
  };
  struct SlotGroup {
    int64_t begin, end;
    bool isInFlight = false; ///< an item of the group is not finished
    bool wasPrompt = false;  ///< the group's last item was a prompt chunk
  };

  void admit();
  std::optional<StepItem> nextOf(SlotGroup &group);
  StepItem itemOf(const SlotGroup &group, const std::vector<int64_t> &slots) const;
  void takeToken(Slot &slot, const SampledToken &token);
  void end(Slot &slot, Finish why, const std::string &message = "");

  GenerationLimits theLimits;
  bool wholeGroups, fewShapes;
  int64_t lastToken;
  std::vector<SlotGroup> groups;
  std::vector<Slot> slots;
  std::deque<std::pair<uint64_t, GenerationRequest>> waiting;
  int64_t running = 0;
  uint64_t added = 0;
  size_t nextGroup = 0;
  std::vector<GenerationEvent> events;
};

} // namespace tpc::rt

#endif // TPC_RT_GENERATE_SCHEDULE_H
