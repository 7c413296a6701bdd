//===- PlacedCaches.h - A step at lengths that are data ---------*- C++ -*-===//
//
// Three claims about a placed step (PlacedStep), for all sizes and lengths:
//
//   rows     what it gives for a sequence does not depend on the others of the batch;
//   pieces   of one sequence, a step of a + c tokens gives what one of a and then one of c give; so
//            neither what lies behind the tokens that caches hold, nor how much more they have room
//            for, nor tokens of the step behind those that count have a part in any token;
//   empty    of one sequence, where caches hold nothing it gives what the reference gives.
//
// So each row of it is a run of the reference on this sequence alone, whatever the others do.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_PLACEDCACHES_H
#define TPC_LIB_VERIFY_GENERATION_PLACEDCACHES_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc::generation {

/// `reference` is the model, or a step that takes what caches hold; neither has calls, and both are
/// changed.
LogicalResult provePlaced(ModuleOp reference, ModuleOp step, const PlacedStep &symbols);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_PLACEDCACHES_H
