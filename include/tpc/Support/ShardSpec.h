//===- ShardSpec.h - "tp8,pp4" ---------------------------------------------===//
//
// The one parser of --megatron-shard, for tpcc, for the pass pipeline of that name and for Python.
//
//     spec   = item { ',' item }
//     item   = axis number            tp8 pp4 dp2: ranks along an axis
//            | 'tp' number 'x' number tp2x4: tensor parallelism in two dimensions
//            | 'etp' number           ranks that split one expert; default: as many as tp
//            | 'sp'                   sequence parallelism, over the ranks of tp
//            | 'mb' number            micro-batches that a step is cut into
//            | 'gpus-per-node=' number  ranks of a node; default: all are in one
//            | 'order=' axis{'-'axis} which axis has the smallest stride; default tp-cp-ep-dp-pp
//            | 'manual'               only annotations say what tp and dp split
//            | 'allow-reshard'        communication that no tactic predicts is not an error
//
// Each item at most once, in any order. Plain C++.
//
// There are tp·cp·dp·pp ranks. Layers without experts see them as the dense grid, in which ep is 1;
// experts see them as etp·ep·edp·pp in the same order, where edp (expert data parallelism)
// is what is left. Both as Megatron-Core has them.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_SUPPORT_SHARDSPEC_H
#define TPC_SUPPORT_SHARDSPEC_H

#include "tpc/Support/Grid.h"

namespace tpc {

struct ShardSpec {
  Grid grid;    // dense
  Grid experts; // its tp is etp, its dp is edp; cp is 1
  /// tp2x4 is {2, 4}: matrices are split over tpx along the residual's width and over tpy along
  /// heads, inner widths and vocabulary. The two axes take tp's place in the order, tpx with the
  /// smaller stride. {0, 0}: tp is one axis.
  int64_t tensorX = 0, tensorY = 0;
  int64_t gpusPerNode = 0; // 0: all ranks are in one
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  bool allowReshard = false;
  /// The grid alone: no tactic but annotations splits over tp or dp.
  bool manual = false;

  /// What the user should hear although it is no error.
  std::vector<std::string> notes;

  static constexpr int64_t maxMicroBatches = int64_t(1) << 20;

  struct NamedAxis {
    std::string name;
    int64_t size;
    int64_t stride; // between ranks whose coordinates differ by one

    int64_t coordinate(int64_t rank) const { return rank / stride % size; }
    bool operator==(const NamedAxis &) const = default;
  };
  /// The axes of the dense grid in its order, as programs name them: tpx and tpy for a tp of
  /// two dimensions.
  std::vector<NamedAxis> axes() const;
  bool isTensor2D() const { return tensorX > 0; }

  /// A program can be split over tp, dp and pp; the groups of a grid are known for cp, ep and etp
  /// as well.
  enum class For { Partition, Groups };

  /// On failure returns nothing and sets `error` to one line that names the item, its column and
  /// the right spelling.
  static std::optional<ShardSpec> parse(std::string_view text, std::string &error,
                                        For purpose = For::Partition);

  /// The canonical spelling; parse(str()) gives the same again (notes apart).
  std::string str() const;
};

} // namespace tpc

#endif // TPC_SUPPORT_SHARDSPEC_H
