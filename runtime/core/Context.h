//===- Context.h - one rank's state ---------------------------------------===//

#ifndef TPC_RT_CORE_CONTEXT_H
#define TPC_RT_CORE_CONTEXT_H

#include "core/Activity.h"
#include "core/Arena.h"
#include "core/Counters.h"
#include "core/Device.h"
#include "core/Error.h"
#include "core/Grid.h"
#include "core/State.h"
#include "tpc/runtime.h"
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <vector>

namespace tpc::rt {

class StepCache;
class Transport;
class World;

/// What a part of the runtime keeps for a rank (loaded weights of program/). Destroyed with the
/// context, on the thread that destroys the world.
class RankState {
public:
  virtual ~RankState();
};

/// Where a rank's inputs and parameters are in the device's memory. program/ fills it in before the
/// first step; null entries are absent.
struct DataTables {
  std::vector<const void *> inputs; ///< the whole tensors, by index in manifest.inputs
  std::vector<const void *>
      parameters; ///< this rank's parts, by index in manifest.parameters; null for packed ones
  std::vector<std::shared_ptr<Matrix>> matrices; ///< the packed ones
};

/// Of a block with copies in dimension `dim`, of `held` entries, first, first + step, … are meant.
struct Selection {
  int32_t dim;
  int64_t held, first, step;
};

/// Takes the blocks that `tpc_output` delivers, in the device's memory. Where a step is replayed,
/// what it has delivered goes to the sink of its kind that is there by then.
class OutputSink {
public:
  virtual ~OutputSink();
  virtual void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank,
                    const int64_t *global, const int64_t *offset, const int64_t *size,
                    const Selection *selection) = 0;
};

} // namespace tpc::rt

/// Opaque to generated code. Used by one thread, the rank's.
struct tpc_context {
  tpc_context(tpc::rt::World &world, const tpc::rt::Grid &grid, int rank, int threadsPerRank);
  tpc_context(const tpc_context &) = delete;
  tpc_context &operator=(const tpc_context &) = delete;
  ~tpc_context();

  tpc::rt::World &world;
  const tpc::rt::Grid &grid;
  const int rank; ///< in the world
  const int threadsPerRank;
  const std::vector<int64_t> coordinates; ///< on each axis of the grid's order

  std::unique_ptr<tpc::rt::Transport> transport;
  const std::unique_ptr<tpc::rt::Device> device; ///< outlives what is in its memory
  tpc::rt::Arena arena;
  /// For transports that work on the host, within an access.
  tpc::rt::Arena &staging() { return hostArena ? *hostArena : arena; }
  tpc::rt::Counters counters;
  tpc::rt::Activity activity;

  const tpc_program *code = nullptr; ///< what runs; null before the first step
  tpc::rt::DataTables data;
  int32_t envSize = 0; ///< places in the env of kernels
  tpc::rt::OutputSink *outputs = nullptr;
  int64_t stateRows = 0; ///< sequences that there is state for; 0: as many as the step has
  int64_t stepRows = 0;  ///< of these the step has so many
  int64_t stateRow = 0;  ///< from this one on
  tpc::rt::StateMemory state;
  std::unique_ptr<tpc::rt::RankState> program; ///< owned by program/
  const std::unique_ptr<tpc::rt::StepCache> steps;
  /// While a step is recorded: what the host does again when it is replayed, before the device
  /// begins. Else null.
  std::vector<std::function<void()>> *noted = nullptr;

  int worldSize() const { return grid.numRanks(); }
  /// The group of this rank for a mask, computed once.
  const tpc::rt::Group &group(uint32_t axes);

private:
  std::unique_ptr<tpc::rt::Arena> hostArena; ///< null: that of frames serves
  std::map<uint32_t, tpc::rt::Group> groups;
};

#endif // TPC_RT_CORE_CONTEXT_H
