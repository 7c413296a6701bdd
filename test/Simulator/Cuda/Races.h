//===- Races.h - Race detector: accesses per byte and their order ---------===//
//
// A lane is an ordered sequence of operations: a stream, or one branch of a graph. An operation is
// identified by its lane and its number there. A vector clock has, for each lane, the number up to
// which operations are complete. It follows from the program's synchronization (streams and
// events), not from the actual order of execution.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_TEST_SIMULATOR_CUDA_RACES_H
#define TPC_TEST_SIMULATOR_CUDA_RACES_H

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

namespace sim {

using Clock = std::vector<uint64_t>; // by lane; 0 for lanes without a dependence

void join(Clock &into, const Clock &other);

struct Access {
  uint32_t lane = 0;
  uint64_t at = 0; // number in the lane, from 1; 0 if there is no access
  std::shared_ptr<const std::string> name;

  bool before(const Clock &clock) const {
    return !at || (lane < clock.size() && clock[lane] >= at);
  }
  bool operator==(const Access &other) const { return lane == other.lane && at == other.at; }
};

class Races {
public:
  /// Records an access to [from, to). Returns an earlier access that is not ordered before it, or
  /// null.
  std::unique_ptr<Access> note(uint64_t from, uint64_t to, bool write, const Access &self,
                               const Clock &clock);
  void forget(uint64_t from, uint64_t to);

private:
  /// Last accesses to the range from a segment's key to the next key.
  struct Segment {
    Access write;
    std::vector<Access> reads;
    bool operator==(const Segment &) const = default;
  };
  std::map<uint64_t, Segment>::iterator split(uint64_t at);
  void merge(uint64_t from, uint64_t to);
  std::map<uint64_t, Segment> segments{{0, {}}};
};

} // namespace sim

#endif
