//===- DropRepeats.h - A value without repeated elements --------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H
#define TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H

#include "Movement.h"

namespace mlir::tpc {

/// `v` with `count` elements in dimension `dim`, if the elements that are there come in runs of
/// equal ones, one run for each of these: what they are repeated in is done to one of each run
/// instead. Null where that cannot be shown. Ops are made before those that they replace.
Value dropRepeats(Value v, int64_t dim, const ::tpc::SymExpr &count);

/// A dimension of a movement without the factors at its end that are broadcast.
Movement::Dim withoutRepeats(const Movement &m, Movement::Dim dim);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_DROPREPEATS_H
