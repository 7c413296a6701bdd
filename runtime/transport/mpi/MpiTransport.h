//===- MpiTransport.h - ranks as processes, over the MPI shim -------------===//
//
// Collectives are made of point-to-point messages, so that reductions add in ascending rank order,
// as threads do. What is not contiguous goes through staging frames of the rank's arena.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_MPI_MPITRANSPORT_H
#define TPC_RT_TRANSPORT_MPI_MPITRANSPORT_H

#include "core/Transport.h"
#include "core/World.h"
#include "transport/mpi/MpiShim.h"
#include <vector>

namespace tpc::rt {

/// The peers that the last exchange, which was late, still waits for.
std::vector<int> getMissing(const tpc_mpi_shim &shim, int worldSize);
/// Says what this rank waits for, and leaves the end to the rank that has waited longest; returns
/// if that does not come.
void sayAndWaitForTheEnd(const std::string &message);

class MpiTransport final : public Transport {
public:
  MpiTransport(const tpc_mpi_shim &shim, World &world) : shim(shim), world(world) {}

  const char *name() const override { return "mpi"; }
  bool sharesMemory() const override { return world.size() == 1; }

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
  void gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                   std::vector<std::vector<std::byte>> &gathered) override;
  void abortWorld(int rank, const std::string &message) override;

private:
  /// Empty messages are left out, by both sides alike.
  void addSend(int peer, uint32_t tag, const void *data, int64_t bytes);
  void addReceive(int peer, uint32_t tag, void *data, int64_t bytes);
  /// Carries out what was added. `what`: outside of collectives.
  void carryOut(tpc_context &ctx, const char *what = nullptr);
  /// What pieces say that members have for each other: a BlockMove or an Exchange.
  template <typename Pieces>
  void movePieces(tpc_context &ctx, const Group &group, const void *in, void *out,
                  const Pieces &pieces);

  const tpc_mpi_shim &shim;
  World &world;
  std::vector<tpc_mpi_message> sends, receives; ///< only grow
  std::vector<const void *> inputs;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MPI_MPITRANSPORT_H
