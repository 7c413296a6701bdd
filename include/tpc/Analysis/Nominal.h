//===- Nominal.h - Sizes to estimate with -----------------------*- C++ -*-===//
//
// A program is compiled for all sizes. Where a choice needs numbers (which class
// to split, where to cut a pipeline) these are taken: one sample for each
// micro-batch of each replica, 128 of any other symbol, less where
// `tpc.constraints` says so.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_NOMINAL_H
#define TPC_ANALYSIS_NOMINAL_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

using Symbols = std::map<std::string, int64_t>;

/// Values for all symbols that occur in `module`.
Symbols getNominalSymbols(ModuleOp module);

/// The value of `size`, 1 where it has none for these symbols.
int64_t evaluateOr1(const ::tpc::SymExpr &size, const Symbols &symbols);

/// Bytes of a rank's part of a tensor; nothing where a size has no value for these symbols.
std::optional<int64_t> getLocalBytes(Type tensor, GridAttr grid,
                                     const std::map<std::string, int64_t> &coordinates,
                                     const Symbols &symbols);

/// To estimate with, 1 in place of sizes without value: bytes of a rank's part, and of all of it.
double estimateLocalBytes(Type tensor, GridAttr grid,
                          const std::map<std::string, int64_t> &coordinates,
                          const Symbols &symbols);
double estimateBytes(Type tensor, const Symbols &symbols);
inline double estimateBytes(Value tensor, const Symbols &symbols) {
  return estimateBytes(tensor.getType(), symbols);
}

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_NOMINAL_H
