//===- LiftReductions.h - All-reduces moved to calls ------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H
#define TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Moves an all-reduce that ends a function to the function's calls, if the only use of each call's
/// result is an addition, and one addition adds the results of two calls. OptimizeCollectives then
/// moves the all-reduces after the additions, where one replaces two. Until then the program sends
/// the same bytes. Returns whether the program changed.
bool liftReductions(ModuleOp module);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H
