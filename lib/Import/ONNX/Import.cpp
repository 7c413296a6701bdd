//===- Import.cpp - Import of an ONNX file to the import level ------------===//

#include "tpc/Import/ONNX/ImportParts.h"

#include "AttachEncoder.h"
#include "Importer.h"
#include "Json.h"
#include "MatchCheckpoint.h"

#include "tpc/Analysis/Index/IndexAnalysis.h"

#include "onnx.pb.h"

#include <google/protobuf/io/coded_stream.h>

#include "mlir/IR/Verifier.h"
#include "mlir/Tools/mlir-translate/Translation.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace mlir::tpc::frontend;

/// Protobuf reads messages nested up to 100 deep. WireReader bounds the nesting of branches. Types
/// of sequences of sequences may be nested deeper.
static constexpr int kProtobufDepth = 100, kAnyDepth = 10'000;

static bool parse(::onnx::ModelProto &model, llvm::StringRef message, int depth) {
  ::google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t *>(message.data()),
                                                  int(message.size()));
  stream.SetRecursionLimit(depth);
  return model.ParseFromCodedStream(&stream) && stream.ConsumedEntireMessage();
}

/// Returns the checkpoint of safetensors that --weights denotes, or an empty string. If the folder
/// has external data of the model, the data is used.
static llvm::Expected<std::string> findCheckpointOf(const ::onnx::ModelProto &model, StringRef path,
                                                    const ::tpc::OnnxImportOptions &options) {
  llvm::Expected<std::string> checkpoint = findCheckpoint(options.weights);
  if (!checkpoint || checkpoint->empty() || !llvm::sys::fs::is_directory(options.weights))
    return checkpoint;
  for (const auto &initializer : model.graph().initializer())
    for (const auto &entry : initializer.external_data()) {
      std::string file, opened;
      bool exists = false;
      if (entry.key() != "location")
        continue;
      llvm::Error e = resolveDataFile(path, entry.value(), file, opened, exists, options.weights);
      if (!e)
        return "";
      llvm::consumeError(std::move(e));
    }
  return checkpoint;
}

static llvm::Error replaceInitializers(const ::onnx::ModelProto &model, TensorReader &reader,
                                       StringRef path, const ::tpc::OnnxImportOptions &options,
                                       std::string &warning) {
  llvm::Expected<Checkpoint> checkpoint = readCheckpoint(path);
  if (!checkpoint)
    return checkpoint.takeError();
  return matchCheckpoint(model.graph(), reader, *checkpoint, path, options.weightsMap, warning);
}

/// Returns the token id that stands for a row of an image's features, from Hugging Face's
/// config.json in the folder of the model or the one above it, as in transformers.js.
static std::optional<int64_t> readImageToken(StringRef path) {
  StringRef folder = llvm::sys::path::parent_path(path);
  for (StringRef above : {".", ".."}) {
    SmallString<256> name(folder);
    llvm::sys::path::append(name, above, "config.json");
    auto text = llvm::MemoryBuffer::getFile(name, /*IsText=*/true);
    if (!text)
      continue;
    llvm::Expected<Json> config = parseJson((*text)->getBuffer());
    if (!config) {
      llvm::consumeError(config.takeError());
      continue;
    }
    for (StringRef key : {"image_token_id", "image_token_index"})
      if (const Json *id = config->find(key))
        if (std::optional<int64_t> token = id->asSize())
          return token;
  }
  return std::nullopt;
}

