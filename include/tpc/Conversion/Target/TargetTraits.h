//===- TargetTraits.h - Table of target properties --------------*- C++ -*-===//
//
// The selection of ops for kernels and of epilogues for matmuls is the same for all targets. The
// differences between targets are in one table for each, registered by name.
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
  /// In the form that checkArchitectures accepts; empty: the target's default.
  std::string architectures;
  unsigned optLevel = 3;
  /// Whether f32 matmuls are computed in TF32.
  bool tf32 = false;
  /// Called at the beginning of each step.
  llvm::function_ref<void(StringRef what)> onStep;
};

/// Kernels for a device that is not the host.
struct KernelCode {
  std::string text;
  /// The kernels' section of --report.
  llvm::json::Object report;
  /// Note to the user about omitted code; empty: none.
  std::string note;
  /// Embeds the code in its program, at the level of buffers, in place of the kernels.
  std::function<LogicalResult(ModuleOp program)> embed;
};

struct TargetTraits {
  StringRef name;

  //===--- libraries --------------------------------------------------------===//

  /// Whether a library computes matmuls and attention of these elements; kernels compute others.
  bool (*computesMatmuls)(Type element);
  /// Epilogue of a matmul with a packed parameter, in this order: bias, activation, residual.
  bool addsBias, addsResidual;
  bool (*isActivation)(Operation *op);
  /// Whether f32 matmuls can be computed in TF32: faster, with operands of 10-bit fractions.
  bool hasTf32 = false;

  //===--- kernels ----------------------------------------------------------===//

  /// Cost of computing an element by a cheap op and by any other. A value with several uses in a
  /// kernel is stored from a cost of `storedFrom` on.
  unsigned cheapCost, expensiveCost, storedFrom;
  /// Limits for kernel size. Elements are built by recursion over a kernel's ops, and each result
  /// rebuilds what it needs.
  unsigned maxKernelOps, maxGeneratedDepth;
  /// Minimum number of elements for which waking another thread pays.
  int64_t elementsPerTask;

  //===--- code -------------------------------------------------------------===//

  /// For kernels outside of the host's object: the name of their text (--emit=ptx), the supported
  /// architectures, and the code generator.
  StringRef kernelText = {};
  llvm::Error (*checkArchitectures)(StringRef names) = nullptr;
  llvm::Expected<KernelCode> (*emitKernels)(ModuleOp program,
                                            const KernelCodeOptions &options) = nullptr;

  /// Returns the target of the program that contains `op` (`tpc.target`), else the target that was
  /// registered first.
  static const TargetTraits &get(Operation *op);
  /// Emits an error if a program names an unknown target.
  static LogicalResult verify(Operation *program);
  static SmallVector<const TargetTraits *> getAll();
  /// Returns null if there is no target of this name.
  static const TargetTraits *lookup(StringRef name);
};

/// Registers a target, the default one first. Tables must live as long as the process.
void registerTarget(const TargetTraits &target);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_TARGET_TARGETTRAITS_H
