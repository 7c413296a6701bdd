//===- Lower.h - Machine code of lowered programs, and linking --*- C++ -*-===//
//
//   // `module` is a program on buffers.
//   PassManager pm(context);
//   tpc::buildLoweringPassPipeline(pm, options);    // -> LLVM dialect
//   pm.run(module);
//   auto object = tpc::emitObject(module, options);  // -> machine code
//   tpc::link(*object, "gpt2", tpc::Linked::Executable, link);
//
//===----------------------------------------------------------------------===//

#ifndef TPC_CONVERSION_LOWER_H
#define TPC_CONVERSION_LOWER_H

#include "tpc/Dialect/CoverageColumn.h"

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
  /// Target CPU as for clang's -march=, or "native".
  std::string march = "native";
  unsigned optLevel = 3;
  /// Whether to read all weights and record a digest of each, for `--verify-weights`.
  bool digestWeights = false;
};

/// Registers the lowering interfaces of ops and the translations to LLVM IR.
void registerLowering(DialectRegistry &registry);
/// Returns the columns of docs/reference/coverage.md for the lowering interfaces.
llvm::SmallVector<CoverageColumn> getLoweringCoverage();

/// Returns the optimized LLVM IR as text, or the object file. `module` is the result of
/// buildLoweringPassPipeline.
llvm::Expected<std::string> emitLLVM(ModuleOp module, const LoweringOptions &options);
llvm::Expected<llvm::SmallVector<char>> emitObject(ModuleOp module, const LoweringOptions &options);

struct LinkOptions {
  /// Folder of libtpc_runtime.a, tpc_shared.o and tpc_start.o; empty: ../lib relative to the
  /// running program.
  std::string runtimeDir;
};

/// Kind of output file. tpc/session.h can load both kinds into a process; an executable can also be
/// run.
enum class Linked { Library, Executable };

/// Links with lld, in this process. On failure no file is left at `output`.
llvm::Error link(llvm::ArrayRef<char> object, llvm::StringRef output, Linked kind,
                 const LinkOptions &options);

} // namespace mlir::tpc

#endif // TPC_CONVERSION_LOWER_H
