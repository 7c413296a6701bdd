//===- Schedule.h - which sequences are in which step ---------------------===//
//
// Requests wait for a slot, which is a row of the caches. The prompt goes in by chunks, then a
// token at a time; slots that are further on share a step. While prompts go in, others get on: a
// chunk and a step of those alternate.
//
// Slots are in groups. The next step of a group needs the tokens of its last one, steps of other
// groups do not: with as many groups as stages all stages have something to do.
//
// Where a new shape of a step costs more than what it computes (a GPU measures its products, and
// records it), there are few: rows are a power of two, from a multiple of it on, as far as there
// are slots; tokens of a prompt's step are a power of two, or a multiple of 64.
//
// Every rank has one of these, and tells it the same in the same order: so all know what is next.
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

/// One step: rows are the slots [first, first + rows()).
struct StepItem {
  int group = 0;
  int64_t first = 0, sequence = 0;
  std::vector<int64_t> ids; ///< [rows, sequence], padded on the right
  std::vector<int64_t> lengths, counts;
  /// Rows whose next token is to be chosen, ascending.
  std::vector<int64_t> sampled;

  int64_t rows() const { return std::ssize(counts); }
};

/// What clients are told: a token, or the end.
struct GenerationEvent {
  uint64_t request = 0;
  int64_t token = 0, index = 0;
  std::optional<Finish> finish;
  std::string message;
};

/// The least of few lengths of steps that is no less; at most `most`.
int64_t roundedLength(int64_t tokens, int64_t most);

class Schedule {
public:
  /// `groups`: as many as there are slots, at most. `wholeGroups`: a step has all rows of a group,
  /// as where replicas have their own.
  /// `lastToken`: the last of those that can go in again.
  Schedule(GenerationLimits limits, int groups, bool wholeGroups, bool fewShapes = false,
           int64_t lastToken = std::numeric_limits<int64_t>::max());

  /// Valid as problemOf says. Its number: how many were added before.
  uint64_t add(GenerationRequest request);
  /// Nothing, if it is at its end.
  void cancel(uint64_t request);

  /// Neither waits nor runs anything.
  bool isIdle() const { return waiting.empty() && running == 0; }
  /// What can be run before what was taken is finished; nothing: none.
  std::optional<StepItem> next();
  /// The rows of an item whose tokens are to be chosen. Valid until it is finished.
  std::vector<SampledRow> rowsOf(const StepItem &item) const;
  /// Items of a group are finished in the order in which they were taken. `tokens`: of
  /// `item.sampled`.
  void finish(const StepItem &item, std::span<const SampledToken> tokens);
  /// What has happened since they were last taken.
  std::vector<GenerationEvent> takeEvents() { return std::exchange(events, {}); }

  const GenerationLimits &limits() const { return theLimits; }
  int numGroups() const { return static_cast<int>(groups.size()); }

private:
  struct Slot {
    std::optional<uint64_t> number; ///< of its request; none: it is free
    GenerationRequest request;
    int64_t length = 0;    ///< tokens in the caches
    int64_t generated = 0; ///< tokens chosen
    int64_t token = 0;     ///< the last of these
    std::vector<int64_t> seen;
    std::set<int64_t> isSeen;
    bool isCancelled = false;

    bool isInPrompt() const { return length < std::ssize(request.ids); }
    void see(int64_t token) {
      if (isSeen.insert(token).second)
        seen.push_back(token);
    }
  };
  struct SlotGroup {
    int64_t begin, end;
    bool isOut = false;     ///< one of its items is not finished
    bool wasPrompt = false; ///< the last one was of a prompt
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
