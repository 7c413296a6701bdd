//===- Certificate.h - Why a program cannot deadlock ------------*- C++ -*-===//
//
// What tpc-verify-comms finds, as JSON that a small program without a compiler can check again
// (tools/tpc-check-certificate, which also says what is in it).
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
  /// Of a staged program. Fails, with errors at the ops that are to blame, if there is none.
  static FailureOr<Certificate> make(ModuleOp module);
  const llvm::json::Value &getJSON() const { return json; }
  void print(raw_ostream &os) const;

private:
  explicit Certificate(llvm::json::Value json) : json(std::move(json)) {}
  llvm::json::Value json;
};

} // namespace mlir::tpc

#endif // TPC_VERIFY_CERTIFICATE_H
