//===- AnnotationTargets.h - Annotated tensors of a program -----*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H
#define TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ShardSpec.h"

namespace mlir::tpc {

/// Tensor of the imported program that has an ONNX name.
struct AnnotationTarget {
  std::string kind; // "weight", "input" or "value"
  std::string name;
  SmallVector<::tpc::SymExpr> sizes;
  Operation *op;                 // tpc.weight, the value's defining op, or @main
  std::optional<unsigned> input; // index of the argument, if `op` is @main

  ArrayAttr getSharding() const;
  void setSharding(ArrayAttr sharding, StringAttr source) const;
};

std::vector<AnnotationTarget> collectAnnotationTargets(ModuleOp module);

/// Converts a device configuration of the file (`tpc.devices`) to shardings and
/// `tpc.recorded_stages`. Uses the configuration named `configuration` or, if that is empty, the
/// configuration whose number of devices is the number of ranks.
LogicalResult applyDeviceConfiguration(ModuleOp module, ArrayRef<AnnotationTarget> targets,
                                       const ::tpc::ShardSpec &spec, StringRef configuration);

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_ANNOTATIONS_ANNOTATIONTARGETS_H
