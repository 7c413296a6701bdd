//===- ShardSpec.h - Parser of --megatron-shard ---------------------------===//
//
// Parser of --megatron-shard for tpcc, the passes and Python.
//
//     spec   = item { ',' item }
//     item   = axis number            tp8 pp4 dp2: ranks along an axis
//            | 'tp' number 'x' number tp2x4: tensor parallelism in two dimensions
//            | 'etp' number           ranks that split one expert; default: the size of tp
//            | 'sp'                   sequence parallelism, over the ranks of tp
//            | 'mb' number            micro-batches per step
//            | 'vpp' number           chunks of the model on each rank of pp
//            | 'gpus-per-node=' number  ranks per node; default: all are in one
//            | 'order=' axis{'-'axis} axes by ascending stride; default tp-cp-ep-dp-pp
//            | 'manual'               only annotations determine the splits over tp and dp
//            | 'allow-reshard'        communication that no tactic expects is not an error
//
// Each item occurs at most once; the order is irrelevant. Does not depend on MLIR.
//
// Layers without experts use the dense grid tp·cp·ep·dp·pp. Its ep is 1 or, for partitioning, the
// number of ranks that experts need per rank of tp; if that is less than dp, the replicas are the
// ranks of ep and dp. Experts use the grid etp·ep·edp·pp of the same ranks in the same order, where
// edp (expert data parallelism) follows from the number of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_SHARDSPEC_H
#define TPC_SUPPORT_SHARDSPEC_H

#include "tpc/Support/Grid.h"

namespace tpc {

struct ShardSpec {
  Grid grid;    // dense
  Grid experts; // tp is etp, dp is edp, cp is 1
  /// Sizes of tpx and tpy: {2, 4} for tp2x4. Matrices are split over tpx along the residual's
  /// width, and over tpy along heads, inner widths and vocabulary. The two axes replace tp in the
  /// order; tpx has the smaller stride. {0, 0} if tp is one axis.
  int64_t tensorX = 0, tensorY = 0;
  int64_t gpusPerNode = 0; // 0: all ranks are in one node
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  /// Chunks of the model on each rank of pp; more than 1 only with pp.
  int64_t chunksPerRank = 1;
  bool allowReshard = false;
  /// Whether only annotations split over tp and dp, and no tactic does.
  bool manual = false;

  /// Notes for the user that are not errors.
  std::vector<std::string> notes;

  static constexpr int64_t maxMicroBatches = int64_t(1) << 20;
  static constexpr int64_t maxChunksPerRank = 1024;

  struct NamedAxis {
    std::string name;
    int64_t size;
    int64_t stride; // rank difference between adjacent coordinates

    int64_t coordinate(int64_t rank) const { return rank / stride % size; }
    bool operator==(const NamedAxis &) const = default;
  };
  /// Returns the axes of the dense grid in its order, named as in the IR: tpx and tpy for a
  /// two-dimensional tp.
  std::vector<NamedAxis> axes() const;
  bool isTensor2D() const { return tensorX > 0; }
  /// Whether replicas (dp) have different experts, and exchange tokens.
  bool splitsExpertsOverReplicas() const { return experts.size(Axis::DP) < grid.size(Axis::DP); }
  /// Whether ep is an axis of the dense grid whose ranks have different tokens: the replicas are
  /// the ranks of dp and ep, and those of each ep exchange tokens.
  bool groupsReplicas = false;
  /// Returns the number of ranks that the batch is split over.
  int64_t getReplicas() const {
    return grid.size(Axis::DP) * (groupsReplicas ? grid.size(Axis::EP) : 1);
  }

  /// Purpose of a parse, which determines the supported axes: all but cp for partitioning; all to
  /// print the groups of a grid.
  enum class For { Partition, Groups };

  /// On failure returns nothing and sets `error` to one line with the item, its column and the
  /// valid syntax.
  static std::optional<ShardSpec> parse(std::string_view text, std::string &error,
                                        For purpose = For::Partition);

  /// Returns the canonical spelling; parse(str()) is equal to *this except for the notes.
  std::string str() const;
};

} // namespace tpc

#endif // TPC_SUPPORT_SHARDSPEC_H
