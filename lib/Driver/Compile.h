//===- Compile.h - Compilation of a file to any level -----------*- C++ -*-===//
//
// tpcc compiles with the class Compilation; tpc-opt has the pipeline `megatron-shard`.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_LIB_DRIVER_COMPILE_H
#define TPC_LIB_DRIVER_COMPILE_H

#include "tpc/Conversion/Lower.h"
#include "tpc/Conversion/Target/TargetTraits.h"
#include "tpc/Driver/PassPipelines.h"
#include "tpc/Import/ONNX/ImportParts.h"
#include "tpc/Support/ShardSpec.h"
#include "tpc/Transforms/Model/QuantizeWeights.h"
#include "tpc/Verify/Verify.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/Support/LLVM.h"

#include <functional>

namespace mlir {
class OpPassManager;
} // namespace mlir

namespace tpc {

/// Levels of a program, in order. Compilation can stop at each level.
enum class Emit { Import, Model, Sharded, Spmd, Staged, Kernels, Buffers, Llvm, Obj, Lib, Exe };

/// Returns "import", "model", …
llvm::StringRef emitName(Emit emit);

/// Kind of a generation step: none, with outputs of the last token, or with outputs of all tokens.
enum class Generate { No, Last, All };

struct CompileOptions {
  std::string input; // ONNX, or a program as text
  ShardSpec spec;
  mlir::tpc::LoweringOptions lowering;
  bool verify = true;           // see docs/design/verification.md
  std::string weights = {};     // external data or checkpoint; empty: data next to the model
  std::string weightsMap = {};  // file of names in the checkpoint; empty: none
  bool specGiven = true;        // false: use the grid of the program
  std::string reference = {};   // the model for the proof; empty: the input, if it is a model
  std::string annotations = {}; // a file of annotations; empty: none
  std::string deviceConfiguration = {}; // of the ONNX file; empty: the matching one, if any
  std::string target = {};              // empty: the program's target, or the default
  std::string architectures = {};       // of the target; empty: the target's default
  bool tf32 = false;                    // f32 matmuls in TF32
  bool wideResidual = true;             // residual of 16-bit models in f32
  Generate generate = Generate::No;
  std::string optimizer = {}, noDecay = {}; // of a training step; empty optimizer: none
  bool gradients = false;                   // add a loss and the gradients of all weights
  std::string quantize = {};      // format of tpc-quantize-weights; empty: do not quantize
  std::string packedWeights = {}; // file of quantized weights
  bool writesWeights = false;     // whether to write `packedWeights`
  std::map<std::string, int64_t> inputs = {}; // values of inputs that become constants
  int64_t overlapChunks = 1;       // of all-reduces that overlap matmuls; 1: no overlap, 0: by cost
  OnnxParts parts = {};            // other files of the model
  std::string expertCapacity = {}; // factor of tpc-limit-experts; empty: no limit
  ExpertDispatch expertDispatch = {};
  GradientOptions gradient = {}; // with `gradients`
  /// Callback on the imported program with its annotations, before recognition.
  std::function<mlir::LogicalResult(mlir::ModuleOp)> onAnnotated = {};
};

/// Adds the passes from the previous level to `level` (Model to Staged). With `reference`, also
/// adds the level's verifiers and, at the model level, the pass that records the model there.
/// `last`: whether the pipeline ends at this level.
void buildLevelPassPipeline(mlir::OpPassManager &pm, Emit level, const ShardSpec &spec,
                            std::shared_ptr<mlir::tpc::ReferenceModel> reference, bool last);
/// Returns the names of all verifiers. Without `reference` they are skipped.
std::string verifierNames();

/// Registers the pipeline `megatron-shard`: `tpc-opt in.mlir --megatron-shard=tp8,pp4`.
void registerMegatronShardPassPipeline();

/// The compilation of one program.
class Compilation {
public:
  using OnStep = llvm::function_ref<void(llvm::StringRef what)>;

  Compilation(mlir::MLIRContext &context, CompileOptions options);

  /// Lowers the program to `level` (at most Llvm), unless it is already at that level. `onStep` is
  /// called at the beginning of each step. Errors go to the context's diagnostics.
  mlir::LogicalResult advance(Emit level, OnStep onStep);

  mlir::ModuleOp getModule() { return *module; }
  /// Returns the level of the input.
  Emit getFirst() const { return first; }

  /// Return the outputs for a program at level Llvm. On failure no incomplete library or executable
  /// is left.
  llvm::Expected<std::string> makeLLVM(OnStep onStep);
  llvm::Expected<llvm::SmallVector<char>> makeObject(OnStep onStep);
  /// Returns the device kernels of a program at level Kernels or later; null if the target has
  /// none. Compiles them once.
  llvm::Expected<const mlir::tpc::KernelCode *> makeKernels(OnStep onStep);
  llvm::Error link(llvm::StringRef path, mlir::tpc::Linked kind, OnStep onStep);

  const CompileOptions &getOptions() const { return options; }
  /// Returns the result of the quantization; null if no weights were quantized.
  const mlir::tpc::QuantizationReport *getQuantization() const { return quantization.get(); }

private:
  mlir::LogicalResult read(OnStep onStep);
  mlir::LogicalResult useGridOfProgram();
  OnnxImportOptions makeImportOptions() const;
  mlir::LogicalResult readReference(OnStep onStep);
  mlir::LogicalResult annotate();
  /// Quantizes the weights of the input, or of the reference in the same way, if required.
  mlir::LogicalResult quantize(mlir::ModuleOp model, OnStep onStep);
  /// Converts an imported program to a generation step of the model level, and verifies it. `last`:
  /// outputs contain only each sequence's last token.
  mlir::LogicalResult makeStep(mlir::ModuleOp module, bool last, OnStep onStep);
  mlir::LogicalResult embedKernels(OnStep onStep);
  /// Runs the verifiers of a level. `last`: whether this is the last level that is verified.
  mlir::LogicalResult verify(Emit level, bool last, OnStep onStep);

  mlir::MLIRContext &context;
  CompileOptions options;
  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::optional<mlir::tpc::KernelCode> kernels;
  std::shared_ptr<mlir::tpc::ReferenceModel> reference; // null: no verification
  std::shared_ptr<mlir::tpc::QuantizationReport> quantization;
  bool stepIsProved = false; // equivalence of steps and model
  Emit first = Emit::Import, reached = Emit::Import;
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_COMPILE_H
