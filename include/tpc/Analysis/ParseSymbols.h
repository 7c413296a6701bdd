//===- ParseSymbols.h - Sizes in pass options -------------------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PARSESYMBOLS_H
#define TPC_ANALYSIS_PARSESYMBOLS_H

#include "tpc/Analysis/Nominal.h"

namespace mlir::tpc {

/// Parses sizes in pass options, "batch=2"; emits an error at `loc` for an invalid item.
FailureOr<Symbols> parseSymbols(ArrayRef<std::string> items, Location loc);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PARSESYMBOLS_H
