//===- Tpcc.cpp - The compiler driver --------------------------------------===//

#include "tpc/Driver/Tpcc.h"
#include "Diagnostics.h"
#include "OnnxSharded.h"
#include "OutputFile.h"
#include "PrintGroups.h"
#include "PrintProgram.h"
#include "Progress.h"
#include "ReadProgram.h"
#include "SourceFiles.h"
#include "TargetFlags.h"
#include "TpccOptions.h"

#include "CheckShape.h"
#include "CountCalls.h"
#include "Explain.h"
#include "LinksFile.h"
#include "MemoryPlan.h"
#include "tpc/Analysis/Report.h"
#include "tpc/Dialect/State.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Driver/Register.h"
#include "tpc/Driver/ShapeSpec.h"
#include "tpc/Support/ReadFile.h"
#include "tpc/Verify/Certificate.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/PrettyStackTrace.h"

#include <csignal>
#include <set>
#include <sys/prctl.h>
#include <unistd.h>

using namespace tpc;
using llvm::Error;

using Severity = mlir::DiagnosticSeverity;

static int fail(const TpccOptions &options, llvm::StringRef message) {
  printMessage(llvm::errs(), options.diagnostics, Severity::Error, message);
  return 1;
}

static void note(const TpccOptions &options, const llvm::Twine &message) {
  printMessage(llvm::errs(), options.diagnostics, Severity::Note, message.str());
}

namespace {

/// One call of tpcc that compiles something.
class Session {
public:
  Session(TpccOptions &options, ShardSpec spec) : options(options), spec(std::move(spec)) {}

  /// What can be found out before any work. Sets `shape`.
  Error check();
  mlir::LogicalResult run();

private:
  /// Once the model is known: are all its sizes bound that --report needs, and would an output
  /// overwrite one of its files?
  Error checkModel(mlir::ModuleOp module);
  Error checkLevel(Emit first);
  mlir::LogicalResult writeReport(Compilation &compilation);
  /// Where the target has kernels of its own, and they are asked for.
  mlir::LogicalResult makeKernels(Compilation &compilation);
  mlir::LogicalResult writeCertificate(mlir::ModuleOp module);
  mlir::LogicalResult explain(Compilation &compilation);
  mlir::LogicalResult planMemory(Compilation &compilation);
  mlir::LogicalResult writeOnnx(Compilation &compilation);
  mlir::LogicalResult write(Compilation &compilation);
  /// Prints an error that is none of the program's.
  mlir::LogicalResult complain(Error error);

  TpccOptions &options;
  ShardSpec spec;
  ShapeBinding shape;
  Progress progress{options.timing};
  int64_t memory = 0;  // of --memory-plan
  OnnxDevices devices; // for --emit=onnx-sharded
  SourceFiles sources;
  const mlir::tpc::KernelCode *kernels = nullptr;
  bool kernelsOnly = false; ///< what --report has: no sizes are given, and kernels need none
  unsigned errors = 0;      // that have been printed
};

} // namespace

static Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(std::make_error_code(std::errc::invalid_argument), message);
}

/// Does something of this level go to a terminal as well as to a file?
static bool isText(Emit emit) { return emit < Emit::Obj; }

