//===- OnnxSharded.h - Shardings as ONNX multi-device fields ----*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_ONNXSHARDED_H
#define TPC_LIB_DRIVER_ONNXSHARDED_H

#include "tpc/Export/ONNX/WriteSharded.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace tpc {

/// Collects the splits of weights and inputs that the tactics of `spec` choose for a program of the
/// model level. Does not change the program. A weight with several different splits is omitted,
/// because its splits follow from those of other values.
mlir::LogicalResult collectShardings(mlir::ModuleOp model, const ShardSpec &spec,
                                     OnnxDevices &devices);

/// Collects annotations that are not part of the tactics' result: annotations of intermediate
/// values, and annotations that keep a weight or an input unsplit. `annotated`: the imported
/// program with `tpc.sharding`.
mlir::LogicalResult collectAnnotations(mlir::ModuleOp annotated, const ShardSpec &spec,
                                       OnnxDevices &devices);

/// Collects the stages of the nodes of a staged program.
void collectStages(mlir::ModuleOp staged, OnnxDevices &devices);

} // namespace tpc

#endif // TPC_LIB_DRIVER_ONNXSHARDED_H
