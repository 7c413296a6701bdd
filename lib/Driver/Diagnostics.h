//===- Diagnostics.h - Messages for the person who runs tpcc ---------------===//

#ifndef TPC_LIB_DRIVER_DIAGNOSTICS_H
#define TPC_LIB_DRIVER_DIAGNOSTICS_H

#include "mlir/IR/Diagnostics.h"
#include "llvm/ADT/StringSet.h"

namespace tpc {

/// Where an op comes from, for people: "node '/h.0/attn/MatMul'", "file:line:column", or nothing.
std::string describeLocation(mlir::Location loc);

/// Prints errors and warnings as `tpcc: error: node '/h.0/attn/MatMul': …`, with their notes.
/// One message is printed once, however many ops have it. Remarks are for tpc-opt's users.
class DiagnosticPrinter : public mlir::ScopedDiagnosticHandler {
public:
  /// `onMessage` is called before each message.
  DiagnosticPrinter(mlir::MLIRContext *context, llvm::raw_ostream &os,
                    std::function<void(mlir::DiagnosticSeverity)> onMessage);

private:
  void print(mlir::Diagnostic &diagnostic, unsigned indent);

  llvm::raw_ostream &os;
  std::function<void(mlir::DiagnosticSeverity)> onMessage;
  llvm::StringSet<> printed;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_DIAGNOSTICS_H
