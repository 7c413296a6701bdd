//===- OnnxSharded.h - What a partition says in ONNX's words ----*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_ONNXSHARDED_H
#define TPC_LIB_DRIVER_ONNXSHARDED_H

#include "tpc/Export/ONNX/WriteSharded.h"
#include "tpc/Support/ShardSpec.h"

#include "mlir/IR/BuiltinOps.h"

namespace tpc {

/// How the tactics of `spec` split the weights and inputs of a program at the model level, which
/// stays as it is. A weight that is used in several ways is left out: the
/// others decide.
mlir::LogicalResult collectShardings(mlir::ModuleOp model, const ShardSpec &spec,
                                     OnnxDevices &devices);

/// What annotations say of values of the file's graph, and of weights and inputs that they want
/// whole: the tactics' results do not tell. `annotated` is the imported program with
/// `tpc.sharding`.
mlir::LogicalResult collectAnnotations(mlir::ModuleOp annotated, const ShardSpec &spec,
                                       OnnxDevices &devices);

/// In which stages the nodes of a staged program are.
void collectStages(mlir::ModuleOp staged, OnnxDevices &devices);

} // namespace tpc

#endif // TPC_LIB_DRIVER_ONNXSHARDED_H
