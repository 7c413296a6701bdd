//===- DeviceTransport.h - ranks whose devices reach each other -------------===//
//
// Collectives and messages go over links of the devices, in the order of the devices' work; what
// start-up, outputs and errors need goes over the transport of the host that the launcher, or the
// lack of one, has given. There is a link for each group of more than one rank over which the
// program communicates, made before the first step, in one order on all ranks: by masks of axes,
// ascending. Axes of one coordinate do not count. Messages to another coordinate of an axis go over
// the link of that axis. One order of work on each device is the order of the program, which is
// what verify-comms is about.
//
// A call returns when it has been called for. What the device waits for then is said to who watches
// (core/Watch.h, core/DeviceWatch.h), with a number: all members of a group count its
// collectives alike, and both sides of a pair their messages. Who has a lower number is late.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H
#define TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H

#include "core/CollectiveBackend.h"
#include "core/Transport.h"
#include "core/World.h"
#include <deque>
#include <map>
#include <memory>
#include <mutex>

namespace tpc::rt {

class DeviceTransport final : public Transport {
public:
  DeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                  std::unique_ptr<CollectiveBackend> links);

  const char *name() const override { return label.c_str(); }
  bool sharesMemory() const override { return host->sharesMemory(); }
  Transport &onHost() override { return *host; }
  Transport &forReduction(tpc_dtype dtype, tpc_reduction reduction) override;
  bool isOnDevice() const override { return true; }
  void connect(tpc_context &ctx) override;
  void disconnect(tpc_context &ctx) override;

  void allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                 const void *in, void *out, int64_t count) override;
  void allGather(tpc_context &ctx, const Group &group, const void *in, void *out, int64_t outer,
                 int64_t n, int64_t inner) override;
  void reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                     const void *in, void *out, int64_t outer, int64_t n, int64_t inner) override;
  void allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                const AllToAllShape &shape) override;
  void collectivePermute(tpc_context &ctx, const Group &group, const void *in, void *out,
                         const PermuteShape &shape) override;
  void exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                const ExchangeShape &shape) override;
  void broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                 int root) override;
  void send(tpc_context &ctx, int peer, const void *data, int64_t bytes) override;
  void recv(tpc_context &ctx, int peer, void *data, int64_t bytes) override;

  void barrier(tpc_context &ctx) override;
  void largest(tpc_context &ctx, std::span<int32_t> values) override;
  void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                   std::vector<std::vector<std::byte>> &gathered) override;
  void abortWorld(int rank, const std::string &message) override;
  std::optional<DeviceWait> deviceWait() override;
  uint64_t deviceMoves() override { return links->progress().done; }
  std::string deviceProblem() override;
  void abortDevice() override { links->abort(); }

private:
  /// One of the calls whose end has not been seen.
  struct Operation {
    const char *what, *node;
    uint32_t axes;
    uint64_t number;
    int peer; ///< a world rank; -1: all members
  };
  struct Link {
    int number;
    uint64_t collectives = 0;
    std::map<int, uint64_t> sent, received; ///< messages, by world rank
  };

  /// A mask without axes of one coordinate.
  uint32_t maskOf(uint32_t axes) const { return axes & severalMask; }
  /// "all_reduce 17 of '/lm_head/MatMul' over 'tp'"
  std::string describe(const Operation &operation) const;
  void carryOut(tpc_context &ctx, const Group &group, const char *what, const CommPlan &plan,
                const void *in, void *out);
  /// `count`: of the link's operations of this kind.
  void carryOut(tpc_context &ctx, const Link &link, uint64_t &count, Operation operation,
                const CommPlan &plan, const void *in, void *out);
  /// What may be nothing but the end of another rank: that is said before, if it is.
  [[noreturn]] void failBehindOthers(tpc_context &ctx, const std::string &message);
  void note(Operation operation, uint64_t &count);
  Link &linkOf(tpc_context &ctx, uint32_t mask);
  /// The group over which messages to a rank go.
  const Group &groupTo(tpc_context &ctx, int peer) const;

  World &world;
  const int rank;
  std::unique_ptr<Transport> host;
  std::unique_ptr<CollectiveBackend> links;
  std::string label;
  uint32_t severalMask = 0;
  Link alone{CollectiveBackend::none, 0, {}, {}}; ///< for what a rank moves by itself

  std::mutex mutex;                   // of what follows, which the rank's thread alone changes
  std::map<uint32_t, Link> connected; ///< by mask
  std::deque<Operation> operations;   ///< the last ones
  uint64_t forgotten = 0;             ///< operations before these
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H
