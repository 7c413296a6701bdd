//===- TpccChecks.cpp - Checks of tpcc's flags -------------------------------===//

#include "AutoShard.h"
#include "CheckShape.h"
#include "MemoryPlan.h"
#include "OutputFile.h"
#include "ReadProgram.h"
#include "TargetFlags.h"
#include "TpccSession.h"

#include "tpc/Dialect/Tpc.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/Transforms/Model/CapacityFactor.h"
#include "tpc/printable.h"

#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace tpc;
using llvm::Error;

/// Returns whether the output of a level is text.
static bool isText(Emit emit) { return emit < Emit::Obj; }

Error TpccSession::checkGradients() {
  if (!options.train && !(options.optimizer.empty() && options.noDecay.empty()))
    return makeError(options.optimizer.empty() ? "--no-decay: only --train updates weights"
                                               : "--optimizer: only --train updates weights");
  llvm::StringRef task = options.train ? "--train" : "--gradients";
  if (!options.gradients) {
    const char *flag = !options.loss.empty()         ? "--loss"
                       : options.labelSmoothing != 0 ? "--label-smoothing"
                       : options.zLoss != 0          ? "--z-loss"
                                                     : nullptr;
    return flag
               ? makeError(llvm::Twine(flag) + ": a loss is only needed for --train or --gradients")
               : Error::success();
  }
  if (!options.loss.empty() && options.loss != "next-token")
    return makeError("--loss=" + printable(options.loss) + ": the only loss is next-token");
  for (auto [flag, isGiven] :
       {std::pair<const char *, bool>{"--generate", options.generate != Generate::No},
        {"--quantize", !options.quantize.empty()},
        {"--reference", !options.reference.empty()},
        {"--emit=onnx-sharded", options.onnx},
        {"--megatron-shard=auto", options.megatronShard == "auto"},
        {"--memory-plan", !options.memoryPlan.empty()}})
    if (isGiven)
      return makeError(task + ": does not support " + flag + "; leave it out");
  if (spec.grid.size("pp") > 1)
    return makeError(task +
                     ": does not support pipeline stages; leave out pp in --megatron-shard=" +
                     options.megatronShard);
  return Error::success();
}

Error TpccSession::checkExperts() {
  const std::string &form = options.expertDispatch;
  if (!llvm::is_contained({"", "auto", "gather", "all-to-all"}, form))
    return makeError("--expert-dispatch=" + form + ": must be auto, gather or all-to-all");
  bool plans = options.simulate || options.megatronShard == kAutoShard;
  if (!options.routing.empty() && options.report.empty() && !plans)
    return makeError("--routing is for --report, --simulate and --megatron-shard=auto");
  if (!options.routing.empty() && plans && options.generate != Generate::No)
    return makeError("--routing has the tokens of one step: leave out --generate");
  const std::string &text = options.expertCapacity;
  if (text.empty())
    return Error::success();
  if (!mlir::tpc::CapacityFactor::parse(text))
    return makeError("--expert-capacity=" + text + ": must be a positive number, such as 1.25");
  if (options.generate != Generate::No)
    return makeError("--expert-capacity: tokens that a step of --generate drops would depend on "
                     "the length of the step; leave it out");
  if (!options.reference.empty())
    return makeError("--reference: with --expert-capacity the program is proved against the model "
                     "with limited experts; leave it out");
  return Error::success();
}

Error TpccSession::checkQuantization() {
  if (options.quantize.empty())
    return Error::success();
  std::string error;
  if (!mlir::tpc::WeightFormat::parse(options.quantize, error))
    return makeError("--quantize: " + error);
  if (options.onnx)
    return makeError("--quantize: --emit=onnx-sharded writes the input's weights; leave it out");
  if (options.emitGiven && options.emit == Emit::Import)
    return makeError("--quantize: --emit=import is the program before quantization; leave it out");
  return Error::success();
}

