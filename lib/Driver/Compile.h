//===- Compile.h - Compilation of a file to any level -----------*- C++ -*-===//
//
// Shared by tpcc, tpc-opt and the Python package.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_COMPILE_H
#define TPC_LIB_DRIVER_COMPILE_H

#include "tpc/Conversion/Lower.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Support/ShardSpec.h"
#include "tpc/Verify/Verify.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"

#include <functional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tpc {

/// The levels of a program, in order; compilation can stop at each.
enum class Emit { Import, Model, Sharded, Spmd, Staged, Kernels, Buffers, Llvm, Obj, Lib, Exe };

/// Returns "import", "model", …
llvm::StringRef emitName(Emit emit);

/// Whether the program is a generation step with caches, and the tokens that it has outputs of.
enum class Generate { No, Last, All };

struct CompileOptions {
  std::string input; // ONNX, or a program as text
  ShardSpec spec;
  mlir::tpc::LoweringOptions lowering;
  bool verify = true;           // see docs/design/verification.md
  std::string weights = {};     // folder or file of external data; empty: next to the model
  bool specGiven = true;        // else a program keeps the grid that it has
  std::string reference = {};   // the model for the proof; empty: the input, if it is a model
  std::string annotations = {}; // a file of annotations; empty: none
  std::string deviceConfiguration = {}; // of the ONNX file; empty: the matching one, if any
  std::string target = {};              // of kernels; empty: the program's, or the default
  std::string architectures = {};       // of the target; empty: the target's default
  bool tf32 = false;                    // f32 matmuls in TF32
  bool wideResidual = true;             // of 16-bit models: in f32
  Generate generate = Generate::No;
  /// Receives the imported program with its annotations, before recognition.
  std::function<mlir::LogicalResult(mlir::ModuleOp)> onAnnotated = {};
};

/// Adds the passes from the level before `level` (Model to Staged) to it. With `reference`, the
/// model is recorded there, and verifiers are added: later levels are proved to compute the same,
/// and staged programs to communicate correctly. `last`: the pipeline ends here.
void buildLevelPassPipeline(mlir::OpPassManager &pm, Emit level, const ShardSpec &spec,
                            std::shared_ptr<mlir::tpc::ReferenceModel> reference, bool last);
/// Returns the names of the verifiers, which are skipped without `reference`.
std::string verifierNames();

/// Registers the pipeline `megatron-shard`: `tpc-opt in.mlir --megatron-shard=tp8,pp4`.
void registerMegatronShardPassPipeline();

/// The compilation of one program.
class Compilation {
public:
  using OnStep = llvm::function_ref<void(llvm::StringRef what)>;

  Compilation(mlir::MLIRContext &context, CompileOptions options);

  /// Lowers the program to `level`, at most Llvm (the dialect), unless it is there already.
  /// `onStep` is called at the beginning of each step. Errors go to the context's diagnostics.
  mlir::LogicalResult advance(Emit level, OnStep onStep);

  mlir::ModuleOp getModule() { return *module; }
  /// Returns the level of the input.
  Emit getFirst() const { return first; }

  /// Return the outputs of a program at level Llvm. A library or an executable is complete or
  /// absent.
  llvm::Expected<std::string> makeLLVM(OnStep onStep);
  llvm::Expected<llvm::SmallVector<char>> makeObject(OnStep onStep);
  /// Returns the kernels of a program at level Kernels or Buffers, or later, if the target has
  /// device kernels (else null). They are made once.
  llvm::Expected<const mlir::tpc::KernelCode *> makeKernels(OnStep onStep);
  llvm::Error link(llvm::StringRef path, mlir::tpc::Linked kind, OnStep onStep);

  const CompileOptions &getOptions() const { return options; }

private:
  mlir::LogicalResult read(OnStep onStep);
  mlir::LogicalResult useGridOfProgram();
  mlir::LogicalResult readReference(OnStep onStep);
  mlir::LogicalResult annotate();
  /// Lowers import to a generation step at the model level, proved to repeat the model. `last`:
  /// only the last tokens have outputs.
  mlir::LogicalResult makeStep(mlir::ModuleOp module, bool last, OnStep onStep);
  mlir::LogicalResult embedKernels(OnStep onStep);
  /// Runs the verifiers of a level. `last`: no later level is verified.
  mlir::LogicalResult verify(Emit level, bool last, OnStep onStep);

  mlir::MLIRContext &context;
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<mlir::tpc::KernelCode> kernels;
  std::shared_ptr<mlir::tpc::ReferenceModel> reference; // null: no verification
  bool stepIsProved = false;                            // to repeat a model
  Emit first = Emit::Import, reached = Emit::Import;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_COMPILE_H
