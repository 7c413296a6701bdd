//===- TpccOptions.h - Command line of tpcc ---------------------*- C++ -*-===//

#ifndef TPC_LIB_DRIVER_TPCCOPTIONS_H
#define TPC_LIB_DRIVER_TPCCOPTIONS_H

#include "Compile.h"
#include "Diagnostics.h"

#include <string>
#include <vector>

namespace tpc {

struct TpccOptions {
  std::string input;
  OnnxParts parts;
  std::string output; // empty: not given; "-": standard output
  Emit emit = Emit::Exe;
  bool emitGiven = false;
  bool onnx = false;          // --emit=onnx-sharded; `emit` is Staged
  bool kernelText = false;    // --emit=ptx; `emit` is Buffers
  std::string kernelTextName; // "ptx"
  std::string target, architectures;
  std::string precision = "f32"; // of f32 matmuls: "f32", "tf32", "bf16" or "f16"
  std::string residual = "f32";  // of 16-bit models: "f32" or "same"
  std::string overlap = "off";   // chunks of all-reduces that overlap matmuls: "off", "on", "4"
  std::string quantize;          // "int8", "int4:32"; empty: weights are as in the file
  std::string routing;           // file for --report and --simulate; empty: none
  std::string expertDispatch;    // "auto", "gather" or "all-to-all"; empty: the default
  std::string expertCapacity;    // "1.25"; empty: experts compute all their tokens
  Generate generate = Generate::No;
  bool train = false;
  std::string optimizer, noDecay;       // of --train; empty: not given
  bool gradients = false;               // also with --train
  std::string loss;                     // of --gradients; empty: not given
  double labelSmoothing = 0, zLoss = 0; // of --loss
  std::string name;
  std::string march;
  unsigned optLevel = 3;
  std::string weights;
  std::string weightsMap;
  std::vector<std::string> fixedInputs; // NAME=VALUE
  std::string megatronShard;
  bool shardGiven = false;
  std::string reference;
  std::string links;
  std::string annotations;
  std::string deviceConfiguration;
  std::vector<std::string> printGroups;
  bool json = false;
  bool plain = false; // programs in MLIR's own format
  std::string report;
  std::string shape;
  bool explain = false;
  std::string why;        // ONNX name of --why; empty: not given
  std::string memoryPlan; // memory of a GPU for --memory-plan
  bool simulate = false;
  std::string trace;     // file of --simulate
  int64_t newTokens = 0; // of --simulate; 0: not given
  // Flags of --megatron-shard=auto; --simulate has --machine too.
  int64_t devices = 0, gpusPerNode = 0; // 0: not given
  bool gpusPerNodeGiven = false;
  std::string machine, goal, memory, search;
  double price = 0; // 0: not given
  bool timing = false;
  DiagnosticFormat diagnostics = DiagnosticFormat::Text;
  int parent = 0; // process id of --end-with; 0: none
  bool noVerify = false;
  bool digestWeights = false;
  std::string certificate;

  /// Returns whether a program is needed, unlike for --print-groups alone.
  bool needsProgram() const {
    return emitGiven || explain || !why.empty() || megatronShard == "auto" || !memoryPlan.empty() ||
           simulate || !output.empty() || !report.empty() || !certificate.empty();
  }

  /// Parses the command line. Prints errors and returns false. Exits after --help and --version.
  bool parse(int argc, char **argv);
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCOPTIONS_H
