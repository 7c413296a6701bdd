//===- Compile.h - From a file to any level --------------------------------===//
//
// What tpcc, tpc-opt and Python share.
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

/// "import", "model", …
llvm::StringRef emitName(Emit emit);

/// Whether the program is a step of a generation, with caches, and of which tokens it has outputs.
enum class Generate { No, Last, All };

struct CompileOptions {
  std::string input; // ONNX, or a program as text
  ShardSpec spec;
  mlir::tpc::LoweringOptions lowering;
  bool verify = true;           // see docs/design/verification.md
  std::string weights = {};     // where external data is; empty: beside the model
  bool specGiven = true;        // else a program that has a grid keeps it
  std::string reference = {};   // a model to be proved against; empty: what is read, if it is one
  std::string annotations = {}; // a file of annotations; empty: none
  std::string deviceConfiguration = {}; // of the file; empty: the one that fits, if any
  std::string target = {}; // that kernels are built for; empty: the program's, or the default
  std::string architectures = {}; // of the target; empty: its own choice
  bool tf32 = false;              // products of f32 in TF32
  bool wideResidual = true;       // of models of 16 bits: in f32
  Generate generate = Generate::No;
  /// Sees the imported program with its annotations, before anything is recognized.
  std::function<mlir::LogicalResult(mlir::ModuleOp)> onAnnotated = {};
};

/// Adds the passes that lead from the level before `level` (Model to Staged) to it. With
/// `reference`, the model is recorded there, and verifiers are added: later levels are proved to
/// compute the same, staged programs to communicate correctly. `last`: the pipeline ends here.
void buildLevelPassPipeline(mlir::OpPassManager &pm, Emit level, const ShardSpec &spec,
                            std::shared_ptr<mlir::tpc::ReferenceModel> reference, bool last);
/// The verifiers: what is left out without `reference`, in words.
std::string verifierNames();

/// Registers the pipeline `megatron-shard`: `tpc-opt in.mlir --megatron-shard=tp8,pp4`.
void registerMegatronShardPassPipeline();

/// One program on its way.
class Compilation {
public:
  using OnStep = llvm::function_ref<void(llvm::StringRef what)>;

  Compilation(mlir::MLIRContext &context, CompileOptions options);

  /// Brings the program to `level`, at most Llvm (the dialect), unless it is there. `onStep` hears
  /// what begins. Says what is wrong through the context's diagnostics.
  mlir::LogicalResult advance(Emit level, OnStep onStep);

  mlir::ModuleOp getModule() { return *module; }
  /// What was read was at this level.
  Emit getFirst() const { return first; }

  /// What is made of a program that is at Llvm. A library or an executable is complete, or not
  /// there.
  llvm::Expected<std::string> makeLLVM(OnStep onStep);
  llvm::Expected<llvm::SmallVector<char>> makeObject(OnStep onStep);
  /// Of a program that is at Kernels or Buffers, or was, where the target has kernels of its own
  /// (else null). They are made once.
  llvm::Expected<const mlir::tpc::KernelCode *> makeKernels(OnStep onStep);
  llvm::Error link(llvm::StringRef path, mlir::tpc::Linked kind, OnStep onStep);

  const CompileOptions &getOptions() const { return options; }

private:
  mlir::LogicalResult read(OnStep onStep);
  mlir::LogicalResult adoptGrid();
  mlir::LogicalResult readReference(OnStep onStep);
  mlir::LogicalResult annotate();
  /// From import to a step of a generation at the model level, proved to repeat the model. `last`:
  /// with outputs of the last tokens alone.
  mlir::LogicalResult makeStep(mlir::ModuleOp module, bool last, OnStep onStep);
  mlir::LogicalResult embedKernels(OnStep onStep);
  /// What a program of a level must pass. `last`: nothing after it is verified.
  mlir::LogicalResult verify(Emit level, bool last, OnStep onStep);

  mlir::MLIRContext &context;
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<mlir::tpc::KernelCode> kernels;
  std::shared_ptr<mlir::tpc::ReferenceModel> reference; // null: nothing is verified
  bool stepIsProved = false;                            // to repeat a model
  Emit first = Emit::Import, reached = Emit::Import;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_COMPILE_H
