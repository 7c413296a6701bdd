//===- ShardSpec.h - "tp8,pp4" ---------------------------------------------===//
//
// The one parser of --megatron-shard, for tpcc, for the pass pipeline of that name and for Python.
//
//     spec   = item { ',' item }
//     item   = axis number            tp8 pp4 dp2: ranks along an axis
//            | 'sp'                   sequence parallelism, over the ranks of tp
//            | 'mb' number            micro-batches that a step is cut into
//            | 'order=' axis{'-'axis} which axis has the smallest stride; default tp-cp-ep-dp-pp
//            | 'allow-reshard'        communication that no tactic predicts is not an error
//
// Each item at most once, in any order. Plain C++.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DRIVER_SHARDSPEC_H
#define TPC_DRIVER_SHARDSPEC_H

#include "tpc/Support/Grid.h"

namespace tpc {

struct ShardSpec {
  Grid grid;
  bool sequenceParallel = false;
  int64_t microBatches = 1;
  bool allowReshard = false;

  /// What the user should hear although it is no error.
  std::vector<std::string> notes;

  static constexpr int64_t maxMicroBatches = int64_t(1) << 20;

  /// A program can be split over tp, dp and pp; the groups of a grid are known for cp and ep as
  /// well.
  enum class For { Partition, Groups };

  /// On failure returns nothing and sets `error` to one line that names the item, its column and
  /// the right spelling.
  static std::optional<ShardSpec> parse(std::string_view text, std::string &error,
                                        For purpose = For::Partition);

  /// The canonical spelling; parse(str()) gives the same again (notes apart).
  std::string str() const;
};

} // namespace tpc

#endif // TPC_DRIVER_SHARDSPEC_H
