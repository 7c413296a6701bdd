//===- TargetTraits.h - Table of target properties --------------*- C++ -*-===//
//
// The algorithms that select ops for kernels and epilogues for matmuls are the same for all
// targets. A TargetTraits table, registered by name, describes the differences between targets.
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
  /// Comma-separated names, see checkArchitectures; empty: the target's default.
  std::string architectures;
  unsigned optLevel = 3;
  /// Whether f32 matmuls are computed in TF32.
  bool tf32 = false;
  /// Called with a description at the beginning of each step of the code generation.
  llvm::function_ref<void(StringRef what)> onStep;
};

/// Code of kernels for a device other than the host.
struct KernelCode {
  std::string text;
  /// The kernels' section of --report.
  llvm::json::Object report;
  /// Note to the user about omitted code, or empty.
  std::string note;
  /// Replaces the kernels of a program at the buffers level by the code.
  std::function<LogicalResult(ModuleOp program)> embed;
};

struct TargetTraits {
  StringRef name;

  //===--- libraries --------------------------------------------------------===//

  /// Whether the target's libraries support matmuls and attention of this element type. Otherwise
  /// they are computed by kernels.
  bool (*computesMatmuls)(Type element);
  /// Whether tpc_experts is supported.
  bool computesExperts = false;
  /// Seconds that tpc_dispatch or tpc_combine takes apart from its messages. If not 0, the host
  /// waits for their sizes, and the step is not recorded.
  double dispatchSeconds = 0;
  /// Whether tpc.attention_grad is supported. Other targets compute gradients of attention by
  /// matmuls.
  bool computesAttentionGradients = false;
  /// Supported epilogue of a matmul with a packed parameter, in this order: bias, activation,
  /// residual.
  bool addsBias, addsResidual;
  bool (*isActivation)(Operation *op);
  /// Whether one library call computes merged matmuls as one matmul, with the results side by side
  /// in the rows of one buffer. Otherwise each result has its own buffer.
  bool hasStridedResults = false;
  /// Whether one library call multiplies by a matrix of quantized parameters, which stay packed.
  bool multipliesQuantized = false;
  /// Whether f32 matmuls can be computed in TF32, which is faster but rounds operands to 10-bit
  /// fractions.
  bool hasTf32 = false;
  /// Whether one library call may compute matmuls with a norm before and an activation after them.
  bool hasFusedProducts = false;

  //===--- kernels ----------------------------------------------------------===//

  /// Cost of one element of a cheap op and of any other op. A value with several uses in a kernel
  /// is stored in memory if its cost is at least `storedFrom`.
  unsigned cheapCost, expensiveCost, storedFrom;
  /// Limits on the size of a kernel. Code generation recurses over the kernel's ops for each
  /// result, without sharing between results.
  unsigned maxKernelOps, maxGeneratedDepth;
  /// Whether one kernel computes queries, keys and values of attention over caches, and appends to
  /// both caches, because another launch would take longer.
  bool mergesAttentionOperands = false;
  /// Minimum elements per task: for fewer, waking a thread takes more time than it saves.
  int64_t elementsPerTask;

  //===--- code -------------------------------------------------------------===//

  /// Only for targets whose kernels are not in the host's object file: the name of the textual form
  /// (--emit=ptx), a check of the architecture names, and the code generator.
  StringRef kernelText = {};
  llvm::Error (*checkArchitectures)(StringRef names) = nullptr;
  llvm::Expected<KernelCode> (*emitKernels)(ModuleOp program,
                                            const KernelCodeOptions &options) = nullptr;

  /// Returns the target of the program that contains `op` (`tpc.target`), or the default target.
  static const TargetTraits &get(Operation *op);
  /// Emits an error if the program's `tpc.target` is unknown.
  static LogicalResult verify(Operation *program);
  static SmallVector<const TargetTraits *> getAll();
  /// Returns null if there is no target of this name.
  static const TargetTraits *lookup(StringRef name);
};

/// Registers a target. The first one is the default. `target` must have static lifetime.
void registerTarget(const TargetTraits &target);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_TARGET_TARGETTRAITS_H
