//===- TpccSession.cpp - One invocation of tpcc ------------------------------===//

#include "TpccSession.h"
#include "CountCalls.h"
#include "Diagnostics.h"
#include "Explain.h"
#include "LinksFile.h"
#include "MemoryPlan.h"
#include "OutputFile.h"
#include "PrintProgram.h"
#include "RoutingFile.h"
#include "TargetFlags.h"

#include "tpc/Analysis/Report.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Verify/Certificate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"

using namespace tpc;
using llvm::Error;

using Severity = mlir::DiagnosticSeverity;

int tpc::fail(const TpccOptions &options, llvm::StringRef message) {
  printMessage(llvm::errs(), options.diagnostics, Severity::Error, message);
  return 1;
}

void tpc::note(const TpccOptions &options, const llvm::Twine &message) {
  printMessage(llvm::errs(), options.diagnostics, Severity::Note, message.str());
}

template <typename Plan> static Error printPlan(const Plan &plan, bool asJson) {
  return writeOutput("-", [&](llvm::raw_pwrite_stream &os) {
    if (asJson)
      os << llvm::formatv("{0:2}", plan.toJSON()) << "\n";
    else
      plan.print(os);
    return Error::success();
  });
}

mlir::LogicalResult TpccSession::planMemory(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  progress.step("planning memory");
  mlir::FailureOr<MemoryPlan> plan =
      ::tpc::planMemory(compilation.getModule(), options.megatronShard, memory, shape);
  if (mlir::failed(plan))
    return mlir::failure();
  progress.clearLine();
  if (Error error = printPlan(*plan, options.json))
    return printError(std::move(error));
  return plan->fits ? mlir::success()
                    : printError(makeError("no split fits into " + options.memoryPlan));
}

mlir::LogicalResult TpccSession::chooseGrid(mlir::MLIRContext &context, CompileOptions compile) {
  compile.verify = false;
  compile.spec = ShardSpec();
  Compilation compilation(context, std::move(compile));
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Import, onStep)))
    return mlir::failure();
  if (Error problem = checkLevel(compilation.getFirst()))
    return printError(std::move(problem));
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  if (Error problem = checkModel(compilation.getModule()))
    return printError(std::move(problem));
  progress.step("choosing a grid");
  mlir::FailureOr<AutoShardPlan> plan = planAutoShard(compilation.getModule(), *autoShard, shape);
  if (mlir::failed(plan))
    return mlir::failure();
  progress.clearLine();
  if (Error error = printPlan(*plan, options.json))
    return printError(std::move(error));
  if (!plan->fits())
    return printError(makeError("--megatron-shard=auto: " + plan->describeMisfit()));
  std::string why;
  std::optional<ShardSpec> chosen = ShardSpec::parse(plan->getSpec(plan->search.best[0].grid), why);
  if (!chosen)
    return printError(makeError("--megatron-shard=auto: " + why));
  spec = *chosen;
  return mlir::success();
}

mlir::LogicalResult TpccSession::simulate(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Staged, onStep)))
    return mlir::failure();
  progress.step("simulating");
  mlir::FailureOr<ProgramSimulation> result =
      simulateProgram(compilation.getModule(), *simulation, spec, shape);
  if (mlir::failed(result))
    return mlir::failure();
  progress.clearLine();
  result->name = llvm::sys::path::stem(options.input);
  bool page = llvm::StringRef(options.report).ends_with(".html");
  auto writeFile = [&](const std::string &path, auto write) {
    return path.empty() ? Error::success() : writeOutput(path, [&](llvm::raw_pwrite_stream &os) {
      write(os);
      return Error::success();
    });
  };
  Error error = printPlan(*result, options.json);
  if (!error)
    error = writeFile(options.trace, [&](llvm::raw_ostream &os) { result->writeTrace(os); });
  if (!error && page)
    error = writeFile(options.report, [&](llvm::raw_ostream &os) { result->writePage(os); });
  if (error)
    return printError(std::move(error));
  return options.report.empty() || page ? mlir::success() : writeReport(compilation);
}

