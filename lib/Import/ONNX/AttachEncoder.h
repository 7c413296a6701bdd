//===- AttachEncoder.h - Encoder and decoder as one program -----*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H
#define TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H

#include "mlir/IR/BuiltinOps.h"

namespace mlir::tpc::frontend {

/// Inserts the program of an encoder into that of its decoder: the encoder's first output, [batch,
/// tokens, hidden], replaces the decoder's input `encoder_hidden_states`. The encoder's inputs
/// become inputs with the prefix `encoder_`, and a mask that both have becomes one input. Weights
/// of equal names, types and contents in one file are shared.
///
/// Errors: the decoder has no such input; element types or fixed sizes differ.
LogicalResult attachEncoder(ModuleOp decoder, ModuleOp encoder);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H
