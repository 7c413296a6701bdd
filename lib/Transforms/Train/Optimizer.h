//===- Optimizer.h - Settings of an optimizer -------------------*- C++ -*-===//

#ifndef TPC_LIB_TRANSFORMS_TRAIN_OPTIMIZER_H
#define TPC_LIB_TRANSFORMS_TRAIN_OPTIMIZER_H

#include "mlir/Support/LLVM.h"
#include "llvm/Support/GlobPattern.h"

#include <string>

namespace mlir::tpc {

struct Optimizer {
  bool isAdam = false; // else SGD
  double momentum = 0; // of SGD
  double beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  double decay = 0, clip = 0;
  SmallVector<llvm::GlobPattern> noDecay;

  /// Parses "adamw:beta1=0.9,decay=0.1", and patterns separated by commas. On failure, `error`
  /// names the flag and states what is wrong.
  static FailureOr<Optimizer> parse(StringRef text, StringRef noDecay, std::string &error);

  /// Returns whether the decay applies to a weight with this name and number of dimensions.
  bool decays(StringRef weight, int64_t rank) const {
    return decay != 0 && rank >= 2 &&
           llvm::none_of(noDecay, [&](const llvm::GlobPattern &p) { return p.match(weight); });
  }
};

} // namespace mlir::tpc

#endif // TPC_LIB_TRANSFORMS_TRAIN_OPTIMIZER_H