mlir::LogicalResult TpccSession::printError(Error error) {
  progress.clearLine();
  ++errors;
  fail(options, llvm::toString(std::move(error)));
  return mlir::failure();
}

std::vector<std::string> tpc::getWeightFiles(mlir::ModuleOp module) {
  auto source = module->getAttrOfType<mlir::StringAttr>(mlir::tpc::kSourceAttr);
  llvm::StringSet<> seen;
  std::vector<std::string> files;
  for (auto weight : module.getOps<mlir::tpc::WeightOp>()) {
    if (weight.getFile().empty()) // state that is 0 at the start
      continue;
    llvm::SmallString<128> path(weight.getFile());
    if (!llvm::sys::path::is_absolute(path) && source) {
      path = llvm::sys::path::parent_path(source.getValue());
      llvm::sys::path::append(path, weight.getFile());
    }
    if (seen.insert(path).second)
      files.push_back(path.str().str());
  }
  return files;
}

mlir::LogicalResult TpccSession::makeKernels(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (!mlir::tpc::TargetTraits::get(compilation.getModule()).emitKernels || kernels)
    return mlir::success();
  if (mlir::failed(compilation.advance(Emit::Buffers, onStep)))
    return mlir::failure();
  llvm::Expected<const mlir::tpc::KernelCode *> made = compilation.makeKernels(onStep);
  if (!made)
    return printError(made.takeError());
  kernels = *made;
  progress.clearLine();
  if (!kernels->note.empty())
    note(options, kernels->note);
  return mlir::success();
}

void TpccSession::noteQuantization(const mlir::tpc::QuantizationReport &report) {
  int64_t bytes = 0, originalBytes = 0;
  std::vector<double> sorted;
  for (const auto &matrix : report.matrices) {
    bytes += matrix.bytes;
    originalBytes += matrix.originalBytes;
    sorted.push_back(matrix.error);
  }
  llvm::sort(sorted);
  const auto &worst = report.getWorst();
  auto percent = [](double error) { return llvm::formatv("{0:f2}%", 100 * error).str(); };
  auto megabytes = [](int64_t bytes) { return llvm::formatv("{0:f2} MB", bytes / 1e6).str(); };
  note(options, "--quantize=" + options.quantize + ": " + llvm::Twine(report.matrices.size()) +
                    " matrices of " + megabytes(originalBytes) + " take " + megabytes(bytes) +
                    "; results of random inputs differ by " + percent(sorted[sorted.size() / 2]) +
                    " (median) to " + percent(worst.error) + " (matmul '" + worst.node + "', " +
                    llvm::Twine(worst.rows) + " x " + llvm::Twine(worst.columns) + ")");
  for (size_t i = 0; i < report.kept.size() && i < 3; ++i)
    note(options, "--quantize: matmul '" + report.kept[i].first +
                      "' is not quantized: " + report.kept[i].second +
                      (i == 2 && report.kept.size() > 3
                           ? "; nor are " + std::to_string(report.kept.size() - 3) + " more"
                           : ""));
}

static llvm::json::Array describeMatrices(const mlir::tpc::QuantizationReport &report) {
  llvm::json::Array rows;
  for (const auto &matrix : report.matrices)
    rows.push_back(llvm::json::Object{{"node", llvm::json::fixUTF8(matrix.node)},
                                      {"weight", llvm::json::fixUTF8(matrix.weight)},
                                      {"rows", matrix.rows},
                                      {"columns", matrix.columns},
                                      {"block", matrix.block},
                                      {"bytes", matrix.bytes},
                                      {"original_bytes", matrix.originalBytes},
                                      {"relative_error", matrix.error}});
  return rows;
}

