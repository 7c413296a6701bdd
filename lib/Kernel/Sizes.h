//===- Sizes.h - Sizes in the text of kernels -------------------*- C++ -*-===//

#ifndef TPC_LIB_KERNEL_SIZES_H
#define TPC_LIB_KERNEL_SIZES_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::kernel {

Attribute makeSize(MLIRContext *context, const ::tpc::SymExpr &size);
ArrayAttr makeSizes(MLIRContext *context, ArrayRef<::tpc::SymExpr> sizes);
/// Whether this is the attribute of a size.
bool isSize(Attribute attr);
::tpc::SymExpr getExpr(Attribute size);
SmallVector<::tpc::SymExpr> getExprs(ArrayAttr sizes);

/// 768, batch, "2*batch + 1"
ParseResult parseSize(AsmParser &parser, Attribute &size);
void printSize(AsmPrinter &printer, Attribute size);
/// For custom<Size> of assembly formats.
inline void printSize(AsmPrinter &printer, Operation *, Attribute size) {
  printSize(printer, size);
}
/// [batch, "2*batch + 1"]
ParseResult parseSizes(AsmParser &parser, ArrayAttr &sizes);
void printSizes(AsmPrinter &printer, ArrayAttr sizes);

} // namespace mlir::tpc::kernel

#endif // TPC_LIB_KERNEL_SIZES_H
