//===- MakeError.h - Errors with a message ----------------------*- C++ -*-===//

#ifndef TPC_DIALECT_MAKEERROR_H
#define TPC_DIALECT_MAKEERROR_H

#include "llvm/Support/Error.h"

namespace mlir::tpc {

/// Returns an error that prints as `message`.
inline llvm::Error makeError(const llvm::Twine &message) {
  return llvm::createStringError(llvm::inconvertibleErrorCode(), message);
}

} // namespace mlir::tpc

#endif // TPC_DIALECT_MAKEERROR_H