mlir::LogicalResult TpccSession::writeReport(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Staged, onStep)))
    return mlir::failure();
  progress.step("reporting");
  mlir::FailureOr<mlir::tpc::Report> report = mlir::tpc::Report();
  if (kernelsOnly)
    note(options,
         "--report: without --shape it has only kernels, without communication and memory");
  else
    report = mlir::tpc::computeReport(compilation.getModule(), shape);
  if (mlir::failed(report))
    return mlir::failure();
  std::optional<mlir::tpc::Routing> routing;
  if (!options.routing.empty()) {
    llvm::Expected<mlir::tpc::Routing> read = readRouting(options.routing);
    if (!read)
      return printError(read.takeError());
    routing = std::move(*read);
  }
  auto experts =
      mlir::tpc::countExperts(compilation.getModule(), shape, routing ? &*routing : nullptr);
  if (mlir::failed(experts))
    return mlir::failure();
  report->functions = countCalls(compilation.getModule());
  llvm::json::Value json = report->toJSON();
  if (!kernelsOnly) {
    auto memory = planTraining(compilation.getModule(), shape);
    if (mlir::failed(memory))
      return mlir::failure();
    if (*memory)
      (*json.getAsObject())["training_memory"] = (*memory)->toJSON();
  }
  if (!experts->empty())
    (*json.getAsObject())["experts"] = mlir::tpc::toJSON(*experts, routing.has_value());
  if (kernelsOnly)
    json = llvm::json::Object{{"functions", *json.getAsObject()->get("functions")}};
  if (const mlir::tpc::QuantizationReport *quantization = compilation.getQuantization())
    (*json.getAsObject())["quantized"] = describeMatrices(*quantization);
  // Device code generation changes the module, so levels up to buffers are written first.
  bool written = !options.output.empty() && options.emit >= Emit::Staged && !options.onnx;
  if (written && options.emit <= Emit::Buffers && mlir::failed(write(compilation)))
    return mlir::failure();
  if (mlir::failed(makeKernels(compilation)))
    return mlir::failure();
  if (kernels)
    (*json.getAsObject())["kernels"] = llvm::json::Value(llvm::json::Object(kernels->report));
  Error error = writeOutput(options.report, [&](llvm::raw_pwrite_stream &os) {
    os << llvm::formatv("{0:2}", json) << "\n";
    return Error::success();
  });
  if (error)
    return printError(std::move(error));
  return written && options.emit > Emit::Buffers ? write(compilation) : mlir::success();
}

mlir::LogicalResult TpccSession::writeCertificate(mlir::ModuleOp module) {
  progress.step("writing the certificate");
  mlir::FailureOr<mlir::tpc::Certificate> certificate = mlir::tpc::Certificate::make(module);
  if (mlir::failed(certificate))
    return mlir::failure();
  Error error = writeOutput(options.certificate, [&](llvm::raw_pwrite_stream &os) {
    certificate->print(os);
    return Error::success();
  });
  return error ? printError(std::move(error)) : mlir::success();
}

mlir::LogicalResult TpccSession::explain(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  progress.step("explaining");
  mlir::FailureOr<mlir::tpc::Explanation> explanation =
      mlir::tpc::explainTactics(compilation.getModule(), spec, shape);
  if (mlir::failed(explanation))
    return mlir::failure();
  progress.clearLine();
  if (Error error = printPlan(*explanation, options.json))
    return printError(std::move(error));
  return mlir::success();
}

mlir::LogicalResult TpccSession::explainValue(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  progress.step("explaining");
  mlir::FailureOr<mlir::tpc::ValueExplanations> explanations =
      mlir::tpc::explainValues(compilation.getModule(), spec, options.why);
  if (mlir::failed(explanations))
    return mlir::failure();
  progress.clearLine();
  if (Error error = printPlan(*explanations, options.json))
    return printError(std::move(error));
  return mlir::success();
}

mlir::LogicalResult TpccSession::writeOnnx(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  devices.name = "tpc";
  if (mlir::failed(compilation.advance(Emit::Model, onStep)) ||
      mlir::failed(collectShardings(compilation.getModule(), spec, devices)) ||
      mlir::failed(compilation.advance(Emit::Staged, onStep)))
    return mlir::failure();
  collectStages(compilation.getModule(), devices);
  if (Error changed = sources.check())
    return printError(std::move(changed));
  Error error = writeOutput(options.output, [&](llvm::raw_pwrite_stream &os) {
    return writeShardedOnnx(options.input, options.output, devices, os);
  });
  return error ? printError(std::move(error)) : mlir::success();
}

