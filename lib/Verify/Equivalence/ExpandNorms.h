//===- ExpandNorms.h - Expansion of norms to their definition ---*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_EQUIVALENCE_EXPANDNORMS_H
#define TPC_LIB_VERIFY_EQUIVALENCE_EXPANDNORMS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc::equivalence {

/// Replaces all norms of static width by their definition.
void expandNorms(ModuleOp module);

} // namespace mlir::tpc::equivalence

#endif // TPC_LIB_VERIFY_EQUIVALENCE_EXPANDNORMS_H
