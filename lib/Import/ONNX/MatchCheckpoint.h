//===- MatchCheckpoint.h - Tensors of a checkpoint for a model --*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_MATCHCHECKPOINT_H
#define TPC_LIB_IMPORT_ONNX_MATCHCHECKPOINT_H

#include "Safetensors.h"
#include "tpc/Import/ONNX/TensorSource.h"

namespace onnx {
class GraphProto;
}

namespace mlir::tpc::frontend {

/// Replaces initializers of the main graph by tensors of a checkpoint. A tensor is found by
///
/// 1. the map file `mapPath` (empty: none), `{"initializer": "tensor"}`, or `{"name": "tensor",
///    "transpose": true}` in place of the name, or null for an initializer that keeps its values;
/// 2. the name of the initializer, also with leading parts added or removed (`model.`);
/// 3. sampled values, if the model has them and they equal those of one tensor;
/// 4. the table of an embedding, for a matrix of the same shape and without data: a tied head.
///
/// A matrix may be the transpose of its tensor. The shapes determine this. For square matrices,
/// sampled values do, or else the orientation of the model's other matrices. Fails if no tensor is
/// found for an initializer without data. `warning` is set if initializers keep values of the
/// model.
llvm::Error matchCheckpoint(const ::onnx::GraphProto &graph, TensorReader &reader,
                            const Checkpoint &checkpoint, llvm::StringRef checkpointPath,
                            llvm::StringRef mapPath, std::string &warning);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_MATCHCHECKPOINT_H
