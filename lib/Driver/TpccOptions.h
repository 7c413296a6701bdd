//===- TpccOptions.h - tpcc's command line ---------------------------------===//

#ifndef TPC_LIB_DRIVER_TPCCOPTIONS_H
#define TPC_LIB_DRIVER_TPCCOPTIONS_H

#include "Compile.h"
#include "Diagnostics.h"

#include <string>
#include <vector>

namespace tpc {

struct TpccOptions {
  std::string input;
  std::string output; // empty: none given; "-": standard output
  Emit emit = Emit::Exe;
  bool emitGiven = false;
  bool onnx = false;          // write the model itself, with its shardings; `emit` is Staged
  bool kernelText = false;    // write kernels as the target's text; `emit` is Buffers
  std::string kernelTextName; // "ptx"
  std::string target, architectures;
  std::string precision = "f32"; // of products of f32: "f32" or "tf32"
  std::string residual = "f32";  // of models of 16 bits: "f32" or "same"
  Generate generate = Generate::No;
  std::string name;
  std::string march;
  unsigned optLevel = 3;
  std::string weights;
  std::string megatronShard;
  bool shardGiven = false;
  std::string reference;
  std::string links;
  std::string annotations;
  std::string deviceConfiguration;
  std::vector<std::string> printGroups;
  bool json = false;
  bool plain = false; // programs as MLIR writes them
  std::string report;
  std::string shape;
  bool explain = false;
  std::string memoryPlan; // the memory of a GPU, to find splits for
  bool timing = false;
  DiagnosticFormat diagnostics = DiagnosticFormat::Text;
  int parent = 0; // the process with which tpcc ends; 0: none
  bool noVerify = false;
  bool digestWeights = false;
  std::string certificate;

  /// Is anything wanted of a model, or are groups all that is to be printed?
  bool asksForProgram() const {
    return emitGiven || explain || !memoryPlan.empty() || !output.empty() || !report.empty() ||
           !certificate.empty();
  }

  /// Returns false after an error, which has been printed. Ends the program after --help and
  /// --version.
  bool parse(int argc, char **argv);
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCOPTIONS_H
