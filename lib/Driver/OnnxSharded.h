//===- OnnxSharded.h - Shardings as ONNX multi-device fields ----*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_ONNXSHARDED_H
#define TPC_LIB_DRIVER_ONNXSHARDED_H

#include "tpc/Export/ONNX/WriteSharded.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace tpc {

/// Collects how the tactics of `spec` split the weights and inputs of a program at the model level,
/// which is not changed. A weight with several different splits is omitted, because the splits of
/// other values determine them.
mlir::LogicalResult collectShardings(mlir::ModuleOp model, const ShardSpec &spec,
                                     OnnxDevices &devices);

/// Collects the annotations that the tactics' results do not show: those of intermediate values of
/// the file's graph, and those that keep a weight or an input whole. `annotated` is the imported
/// program with `tpc.sharding`.
mlir::LogicalResult collectAnnotations(mlir::ModuleOp annotated, const ShardSpec &spec,
                                       OnnxDevices &devices);

/// Collects the stages of the nodes of a staged program.
void collectStages(mlir::ModuleOp staged, OnnxDevices &devices);

} // namespace tpc

#endif // TPC_LIB_DRIVER_ONNXSHARDED_H
