//===- CoverageColumn.h - Interface columns of the op coverage table -----------===//

#ifndef TPC_DIALECT_COVERAGECOLUMN_H
#define TPC_DIALECT_COVERAGECOLUMN_H

#include "mlir/Support/TypeID.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

/// Topic that an op covers if it implements one of these interfaces, with the names used in
/// tables. docs/reference/coverage.md has a column for each.
struct CoverageColumn {
  llvm::StringRef name, what;
  llvm::SmallVector<std::pair<llvm::StringRef, TypeID>, 2> interfaces;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_COVERAGECOLUMN_H
