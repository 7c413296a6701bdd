//===- PreallocatedCaches.h - Proof of steps on preallocated caches -------===//
//
// Proves three claims about a step on preallocated caches (PreallocatedStep), for all sizes and
// lengths:
//
//   rows     the result of a sequence does not depend on other sequences of the batch;
//   chunks   for one sequence, a step of a + c tokens has the same results as a step of a tokens
//            and a step of c tokens. Therefore results do not depend on unused elements of caches,
//            on the capacity, or on padding tokens of the step;
//   empty    for one sequence with empty caches, the step has the reference's results.
//
// Together, the claims imply that each row of a batch has the results of the reference on this
// sequence.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H
#define TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H

#include "tpc/Dialect/State.h"

namespace mlir::tpc::generation {

/// `reference` is the model, or a step whose caches are not preallocated. Both modules must have no
/// calls, and are modified.
LogicalResult provePreallocated(ModuleOp reference, ModuleOp step, const PreallocatedStep &symbols);

} // namespace mlir::tpc::generation

#endif // TPC_LIB_VERIFY_GENERATION_PREALLOCATEDCACHES_H
