//===- CommandLine.h - Command line of a program --------------------------===//

#ifndef TPC_RT_PROGRAM_COMMANDLINE_H
#define TPC_RT_PROGRAM_COMMANDLINE_H

#include "program/GenerationFlags.h"
#include "program/Manifest.h"
#include "program/SizeExpr.h"
#include "program/TrainingFlags.h"
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
  std::vector<std::string> positional;        ///< files without an input name
  std::map<std::string, std::string> outputs; ///< file by output; in batches, directory
  std::string outputAnywhere;                 ///< --output without a name
  bool isBatch = false;                       ///< --batch-of, or several files
  SymbolValues shape;
  GenerationOptions generation;
  TrainingOptions training;
  std::string weights;
  bool verifyWeights = false; ///< digests of all weight bytes, not of samples
  std::string products = "tpc";
  bool shareGpus = false;     ///< several ranks may share one GPU
  bool deterministic = false; ///< no tuning by measurement
  bool embedded = false;      ///< loaded as a library by a process that continues after errors
  int threadsPerRank = 0;     ///< 0: cores divided by ranks
  int repeat = 10, warmup = 2;
  bool profile = false; ///< --bench prints a time profile
  std::string trace;    ///< --bench writes the last step's calls here
  /// Seconds after which a rank that waits for another ends the run; 0: never. The default on CPUs
  /// equals PyTorch's for CPU process groups, because a rank may compute for long. On GPUs it is
  /// shorter.
  std::optional<double> timeoutGiven;
  static constexpr double cpuTimeout = 1800, gpuTimeout = 60;
  double timeout = cpuTimeout; ///< effective value
};

/// Throws UserError. A flag's value follows `=` or is the next argument.
Options parseCommandLine(int argc, char **argv, const Manifest &manifest);

/// Returns the long names of all flags, such as "--shape".
std::span<const std::string_view> knownFlags();

/// Returns the text of --help.
std::string helpText(const Manifest &manifest, const std::string &program);

/// Files of one step.
struct Request {
  std::string name; ///< entry of a batch; else empty
  std::map<std::string, std::string> inputs;
  std::map<std::string, std::string> outputs; ///< file by output
};

/// Returns the files of each step. Assigns files without a name to inputs and outputs, and lists
/// directories. Opens no file.
std::vector<Request> requestsOf(const Options &options, const Manifest &manifest);

/// Throws UserError if an output would overwrite another output, an input, a weight file or the
/// program.
void checkOverwriting(const std::vector<Request> &requests, const Options &options,
                      const Manifest &manifest);

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_COMMANDLINE_H
