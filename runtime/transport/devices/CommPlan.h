//===- CommPlan.h - collectives made of calls on equal parts --------------===//
//
// Which calls one member of a group makes for a collective, and what is copied before and after,
// as numbers only. The calls are those that NCCL has: parts are equal and in a row. What is so is
// passed as it is. Otherwise
//
//   * an all-gather of equal parts with `outer` > 1 gathers into the stage and is unpacked;
//   * a reduce-scatter packs each member's part, with zeros behind it up to the size of the
//   largest;
//   * everything else (parts that are not equal, all-to-all, collective-permute, exchange) is sends
//     and receives, begun together. What is not in a row is packed.
//
// All members make plans of the same numbers, so that calls fit. Empty messages are left out on
// both sides.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H
#define TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H

#include "core/CollectiveBackend.h"
#include "core/Grid.h"
#include "core/Transport.h"

namespace tpc::rt {

CommPlan planAllReduce(tpc_dtype dtype, tpc_reduction reduction, int64_t count);
/// As the functions of Transport; `group.index` says whose plan it is.
CommPlan planAllGather(const Group &group, int64_t outer, int64_t n, int64_t inner);
CommPlan planReduceScatter(const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                           int64_t outer, int64_t n, int64_t inner);
CommPlan planAllToAll(const Group &group, const AllToAllShape &shape);
CommPlan planPermute(const Grid &grid, const Group &group, const PermuteShape &shape);
CommPlan planExchange(const Grid &grid, const Group &group, const ExchangeShape &shape);
/// In place, at Out.
CommPlan planBroadcast(int64_t bytes, int root);
/// Of In, and to Out; `peer` is a member.
CommPlan planSend(int64_t bytes, int peer);
CommPlan planReceive(int64_t bytes, int peer);
/// Each kind of call once, of what is in the stage: libraries connect members when they first need
/// it.
std::vector<CommPlan> planWarmUp(const Group &group);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H
