//===- HangDetector.cpp - Wait-for analysis of a run without progress -----===//

#include "core/HangDetector.h"
#include <algorithm>

namespace tpc::rt {

std::vector<int> HangDetector::awaited(int rank) const {
  const Heartbeat &mine = heartbeatOf(rank);
  std::vector<int> found;
  for (int other : mine.awaited) {
    const Heartbeat &theirs = heartbeatOf(other);
    bool isSame = mine.onDevice && theirs.onDevice && theirs.at == mine.at;
    bool isLater = mine.axes && theirs.axes == mine.axes && theirs.number > mine.number;
    if (!isSame && !isLater)
      found.push_back(other);
  }
  return found;
}

int HangDetector::rankToReport() const {
  auto isLate = [&](int rank) { return !heartbeatOf(rank).waits || awaited(rank).empty(); };
  for (int rank = 0; rank < ranks; ++rank)
    if (std::vector<int> found = awaited(rank);
        heartbeatOf(rank).waits && std::any_of(found.begin(), found.end(), isLate))
      return rank;
  for (int rank = 0; rank < ranks; ++rank)
    if (heartbeatOf(rank).onDevice && awaited(rank).empty())
      return rank;
  for (int rank = 0; rank < ranks; ++rank)
    if (!heartbeatOf(rank).left)
      return rank;
  return 0;
}

std::string HangDetector::describeWait(int rank) const {
  std::string text = describe(rank) + " " + heartbeatOf(rank).at;
  const char *join = " for ";
  for (int other : awaited(rank)) {
    text += join + describe(other);
    join = ", ";
  }
  return text;
}

} // namespace tpc::rt
