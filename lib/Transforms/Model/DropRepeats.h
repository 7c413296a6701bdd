//===- DropRepeats.h - Removal of repeated elements -------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H
#define TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H

#include "Movement.h"

namespace mlir::tpc {

/// Returns `v` with `count` elements in dimension `dim`, one per run of equal elements. The ops
/// after the repetition are cloned for one element of each run. Returns null if equal runs cannot
/// be proved. New ops are inserted before those that they replace.
Value dropRepeats(Value v, int64_t dim, const ::tpc::SymExpr &count);

/// Returns a dimension of a movement without the broadcast factors at its end.
Movement::Dim withoutRepeats(const Movement &m, Movement::Dim dim);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H
