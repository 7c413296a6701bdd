//===- TpccSession.h - One invocation of tpcc -------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_TPCCSESSION_H
#define TPC_LIB_DRIVER_TPCCSESSION_H

#include "AutoShard.h"
#include "Compile.h"
#include "OnnxSharded.h"
#include "Progress.h"
#include "Simulation.h"
#include "SourceFiles.h"
#include "TpccOptions.h"

#include "tpc/Dialect/MakeError.h"
#include "tpc/Driver/ShapeSpec.h"

namespace tpc {

using mlir::tpc::makeError;

/// Prints an error, and returns the exit status 1.
int fail(const TpccOptions &options, llvm::StringRef message);
void note(const TpccOptions &options, const llvm::Twine &message);

/// Returns the paths of the program's weight files.
std::vector<std::string> getWeightFiles(mlir::ModuleOp module);

/// One invocation of tpcc that compiles a program.
class TpccSession {
public:
  TpccSession(TpccOptions &options, ShardSpec spec) : options(options), spec(std::move(spec)) {}

  /// Checks flags and paths before compilation. Sets the members that are parsed from flags.
  llvm::Error check();
  mlir::LogicalResult run();

private:
  /// Checks flags against the imported model: sizes that --report needs, outputs that would
  /// overwrite a weight file.
  llvm::Error checkModel(mlir::ModuleOp module);
  /// Rejects flags that apply only to levels before `first`, the level of the input.
  llvm::Error checkLevel(Emit first);
  llvm::Error checkGradients();
  llvm::Error checkExperts();
  llvm::Error checkQuantization();
  mlir::LogicalResult writeReport(Compilation &compilation);
  /// Compiles the kernels of a target that generates kernels.
  mlir::LogicalResult makeKernels(Compilation &compilation);
  mlir::LogicalResult writeCertificate(mlir::ModuleOp module);
  /// Prints the effects of the tactics (--explain), on copies of the module.
  mlir::LogicalResult explain(Compilation &compilation);
  /// Prints the reasons for the distribution of a value (--why), on a copy of the module.
  mlir::LogicalResult explainValue(Compilation &compilation);
  /// Prints what --quantize did: bytes, and errors of matmuls.
  void noteQuantization(const mlir::tpc::QuantizationReport &report);
  mlir::LogicalResult planMemory(Compilation &compilation);
  /// Chooses the grid of --megatron-shard=auto and prints the plan. Sets `spec`.
  mlir::LogicalResult chooseGrid(mlir::MLIRContext &context, CompileOptions compile);
  /// Simulates the program, prints the result, and writes the files of --simulate.
  mlir::LogicalResult simulate(Compilation &compilation);
  /// Writes the model's ONNX file with the shardings that the tactics chose.
  mlir::LogicalResult writeOnnx(Compilation &compilation);
  mlir::LogicalResult write(Compilation &compilation);
  /// Prints an error without a location in the program.
  mlir::LogicalResult printError(llvm::Error error);

  TpccOptions &options;
  ShardSpec spec;
  ShapeBinding shape;
  std::map<std::string, int64_t> fixedInputs;
  Progress progress{options.timing};
  int64_t memory = 0; // bytes of --memory-plan
  std::optional<AutoShardRequest> autoShard;
  std::optional<SimulationRequest> simulation;
  std::string packedWeights;  // file of --quantize
  bool writesWeights = false; // whether --quantize writes it
  OnnxDevices devices;        // for --emit=onnx-sharded
  SourceFiles sources;
  const mlir::tpc::KernelCode *kernels = nullptr;
  bool kernelsOnly = false; // --report without --shape: only kernels
  unsigned errors = 0;      // printed so far
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCSESSION_H