Error Session::check() {
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
  // They are read more than once.
  if (!llvm::sys::fs::is_regular_file(options.input))
    return makeError("cannot read '" + options.input + "': it is a device or a pipe; name a file");
  for (const std::string &path : {options.input, options.reference})
    if (std::string why = describeUnreadable(path, kMaxProgramBytes);
        !why.empty() && isProgramText(path))
      return makeError("cannot read '" + path + "': " + why);
  if (options.onnx && isProgramText(options.input))
    return makeError("--emit=onnx-sharded writes the model's own file, and '" + options.input +
                     "' is a program");
  if (!options.weights.empty() && isProgramText(options.input))
    return makeError("--weights: '" + options.input +
                     "' is a program, and says where its weights are; the executable has the "
                     "same flag");
  if (!options.reference.empty()) {
    if (options.noVerify)
      return makeError("--reference: nothing is compared with it; leave out --no-verify");
    if (std::error_code missing =
            llvm::sys::fs::access(options.reference, llvm::sys::fs::AccessMode::Exist))
      return makeError("--reference: cannot read '" + options.reference +
                       "': " + missing.message());
    if (!llvm::sys::fs::is_regular_file(options.reference))
      return makeError("--reference: cannot read '" + options.reference + "': it is no file");
  }

  if (options.generate != Generate::No && options.onnx)
    return makeError("--generate: a program that generates is no ONNX file; leave out "
                     "--emit=onnx-sharded");
  if (options.generate != Generate::No && !options.reference.empty())
    return makeError("--reference: with --generate the program is proved against the model that "
                     "is compiled; leave it out");

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
  if (Error problem = checkTarget(options))
    return problem;

  bool reportOnly = (!options.report.empty() || !options.certificate.empty() || options.explain ||
                     !options.memoryPlan.empty()) &&
                    options.output.empty() && !options.emitGiven;
  if (options.output.empty() && !reportOnly) {
    if (!isText(options.emit) || options.onnx)
      return makeError("where to? name the " +
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
  if (options.output == "-" && (!isText(options.emit) || options.onnx))
    return makeError("-o -: binary output does not go to standard output; name a file");
  if (options.name.empty())
    options.name = llvm::sys::path::stem(isText(options.emit) ? options.input : options.output);
  for (const std::string &path : {options.output, options.report, options.certificate})
    if (!path.empty())
      if (Error problem = checkOutputPath(path, {options.input, options.reference},
                                          path == options.output && options.emit >= Emit::Lib))
        return problem;
  auto same = [&](const std::string &a, const std::string &b) {
    return !a.empty() && !b.empty() && samePlace(a, b);
  };
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

mlir::LogicalResult Session::planMemory(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  progress.step("planning memory");
  mlir::FailureOr<MemoryPlan> plan =
      ::tpc::planMemory(compilation.getModule(), options.megatronShard, memory, shape);
  if (mlir::failed(plan))
    return mlir::failure();
  progress.clearLine();
  Error error = writeOutput("-", [&](llvm::raw_pwrite_stream &os) {
    if (options.json)
      os << llvm::formatv("{0:2}", plan->toJSON()) << "\n";
    else
      plan->print(os);
    return Error::success();
  });
  if (error)
    return complain(std::move(error));
  return plan->fits ? mlir::success()
                    : complain(makeError("no split fits into " + options.memoryPlan));
}

mlir::LogicalResult Session::complain(Error error) {
  progress.clearLine();
  ++errors;
  fail(options, llvm::toString(std::move(error)));
  return mlir::failure();
}

/// The files that the weights are in, as paths.
static std::vector<std::string> getWeightFiles(mlir::ModuleOp module) {
  auto source = module->getAttrOfType<mlir::StringAttr>(mlir::tpc::kSourceAttr);
  llvm::StringSet<> seen;
  std::vector<std::string> files;
  for (auto weight : module.getOps<mlir::tpc::WeightOp>()) {
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

/// What can no longer be asked of a program that is at `first`.
Error Session::checkLevel(Emit first) {
  auto refuse = [&](llvm::StringRef flag, llvm::StringRef why) {
    return makeError(flag + ": '" + options.input + "' is at level " + emitName(first) +
                     " already" + why);
  };
  if (options.emitGiven && options.emit < first)
    return refuse(("--emit=" + emitName(options.emit)).str(), "");
  if (options.generate != Generate::No && first != Emit::Import)
    return refuse("--generate", ", and caches are found before");
  if (first <= Emit::Model)
    return Error::success();
  if (!options.annotations.empty())
    return refuse("--annotations", ", and what they say is decided before");
  if (!options.deviceConfiguration.empty())
    return refuse("--device-configuration", ", and what it says is decided before");
  if (!options.memoryPlan.empty())
    return refuse("--memory-plan", ", and is split before");
  if (options.explain)
    return refuse("--explain", ", and the tactics have run before");
  return Error::success();
}

Error Session::checkModel(mlir::ModuleOp module) {
  if (Error problem = checkTarget(options, mlir::tpc::TargetTraits::get(module)))
    return problem;
  for (const std::string &path : {options.output, options.report, options.certificate})
    if (!path.empty())
      if (Error problem = checkOutputPath(path, getWeightFiles(module)))
        return problem;

  bindRoom(module, shape);
  // What kernels need of a GPU does not depend on sizes.
  kernelsOnly = !options.report.empty() && shape.empty() &&
                mlir::tpc::TargetTraits::get(module).emitKernels && hasUnboundSizes(module, shape);
  return checkShape(module, shape,
                    !options.memoryPlan.empty()               ? "--memory-plan"
                    : !options.report.empty() && !kernelsOnly ? "--report"
                                                              : "");
}

mlir::LogicalResult Session::makeKernels(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (!mlir::tpc::TargetTraits::get(compilation.getModule()).emitKernels || kernels)
    return mlir::success();
  if (mlir::failed(compilation.advance(Emit::Buffers, onStep)))
    return mlir::failure();
  llvm::Expected<const mlir::tpc::KernelCode *> made = compilation.makeKernels(onStep);
  if (!made)
    return complain(made.takeError());
  kernels = *made;
  progress.clearLine();
  if (!kernels->note.empty())
    note(options, kernels->note);
  return mlir::success();
}

mlir::LogicalResult Session::writeReport(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Staged, onStep)))
    return mlir::failure();
  progress.step("reporting");
  mlir::FailureOr<mlir::tpc::Report> report = mlir::tpc::Report();
  if (kernelsOnly)
    note(options,
         "--report: without --shape it has kernels only, and neither communication nor memory");
  else
    report = mlir::tpc::computeReport(compilation.getModule(), shape);
  if (mlir::failed(report))
    return mlir::failure();
  report->functions = countCalls(compilation.getModule());
  llvm::json::Value json = report->toJSON();
  if (kernelsOnly)
    json = llvm::json::Object{{"functions", *json.getAsObject()->get("functions")}};
  // The program goes on to kernels: what is to be written of it comes first.
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
    return complain(std::move(error));
  return written && options.emit > Emit::Buffers ? write(compilation) : mlir::success();
}

mlir::LogicalResult Session::writeCertificate(mlir::ModuleOp module) {
  progress.step("writing the certificate");
  mlir::FailureOr<mlir::tpc::Certificate> certificate = mlir::tpc::Certificate::make(module);
  if (mlir::failed(certificate))
    return mlir::failure();
  Error error = writeOutput(options.certificate, [&](llvm::raw_pwrite_stream &os) {
    certificate->print(os);
    return Error::success();
  });
  return error ? complain(std::move(error)) : mlir::success();
}

/// Before anything is split: the tactics run on copies.
mlir::LogicalResult Session::explain(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (mlir::failed(compilation.advance(Emit::Model, onStep)))
    return mlir::failure();
  progress.step("explaining");
  mlir::FailureOr<mlir::tpc::Explanation> explanation =
      mlir::tpc::explainTactics(compilation.getModule(), spec, shape);
  if (mlir::failed(explanation))
    return mlir::failure();
  progress.clearLine();
  Error error = writeOutput("-", [&](llvm::raw_pwrite_stream &os) {
    if (options.json)
      os << llvm::formatv("{0:2}", explanation->toJSON()) << "\n";
    else
      explanation->print(os);
    return Error::success();
  });
  return error ? complain(std::move(error)) : mlir::success();
}

/// The model's file with what the tactics have decided.
mlir::LogicalResult Session::writeOnnx(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  devices.name = "tpc";
  if (mlir::failed(compilation.advance(Emit::Model, onStep)) ||
      mlir::failed(collectShardings(compilation.getModule(), spec, devices)) ||
      mlir::failed(compilation.advance(Emit::Staged, onStep)))
    return mlir::failure();
  collectStages(compilation.getModule(), devices);
  if (Error changed = sources.check())
    return complain(std::move(changed));
  Error error = writeOutput(options.output, [&](llvm::raw_pwrite_stream &os) {
    return writeShardedOnnx(options.input, options.output, devices, os);
  });
  return error ? complain(std::move(error)) : mlir::success();
}

mlir::LogicalResult Session::write(Compilation &compilation) {
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };
  if (options.onnx)
    return writeOnnx(compilation);
  bool needsKernels = options.kernelText || options.emit >= Emit::Llvm;
  if (mlir::failed(compilation.advance(std::min(options.emit, Emit::Buffers), onStep)) ||
      (needsKernels && mlir::failed(makeKernels(compilation))) ||
      mlir::failed(compilation.advance(std::min(options.emit, Emit::Llvm), onStep)))
    return mlir::failure();
  if (Error changed = sources.check())
    return complain(std::move(changed));
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
  return error ? complain(std::move(error)) : mlir::success();
}

mlir::LogicalResult Session::run() {
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
                         options.shardGiven,
                         options.reference,
                         options.annotations,
                         options.deviceConfiguration,
                         options.target,
                         options.architectures,
                         options.precision == "tf32",
                         options.residual == "f32",
                         options.generate};
  if (options.onnx)
    compile.onAnnotated = [&](mlir::ModuleOp module) {
      return collectAnnotations(module, spec, devices);
    };
  Compilation compilation(context, std::move(compile));
  if (options.noVerify)
    note(options, "--no-verify: skips " + verifierNames() + "; the executable will say so");
  auto onStep = [&](llvm::StringRef what) { progress.step(what); };

  mlir::LogicalResult result = [&]() -> mlir::LogicalResult {
    sources.add(options.input);
    if (mlir::failed(compilation.advance(Emit::Import, onStep)))
      return mlir::failure();
    for (const std::string &path : getWeightFiles(compilation.getModule()))
      sources.add(path);
    if (Error problem = checkLevel(compilation.getFirst()))
      return complain(std::move(problem));
    spec = compilation.getOptions().spec;
    if (!options.links.empty()) {
      llvm::Expected<mlir::DictionaryAttr> links = readLinksFile(&context, options.links, spec);
      if (!links)
        return complain(makeError("--links: " + llvm::toString(links.takeError())));
      compilation.getModule()->setAttr(mlir::tpc::kLinksAttr, *links);
    }
    if (options.generate != Generate::No && mlir::tpc::PlacedStep::lookup(compilation.getModule()))
      return complain(makeError("--generate: '" + options.input +
                                "' is a step of a generation already; leave it out"));
    auto functions = compilation.getModule().getOps<mlir::func::FuncOp>();
    if (options.generate != Generate::No && !llvm::hasSingleElement(functions))
      return complain(makeError("--generate: '" + options.input +
                                "' has layers as functions, and caches are found before; name the "
                                "ONNX file, or what --emit=import writes"));
    // Its sizes are those of a step, which has others than the file.
    if (options.generate != Generate::No && options.emit >= Emit::Model &&
        mlir::failed(compilation.advance(Emit::Model, onStep)))
      return mlir::failure();
    if (Error problem = checkModel(compilation.getModule()))
      return complain(std::move(problem));
    // Earlier levels are written before the program goes further for the report, later ones after
    // it.
    bool writes = !options.output.empty(), early = options.emit < Emit::Staged || options.onnx;
    if (!options.memoryPlan.empty())
      return planMemory(compilation);
    if (options.explain) {
      // What is written may be from before the model level.
      if (writes && options.emit < Emit::Model && mlir::failed(write(compilation)))
        return mlir::failure();
      writes &= options.emit >= Emit::Model;
      if (mlir::failed(explain(compilation)))
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
  if (mlir::failed(result) && !errors)
    fail(options, "'" + options.input +
                      "' cannot be compiled, and no pass has said why: please report this");
  return result;
}

int tpc::tpccMain(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  // A file that grows too large is an error of write() then, and no crash.
  std::signal(SIGXFSZ, SIG_IGN);
  llvm::setBugReportMsg("tpcc has crashed. This is a mistake of tpcc's: please report it, with the "
                        "model's structure and the command line.\n");
  registerTargets();
  TpccOptions options;
  if (!options.parse(argc, argv))
    return 1;
  if (options.parent) {
    // LLVM's handler removes temporary files.
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != options.parent)
      return fail(options, "--end-with=" + std::to_string(options.parent) +
                               ": this process is not the parent, or has ended");
  }

  bool groups = !options.printGroups.empty();
  std::string error;
  std::optional<ShardSpec> spec = ShardSpec::parse(
      options.megatronShard, error, groups ? ShardSpec::For::Groups : ShardSpec::For::Partition);
  if (!spec)
    return fail(options, "--megatron-shard: " + error);
  for (const std::string &note : spec->notes)
    ::note(options, "--megatron-shard: " + note);

  if (groups) {
    Error problem = writeOutput("-", [&](llvm::raw_pwrite_stream &os) -> Error {
      if (printGroups(*spec, options.printGroups, options.json, os, error))
        return Error::success();
      return makeError("--print-groups: " + error);
    });
    if (problem)
      return fail(options, llvm::toString(std::move(problem)));
    if (options.input.empty() || !options.asksForProgram())
      return 0;
  }

  Session session(options, *spec);
  if (Error problem = session.check())
    return fail(options, llvm::toString(std::move(problem)));
  return mlir::failed(session.run());
}
