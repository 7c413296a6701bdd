//===- PreallocatedCaches.h - Proof of steps on preallocated caches -------===//
//
// Proves three claims about a step on preallocated caches (PreallocatedStep), for all sizes and
// lengths:
//
//   rows     the result of a sequence does not depend on the other sequences of the batch;
//   pieces   for one sequence, a step of a + c tokens gives the same as a step of a followed by one
//            of c. No result therefore depends on elements after the tokens in caches, on the
//            capacity, or on tokens of the step after those that count;
//   empty    for one sequence with empty caches, the step gives the same as the reference.
//
// Each row is therefore a run of the reference on this sequence alone.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H
#define TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc::generation {

/// `reference` is the model, or a step whose caches have exactly the past. Both must have no calls,
/// and are modified.
LogicalResult provePreallocated(ModuleOp reference, ModuleOp step, const PreallocatedStep &symbols);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H
