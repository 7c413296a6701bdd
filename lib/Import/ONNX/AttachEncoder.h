//===- AttachEncoder.h - Encoder and decoder as one program -----*- C++ -*-===//

#ifndef TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H
#define TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H

#include "mlir/IR/BuiltinOps.h"

#include <optional>

namespace mlir::tpc::frontend {

/// Inserts the program of an encoder into that of its decoder: the encoder's first output, [batch,
/// tokens, hidden], replaces the decoder's input `encoder_hidden_states`. The encoder's inputs
/// become inputs with the prefix `encoder_`, and a mask that both have becomes one input. Weights
/// of equal names, types and contents in one file are shared.
///
/// If the decoder takes keys and values of cross-attention that the other file returns
/// (`past_key_values.0.encoder.key` and `present.0.encoder.key`), they replace these inputs, and
/// only the ops that compute them are inserted.
///
/// Errors: the decoder has no such input; element types or fixed sizes differ.
LogicalResult attachEncoder(ModuleOp decoder, ModuleOp encoder);

/// Inserts the programs of an embedding of tokens, whose output replaces the decoder's input
/// `inputs_embeds`, and of an encoder of images, unless `encoder` is null. The encoder's first
/// output, [batch, image tokens, hidden], has the features of one image for each sequence: a token
/// id of -1 - k denotes row k of them. `imageToken`: the id that stands for features in prompts
/// (kSourceTokenAttr).
///
/// Errors: the decoder has no such input; shapes or element types differ.
LogicalResult attachEmbedding(ModuleOp decoder, ModuleOp embedding, ModuleOp encoder,
                              std::optional<int64_t> imageToken);

} // namespace mlir::tpc::frontend

#endif // TPC_LIB_IMPORT_ONNX_ATTACHENCODER_H
