//===- CapacityFactor.h - Factor of the capacity of experts -----*- C++ -*-===//

#ifndef TPC_TRANSFORMS_MODEL_CAPACITYFACTOR_H
#define TPC_TRANSFORMS_MODEL_CAPACITYFACTOR_H

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace mlir::tpc {

/// A positive decimal number as a fraction.
struct CapacityFactor {
  int64_t numerator, denominator;

  /// Parses "1.25"; at most six digits before and after the point.
  static std::optional<CapacityFactor> parse(llvm::StringRef text);
};

} // namespace mlir::tpc

#endif // TPC_TRANSFORMS_MODEL_CAPACITYFACTOR_H
