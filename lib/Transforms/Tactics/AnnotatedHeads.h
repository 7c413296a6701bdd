//===- AnnotatedHeads.h - Annotations of grouped heads ----------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H
#define TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H

#include "tpc/Analysis/FactorClasses.h"

namespace mlir::tpc {

/// Annotations of dimensions with kv heads.
struct AnnotatedHeads {
  bool whole = false; // an annotation requires unsplit kv heads
  bool split = false; // an annotation splits them over tp
  bool other = false; // an annotation is incompatible with repeated heads
  /// Number of subgroups into which annotations of query heads divide the group. Example:
  /// queries of 2 kv heads, each with 4 query heads of size 4, have 32 columns. `4{tp} * 8` divides
  /// these into 4 parts of 2 query heads, so each group has 2 subgroups.
  std::optional<int64_t> repeats = {};
  std::string by = {}; // source of the annotation, for messages
};

/// Returns the annotations of the class `cls` of kv heads, and of the class `group` of the query
/// heads per kv head. `tensorAxes`: atoms of tp.
AnnotatedHeads getAnnotatedHeads(ModuleOp module, FactorClasses &classes, int cls, int group,
                                 ArrayRef<StringAttr> tensorAxes);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H
