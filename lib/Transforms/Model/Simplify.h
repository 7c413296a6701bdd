//===- Simplify.h - Patterns of tpc-simplify --------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H
#define TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H

#include "mlir/IR/PatternMatch.h"

namespace mlir::tpc {

/// Chains of ops that move elements, and views of parameters.
void populateMovementPatterns(RewritePatternSet &patterns);
/// Arithmetic with constants, and identities.
void populateGatherPatterns(RewritePatternSet &patterns);
void populateArithmeticPatterns(RewritePatternSet &patterns);
/// Biases of products, and their batch dimensions.
void populateProductPatterns(RewritePatternSet &patterns);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H
