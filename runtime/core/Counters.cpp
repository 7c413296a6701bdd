//===- Counters.cpp - Communication counters of a rank --------------------===//

#include "core/Counters.h"
#include "core/Grid.h"

namespace tpc::rt {

const char *spell(CollectiveKind kind) {
  switch (kind) {
  case CollectiveKind::AllReduce:
    return "all_reduce";
  case CollectiveKind::AllGather:
    return "all_gather";
  case CollectiveKind::ReduceScatter:
    return "reduce_scatter";
  case CollectiveKind::AllToAll:
    return "all_to_all";
  case CollectiveKind::CollectivePermute:
    return "collective_permute";
  case CollectiveKind::Exchange:
    return "exchange";
  case CollectiveKind::Broadcast:
    return "broadcast";
  case CollectiveKind::Send:
    return "send";
  case CollectiveKind::Gather:
    return "gather";
  case CollectiveKind::Dispatch:
    return "dispatch";
  case CollectiveKind::Combine:
    return "combine";
  }
  return "unknown";
}

std::vector<Counters::Row> Counters::rows(const Grid &grid) const {
  std::vector<Row> rows;
  for (const auto &[axes, kinds] : cells)
    for (int kind = 0; kind < numCollectiveKinds; ++kind)
      if (const Cell &cell = kinds[kind]; cell.count)
        rows.push_back({axes == outputAxes     ? "output"
                        : axes == samplingAxes ? "sampling"
                                               : grid.label(axes),
                        CollectiveKind(kind), cell.count, cell.bytes});
  return rows;
}

} // namespace tpc::rt
