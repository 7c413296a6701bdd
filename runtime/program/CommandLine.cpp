//===- CommandLine.cpp - Command line of a program ------------------------===//

#include "program/CommandLine.h"
#include "core/Launcher.h"
#include "program/Describe.h"
#include "program/Error.h"
#include "program/Inputs.h"
#include "tpc/printable.h"
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <set>
#include <stdexcept>
#include <utility>

namespace tpc::rt {
namespace {

int64_t parseCount(const std::string &flag, const std::string &text, int64_t min, int64_t max,
                   char between = ' ') {
  int64_t value = 0;
  bool valid = !text.empty();
  for (char c : text)
    valid = valid && c >= '0' && c <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
            !__builtin_add_overflow(value, c - '0', &value);
  if (!valid || value < min || value > max)
    throw UserError(
        flag + between + text + ": expected an integer from " + std::to_string(min) +
        (max == std::numeric_limits<int64_t>::max() ? "" : " to " + std::to_string(max)));
  return value;
}

/// Parses "batch=1,sequence=128".
void parseShape(const std::string &text, SymbolValues &shape) {
  for (size_t at = 0; at <= text.size();) {
    size_t end = std::min(text.find(',', at), text.size());
    std::string item = text.substr(at, end - at);
    size_t equals = item.find('=');
    if (equals == std::string::npos || equals == 0)
      throw UserError("--shape " + text + ": expected NAME=SIZE,…, such as batch=1,sequence=128");
    std::string name = item.substr(0, equals);
    if (!shape
             .emplace(name, parseCount("--shape " + name, item.substr(equals + 1), 0,
                                       std::numeric_limits<int64_t>::max()))
             .second)
      throw UserError("--shape: '" + name + "' is given twice");
    at = end + 1;
  }
}

bool isPortName(const std::vector<Port> &ports, const std::string &name) {
  return std::any_of(ports.begin(), ports.end(),
                     [&](const Port &port) { return port.name == name; });
}

/// Splits NAME=FILE; the name is empty if the value has none. Names may contain '=', so the names
/// of ports are tried first. Those are printable; a port's name in the ONNX file is accepted too.
std::pair<std::string, std::string> splitPair(const std::string &value,
                                              const std::vector<Port> &ports) {
  for (size_t at = value.find('='); at != std::string::npos; at = value.find('=', at + 1))
    if (std::string name = printable(value.substr(0, at)); isPortName(ports, name))
      return {name, value.substr(at + 1)};
  size_t equals = value.find('=');
  // A path has a slash before its first '='.
  if (equals == std::string::npos || value.substr(0, equals).find('/') != std::string::npos)
    return {"", value};
  return {value.substr(0, equals), value.substr(equals + 1)};
}

/// Returns the number of single-character edits (insert, remove, replace) between two words.
size_t editDistance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j)
    row[j] = j;
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i + 1);
    for (size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(
          row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] == b[j] ? 0 : 1)}));
  }
  return row[b.size()];
}

/// Returns " (did you mean '--shape'?)", or nothing if no flag is similar.
std::string suggestFlag(std::string_view flag) {
  std::string_view nearest;
  size_t best = std::max<size_t>(flag.size() / 3, 2);
  for (std::string_view known : knownFlags())
    if (size_t distance = editDistance(flag, known); distance < best) {
      best = distance;
      nearest = known;
    }
  return nearest.empty() ? "" : " (did you mean '" + std::string(nearest) + "'?)";
}

class Parser {
public:
  Parser(int argc, char **argv, const Manifest &manifest)
      : argc(argc), argv(argv), manifest(manifest) {}