mlir::LogicalResult TpccSession::write(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (options.onnx)
    return writeOnnx(compilation);
  bool needsKernels = options.kernelText || options.emit >= Emit::Llvm;
  if (mlir::failed(compilation.advance(std::min(options.emit, Emit::Buffers), onStep)) ||
      (needsKernels && mlir::failed(makeKernels(compilation))) ||
      mlir::failed(compilation.advance(std::min(options.emit, Emit::Llvm), onStep)))
    return mlir::failure();
  if (Error changed = sources.check())
    return printError(std::move(changed));
  auto writeTo = [&](llvm::raw_pwrite_stream &os) -> Error {
    if (options.kernelText) {
      os << kernels->text;
    } else if (options.emit < Emit::Llvm) {
      if (options.plain)
        compilation.getModule().print(os);
      else
        printProgram(compilation.getModule(), os);
    } else if (options.emit == Emit::Llvm) {
      llvm::Expected<std::string> text = compilation.makeLLVM(onStep);
      if (!text)
        return text.takeError();
      os << *text;
    } else {
      llvm::Expected<llvm::SmallVector<char>> object = compilation.makeObject(onStep);
      if (!object)
        return object.takeError();
      os.write(object->data(), object->size());
    }
    return Error::success();
  };
  Error error = options.emit >= Emit::Lib
                    ? compilation.link(options.output,
                                       options.emit == Emit::Lib ? mlir::tpc::Linked::Library
                                                                 : mlir::tpc::Linked::Executable,
                                       onStep)
                    : writeOutput(options.output, writeTo);
  return error ? printError(std::move(error)) : mlir::success();
}

