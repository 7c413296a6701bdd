//===- WeightParts.h - Weights in several ranges of a file ------*- C++ -*-===//

#ifndef TPC_DIALECT_WEIGHTPARTS_H
#define TPC_DIALECT_WEIGHTPARTS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Byte offsets in the file of the elements [i, ...] of a tpc.weight, one for each index i of its
/// first dimension (an array of i64). The first is the weight's offset.
inline constexpr llvm::StringLiteral kPartsAttr = "tpc.parts";

/// Returns the offsets, or nothing for a weight in one range.
inline ArrayRef<int64_t> getParts(WeightOp weight) {
  auto parts = weight->getAttrOfType<DenseI64ArrayAttr>(kPartsAttr);
  return parts ? parts.asArrayRef() : ArrayRef<int64_t>();
}

} // namespace mlir::tpc

#endif // TPC_DIALECT_WEIGHTPARTS_H