  Options run() {
    if (argc > 0)
      options.program = printable(argv[0]);
    if (const char *text = std::getenv("TPC_TIMEOUT"); text && *text)
      options.timeoutGiven = static_cast<double>(parseCount("TPC_TIMEOUT", text, 0, 1000000, '='));
    for (at = 1; at < argc; ++at) {
      std::string text = argv[at];
      if (onlyFiles || text.size() < 2 || text[0] != '-')
        options.positional.push_back(text);
      else if (text == "--")
        onlyFiles = true;
      else
        parseFlag(text);
    }
    options.isBatch |= options.positional.size() > 1;
    check();
    return options;
  }

private:
  void parseFlag(const std::string &text) {
    size_t equals = text.find('=');
    flag = text.substr(0, equals);
    inlineValue = equals == std::string::npos ? nullptr : argv[at] + equals + 1;
    std::span<const std::string_view> known = knownFlags();
    bool isShort = flag == "-h" || flag == "-v" || flag == "-i" || flag == "-o";
    if (!isShort && std::find(known.begin(), known.end(), flag) == known.end())
      throw UserError("unknown flag '" + flag + "'" + suggestFlag(flag) + "; see " +
                      options.program + " --help");
    if (flag == "--help" || flag == "-h")
      setMode(Options::Mode::Help);
    else if (flag == "--describe")
      setMode(Options::Mode::Describe);
    else if (flag == "--describe-device")
      setMode(Options::Mode::DescribeDevice);
    else if (flag == "--bench")
      setMode(Options::Mode::Bench);
    else if (flag == "--profile")
      set(options.profile);
    else if (flag == "--trace")
      options.trace = value();
    else if (flag == "--share-gpus")
      set(options.shareGpus);
    else if (flag == "--deterministic")
      set(options.deterministic);
    else if (flag == "--json")
      set(options.json);
    else if (flag == "--verbose" || flag == "-v")
      set(options.verbose);
    else if (flag == "--input" || flag == "-i")
      parseInput();
    else if (flag == "--output" || flag == "-o")
      parseOutput();
    else if (flag == "--batch-of") {
      options.positional.push_back(value());
      options.isBatch = true;
    } else if (flag == "--shape")
      parseShape(value(), options.shape);
    else if (flag == "--weights")
      parseWeights();
    else if (flag == "--verify-weights")
      set(options.verifyWeights);
    else if (flag == "--products")
      parseProducts();
    else if (flag == "--threads-per-rank")
      options.threadsPerRank = static_cast<int>(parseCount(flag, onlyValue(), 1, 1024));
    else if (flag == "--timeout")
      options.timeoutGiven = static_cast<double>(parseCount(flag, onlyValue(), 0, 1000000));
    else if (flag == "--repeat")
      options.repeat = static_cast<int>(parseCount(flag, onlyValue(), 1, 1000000));
    else if (flag == "--warmup" && !trains())
      options.warmup = static_cast<int>(parseCount(flag, onlyValue(), 0, 1000000));
    else if (flag == "--serve-stdin") {
      set(options.generation.serves);
      options.generation.note(flag);
    } else if (!setTrainingFlag(options.training, flag, manifest.training.has_value(),
                                [&] { return onlyValue(); }) &&
               !setGenerationFlag(options.generation, flag, [&] {
                 bool isRepeatable = flag == "--prompt-ids" || flag == "--source";
                 return isRepeatable ? value() : onlyValue();
               }))
      throw std::logic_error("the flag " + flag + " is listed but not parsed");
  }

  bool trains() const { return manifest.training && options.mode != Options::Mode::Bench; }

  std::string value() {
    if (inlineValue)
      return inlineValue;
    // A value that starts with two dashes is a flag; a file can be given as ./--x.
    if (at + 1 >= argc || std::strncmp(argv[at + 1], "--", 2) == 0)
      throw UserError(flag + " needs a value; see " + options.program + " --help");
    return argv[++at];
  }
  /// Rejects a second value of a flag.
  std::string onlyValue() {
    if (!given.insert(flag).second)
      throw UserError(flag + " is given twice");
    return value();
  }
  void set(bool &target) {
    if (inlineValue)
      throw UserError(flag + " takes no value");
    target = true;
  }
  void setMode(Options::Mode mode) {
    bool ignored;
    set(ignored);
    if (options.mode == Options::Mode::Help)
      return;
    if (options.mode != Options::Mode::Run && mode != options.mode && mode != Options::Mode::Help)
      throw UserError("--bench, --describe and --describe-device exclude each other: give one");
    options.mode = mode;
  }

