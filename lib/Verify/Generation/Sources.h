//===- Sources.h - Proof of source caches -----------------------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_GENERATION_SOURCES_H
#define TPC_LIB_VERIFY_GENERATION_SOURCES_H

#include "tpc/Dialect/SourceCaches.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace mlir::tpc {

/// Proves that a sequence whose source was appended to the source caches by an earlier step has the
/// results of a step that brings the source again:
///
/// * Nothing that is computed from the source, or from the number of its tokens, has another effect
///   than to be appended to source caches. With 0 source tokens nothing is appended.
/// * Source caches are read only by attention of one query that sees exactly the source tokens in
///   the caches and those of the step.
///
/// Then replaces source caches by the keys and values of the source in the step; the caller
/// verifies the resulting program.
LogicalResult dropSourceCaches(ModuleOp step, const SourceCaches &source);

} // namespace mlir::tpc

#endif // TPC_LIB_VERIFY_GENERATION_SOURCES_H