Error TpccSession::check() {
  if (options.input.empty())
    return makeError(
        "no model is given; for example: tpcc gpt2.onnx --megatron-shard=tp2,pp2 -o gpt2"
        " (see tpcc --help)");
  if (!options.annotations.empty() && !llvm::sys::fs::exists(options.annotations))
    return makeError("--annotations: there is no file '" + options.annotations + "'");
  if (std::string why = describeUnreadable(options.annotations); !why.empty())
    return makeError("--annotations: cannot read '" + options.annotations + "': " + why);
  std::error_code code = llvm::sys::fs::access(options.input, llvm::sys::fs::AccessMode::Exist);
  if (code)
    return makeError("cannot read '" + options.input + "': " + code.message());
  if (llvm::StringRef(options.weights).starts_with("random:"))
    return makeError("--weights=" + options.weights +
                     ": weights are drawn by the executable, which has the same flag; no weights "
                     "are needed to compile");
  if (llvm::sys::fs::is_directory(options.input))
    return makeError("'" + options.input + "' is a folder; name the .onnx file in it");
  if (isLfsPointer(options.input))
    return makeError("'" + options.input +
                     "' is a pointer of Git LFS, not the model: run "
                     "`git lfs pull` in its folder, or download the file itself");
  // Inputs must be regular files, because they are read several times.
  if (!llvm::sys::fs::is_regular_file(options.input))
    return makeError("cannot read '" + options.input + "': it is a device or a pipe; name a file");
  for (const std::string &path : {options.input, options.reference})
    if (std::string why = describeUnreadable(path, kMaxProgramBytes);
        !why.empty() && isProgramText(path))
      return makeError("cannot read '" + path + "': " + why);
  std::vector<std::pair<std::string, std::string>> parts;
  for (const std::string &path : options.parts.encoders)
    parts.emplace_back("--encoder", path);
  if (!options.parts.embedding.empty())
    parts.emplace_back("--embedding", options.parts.embedding);
  for (const auto &[flag, path] : parts) {
    if (!llvm::sys::fs::is_regular_file(path))
      return makeError(flag + ": there is no file '" + path + "'");
    if (isProgramText(options.input) || isProgramText(path))
      return makeError(flag + ": '" + (isProgramText(options.input) ? options.input : path) +
                       "' is a program; name ONNX files");
    if (options.onnx)
      return makeError("--emit=onnx-sharded writes one file: leave out " + flag);
  }
  if (options.parts.encoders.size() > 1 && !options.parts.embedding.empty())
    return makeError("--encoder is given twice, but with --embedding it is the encoder of images, "
                     "of which there is one");
  if (options.parts.imageToken &&
      (options.parts.encoders.empty() || options.parts.embedding.empty()))
    return makeError("--image-token needs --encoder (of images) and --embedding");
  if (options.parts.imageToken.value_or(0) < 0)
    return makeError("--image-token=" + std::to_string(*options.parts.imageToken) +
                     ": expected a token id");
  if (options.onnx && isProgramText(options.input))
    return makeError("--emit=onnx-sharded needs an ONNX file, but '" + options.input +
                     "' is a program");
  if (!options.weights.empty() && isProgramText(options.input))
    return makeError("--weights: '" + options.input +
                     "' is a program, which names its weight files; the executable has the "
                     "same flag");
  if (!options.weightsMap.empty() && options.weights.empty())
    return makeError("--weights-map needs a checkpoint of safetensors, --weights=FOLDER");
  if (std::string why = describeUnreadable(options.weightsMap); !why.empty())
    return makeError("--weights-map: cannot read '" + options.weightsMap + "': " + why);
  for (llvm::StringRef text : options.fixedInputs) {
    auto [name, value] = text.rsplit('=');
    int64_t number = 0;
    if (name.empty() || name.size() == text.size() || value.getAsInteger(10, number))
      return makeError("--fix-input=" + text.str() + ": needs NAME=VALUE, with an integer");
    if (!fixedInputs.insert({name.str(), number}).second)
      return makeError("--fix-input: '" + name.str() + "' has two values");
    if (isProgramText(options.input))
      return makeError("--fix-input: '" + options.input + "' is a program; name an ONNX file");
  }
  if (!options.reference.empty()) {
    if (options.noVerify)
      return makeError("--reference has no effect without verification; leave out --no-verify");
    if (std::error_code missing =
            llvm::sys::fs::access(options.reference, llvm::sys::fs::AccessMode::Exist))
      return makeError("--reference: cannot read '" + options.reference +
                       "': " + missing.message());
    if (!llvm::sys::fs::is_regular_file(options.reference))
      return makeError("--reference: cannot read '" + options.reference + "': it is no file");
  }

  if (options.generate != Generate::No && options.onnx)
    return makeError("--generate: a generation step cannot be written as an ONNX file; leave out "
                     "--emit=onnx-sharded");
  if (spec.chunksPerRank > 1 && options.onnx)
    return makeError("--emit=onnx-sharded: a node's pipeline stage in an ONNX file is a rank of pp "
                     "with one chunk of the model; leave out vpp" +
                     std::to_string(spec.chunksPerRank));
  if (options.generate != Generate::No && !options.reference.empty())
    return makeError("--reference: with --generate the program is proved against the model that "
                     "is compiled; leave it out");

  if (Error problem = checkGradients())
    return problem;
  if (Error problem = checkExperts())
    return problem;
  if (Error problem = checkQuantization())
    return problem;

  std::string error;
  std::optional<ShapeBinding> binding = parseShape(options.shape, error);
  if (!binding)
    return makeError("--shape: " + error);
  shape = *binding;

  if (!options.memoryPlan.empty()) {
    llvm::Expected<int64_t> bytes = checkMemoryPlan(options);
    if (!bytes)
      return bytes.takeError();
    memory = *bytes;
  }
  llvm::Expected<std::optional<AutoShardRequest>> request = checkAutoShard(options);
  if (!request)
    return request.takeError();
  autoShard = std::move(*request);
  llvm::Expected<std::optional<SimulationRequest>> simulated = checkSimulation(options);
  if (!simulated)
    return simulated.takeError();
  simulation = std::move(*simulated);
  if (Error problem = checkTarget(options))
    return problem;

  bool reportOnly =
      (!options.report.empty() || !options.certificate.empty() || options.explain ||
       !options.why.empty() || !options.memoryPlan.empty() || autoShard || simulation) &&
      options.output.empty() && !options.emitGiven;
  if (options.output.empty() && !reportOnly) {
    if (!isText(options.emit) || options.onnx)
      return makeError("no output file is given: name the " +
                       llvm::Twine(options.onnx                ? "file"
                                   : options.emit == Emit::Exe ? "executable"
                                   : options.emit == Emit::Lib ? "library"
                                                               : "object file") +
                       " with -o, such as -o " + (options.emit == Emit::Lib ? "lib" : "") +
                       llvm::sys::path::stem(options.input) +
                       (options.onnx                ? "-sharded.onnx"
                        : options.emit == Emit::Lib ? ".so"
                                                    : ""));
    options.output = "-";
  }
  if (!options.quantize.empty()) {
    if (options.output == "-")
      return makeError(
          "--quantize writes the weights to <output>.weights: name the output with -o");
    writesWeights = !options.output.empty();
    llvm::SmallString<128> path(writesWeights ? options.output
                                              : llvm::sys::path::stem(options.input).str());
    llvm::sys::fs::make_absolute(path);
    packedWeights = (path + ".weights").str();
    if (writesWeights)
      if (Error problem = checkOutputPath(packedWeights, {options.input}))
        return problem;
  }
  if (options.output == "-" && (!isText(options.emit) || options.onnx))
    return makeError("-o -: binary output does not go to standard output; name a file");
  if (options.name.empty())
    options.name = llvm::sys::path::stem(isText(options.emit) ? options.input : options.output);
  for (const std::string &path :
       {options.output, options.report, options.certificate, options.trace})
    if (!path.empty())
      if (Error problem = checkOutputPath(path, {options.input, options.reference},
                                          path == options.output && options.emit >= Emit::Lib))
        return problem;
  auto same = [&](const std::string &a, const std::string &b) {
    return !a.empty() && !b.empty() && isSameFile(a, b);
  };
  if (same(options.trace, options.report))
    return makeError("--trace and --report name the same file '" + options.trace + "'");
  if (same(options.report, options.output))
    return makeError("-o and --report name the same file '" + options.report + "'");
  if (same(options.certificate, options.output) || same(options.certificate, options.report))
    return makeError("--certificate and " +
                     llvm::Twine(same(options.certificate, options.output) ? "-o" : "--report") +
                     " name the same file '" + options.certificate + "'");
  if (options.noVerify && !options.certificate.empty())
    return makeError(
        "--certificate: there is no proof without verification; leave out --no-verify");
  return Error::success();
}

