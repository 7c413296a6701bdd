//===- Program.h - Kernels of a program for both targets ------------------===//

#ifndef TPC_TEST_UNIT_COMPAREKERNELS_PROGRAM_H
#define TPC_TEST_UNIT_COMPAREKERNELS_PROGRAM_H

#include "Ptx/Ptx.h"

#include "tpc/Conversion/Cuda/Cuda.h"
#include "tpc/Conversion/Env/SizeEmitter.h"
#include "tpc/Kernel/Kernel.h"
#include "tpc/runtime.h"

#include "mlir/IR/OwningOpRef.h"
#include "llvm/ExecutionEngine/Orc/LLJIT.h"

#include <set>

namespace compare {

using ::tpc::SymExpr;

struct Kernel {
  std::string name, node;                 // description of the ONNX node that it comes from
  mutable mlir::tpc::kernel::FuncOp func; // a handle
  mlir::tpc::cuda::Launch launch;
  tpc_kernel_fn cpu = nullptr;
};

/// Selects kernels of a program.
struct KernelSelection {
  std::string name;           // substring of its name
  std::set<std::string> seen; // texts of kernels already selected: each is selected once
};

/// A program for GPUs at the level of kernels. The same kernel IR is lowered by Conversion/Cuda to
/// PTX, and by Conversion/Cpu to code that is loaded here.
class Program {
public:
  /// Loads the file `input`. With a grid: ONNX or a program of an early level, which is partitioned
  /// over the grid and compiled up to kernels. Without a grid: a text for parse(). Prints errors.
  static std::unique_ptr<Program> load(mlir::MLIRContext &context, llvm::StringRef input,
                                       llvm::StringRef grid, KernelSelection &selection);
  /// Parses a program's text, at the level of kernels or before kernels are built.
  static std::unique_ptr<Program> parse(mlir::MLIRContext &context, llvm::StringRef text,
                                        KernelSelection &selection);

  const std::vector<Kernel> &getKernels() const { return kernels; }
  /// Returns the number of kernels of the program, including those that are not selected.
  unsigned countAll() const { return all; }
  const mlir::tpc::EnvLayout &getLayout() const { return layout; }
  mlir::ModuleOp getModule() const { return module.get(); }
  const std::string &getPtx() const { return code.ptx; }
  const ptx::Module &getPtxModule() const { return *parsed; }

private:
  bool lower(KernelSelection &selection);
  bool choose(KernelSelection &selection);
  bool lowerForGpu();
  bool lowerForCpu();

  mutable mlir::OwningOpRef<mlir::ModuleOp> module;
  mlir::tpc::EnvLayout layout;
  std::vector<Kernel> kernels;
  unsigned all = 0;
  mlir::tpc::cuda::Code code;
  std::optional<ptx::Module> parsed;
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace compare

#endif // TPC_TEST_UNIT_COMPAREKERNELS_PROGRAM_H
