//===- FeatureLookups.h - Lookups of features of images ---------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_GENERATE_FEATURELOOKUPS_H
#define TPC_LIB_TRANSFORMS_GENERATE_FEATURELOOKUPS_H

#include "tpc/Dialect/Tpc.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Returns the lookups of features of images (kSourceTokenAttr): rows of a value that depends on
/// inputs, but not on the tokens, at indices of each token. `tokens`: symbol of the new tokens.
SmallVector<GatherNDOp> findFeatureLookups(func::FuncOp main, StringRef tokens);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_GENERATE_FEATURELOOKUPS_H
