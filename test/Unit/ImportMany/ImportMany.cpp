//===- ImportMany.cpp - Import of many ONNX files in one process ----------===//
//
//   tpc-import-many
//
// Reads the path of a file from each line of stdin. For each file, writes to stdout a line
// `imported BYTES` or `refused BYTES`, followed by that number of bytes. These are the output of
// `tpc-translate --import-onnx --mlir-print-op-generic`, or the diagnostics. One process imports
// all files, because starting a tool takes ten times as long as importing a small file.
//
//===----------------------------------------------------------------------===//

#include "tpc/Import/ONNX/Import.h"

#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/InitLLVM.h"

#include <iostream>
#include <string>

using namespace mlir;

/// Returns the program of one file, or the diagnostics.
static std::pair<bool, std::string> importFile(llvm::StringRef path) {
  MLIRContext context(MLIRContext::Threading::DISABLED);
  std::string text;
  llvm::raw_string_ostream out(text);
  ScopedDiagnosticHandler handler(&context, [&](Diagnostic &diagnostic) {
    if (diagnostic.getSeverity() == DiagnosticSeverity::Error)
      out << diagnostic.getLocation() << ": error: " << diagnostic << "\n";
  });
  OwningOpRef<ModuleOp> module = ::tpc::importOnnxModel(path, &context);
  if (module)
    module->print(out, OpPrintingFlags().enableDebugInfo(true, false).printGenericOpForm());
  return {bool(module), text};
}

int main(int argc, char **argv) {
  llvm::InitLLVM init(argc, argv);
  for (std::string path; std::getline(std::cin, path);) {
    auto [imported, text] = importFile(path);
    llvm::outs() << (imported ? "imported " : "refused ") << text.size() << "\n" << text;
    llvm::outs().flush();
  }
}
