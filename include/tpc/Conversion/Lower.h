//===- Lower.h - From staged programs to executables ------------*- C++ -*-===//
//
//   PassManager pm(context);
//   tpc::buildLoweringPassPipeline(pm, options);    // staged -> LLVM dialect
//   pm.run(module);
//   auto object = tpc::emitObject(module, options);  // -> machine code
//   tpc::link(*object, "gpt2", tpc::Linked::Executable, link);
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_LOWER_H
#define TPC_CONVERSION_LOWER_H

#include "tpc/Dialect/OpConcern.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace mlir {
class DialectRegistry;
class ModuleOp;
} // namespace mlir

namespace mlir::tpc {

struct LoweringOptions {
  /// The program's name in its manifest.
  std::string name = "program";
  /// A processor as clang's -march= names it, or "native".
  std::string march = "native";
  unsigned optLevel = 3;
  /// Reads all weights and records a digest of each, for `--verify-weights`.
  bool digestWeights = false;
};

/// How ops are lowered (interfaces), and translations to LLVM IR.
void registerLowering(DialectRegistry &registry);
llvm::SmallVector<OpConcern> getLoweringConcerns();

/// Text of the optimized LLVM IR; machine code. `module` is what
/// buildLoweringPassPipeline leaves.
llvm::Expected<std::string> emitLLVM(ModuleOp module, const LoweringOptions &options);
llvm::Expected<llvm::SmallVector<char>> emitObject(ModuleOp module, const LoweringOptions &options);

struct LinkOptions {
  /// Where libtpc_runtime.a, tpc_shared.o and tpc_start.o are; empty: beside the running
  /// program, in ../lib.
  std::string runtimeDir;
};

/// Processes can load both, by tpc/session.h, and run an executable as well.
enum class Linked { Library, Executable };

/// Links with lld, in this process. Nothing is left at `output` on failure.
llvm::Error link(llvm::ArrayRef<char> object, llvm::StringRef output, Linked kind,
                 const LinkOptions &options);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_LOWER_H
