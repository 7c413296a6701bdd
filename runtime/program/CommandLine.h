//===- CommandLine.h - what the user asks a program to do -----------------===//

#ifndef TPC_RT_PROGRAM_COMMANDLINE_H
#define TPC_RT_PROGRAM_COMMANDLINE_H

#include "program/GenerationFlags.h"
#include "program/Manifest.h"
#include "program/SizeExpr.h"
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace tpc::rt {

struct Options {
  enum class Mode { Run, Describe, DescribeDevice, Bench, Help };
  Mode mode = Mode::Run;
  bool json = false, verbose = false;
  std::string program = "program"; ///< argv[0]

  std::map<std::string, std::string> inputs;  ///< file by input
  std::vector<std::string> positional;        ///< files without a name
  std::map<std::string, std::string> outputs; ///< file by output; in batches, directory
  std::string outputAnywhere;                 ///< --output without a name
  bool isBatch = false;                       ///< --batch-of, or several files
  SymbolValues shape;
  GenerationOptions generation;
  std::string weights;
  bool verifyWeights = false; ///< read all bytes of them, not samples
  std::string products = "tpc";
  bool shareGpus = false;     ///< several ranks may have one GPU
  bool deterministic = false; ///< nothing is chosen by measuring
  bool embedded = false;      ///< in a process that does other things as well, and goes on
  int threadsPerRank = 0;     ///< 0: as many as there are cores for each rank
  int repeat = 10, warmup = 2;
  bool profile = false; ///< --bench says where the time goes
  /// Seconds after which a rank that waits for another ends the run; 0: never. Without it, on CPUs
  /// as long as PyTorch's for groups on them: a rank may compute for long. On GPUs it does not.
  std::optional<double> timeoutGiven;
  static constexpr double cpuTimeout = 1800, gpuTimeout = 60;
  double timeout = cpuTimeout; ///< what holds
};

/// Throws UserError. Flags take their value after `=` or as the next argument.
Options parseCommandLine(int argc, char **argv, const Manifest &manifest);

/// Long names of all flags, such as "--shape".
std::span<const std::string_view> knownFlags();

/// What --help prints.
std::string helpText(const Manifest &manifest, const std::string &program);

/// One step's files.
struct Request {
  std::string name; ///< of a batch's entry; else empty
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs; ///< file by output
};

/// Resolves files without a name, and directories. Reads directories only.
std::vector<Request> requestsOf(const Options &options, const Manifest &manifest);

/// Writing an output must not destroy what is read, now or by the next run: throws UserError.
void checkOverwriting(const std::vector<Request> &requests, const Options &options,
                      const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_COMMANDLINE_H
