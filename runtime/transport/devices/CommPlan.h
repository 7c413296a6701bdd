//===- CommPlan.h - Plans of collectives from calls on equal chunks -------===//
//
// Computes the calls that one member of a group makes for a collective, and the copies before and
// after these calls, as offsets and sizes only. The available calls are NCCL's, whose chunks are
// equal and contiguous. Data of this form is passed directly. Other data is staged:
//
//   * An all-gather of equal shards with `outer` > 1 gathers into the staging buffer, which is then
//     unpacked.
//   * A reduce-scatter packs each member's shard, padded with zeros to the size of the largest.
//   * All other collectives (unequal shards, all-to-all, collective-permute, exchange) are sends
//     and receives, enqueued together. Non-contiguous data is packed.
//
// All members plan with the same arguments, so that their calls match. Sender and receiver both
// skip empty messages.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H
#define TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H

#include "core/CollectiveBackend.h"
#include "core/Grid.h"
#include "core/Transport.h"

namespace tpc::rt {

CommPlan planAllReduce(tpc_dtype dtype, tpc_reduction reduction, int64_t count);
/// Same arguments as the functions of Transport; the plan is for member `group.index`.
CommPlan planAllGather(const Group &group, int64_t outer, int64_t n, int64_t inner);
CommPlan planReduceScatter(const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                           int64_t outer, int64_t n, int64_t inner);
CommPlan planAllToAll(const Group &group, const AllToAllShape &shape);
CommPlan planPermute(const Grid &grid, const Group &group, const PermuteShape &shape);
CommPlan planExchange(const Grid &grid, const Group &group, const ExchangeShape &shape);
/// Plans a broadcast in place, in buffer Out.
CommPlan planBroadcast(int64_t bytes, int root);
/// A send reads In, and a receive writes Out; `peer` is an index in the group.
CommPlan planSend(int64_t bytes, int peer);
CommPlan planReceive(int64_t bytes, int peer);
/// Plans messages from In to Out.
CommPlan planMessages(std::span<const Transport::GroupMessage> sent,
                      std::span<const Transport::GroupMessage> received);
/// Plans one call of each kind, on data in the staging buffer, because collective libraries connect
/// members at first use.
std::vector<CommPlan> planWarmUp(const Group &group);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_DEVICES_COMMPLAN_H
