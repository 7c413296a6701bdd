//===- Exchange.h - Change of a distribution by one exchange ----*- C++ -*-===//
//
// Represents two distributions of a value (before and after a tpc.exchange) by the axes that they
// have in common and the axes in which they differ. Dimensions are divided into factors such that a
// rank has one contiguous range of each factor:
//
//     [64{tp}, 32] to [64{dp}, 32{tp}]          64 before {tp} after {dp}; 32 before {} after {tp}
//     [8{cp, tp}] to [8{cp}]                    8{cp} before {tp} after {}
//     [12{tp} * 64] to [12 * 64{tp}]            12 before {tp} after {}; 64 before {} after {tp}
//     [12{tp} * 64] to [768{dp}]                (12 before {tp} * 64), the product after {dp}
//
// In the last example a rank has a range of the product of both factors after the exchange, so they
// form one `Dim`.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_EXCHANGE_H
#define TPC_DIALECT_EXCHANGE_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct Exchange {
  using Axes = SmallVector<StringAttr, 2>;
  using Values = std::map<std::string, int64_t>;
  /// Axes that split a size before and after the exchange, without their common prefix.
  struct Split {
    Axes before, after;
  };
  /// `common`: the size, split by the common prefix of the axes.
  struct Factor {
    DimAttr common;
    Split split;
  };
  /// Factors, and the axes that split the product of their local sizes.
  struct Dim {
    SmallVector<Factor, 1> factors;
    Split product;
  };

  SmallVector<Dim> dims;
  Axes axes; // of the group: all axes in `dims`, in order

  /// Returns nothing for equal distributions, for different unreduced axes, if mb would be one of
  /// the axes, or if the factors of a dimension cannot be aligned.
  static std::optional<Exchange> get(DistAttr from, DistAttr to);

  /// Returns the maximum number of elements that a member of a group sends or receives.
  /// `coordinates` locate the group on all other axes. Nothing if a size is unknown or too large,
  /// or if the group has more than `maxMembers` members.
  std::optional<int64_t> getMaxMovedElements(MeshAttr grid, const Values &coordinates,
                                             const Values &symbols) const;
  static constexpr int64_t maxMembers = 1024;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_EXCHANGE_H