mlir::LogicalResult TpccSession::run() {
  mlir::MLIRContext context;
  auto onMessage = [&](Severity severity) {
    progress.clearLine();
    errors += severity == Severity::Error;
  };
  DiagnosticPrinter printer(&context, llvm::errs(), onMessage, options.diagnostics);
  CompileOptions compile{options.input,
                         spec,
                         {options.name, options.march, options.optLevel, options.digestWeights},
                         !options.noVerify,
                         options.weights,
                         options.weightsMap,
                         options.shardGiven,
                         options.reference,
                         options.annotations,
                         options.deviceConfiguration,
                         options.target,
                         options.architectures,
                         options.precision == "tf32",
                         options.residual == "f32",
                         options.generate,
                         !options.train              ? ""
                         : options.optimizer.empty() ? "adamw"
                                                     : options.optimizer,
                         options.noDecay,
                         options.gradients,
                         options.quantize,
                         packedWeights,
                         writesWeights,
                         fixedInputs};
  compile.overlapChunks = *getOverlapChunks(options);
  compile.expertCapacity = options.expertCapacity;
  const mlir::tpc::TargetTraits *target = findTarget(options);
  compile.gradient = {options.labelSmoothing, options.zLoss,
                      target && !target->computesAttentionGradients,
                      options.precision == "tf32" ? "f32" : options.precision};
  // Steps of generation should be recorded, so only an option makes the host wait in them.
  double seconds = target ? target->dispatchSeconds : 0;
  bool chooses = options.generate == Generate::No || seconds == 0;
  compile.expertDispatch = {!options.expertDispatch.empty() ? options.expertDispatch
                            : chooses                       ? "auto"
                                                            : "gather",
                            seconds};
  compile.parts = options.parts;
  if (autoShard) {
    if (mlir::failed(chooseGrid(context, compile)))
      return mlir::failure();
    if (options.output.empty() && options.report.empty() && options.certificate.empty() &&
        !simulation)
      return mlir::success();
    compile.spec = spec;
  }
  if (options.onnx)
    compile.onAnnotated = [&](mlir::ModuleOp module) {
      return collectAnnotations(module, spec, devices);
    };
  Compilation compilation(context, std::move(compile));
  if (options.noVerify)
    note(options, "--no-verify: skips " + verifierNames() + "; the executable reports this");
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };

  mlir::LogicalResult result = [&]() -> mlir::LogicalResult {
    sources.add(options.input);
    for (const std::string &path : options.parts.encoders)
      sources.add(path);
    if (!options.parts.embedding.empty())
      sources.add(options.parts.embedding);
    if (mlir::failed(compilation.advance(Emit::Import, onStep)))
      return mlir::failure();
    for (const std::string &path : getWeightFiles(compilation.getModule()))
      sources.add(path);
    if (Error problem = checkLevel(compilation.getFirst()))
      return printError(std::move(problem));
    spec = compilation.getOptions().spec;
    if (!options.links.empty()) {
      llvm::Expected<mlir::DictionaryAttr> links = readLinksFile(&context, options.links, spec);
      if (!links)
        return printError(makeError("--links: " + llvm::toString(links.takeError())));
      compilation.getModule()->setAttr(mlir::tpc::kLinksAttr, *links);
    }
    if (options.generate != Generate::No &&
        mlir::tpc::PreallocatedStep::lookup(compilation.getModule()))
      return printError(makeError("--generate: '" + options.input +
                                  "' is a step of a generation already; leave it out"));
    auto functions = compilation.getModule().getOps<mlir::func::FuncOp>();
    if (options.generate != Generate::No && !llvm::hasSingleElement(functions))
      return printError(makeError(
          "--generate: '" + options.input +
          "' has layers as functions, but caches are derived before layers are outlined; name the "
          "ONNX file, or the output of --emit=import"));
    if (!options.quantize.empty()) {
      if (!llvm::hasSingleElement(functions))
        return printError(makeError("--quantize: '" + options.input +
                                    "' has layers as functions, but weights are quantized before "
                                    "layers are outlined; name the ONNX file"));
      if (writesWeights)
        if (Error problem = checkOutputPath(packedWeights, getWeightFiles(compilation.getModule())))
          return printError(std::move(problem));
    }
    // With --generate, the symbols to bind are those of the step.
    if (options.generate != Generate::No && options.emit >= Emit::Model &&
        mlir::failed(compilation.advance(Emit::Model, onStep)))
      return mlir::failure();
    if (Error problem = checkModel(compilation.getModule()))
      return printError(std::move(problem));
    // Levels before `staged` are written first, because the report advances the module; later
    // levels are written after it.
    bool writes = !options.output.empty(), early = options.emit < Emit::Staged || options.onnx;
    if (!options.memoryPlan.empty())
      return planMemory(compilation);
    if (simulation)
      return simulate(compilation);
    if (options.explain || !options.why.empty()) {
      // The output level may be before the model level.
      if (writes && options.emit < Emit::Model && mlir::failed(write(compilation)))
        return mlir::failure();
      writes &= options.emit >= Emit::Model;
      if (options.explain && mlir::failed(explain(compilation)))
        return mlir::failure();
      if (!options.why.empty() && mlir::failed(explainValue(compilation)))
        return mlir::failure();
    }
    if (writes && early && mlir::failed(write(compilation)))
      return mlir::failure();
    if (!options.certificate.empty() && (mlir::failed(compilation.advance(Emit::Staged, onStep)) ||
                                         mlir::failed(writeCertificate(compilation.getModule()))))
      return mlir::failure();
    // Later levels are written with the report.
    if (!options.report.empty())
      return writeReport(compilation);
    return writes && !early ? write(compilation) : mlir::success();
  }();
  progress.finish();
  if (mlir::succeeded(result) && compilation.getQuantization())
    noteQuantization(*compilation.getQuantization());
  if (mlir::failed(result) && !errors)
    fail(options, "'" + options.input +
                      "' cannot be compiled, and no pass reported an error: please report this");
  return result;
}
