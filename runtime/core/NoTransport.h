//===- NoTransport.h - Transport without peers ----------------------------===//
//
// Transport of dry-run ranks, whose devices do no work (World::alone). Receive buffers stay
// unchanged.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_NOTRANSPORT_H
#define TPC_RT_CORE_NOTRANSPORT_H

#include "core/Transport.h"

namespace tpc::rt {

class NoTransport final : public Transport {
public:
  const char *name() const override { return "none"; }
  bool sharesMemory() const override { return false; }
  void allReduce(tpc_context &, const Group &, tpc_dtype, tpc_reduction, const void *, void *,
                 int64_t) override {}
  void allGather(tpc_context &, const Group &, const void *, void *, int64_t, int64_t,
                 int64_t) override {}
  void reduceScatter(tpc_context &, const Group &, tpc_dtype, tpc_reduction, const void *, void *,
                     int64_t, int64_t, int64_t) override {}
  void allToAll(tpc_context &, const Group &, const void *, void *,
                const AllToAllShape &) override {}
  void collectivePermute(tpc_context &, const Group &, const void *, void *,
                         const PermuteShape &) override {}
  void exchange(tpc_context &, const Group &, const void *, void *,
                const ExchangeShape &) override {}
  void broadcast(tpc_context &, const Group &, void *, int64_t, int) override {}
  void send(tpc_context &, int, const void *, int64_t) override {}
  void recv(tpc_context &, int, void *, int64_t) override {}
  void exchangeMessages(tpc_context &, const Group &, const char *, void *,
                        std::span<const GroupMessage>, std::span<const GroupMessage>) override {}
  void barrier(tpc_context &) override {}
  void gatherBytes(tpc_context &, const void *, int64_t,
                   std::vector<std::vector<std::byte>> &) override {}
  void abortWorld(int, const std::string &) override {}
};

} // namespace tpc::rt

#endif // TPC_RT_CORE_NOTRANSPORT_H
