//===- ParseSymbols.h - Sizes in passes' options ----------------*- C++ -*-===//

#ifndef TPC_ANALYSIS_PARSESYMBOLS_H
#define TPC_ANALYSIS_PARSESYMBOLS_H

#include "tpc/Analysis/Nominal.h"

namespace mlir::tpc {

/// Reads sizes as passes' options have them, "batch=2"; an error at `loc` where one is none.
FailureOr<Symbols> parseSymbols(ArrayRef<std::string> items, Location loc);

} // namespace mlir::tpc

#endif // TPC_ANALYSIS_PARSESYMBOLS_H