  void parseWeights() {
    options.weights = onlyValue();
    if (options.weights.empty())
      throw UserError("--weights=: expected a file, a directory or random:SEED");
  }

  void parseProducts() {
    options.products = onlyValue();
    if (options.products != "tpc" && options.products != "onednn")
      throw UserError("--products=" + options.products + ": expected 'tpc' or 'onednn'");
  }

  void parseInput() {
    std::string text = value();
    auto [name, path] = splitPair(text, manifest.inputs);
    if (path.empty() || text[0] == '=')
      throw UserError("--input " + text + ": expected NAME=FILE.npy");
    if (name.empty()) {
      options.positional.push_back(path);
      return;
    }
    if (!options.inputs.emplace(name, path).second)
      throw UserError("--input: '" + name + "' is given twice");
  }

  void parseOutput() {
    std::string text = value();
    auto [name, path] = splitPair(text, manifest.outputs);
    if (path.empty() || text[0] == '=')
      throw UserError("--output " + text + ": expected NAME=FILE.npy");
    if (name.empty()) {
      if (!options.outputAnywhere.empty())
        throw UserError("--output without a name is given twice; write --output NAME=FILE.npy");
      options.outputAnywhere = path;
      return;
    }
    if (!isPortName(manifest.outputs, name)) {
      std::string names;
      for (const Port &port : manifest.outputs)
        names += (names.empty() ? "'" : ", '") + port.name + "'";
      throw UserError("there is no output '" + name + "'; the program's outputs are " + names);
    }
    if (!options.outputs.emplace(name, path).second)
      throw UserError("--output: '" + name + "' is given twice");
  }

  void check() {
    bool files = !options.positional.empty() || !options.inputs.empty();
    bool outputs = !options.outputs.empty() || !options.outputAnywhere.empty();
    if (options.mode == Options::Mode::Bench && files &&
        (options.isBatch || manifest.generation || manifest.training))
      throw UserError(std::string("--bench measures one step") +
                      (options.isBatch
                           ? "; give one file for each input"
                           : " on inputs that it makes; give --shape instead of files"));
    if (options.mode == Options::Mode::Bench && outputs)
      throw UserError("--bench saves no outputs; leave out --output");
    if (options.mode == Options::Mode::Describe && (files || outputs))
      throw UserError("--describe runs nothing; leave out --input and --output");
    if (options.mode == Options::Mode::DescribeDevice && (files || outputs))
      throw UserError("--describe-device runs nothing; leave out --input and --output");
    if ((options.mode == Options::Mode::Run || options.mode == Options::Mode::DescribeDevice) &&
        options.json)
      throw UserError("--json requires --describe");
    if (options.mode != Options::Mode::Bench && options.mode != Options::Mode::Help &&
        options.profile)
      throw UserError("--profile requires --bench");
    if (options.mode != Options::Mode::Bench && options.mode != Options::Mode::Help &&
        !options.trace.empty())
      throw UserError("--trace requires --bench");
    if (options.mode == Options::Mode::Help)
      return;
    checkGeneration(files, outputs);
    checkTraining(files, outputs);
    checkSizeNames(options.shape, manifest);
  }

  void checkTraining(bool files, bool outputs) {
    if (!manifest.training) {
      if (!options.training.firstFlag.empty())
        throw UserError(options.training.firstFlag +
                        ": this program does not train; compile the model with tpcc --train");
      return;
    }
    if (options.mode == Options::Mode::Run && (files || outputs))
      throw UserError(std::string(files ? "--input" : "--output") +
                      ": this program trains; give --data, and --save for checkpoints");
  }

