//===- Certificate.h - Certificate of deadlock freedom ----------*- C++ -*-===//
//
// The result of tpc-verify-comms as JSON. tools/tpc-check-certificate, a small program independent
// of the compiler, checks it and documents the format.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_VERIFY_CERTIFICATE_H
#define TPC_VERIFY_CERTIFICATE_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/Support/LLVM.h"
#include "llvm/Support/JSON.h"

namespace mlir::tpc {

class Certificate {
public:
  /// Creates the certificate of a staged program. Emits errors at the offending ops if the program
  /// may deadlock.
  static FailureOr<Certificate> make(ModuleOp module);
  const llvm::json::Value &getJSON() const { return json; }
  void print(raw_ostream &os) const;

private:
  explicit Certificate(llvm::json::Value json) : json(std::move(json)) {}
  llvm::json::Value json;
};

} // namespace mlir::tpc

#endif // TPC_VERIFY_CERTIFICATE_H
