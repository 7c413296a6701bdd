//===- Context.h - State of one rank --------------------------------------===//

#ifndef TPC_RT_CORE_CONTEXT_H
#define TPC_RT_CORE_CONTEXT_H

#include "core/Arena.h"
#include "core/Counters.h"
#include "core/CurrentOperation.h"
#include "core/Device.h"
#include "core/Error.h"
#include "core/Grid.h"
#include "core/State.h"
#include "tpc/runtime.h"
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <vector>

namespace tpc::rt {

class StepCache;
class Transport;
class World;

/// Per-rank state of a component of the runtime, such as the weights that program/ loads. Destroyed
/// with the context, on the thread that destroys the world.
class RankState {
public:
  virtual ~RankState();
};

/// Device addresses of a rank's inputs and parameters. program/ sets them before the first step;
/// null entries are inputs or parameters that the rank does not have.
struct DataTables {
  std::vector<const void *> inputs; ///< the whole tensors, by index in manifest.inputs
  /// This rank's shards, by index in manifest.parameters; null for packed ones.
  std::vector<const void *> parameters;
  std::vector<std::shared_ptr<Matrix>> matrices; ///< packed parameters, by the same index
  /// The addresses in `parameters` of matrices of experts that Device::packExperts has reordered.
  std::set<const void *> packedExperts;
};

/// Selects the entries first, first + step, … of dimension `dim` of a block. That dimension has
/// `entries` entries, which include copies.
struct Selection {
  int32_t dim;
  int64_t entries, first, step;
};

/// Receives the blocks that `tpc_output` delivers, in device memory. A replayed step delivers to
/// the current sink of the same kind.
class OutputSink {
public:
  virtual ~OutputSink();
  virtual void take(tpc_context &ctx, int32_t index, const void *data, int32_t rank,
                    const int64_t *global, const int64_t *offset, const int64_t *size,
                    const Selection *selection) = 0;
};

} // namespace tpc::rt

/// State of one rank, opaque to generated code. Used only by the rank's thread.
struct tpc_context {
  tpc_context(tpc::rt::World &world, const tpc::rt::Grid &grid, int rank, int threadsPerRank);
  tpc_context(const tpc_context &) = delete;
  tpc_context &operator=(const tpc_context &) = delete;
  ~tpc_context();

  tpc::rt::World &world;
  const tpc::rt::Grid &grid;
  const int rank; ///< rank in the world
  const int threadsPerRank;
  const std::vector<int64_t> coordinates; ///< one for each axis, in grid order

  std::unique_ptr<tpc::rt::Transport> transport;
  const std::unique_ptr<tpc::rt::Device> device; ///< outlives all objects in its memory
  tpc::rt::Arena arena;
  /// Staging memory of transports over host memory; used only within an access.
  tpc::rt::Arena &staging() { return hostArena ? *hostArena : arena; }
  tpc::rt::Counters counters;
  tpc::rt::CurrentOperation activity;

  const tpc_program *code = nullptr; ///< the running program; null before the first step
  tpc::rt::DataTables data;
  int32_t envSize = 0; ///< number of entries of the kernels' env
  tpc::rt::OutputSink *outputs = nullptr;
  int64_t stateRows = 0; ///< capacity of the state in sequences; 0: number of sequences in the step
  int64_t stepRows = 0;  ///< number of sequences in the step
  int64_t stateRow = 0;  ///< first sequence of the step
  tpc::rt::StateMemory state;
  std::unique_ptr<tpc::rt::RankState> program; ///< owned by program/
  const std::unique_ptr<tpc::rt::StepCache> steps;
  /// Host operations of a step that is being recorded. A replay repeats them before the device
  /// starts. Null outside of recording.
  std::vector<std::function<void()>> *hostWork = nullptr;

  int worldSize() const { return grid.numRanks(); }
  /// Returns this rank's group for an axis mask. Computed once.
  const tpc::rt::Group &group(uint32_t axes);

private:
  std::unique_ptr<tpc::rt::Arena> hostArena; ///< null: staging memory is in `arena`
  std::map<uint32_t, tpc::rt::Group> groups;
};

#endif // TPC_RT_CORE_CONTEXT_H
