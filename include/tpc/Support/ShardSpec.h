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
// Layers without experts use the dense grid tp·cp·ep·dp·pp. Its ep is 1 or, for partitioning
// without dp, the number of ranks that experts need per rank of tp. Experts use the grid
// etp·ep·edp·pp of the same ranks in the same order, where edp (expert data parallelism) follows
// from the number of ranks.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_SHARDSPEC_H
#define TPC_SUPPORT_SHARDSPEC_H

#include "tpc/Support/Mesh.h"

namespace tpc {

struct ShardSpec {
  ShardSpec(); // one rank

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

  using NamedAxis = MeshAtom;
  /// Returns the atoms of both grids, named as in the IR.
  std::vector<NamedAxis> axes() const;
  /// Returns the atoms of a view, such as tp or ep, outermost (by stride) first: in the order in
  /// which they split a dimension.
  std::vector<NamedAxis> getView(std::string_view view) const;
  bool isTensor2D() const { return tensorX > 0; }
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
