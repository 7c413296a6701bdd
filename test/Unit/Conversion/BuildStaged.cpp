//===- BuildStaged.cpp - Executables from staged programs -----------------===//
//
//   tpc-build-staged program.mlir -o program [--emit=llvm|obj|exe] [--march=…] [--time]
//
// A program that is on buffers already is only lowered.
//
//===----------------------------------------------------------------------===//

#include "tpc/Buffer/Buffer.h"
#include "tpc/Conversion/Lower.h"
#include "tpc/Dialect/Tpc.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Driver/Register.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/InitLLVM.h"
#include "llvm/Support/Path.h"

#include <chrono>

using namespace llvm;

static cl::opt<std::string> input(cl::Positional, cl::Required, cl::desc("program.mlir"));
static cl::opt<std::string> output("o", cl::Required, cl::desc("result"));
static cl::opt<std::string> what("emit", cl::init("exe"), cl::desc("llvm, obj or exe"));
static cl::opt<std::string> march("march", cl::init("native"), cl::desc("processor"));
static cl::opt<bool> times("time", cl::desc("print how long each step took"));

static int fail(Error error) {
  errs() << "error: " << toString(std::move(error)) << "\n";
  return 1;
}

int main(int argc, char **argv) {
  InitLLVM init(argc, argv);
  cl::ParseCommandLineOptions(argc, argv);
  auto before = std::chrono::steady_clock::now();
  auto step = [&](const char *name) {
    auto now = std::chrono::steady_clock::now();
    if (times)
      errs() << name << " " << std::chrono::duration<double>(now - before).count() << " s\n";
    before = now;
  };

  mlir::DialectRegistry registry;
  ::tpc::registerAllDialects(registry);
  mlir::MLIRContext context(registry);
  mlir::OwningOpRef<mlir::ModuleOp> module = mlir::parseSourceFile<mlir::ModuleOp>(input, &context);
  if (!module)
    return 1;
  step("parse");
  mlir::tpc::LoweringOptions options;
  options.name = sys::path::stem(input).str();
  options.march = march;
  mlir::PassManager pm(&context);
  if (module->getOps<mlir::tpc::buffer::FuncOp>().empty()) {
    ::tpc::buildKernelsPassPipeline(pm);
    ::tpc::buildBuffersPassPipeline(pm);
  }
  ::tpc::buildLoweringPassPipeline(pm, options);
  if (times)
    pm.enableTiming();
  if (mlir::failed(pm.run(*module)))
    return 1;
  step("lower");

  SmallVector<char> bytes;
  if (what == "llvm") {
    auto text = mlir::tpc::emitLLVM(*module, options);
    if (!text)
      return fail(text.takeError());
    bytes.assign(text->begin(), text->end());
  } else {
    auto object = mlir::tpc::emitObject(*module, options);
    if (!object)
      return fail(object.takeError());
    bytes = std::move(*object);
  }
  step("LLVM");
  if (what == "exe") {
    mlir::tpc::LinkOptions link;
    SmallString<128> lib(sys::fs::getMainExecutable(argv[0], (void *)&fail));
    sys::path::remove_filename(lib);
    sys::path::append(lib, "..", "..", "lib");
    link.runtimeDir = lib.str().str();
    if (Error error = mlir::tpc::link(bytes, output, mlir::tpc::Linked::Executable, link))
      return fail(std::move(error));
    step("link");
    return 0;
  }
  std::error_code code;
  raw_fd_ostream os(output, code);
  if (code)
    return fail(errorCodeToError(code));
  os.write(bytes.data(), bytes.size());
  return 0;
}
