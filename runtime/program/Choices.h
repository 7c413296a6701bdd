//===- Choices.h - what ranks choose by measuring -------------------------===//
//
// Devices may choose by measuring how they do some work (core/Device.h): the algorithms of products
// on GPUs. Before a step of new sizes, a device that only counts has gone through it, and so said
// which questions are open (CountMemory.h). Each is answered by one of the ranks that have it, from
// the cache or by measuring, and all of these take the answer, before any of them begins the step.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_PROGRAM_CHOICES_H
#define TPC_RT_PROGRAM_CHOICES_H

#include "core/World.h"
#include "program/AnswerCache.h"
#include <functional>
#include <set>

namespace tpc::rt {

class Choices {
public:
  /// Questions that are answered in a run. Of more, work is done as if nobody measured.
  static constexpr size_t mostQuestions = 4096;

  /// `measures`: the same on all ranks.
  explicit Choices(bool measures) : measures(measures), cache(AnswerCache::folderOfUser()) {}

  /// Collective. `questions`: of each rank of this process, about the step that comes; `run`: runs
  /// on each rank's thread, where there is the memory for its frames.
  void settle(World &world, const std::vector<std::vector<std::string>> &questions,
              const std::function<void(const std::function<void(tpc_context &)> &)> &run);

private:
  const bool measures;
  AnswerCache cache;
  std::set<std::string> settled;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_CHOICES_H