  void checkGeneration(bool files, bool outputs) {
    const GenerationOptions &flags = options.generation;
    if (!manifest.generation) {
      if (!flags.firstFlag.empty())
        throw UserError(flags.firstFlag +
                        ": this program computes single steps; compile the model with tpcc "
                        "--generate");
      return;
    }
    if (options.mode != Options::Mode::Run)
      return;
    if (files || outputs)
      throw UserError(std::string(files ? "--input" : "--output") +
                      ": this program generates; give --prompt-ids or --serve-stdin, and --logits "
                      "for logits");
    if (!options.shape.empty())
      throw UserError(
          "--shape: this program generates, so its prompts determine the sizes; give --shape "
          "only with --bench");
    if (flags.serves && (!flags.prompts.empty() || !flags.logits.empty()))
      throw UserError("--serve-stdin takes prompts from standard input; leave out " +
                      std::string(flags.prompts.empty() ? "--logits" : "--prompt-ids"));
  }

  int argc;
  char **argv;
  const Manifest &manifest;
  Options options;
  std::set<std::string> given; // flags with a single value
  std::string flag;
  const char *inlineValue = nullptr;
  int at = 0;
  bool onlyFiles = false;
};

std::string joined(const std::vector<std::string> &shape) {
  std::string text;
  for (const std::string &size : shape)
    text += (text.empty() ? "" : ", ") + size;
  return "[" + text + "]";
}

} // namespace

std::span<const std::string_view> knownFlags() {
  static constexpr std::string_view flags[] = {"--help",
                                               "--describe",
                                               "--describe-device",
                                               "--bench",
                                               "--profile",
                                               "--trace",
                                               "--share-gpus",
                                               "--deterministic",
                                               "--json",
                                               "--verbose",
                                               "--input",
                                               "--output",
                                               "--batch-of",
                                               "--shape",
                                               "--weights",
                                               "--verify-weights",
                                               "--products",
                                               "--threads-per-rank",
                                               "--timeout",
                                               "--repeat",
                                               "--warmup",
                                               "--serve-stdin",
                                               "--prompt-ids",
                                               "--source",
                                               "--max-source",
                                               "--max-new-tokens",
                                               "--temperature",
                                               "--top-k",
                                               "--top-p",
                                               "--repetition-penalty",
                                               "--seed",
                                               "--stop-ids",
                                               "--max-sequence",
                                               "--prefill-chunk",
                                               "--max-batch",
                                               "--logits",
                                               "--data",
                                               "--batch",
                                               "--sequence",
                                               "--steps",
                                               "--lr",
                                               "--last-lr",
                                               "--schedule",
                                               "--save",
                                               "--save-every",
                                               "--resume",
                                               "--loss-scale",
                                               "--loss-scale-interval",
                                               "--log"};
  return flags;
}

Options parseCommandLine(int argc, char **argv, const Manifest &manifest) {
  return Parser(argc, argv, manifest).run();
}

