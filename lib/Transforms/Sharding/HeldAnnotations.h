//===- HeldAnnotations.h - What two passes agree on -------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_SHARDING_HELDANNOTATIONS_H
#define TPC_LIB_TRANSFORMS_SHARDING_HELDANNOTATIONS_H

#include "llvm/ADT/StringRef.h"

namespace mlir::tpc {

/// On the module: an array of {name, entries, source, stage}, by the numbers that stand in
/// locations; of entries and stage there is one or both. An entry is a #tpc.dim, or the size of a
/// dimension that is left to the strategies.
inline constexpr llvm::StringLiteral kHeldAnnotationsAttr = "tpc.held_annotations";

/// On the module: an array of {node, stage}. Nodes are known by their names, which locations have.
inline constexpr llvm::StringLiteral kHeldStagesAttr = "tpc.held_stages";

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_SHARDING_HELDANNOTATIONS_H
