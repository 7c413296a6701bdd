//===- Standstill.cpp - who waits for whom --------------------------------===//

#include "core/Standstill.h"
#include <algorithm>

namespace tpc::rt {

std::vector<int> Standstill::missing(int rank) const {
  const Beat &mine = beatOf(rank);
  std::vector<int> found;
  for (int other : mine.missing) {
    const Beat &theirs = beatOf(other);
    bool isSame = mine.onDevice && theirs.onDevice && theirs.at == mine.at;
    bool isLater = mine.axes && theirs.axes == mine.axes && theirs.number > mine.number;
    if (!isSame && !isLater)
      found.push_back(other);
  }
  return found;
}

int Standstill::first() const {
  auto isLate = [&](int rank) { return !beatOf(rank).waits || missing(rank).empty(); };
  for (int rank = 0; rank < ranks; ++rank)
    if (std::vector<int> found = missing(rank);
        beatOf(rank).waits && std::any_of(found.begin(), found.end(), isLate))
      return rank;
  for (int rank = 0; rank < ranks; ++rank)
    if (beatOf(rank).onDevice && missing(rank).empty())
      return rank;
  for (int rank = 0; rank < ranks; ++rank)
    if (!beatOf(rank).left)
      return rank;
  return 0;
}

std::string Standstill::describeWait(int rank) const {
  std::string text = describe(rank) + " " + beatOf(rank).at;
  const char *join = " for ";
  for (int other : missing(rank)) {
    text += join + describe(other);
    join = ", ";
  }
  return text;
}

} // namespace tpc::rt