static OwningOpRef<ModuleOp> importFile(StringRef path, MLIRContext *context,
                                        const ::tpc::OnnxImportOptions &options) {
  DialectRegistry registry;
  mlir::tpc::registerIndexModels(registry);
  context->appendDialectRegistry(registry);
  context->loadDialect<func::FuncDialect, mlir::tpc::TpcDialect>();
  llvm::SmallString<256> absolute(path);
  llvm::sys::fs::make_absolute(absolute);
  Location loc = FileLineColLoc::get(context, path, 0, 0);

  llvm::Expected<StrippedModel> stripped = readStrippedModel(path);
  if (!stripped) {
    emitError(loc) << llvm::toString(stripped.takeError());
    return nullptr;
  }
  ::onnx::ModelProto model;
  if (!parse(model, stripped->message, kProtobufDepth)) {
    if (parse(model, stripped->message, kAnyDepth))
      emitError(loc)
          << "the file has types (of sequences, optional values or maps) that are nested "
             "more than "
          << kProtobufDepth << " deep; tpc imports only tensors";
    else
      emitError(loc) << "not a valid ONNX file: its fields are not those of a model";
    return nullptr;
  }
  stripped->message = {};
  if (!model.has_graph()) {
    emitError(loc) << "not a valid ONNX file: it has no graph";
    return nullptr;
  }

  makeNamesPrintable(model);

  llvm::Expected<std::string> checkpoint = findCheckpointOf(model, absolute, options);
  if (!checkpoint) {
    emitError(loc) << llvm::toString(checkpoint.takeError());
    return nullptr;
  }
  TensorReader reader(context, absolute, std::move(stripped->ranges),
                      checkpoint->empty() ? options.weights : "");
  if (!checkpoint->empty()) {
    std::string warning;
    if (llvm::Error e = replaceInitializers(model, reader, *checkpoint, options, warning)) {
      emitError(loc) << llvm::toString(std::move(e));
      return nullptr;
    }
    if (!warning.empty())
      emitWarning(loc) << warning;
  } else if (!options.weightsMap.empty()) {
    emitError(loc) << "--weights-map needs a checkpoint of safetensors, --weights=FOLDER";
    return nullptr;
  }
  OwningOpRef<ModuleOp> module = Importer(context, model, reader, absolute, options).run();
  if (module && !options.weights.empty() && checkpoint->empty() && !reader.hasExternalData()) {
    emitError(loc) << "--weights=" << options.weights
                   << ": the model has no external data, all weights are in its own file";
    return nullptr;
  }
  if (module && failed(verify(*module)))
    return nullptr;
  return module;
}

namespace tpc {

OwningOpRef<ModuleOp> importOnnxModel(StringRef path, MLIRContext *context,
                                      const OnnxImportOptions &options) {
  return importOnnxParts(path, context, options, {});
}

OwningOpRef<ModuleOp> importOnnxParts(StringRef path, MLIRContext *context,
                                      const OnnxImportOptions &options, const OnnxParts &parts) {
  OwningOpRef<ModuleOp> module = importFile(path, context, options);
  if (!module || (parts.encoders.empty() && parts.embedding.empty()))
    return module;
  auto importPart = [&](const std::string &part) {
    return importFile(part, context,
                      {.weights = options.weights,
                       .inputs = options.inputs,
                       .forGeneration = options.forGeneration});
  };
  OwningOpRef<ModuleOp> encoder, embedding;
  for (const std::string &file : llvm::reverse(parts.encoders)) {
    if (!(encoder = importPart(file)))
      return nullptr;
    if (!parts.embedding.empty())
      break;
    if (failed(attachEncoder(*module, *encoder)) || failed(verify(*module)))
      return nullptr;
  }
  if (parts.embedding.empty())
    return module;
  std::optional<int64_t> token = parts.imageToken;
  if (encoder && !token)
    token = readImageToken(path);
  if (encoder && !token && options.forGeneration) {
    emitError((*module)->getLoc())
        << "--image-token=ID is needed: no config.json next to the model has image_token_id, the "
           "token that stands for an image's features in prompts";
    return nullptr;
  }
  if (!(embedding = importPart(parts.embedding)) ||
      failed(attachEmbedding(*module, *embedding, encoder ? *encoder : ModuleOp(), token)) ||
      failed(verify(*module)))
    return nullptr;
  return module;
}

void registerOnnxTranslation() {
  static TranslateRegistration registration(
      "import-onnx", "from an ONNX file to the import level",
      [](const std::shared_ptr<llvm::SourceMgr> &source, llvm::raw_ostream &output,
         MLIRContext *context) -> LogicalResult {
        StringRef path = source->getMemoryBuffer(source->getMainFileID())->getBufferIdentifier();
        if (path == "-" || path == "<stdin>") {
          emitError(UnknownLoc::get(context))
              << "--import-onnx needs a file name, because weights are located relative to it";
          return failure();
        }
        OwningOpRef<ModuleOp> module = importOnnxModel(path, context);
        if (!module)
          return failure();
        module->print(output, OpPrintingFlags().enableDebugInfo(true, /*prettyForm=*/false));
        return success();
      });
}

} // namespace tpc
