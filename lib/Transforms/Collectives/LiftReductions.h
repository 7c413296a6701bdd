//===- LiftReductions.h - Reductions of functions' results ------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H
#define TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H

#include "tpc/Dialect/Tpc.h"

namespace mlir::tpc {

/// Moves all-reduces of functions' results to the calls, if the results of all calls are added and
/// two calls have a common sum. These reductions can then be moved after the additions. Returns
/// whether it changed the program. The program sends the same bytes.
bool liftReductions(ModuleOp module);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_COLLECTIVES_LIFTREDUCTIONS_H
