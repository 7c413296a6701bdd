//===- Simplify.h - Patterns of tpc-simplify --------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H
#define TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H

#include "mlir/IR/PatternMatch.h"

namespace mlir::tpc {

/// Adds patterns for chains of ops that move elements, and for views of parameters.
void populateMovementPatterns(RewritePatternSet &patterns);
/// Adds patterns for gathers, for arithmetic with constants, and for identities.
void populateGatherPatterns(RewritePatternSet &patterns);
void populateArithmeticPatterns(RewritePatternSet &patterns);
/// Adds patterns for biases and batch dimensions of matmuls.
void populateMatmulPatterns(RewritePatternSet &patterns);
/// Adds patterns for numbers of past tokens.
void populateLengthPatterns(RewritePatternSet &patterns);
/// Adds patterns for conditions on the number of visible keys.
void populateMaskPatterns(RewritePatternSet &patterns);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_MODEL_SIMPLIFY_H
