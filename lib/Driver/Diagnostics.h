//===- Diagnostics.h - Messages for the person who runs tpcc ---------------===//

#ifndef TPC_LIB_DRIVER_DIAGNOSTICS_H
#define TPC_LIB_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

namespace tpc {

/// Where an op comes from, for people: "node '/h.0/attn/MatMul'", "file:line:column", or nothing.
std::string describeLocation(mlir::Location loc);

/// How messages are written: for people, or each as one line of JSON with the keys `severity`,
/// `message` and `notes`, and, where they are known, `node`, `file`, `line` and `column`.
enum class DiagnosticFormat { Text, Json };

/// Prints a message that has no location, prefixed by the tool's name in text.
void printMessage(llvm::raw_ostream &os, DiagnosticFormat format, mlir::DiagnosticSeverity severity,
                  llvm::StringRef message);

/// Prints messages as `tpcc: error: node '/h.0/attn/MatMul': …`, with their notes. One message is
/// printed once, however many ops have it. Of remarks (what was not recognized, which weights are
/// missing) the first few are printed, and how many more there are.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  /// `onMessage` is called before each message.
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os,
                    std::function<void(mlir::DiagnosticSeverity)> onMessage,
                    DiagnosticFormat format = DiagnosticFormat::Text);
  ~DiagnosticPrinter();

private:
  void print(mlir::Diagnostic &diagnostic, unsigned indent);

  llvm::raw_ostream &os;
  std::function<void(mlir::DiagnosticSeverity)> onMessage;
  DiagnosticFormat format;
  llvm::StringSet<> printed;
  int remarks = 0;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_DIAGNOSTICS_H
