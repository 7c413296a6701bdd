//===- Counters.h - Communication counters of a rank ----------------------===//
//
// Counts and bytes of collectives by axes and kind, with the convention of the compiler's report.
// Bytes are those of the whole buffer, without padding:
// * all-reduce and broadcast: the tensor; all-gather: the gathered tensor; reduce-scatter: the
//   input; all-to-all: the rank's input;
// * send: the message, counted at the sender;
// * gather: the whole output, or in generation the rank's logits;
// * collective-permute and exchange: the maximum over members of bytes sent or received;
// * dispatch and combine: the bytes that the rank sends, which depend on the routing.
// Empty messages are neither sent nor counted.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_COUNTERS_H
#define TPC_RT_CORE_COUNTERS_H

#include "core/Grid.h"

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tpc::rt {

enum class CollectiveKind : int {
  AllReduce,
  AllGather,
  ReduceScatter,
  AllToAll,
  CollectivePermute,
  Exchange,
  Broadcast,
  Send,
  Gather,
  Dispatch,
  Combine
};
constexpr int numCollectiveKinds = 11;
/// "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "collective_permute", "exchange",
/// "broadcast", "send", "gather", "dispatch", "combine".
const char *spell(CollectiveKind kind);

/// Axis mask under which the assembly of outputs is counted; its label is "output".
constexpr uint32_t outputAxes = uint32_t(1) << 31;
/// Axis mask of the exchange that samples tokens; its label is "sampling".
constexpr uint32_t samplingAxes = outputAxes | 1;

class Counters {
public:
  struct Row {
    std::string axis;
    CollectiveKind kind;
    int64_t count = 0;
    int64_t bytes = 0;
  };

  void add(CollectiveKind kind, uint32_t axes, int64_t bytes, int64_t count = 1) {
    Cell &cell = cells[axes][static_cast<int>(kind)];
    cell.count += count;
    cell.bytes += bytes;
  }
  void add(const Counters &other) {
    for (const auto &[axes, kinds] : other.cells)
      for (int kind = 0; kind < numCollectiveKinds; ++kind)
        if (const Cell &cell = kinds[kind]; cell.count)
          add(CollectiveKind(kind), axes, cell.bytes, cell.count);
  }
  void reset() { cells.clear(); }
  /// Returns the rows with a nonzero count, by mask and then by kind; "output" and "sampling" come
  /// last.
  std::vector<Row> rows(const Grid &grid) const;

private:
  struct Cell {
    int64_t count = 0;
    int64_t bytes = 0;
  };
  std::map<uint32_t, std::array<Cell, numCollectiveKinds>> cells;
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_COUNTERS_H
