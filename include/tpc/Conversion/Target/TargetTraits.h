//===- TargetTraits.h - What differs from target to target ------*- C++ -*-===//
//
// Which ops form kernels, and what products compute as well, is found out in one way for all
// targets. What they differ in is a table for each, registered by name.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_TARGET_TARGETTRAITS_H
#define TPC_CONVERSION_TARGET_TARGETTRAITS_H

#include "tpc/Dialect/Dist.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <functional>

namespace mlir::tpc {

struct KernelCodeOptions {
  /// As checkArchitectures takes them; empty: the target's own choice.
  std::string architectures;
  unsigned optLevel = 3;
  /// Products of f32 are computed in TF32.
  bool tf32 = false;
  /// Hears what begins.
  llvm::function_ref<void(StringRef what)> onStep;
};

/// Kernels for a device that is not the host.
struct KernelCode {
  std::string text;
  /// What --report says of them.
  llvm::json::Object report;
  /// What was left out, for the person who compiles; empty: nothing.
  std::string note;
  /// Puts it into the program that it was made of, at the level of buffers, in place of the
  /// kernels.
  std::function<LogicalResult(ModuleOp program)> embed;
};

struct TargetTraits {
  StringRef name;

  //===--- libraries --------------------------------------------------------===//

  /// Whether a library computes products and attention of these elements; kernels compute others.
  bool (*computesProducts)(Type element);
  /// What a product with a packed parameter computes as well, in this order: the bias, this op, a
  /// residual that is added.
  bool addsBias, addsResidual;
  bool (*isActivation)(Operation *op);
  /// Whether its products of f32 can be computed in TF32: faster, of operands of 10 bits'
  /// fractions.
  bool hasTf32 = false;

  //===--- kernels ----------------------------------------------------------===//

  /// Of computing an element: by an op that is cheap, by any other. A value that several ops of a
  /// kernel read is stored from `storedFrom` on.
  unsigned cheapPrice, dearPrice, storedFrom;
  /// Elements are built by recursion over a kernel's ops, and each result builds what it needs
  /// again: kernels stay of a size for which both are cheap.
  unsigned maxKernelOps, maxGeneratedDepth;
  /// Elements for which a further thread is worth waking.
  int64_t elementsPerTask;

  //===--- code -------------------------------------------------------------===//

  /// Where kernels are no part of the host's object: what their text is called (--emit=ptx), which
  /// architectures there are, and how they are compiled.
  StringRef kernelText = {};
  llvm::Error (*checkArchitectures)(StringRef names) = nullptr;
  llvm::Expected<KernelCode> (*emitKernels)(ModuleOp program,
                                            const KernelCodeOptions &options) = nullptr;

  /// The target of the program that `op` is in (`tpc.target`), else the one that was registered
  /// first.
  static const TargetTraits &get(Operation *op);
  /// Says so where a program names a target that is none.
  static LogicalResult verify(Operation *program);
  static SmallVector<const TargetTraits *> getAll();
  /// Null if there is none of this name.
  static const TargetTraits *lookup(StringRef name);
};

/// Targets are registered once, the default one first; tables live as long as the process.
void registerTarget(const TargetTraits &target);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_TARGET_TARGETTRAITS_H