Error TpccSession::checkLevel(Emit first) {
  auto refuse = [&](llvm::StringRef flag, llvm::StringRef why) {
    return makeError(flag + ": '" + options.input + "' is at level " + emitName(first) +
                     " already" + why);
  };
  if (options.emitGiven && options.emit < first)
    return refuse(("--emit=" + emitName(options.emit)).str(), "");
  if (!options.quantize.empty() && first != Emit::Import)
    return refuse("--quantize", "; weights are quantized at an earlier level");
  if (options.gradients && first != Emit::Import)
    return refuse(options.train ? "--train" : "--gradients",
                  "; gradients are derived at an earlier level");
  if (!options.expertCapacity.empty() && first != Emit::Import)
    return refuse("--expert-capacity", "; experts are limited at an earlier level");
  if (!options.expertDispatch.empty() && first >= Emit::Spmd)
    return refuse("--expert-dispatch", "; the form is chosen at an earlier level");
  if (options.generate != Generate::No && first != Emit::Import)
    return refuse("--generate", "; caches are derived at an earlier level");
  if (first <= Emit::Model)
    return Error::success();
  if (!options.annotations.empty())
    return refuse("--annotations", "; annotations apply to an earlier level");
  if (!options.deviceConfiguration.empty())
    return refuse("--device-configuration", "; it applies to an earlier level");
  if (!options.memoryPlan.empty() || autoShard)
    return refuse(autoShard ? "--megatron-shard=auto" : "--memory-plan", "; its split is fixed");
  if (options.explain)
    return refuse("--explain", "; its tactics have run");
  if (!options.why.empty())
    return refuse("--why", "; its tactics have run");
  return Error::success();
}

Error TpccSession::checkModel(mlir::ModuleOp module) {
  if (Error problem = checkTarget(options, mlir::tpc::TargetTraits::get(module)))
    return problem;
  for (const std::string &path :
       {options.output, options.report, options.certificate, options.trace})
    if (!path.empty())
      if (Error problem = checkOutputPath(path, getWeightFiles(module)))
        return problem;

  bindCapacities(module, shape);
  // Without --shape, the report has only kernels, whose resources do not depend on sizes.
  kernelsOnly = !options.report.empty() && shape.empty() &&
                mlir::tpc::TargetTraits::get(module).emitKernels && hasUnboundSizes(module, shape);
  return checkShape(module, shape,
                    !options.memoryPlan.empty()               ? "--memory-plan"
                    : autoShard                               ? "--megatron-shard=auto"
                    : simulation                              ? "--simulate"
                    : !options.report.empty() && !kernelsOnly ? "--report"
                                                              : "");
}
