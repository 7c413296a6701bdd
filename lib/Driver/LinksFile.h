//===- LinksFile.h - Reader of the --links file -----------------*- C++ -*-===//
//
//     {"intra_node": {"alpha": 5e-6, "beta": 2.2e-12},
//      "inter_node": {"alpha": 1e-5, "beta": 2e-11},
//      "axes": {"dp": {"alpha": 2e-5, "beta": 1e-10}}}
//
// alpha is in seconds, beta in seconds per byte. All entries are optional; the defaults are in
// tpc/Support/Links.h.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_LINKSFILE_H
#define TPC_LIB_DRIVER_LINKSFILE_H

#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinAttributes.h"
#include "llvm/Support/Error.h"

namespace tpc {

/// Returns the attribute `tpc.links` that `text` describes. `spec` has the axes.
llvm::Expected<mlir::DictionaryAttr> parseLinks(mlir::MLIRContext *context, llvm::StringRef text,
                                                const ShardSpec &spec);

/// Reads the attribute from a file; errors begin with the file's name.
llvm::Expected<mlir::DictionaryAttr> readLinksFile(mlir::MLIRContext *context, llvm::StringRef path,
                                                   const ShardSpec &spec);

} // namespace tpc

#endif // TPC_LIB_DRIVER_LINKSFILE_H
