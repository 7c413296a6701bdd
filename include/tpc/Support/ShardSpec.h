//===- ShardSpec.h - Parser of --megatron-shard ---------------------------===//
//
// The only parser of --megatron-shard: for tpcc, for the pass pipeline of that name and for Python.
//
//     spec   = item { ',' item }
//     item   = axis number            tp8 pp4 dp2: ranks along an axis
//            | 'tp' number 'x' number tp2x4: tensor parallelism in two dimensions
//            | 'etp' number           ranks that split one expert; default: the size of tp
//            | 'sp'                   sequence parallelism, over the ranks of tp
//            | 'mb' number            micro-batches per step
//            | 'gpus-per-node=' number  ranks per node; default: all are in one
//            | 'order=' axis{'-'axis} axes by ascending stride; default tp-cp-ep-dp-pp
//            | 'manual'               only annotations determine the splits over tp and dp
//            | 'allow-reshard'        communication that no tactic expects is not an error
//
// Each item at most once, in any order. Plain C++.
//
// There are tp·cp·dp·pp ranks. Layers without experts use them as the dense grid, in which ep is 1.
// Experts use them as etp·ep·edp·pp in the same order, where edp (expert data parallelism) is the
// quotient. Both follow Megatron-Core.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_SHARDSPEC_H
#define TPC_SUPPORT_SHARDSPEC_H

#include "tpc/Support/Grid.h"

namespace tpc {

struct ShardSpec {
  Grid grid;    // dense
  Grid experts; // its tp is etp, its dp is edp; cp is 1
  /// tp2x4 is {2, 4}: matrices are split over tpx along the residual's width, and over tpy along
  /// heads, inner widths and vocabulary. The two axes replace tp in the order, tpx with the smaller
  /// stride. {0, 0}: tp is one axis.
  int64_t tensorX = 0, tensorY = 0;
  int64_t gpusPerNode = 0; // 0: all ranks are in one node
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  bool allowReshard = false;
  /// Only the grid: no tactic but annotations splits over tp or dp.
  bool manual = false;

  /// Messages for the user that are not errors.
  std::vector<std::string> notes;

  static constexpr int64_t maxMicroBatches = int64_t(1) << 20;

  struct NamedAxis {
    std::string name;
    int64_t size;
    int64_t stride; // between ranks whose coordinates differ by one

    int64_t coordinate(int64_t rank) const { return rank / stride % size; }
    bool operator==(const NamedAxis &) const = default;
  };
  /// Returns the axes of the dense grid in its order, by the names in programs: tpx and tpy for a
  /// two-dimensional tp.
  std::vector<NamedAxis> axes() const;
  bool isTensor2D() const { return tensorX > 0; }

  /// Supported axes: partitioning supports tp, dp and pp; groups of a grid also support cp, ep and
  /// etp.
  enum class For { Partition, Groups };

  /// On failure returns nothing and sets `error` to one line with the item, its column and the
  /// correct spelling.
  static std::optional<ShardSpec> parse(std::string_view text, std::string &error,
                                        For purpose = For::Partition);

  /// Returns the canonical spelling; parse(str()) is equal to *this except for the notes.
  std::string str() const;
};

} // namespace tpc

#endif // TPC_SUPPORT_SHARDSPEC_H
