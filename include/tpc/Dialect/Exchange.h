//===- Exchange.h - From one distribution to another, at once ---*- C++ -*-===//
//
// Any two distributions of a value, as what both have in common and the axes in which they
// differ. The value is seen with more dimensions than it has, so that in each a rank has one range:
//
//     [64{tp}, 32] to [64{dp}, 32{tp}]          64 before {tp} after {dp}; 32 before {} after {tp}
//     [8{cp, tp}] to [8{cp}]                    8{cp} before {tp} after {}
//     [12{tp} * 64] to [12 * 64{tp}]            12 before {tp} after {}; 64 before {} after {tp}
//     [12{tp} * 64] to [768{dp}]                (12 before {tp} * 64), the product after {dp}
//
// In the last one the range after is one of the product of both: such factors stay together.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_DIALECT_EXCHANGE_H
#define TPC_DIALECT_EXCHANGE_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct Exchange {
  using Axes = SmallVector<StringAttr, 2>;
  using Values = std::map<std::string, int64_t>;
  /// Axes that split something one after the other, without those that both sides begin with.
  struct Split {
    Axes before, after;
  };
  /// `common`: the size, and the axes that both sides begin with.
  struct Factor {
    DimAttr common;
    Split split;
  };
  /// Factors, and the axes that split what is left of their product.
  struct Dim {
    SmallVector<Factor, 1> factors;
    Split product;
  };

  SmallVector<Dim> dims;
  Axes axes; // all that occur, in order: the group

  /// Nothing where they are equal, where they are not unreduced alike, where mb would be one of the
  /// axes, or where factors of a dimension lie across those of the other side.
  static std::optional<Exchange> get(DistAttr from, DistAttr to);

  /// The elements of the member that sends or gets most, for members that are at `coordinates`
  /// otherwise. Nothing if a size is not known, or too large, or of more than `maxMembers`.
  std::optional<int64_t> getMoved(GridAttr grid, const Values &coordinates,
                                  const Values &symbols) const;
  static constexpr int64_t maxMembers = 1024;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_EXCHANGE_H
