//===- Nominal.h - Nominal sizes for estimates ------------------*- C++ -*-===//
//
// Programs have symbolic sizes. Cost-based decisions (which factor class to split, where to cut a
// pipeline) use nominal values of symbols: one sample for each micro-batch of each replica, and 128
// for any other symbol, or less if `tpc.constraints` requires it.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_ANALYSIS_NOMINAL_H
#define TPC_ANALYSIS_NOMINAL_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

using Symbols = std::map<std::string, int64_t>;

/// Returns nominal values for all symbols that occur in `module`.
Symbols getNominalSymbols(ModuleOp module);

/// Evaluates `size`; returns 1 if a symbol has no value.
int64_t evaluateOr1(const ::tpc::SymExpr &size, const Symbols &symbols);

/// Returns the bytes of a tensor's shard on the rank at `coordinates`; nothing if a symbol has no
/// value.
std::optional<int64_t> getLocalBytes(Type tensor, MeshAttr grid,
                                     const std::map<std::string, int64_t> &coordinates,
                                     const Symbols &symbols);

/// Estimates the bytes of a rank's shard, or of the global tensor. Sizes without a value count as
/// 1.
double estimateLocalBytes(Type tensor, MeshAttr grid,
                          const std::map<std::string, int64_t> &coordinates,
                          const Symbols &symbols);
double estimateBytes(Type tensor, const Symbols &symbols);
inline double estimateBytes(Value tensor, const Symbols &symbols) {
  return estimateBytes(tensor.getType(), symbols);
}

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_NOMINAL_H
