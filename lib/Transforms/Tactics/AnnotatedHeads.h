//===- AnnotatedHeads.h - What annotations say of grouped heads -*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H
#define TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H

#include "tpc/Analysis/FactorClasses.h"

namespace mlir::tpc {

/// What annotations say of kv heads.
struct AnnotatedHeads {
  bool whole = false; // somewhere they are not to be split
  bool split = false; // somewhere tp is to split them
  bool other = false; // or something that does not fit heads that are there several times
  /// Into how many parts the group is divided by what is said of query heads: 4{tp} * 8 columns of
  /// 2 kv heads for 4 query heads of 4.
  std::optional<int64_t> repeats = {};
  std::string by = {}; // for people
};

/// What annotations say of kv heads `cls`, and of the query heads `group` of each.
AnnotatedHeads getAnnotatedHeads(ModuleOp module, FactorClasses &classes, int cls, int group);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TACTICS_ANNOTATEDHEADS_H
