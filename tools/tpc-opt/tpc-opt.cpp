//===- tpc-opt.cpp - Pass driver --------------------------------------------===//

#include "mlir/Tools/mlir-opt/MlirOptMain.h"
#include "tpc/Driver/Coverage.h"
#include "tpc/Driver/Register.h"
#include "tpc/Driver/ToolOutput.h"

#ifndef NDEBUG
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Debug.h"

namespace {

/// Defines --debug-only for the debug output of tpc's passes (in builds with assertions), because
/// Debian's LLVM is built without that option.
struct DebugOnly {
  void operator=(const std::string &types) {
    llvm::SmallVector<llvm::StringRef> names;
    llvm::StringRef(types).split(names, ',');
    std::vector<std::string> strings(names.begin(), names.end());
    llvm::SmallVector<const char *> pointers;
    for (const std::string &name : strings)
      pointers.push_back(name.c_str());
    llvm::DebugFlag = true;
    llvm::setCurrentDebugTypes(pointers.data(), pointers.size());
  }
};

} // namespace

static DebugOnly debugOnly;
static llvm::cl::opt<DebugOnly, true, llvm::cl::parser<std::string>>
    debugOnlyOption("debug-only", llvm::cl::desc("Debug output of these passes (comma-separated)"),
                    llvm::cl::location(debugOnly), llvm::cl::ValueRequired);
#endif

int main(int argc, char **argv) {
  if (!tpc::checkToolFiles("tpc-opt", argc, argv))
    return 1;
  // For docs/reference (tools/reference.py).
  if (argc == 2 && llvm::StringRef(argv[1]) == "--print-coverage")
    return tpc::finishToolOutput("tpc-opt", tpc::printCoverage(llvm::outs()) ? 0 : 1);
  if (argc == 2 && llvm::StringRef(argv[1]) == "--print-facts") {
    tpc::printFacts(llvm::outs());
    return tpc::finishToolOutput("tpc-opt", 0);
  }
  if (argc == 2 && llvm::StringRef(argv[1]) == "--print-onnx-ops") {
    tpc::printOnnxOps(llvm::outs());
    return tpc::finishToolOutput("tpc-opt", 0);
  }
  tpc::registerAllPasses();
  mlir::DialectRegistry registry;
  tpc::registerAllDialects(registry);
  mlir::LogicalResult result = mlir::MlirOptMain(argc, argv, "tpc's pass driver\n", registry);
  return tpc::finishToolOutput("tpc-opt", mlir::asMainReturnCode(result));
}
