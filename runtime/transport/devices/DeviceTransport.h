//===- DeviceTransport.h - Transport over a device's collective backend ---===//
//
// Collectives and messages use communicators of the devices, and run in the order of the devices'
// other work. Start-up, outputs and errors use the host transport: the launcher's, or that of
// threads. Each group of more than one rank over which the program communicates has a communicator.
// Communicators are created before the first step, in the same order on all ranks: by ascending
// axis mask. Axes of size 1 are ignored. Messages to another coordinate of an axis use the
// communicator of that axis. Each device executes in program order; tpc-verify-comms proves that
// this order is free of deadlocks.
//
// A call returns when it is enqueued. The monitors (core/Watchdog.h, core/DeviceMonitor.h) query
// the operation that the device waits for, and its sequence number. All members of a group number
// its collectives in the same way, as do both ranks of a pair their messages. So the rank with the
// lower number is late.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H
#define TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H

#include "core/CollectiveBackend.h"
#include "core/Transport.h"
#include "core/World.h"
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>

namespace tpc::rt {

class DeviceTransport final : public Transport {
public:
  DeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                  std::unique_ptr<CollectiveBackend> backend);

  const char *name() const override { return label.c_str(); }
  bool sharesMemory() const override { return host->sharesMemory(); }
  Transport &onHost() override { return *host; }
  Transport &forReduction(tpc_dtype dtype, tpc_reduction reduction) override;
  bool isOnDevice() const override { return true; }
  void connect(tpc_context &ctx) override;
  void disconnect(tpc_context &ctx) override;

  void allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype, tpc_reduction reduction,
                 const void *in, void *out, int64_t count) override;
  /// Tokens of devices are less than 0.
  int32_t startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                         tpc_reduction reduction, const void *in, void *out,
                         int64_t count) override;
  void finish(tpc_context &ctx, int32_t token) override;
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

  void exchangeMessages(tpc_context &ctx, const Group &group, const char *what, void *memory,
                        std::span<const GroupMessage> sent,
                        std::span<const GroupMessage> received) override;

  void barrier(tpc_context &ctx) override;
  void largest(tpc_context &ctx, std::span<int32_t> values) override;
  void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                   std::vector<std::vector<std::byte>> &gathered) override;
  void abortWorld(int rank, const std::string &message) override;
  std::optional<DeviceWait> deviceWait() override;
  uint64_t deviceMoves() override { return backend->progress().done; }
  std::string deviceProblem() override;
  void abortDevice() override { backend->abort(); }

private:
  /// Enqueued call whose completion has not been observed.
  struct Operation {
    const char *what, *node;
    uint32_t axes;
    uint64_t number;
    int peer; ///< world rank; -1: all members
  };
  struct Communicator {
    int number;
    uint64_t collectives = 0;
    std::map<int, uint64_t> sent, received; ///< message counts by world rank
  };

  /// Returns the mask without axes of size 1.
  uint32_t maskOf(uint32_t axes) const { return axes & splitAxes; }
  /// "all_reduce 17 of '/lm_head/MatMul' over 'tp'"
  std::string describe(const Operation &operation) const;
  void carryOut(tpc_context &ctx, const Group &group, const char *what, const CommPlan &plan,
                const void *in, void *out);
  /// `count`: sequence number of the operation among those of this kind on the communicator.
  void carryOut(tpc_context &ctx, const Communicator &communicator, uint64_t &count,
                Operation operation, const CommPlan &plan, const void *in, void *out);
  /// Numbers an operation, and calls `enqueue`, whose exceptions end the run.
  void enqueue(tpc_context &ctx, uint64_t &count, Operation operation,
               const std::function<void()> &enqueue);
  Communicator &communicatorOf(tpc_context &ctx, const Group &group);
  /// Fails with `message` after a grace period. The end of another rank may have caused the error,
  /// and is reported first if it is detected within that period.
  [[noreturn]] void failAfterGrace(tpc_context &ctx, const std::string &message);
  void note(Operation operation, uint64_t &count);
  Communicator &communicatorOf(tpc_context &ctx, uint32_t mask);
  /// Returns the group whose communicator transfers messages to a rank.
  const Group &groupTo(tpc_context &ctx, int peer) const;

  World &world;
  const int rank;
  std::unique_ptr<Transport> host;
  std::unique_ptr<CollectiveBackend> backend;
  std::string label;
  uint32_t splitAxes = 0;                                 ///< axes with more than one rank
  Communicator alone{CollectiveBackend::none, 0, {}, {}}; ///< for copies within a rank

  /// Guards the members below. Only the rank's thread changes them.
  std::mutex mutex;
  std::map<uint32_t, Communicator> connected; ///< by mask
  std::deque<Operation> operations;           ///< most recent operations
  uint64_t forgotten = 0;                     ///< number of earlier operations
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_DEVICES_DEVICETRANSPORT_H
