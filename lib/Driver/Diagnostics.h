//===- Diagnostics.h - Messages for users of tpcc ---------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_DIAGNOSTICS_H
#define TPC_LIB_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"
#include "llvm/Support/JSON.h"

namespace tpc {

/// Returns the origin of an op for users: "node '/h.0/attn/MatMul'", "file:line:column", or "".
std::string describeLocation(mlir::Location loc);

/// Format of messages: text, or one line of JSON each with the keys `severity`, `message` and
/// `notes`, and, if known, `node`, `file`, `line` and `column`.
enum class DiagnosticFormat { Text, Json };

/// Prints a message without a location; text is prefixed by the tool's name.
void printMessage(llvm::raw_ostream &os, DiagnosticFormat format, mlir::DiagnosticSeverity severity,
                  llvm::StringRef message);

/// Prints diagnostics as `tpcc: error: node '/h.0/attn/MatMul': …`, with their notes. Equal
/// messages are printed once. Only the first few remarks (unrecognized patterns, missing weights)
/// are printed, with the number of omitted remarks.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  /// Calls `onMessage` before each message.
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
