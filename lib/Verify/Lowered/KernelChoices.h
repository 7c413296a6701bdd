//===- KernelChoices.h - Coverage of choices in kernels ---------*- C++ -*-===//

#ifndef TPC_LIB_VERIFY_LOWERED_KERNELCHOICES_H
#define TPC_LIB_VERIFY_LOWERED_KERNELCHOICES_H

#include "RunKernel.h"

namespace mlir::tpc::lowered {

/// Outcomes in separate runs of a kernel and its tensor function.
struct KernelOutcomes {
  Outcomes choices;
  /// Outcomes of ops on tensors that return booleans. Other element-wise ops have an entry if their
  /// definition has a comparison of floats, such as tpc.relu, but no outcome.
  llvm::MapVector<Operation *, uint8_t> onTensors;
  /// Whether the kernel also ran with the original static sizes.
  bool atRealSizes = false;
};

/// Outcomes of the choices of all kernels, in runs whose results were compared.
class ChoiceCoverage {
public:
  KernelOutcomes &ofKernel(const KernelProgram &kernel) { return find(kernel).alone; }
  /// Outcomes in runs of the program.
  Outcomes &ofProgram(const KernelProgram &kernel) { return find(kernel).inProgram; }

  /// Emits an error if a choice lacks an outcome, unless intervals of indices show, for all sizes,
  /// that it cannot have this outcome.
  LogicalResult check(ModuleOp program) const;

private:
  struct Kernel {
    std::vector<Operation *> choices;
    KernelOutcomes alone;
    Outcomes inProgram;
  };
  Kernel &find(const KernelProgram &kernel);
  llvm::MapVector<Operation *, Kernel> kernels;
};

} // namespace mlir::tpc::lowered

#endif // TPC_LIB_VERIFY_LOWERED_KERNELCHOICES_H
