//===- TargetTraits.h - What differs from target to target ------*- C++ -*-===//
//
// Which ops form kernels, and what products compute as well, is found out in one way for all
// targets. What they differ in is a table for each, registered by name.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_TARGET_TARGETTRAITS_H
#define TPC_CONVERSION_TARGET_TARGETTRAITS_H

#include "tpc/Dialect/Dist.h"

namespace mlir::tpc {

struct TargetTraits {
  StringRef name;

  //===--- libraries --------------------------------------------------------===//

  /// Whether a library computes products and attention of these elements; kernels compute others.
  bool (*computesProducts)(Type element);
  /// What a product with a packed parameter computes as well, in this order: the bias, this op, a
  /// residual that is added.
  bool addsBias, addsResidual;
  bool (*isActivation)(Operation *op);

  //===--- kernels ----------------------------------------------------------===//

  /// Of computing an element: by an op that is cheap, by any other. A value that several ops of a
  /// kernel read is stored from `storedFrom` on.
  unsigned cheapPrice, dearPrice, storedFrom;
  /// Elements are built by recursion over a kernel's ops, and each result builds what it needs
  /// again: kernels stay of a size for which both are cheap.
  unsigned maxKernelOps, maxGeneratedDepth;
  /// Elements for which a further thread is worth waking.
  int64_t elementsPerTask;

  /// The target of the program that `op` is in: the one that was registered first, as long as
  /// programs do not name theirs.
  static const TargetTraits &get(Operation *op);
  /// Null if there is none of this name.
  static const TargetTraits *lookup(StringRef name);
};

/// Targets are registered once, the default one first; tables live as long as the process.
void registerTarget(const TargetTraits &target);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_TARGET_TARGETTRAITS_H
