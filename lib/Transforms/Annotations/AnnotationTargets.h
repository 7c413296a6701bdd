//===- AnnotationTargets.h - What an annotation may name --------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H
#define TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ShardSpec.h"

namespace mlir::tpc {

/// A tensor of the imported program that has a name in the file.
struct AnnotationTarget {
  std::string kind; // "weight", "input" or "value"
  std::string name;
  SmallVector<::tpc::SymExpr> sizes;
  Operation *op; // tpc.weight, what computes the value, or @main
  std::optional<unsigned> input;

  ArrayAttr getSharding() const;
  void setSharding(ArrayAttr sharding, StringAttr source) const;
};

std::vector<AnnotationTarget> collectAnnotationTargets(ModuleOp module);

/// Turns one of the file's device configurations (`tpc.devices`) into shardings and
/// `tpc.held_stages`: the one named `configuration`, or the one that has as many devices as the
/// grid has ranks.
LogicalResult applyDeviceConfiguration(ModuleOp module, ArrayRef<AnnotationTarget> targets,
                                       const ::tpc::ShardSpec &spec, StringRef configuration);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H
