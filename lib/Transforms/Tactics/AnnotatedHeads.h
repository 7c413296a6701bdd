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
  /// Number of subgroups into which annotations of query heads divide the group. Example: 4{tp} * 8
  /// columns, with 2 kv heads for 4 query heads of size 4, has 2 subgroups.
  std::optional<int64_t> repeats = {};
  std::string by = {}; // source of the annotation, for messages
};

/// Returns the annotations of kv heads `cls`, and of the query heads `group` of each.
AnnotatedHeads getAnnotatedHeads(ModuleOp module, FactorClasses &classes, int cls, int group);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H