std::string helpText(const Manifest &manifest, const std::string &program) {
  std::string input, output, shape;
  for (const Port &port : manifest.inputs)
    if (port.fallback == Port::Default::None)
      input += " --input " + port.name + "=" + port.name + ".npy";
  if (manifest.generation)
    input = " --prompt-ids 12,7,99";
  else if (manifest.training)
    input = " --data tokens.bin --sequence 512 --steps 1000 --lr 3e-4";
  else if (!manifest.outputs.empty())
    output = " --output " + manifest.outputs[0].name + "=" + manifest.outputs[0].name + ".npy";
  for (const std::string &symbol : manifest.symbols)
    shape += (shape.empty() ? " --shape " : ",") + symbol + "=" + (shape.empty() ? "1" : "128");

  std::string text =
      manifest.name + ", compiled by " + (manifest.compiler.empty() ? "tpc" : manifest.compiler) +
      " for " + std::to_string(manifest.grid.numRanks()) + " rank" +
      (manifest.grid.numRanks() == 1 ? "" : "s") +
      "\n\nRun once, with all ranks as threads of one process, or with one process per "
      "rank:\n  " +
      program + input + output + "\n";
  for (Launcher::Kind kind : {Launcher::Kind::Mpi, Launcher::Kind::Torch, Launcher::Kind::Slurm})
    if (int ranks = manifest.grid.numRanks(); ranks > 1)
      text += "  " + Launcher::command(kind, ranks) + " " + program + input + output + "\n";
  if (manifest.generation)
    text += "\n" + generationHelp(program) + "\n";
  else if (manifest.training)
    text += "\n" + trainingHelp(program) + "\n";
  else
    text += "Run many inputs in one process:\n  " + program +
            " --batch-of DIRECTORY --output DIRECTORY\n";
  text += "Measure time and communication:\n  " + program + " --bench" + shape + "\n" +
          "Print inputs, outputs, and memory for weights:\n  " + program +
          " --describe\n\nInputs:\n";
  for (const Port &port : manifest.inputs)
    text += "  " + port.name + "  " + dtypeName(port.dtype) + joined(port.shape) +
            (port.fallback == Port::Default::None
                 ? ""
                 : "  (default: " + defaultText(port, manifest) + ")") +
            "\n";
  text += "Outputs:\n";
  for (const Port &port : manifest.outputs)
    text += "  " + port.name + "  " + dtypeName(port.dtype) + joined(port.shape) + "\n";
  text += "\nFlags:\n";
  if (!manifest.generation && !manifest.training)
    text +=
        R"(  --input NAME=FILE.npy    an input; repeatable. If only one input is required, FILE.npy suffices
  --output NAME=FILE.npy   save an output; repeatable. If there is only one, FILE.npy suffices. Without this flag, a
                           summary is printed
  --batch-of DIR           run every FILE.npy of a directory (or, with several inputs, every folder of NAME.npy files).
                           Several files on the command line do the same. --output is then a directory
  --shape NAME=SIZE,…      sizes that no input determines
)";
  text +=
      R"(  --weights=FILE|DIR       location of the weights, if they are neither at their compile-time path nor beside this program
  --weights=random:SEED    random weights instead of a file
  --verify-weights         compare all bytes of the weights, not only samples: between processes, and with the bytes at
                           compile time if the program was compiled with --digest-weights
  --timeout SECONDS        end the run if all ranks have waited for each other for so long, and report what each waits for
                           (default: 1800, on GPUs 60; 0: never, not even if a process is frozen)
  --threads-per-rank N     default: the machine's cores divided by its ranks
  --products=tpc|onednn    library for f32 matmuls with weights (default: tpc). onednn requires libdnnl.so.3 (oneDNN 3) on
                           all hosts; results then differ in their last bits
  --share-gpus             GPU programs: several ranks may share one GPU
  --deterministic          GPU programs: do not choose matmul algorithms by measurement or from the cache of measurements,
                           so that all runs on equal GPUs give the same bits. On CPUs, bits never depend on timing
  --bench                  measure steps on generated inputs, or on those of --input, and print JSON; with --repeat N
                           (10), --warmup N (2)
  --bench --profile        also print the seconds of each matmul (m x k x n), attention, kernel and copy, on the rank of
                           each stage that computes most. "elsewhere" is communication, waiting, and the rest
  --bench --trace FILE     also write the calls of the last step on each rank as a trace, for ui.perfetto.dev and for
                           `python -m tpc.trace diff`; each call then waits for the one before
  --describe [--json]      print inputs, outputs, grid, groups of ranks, and bytes of weights per rank
  --describe-device        print driver, GPUs, and libraries with their paths, or why they cannot be used
  --verbose                print progress on stderr
  --help                   this text
Environment variables:
  TPC_TRANSPORT=threads|mpi|tcp  ignore launchers of the other kinds
  TPC_PORT                 port at MASTER_ADDR to which processes connect (default: MASTER_PORT + 1)
  TPC_INTERFACE            network interface between processes
  TPC_SHARED_MEMORY=0      processes of one host use the network interface too
  TPC_CPU=generic|avx2|avx512  CPU kernels
  TPC_TIMEOUT              default of --timeout
  TPC_CACHE                folder for measurements (default: tpc in XDG_CACHE_HOME or ~/.cache; empty: none)
)";
  return text;
}

} // namespace tpc::rt
