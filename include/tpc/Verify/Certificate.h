//===- Certificate.h - Certificate of deadlock freedom ----------*- C++ -*-===//
//
// The result of tpc-verify-comms as JSON, which a small program without a compiler can check again
// (tools/tpc-check-certificate, which documents the format).
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
  /// Creates the certificate of a staged program. Fails, with errors at the offending ops, if there
  /// is none.
  static FailureOr<Certificate> make(ModuleOp module);
  const llvm::json::Value &getJSON() const { return json; }
  void print(raw_ostream &os) const;

private:
  explicit Certificate(llvm::json::Value json) : json(std::move(json)) {}
  llvm::json::Value json;
};

} // namespace mlir::tpc

#endif // TPC_VERIFY_CERTIFICATE_H
