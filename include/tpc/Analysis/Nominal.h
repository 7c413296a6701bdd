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

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_NOMINAL_H
