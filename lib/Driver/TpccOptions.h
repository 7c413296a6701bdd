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
  std::string output; // empty: not given; "-": standard output
  Emit emit = Emit::Exe;
  bool emitGiven = false;
  bool onnx = false;          // write the ONNX file with its shardings; `emit` is Staged
  bool kernelText = false;    // write the target's text of kernels; `emit` is Buffers
  std::string kernelTextName; // "ptx"
  std::string target, architectures;
  std::string precision = "f32"; // of f32 matmuls: "f32" or "tf32"
  std::string residual = "f32";  // of 16-bit models: "f32" or "same"
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
  bool plain = false; // programs in MLIR's own format
  std::string report;
  std::string shape;
  bool explain = false;
  std::string memoryPlan; // memory of a GPU that splits have to fit
  bool timing = false;
  DiagnosticFormat diagnostics = DiagnosticFormat::Text;
  int parent = 0; // the parent process, whose end terminates tpcc; 0: none
  bool noVerify = false;
  bool digestWeights = false;
  std::string certificate;

  /// Returns whether an output of a program is requested, and not only groups.
  bool needsProgram() const {
    return emitGiven || explain || !memoryPlan.empty() || !output.empty() || !report.empty() ||
           !certificate.empty();
  }

  /// Returns false after an error, which has been printed. Ends the program after --help and
  /// --version.
  bool parse(int argc, char **argv);
};

} // namespace tpc

#endif // TPC_LIB_DRIVER_TPCCOPTIONS_H
