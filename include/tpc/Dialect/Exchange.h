//===- Exchange.h - Direct change between two distributions -----*- C++ -*-===//
//
// Describes two distributions of a value by their common splits and the axes in which they differ.
// The value is seen with more dimensions than it has, so that a rank has one range in each:
//
//     [64{tp}, 32] to [64{dp}, 32{tp}]          64 before {tp} after {dp}; 32 before {} after {tp}
//     [8{cp, tp}] to [8{cp}]                    8{cp} before {tp} after {}
//     [12{tp} * 64] to [12 * 64{tp}]            12 before {tp} after {}; 64 before {} after {tp}
//     [12{tp} * 64] to [768{dp}]                (12 before {tp} * 64), the product after {dp}
//
// In the last example the range after the exchange is a range of the product of both factors, so
// these factors stay together.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_EXCHANGE_H
#define TPC_DIALECT_EXCHANGE_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct Exchange {
  using Axes = SmallVector<StringAttr, 2>;
  using Values = std::map<std::string, int64_t>;
  /// Axes that split a size successively, without the axes that both sides begin with.
  struct Split {
    Axes before, after;
  };
  /// `common`: the size, split by the axes that both sides begin with.
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
  Axes axes; // the group: all axes that occur, in order

  /// Returns nothing for equal distributions, for unequal unreduced axes, if mb would be one of the
  /// axes, or if factors of a dimension cross factors of the other side.
  static std::optional<Exchange> get(DistAttr from, DistAttr to);

  /// Returns the maximum number of elements that a member sends or receives, for members at
  /// `coordinates` on all other axes. Nothing if a size is unknown or too large, or if the group
  /// has more than `maxMembers` members.
  std::optional<int64_t> getMoved(GridAttr grid, const Values &coordinates,
                                  const Values &symbols) const;
  static constexpr int64_t maxMembers = 1024;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_EXCHANGE_H
