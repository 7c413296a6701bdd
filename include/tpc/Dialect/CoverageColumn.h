//===- CoverageColumn.h - Columns of the op coverage table ------*- C++ -*-===//

#ifndef TPC_DIALECT_COVERAGECOLUMN_H
#define TPC_DIALECT_COVERAGECOLUMN_H

#include "mlir/Support/TypeID.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

/// Column of docs/reference/coverage.md: a feature that an op supports if it implements one of
/// these interfaces. Each interface has the name that is printed in the table.
struct CoverageColumn {
  llvm::StringRef name, description;
  llvm::SmallVector<std::pair<llvm::StringRef, TypeID>, 2> interfaces;
};

} // namespace mlir::tpc

#endif // TPC_DIALECT_COVERAGECOLUMN_H
