//===- Main.cpp - Main function of executables ----------------------------===//

#include "core/DescribeDevices.h"
#include "core/Device.h"
#include "core/EarlyEnd.h"
#include "core/OutOfMemory.h"
#include "core/Profile.h"
#include "core/World.h"
#include "program/Bench.h"
#include "program/CommandLine.h"
#include "program/CompareTasks.h"
#include "program/Describe.h"
#include "program/Error.h"
#include "program/EstimateMemory.h"
#include "program/Execution.h"
#include "program/File.h"
#include "program/Notes.h"
#include "program/Npy.h"
#include "program/Setup.h"
#include "program/Summary.h"
#include "program/Task.h"
#include "program/View.h"
#include "tpc/printable.h"
#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <fcntl.h>
#include <filesystem>
#include <set>
#include <thread>
#include <unistd.h>

using namespace tpc::rt;

namespace {

/// Reports an error that each process detects by itself. Rank 0 prints it. Other ranks print it if
/// rank 0 has not failed. If the state of rank 0 is unknown, they wait briefly, because a launcher
/// ends all processes as soon as one has failed. Then they print the error if rank 0 is still
/// alive, and so has not detected it, or if no launcher with other processes is found.
[[noreturn]] void refuseOnce(const Launcher &launcher, const std::string &message) {
  bool exists = launcher.size <= 0 || launcher.rank < launcher.size;
  if (launcher.rank <= 0 || !exists) // only this process has the wrong number
    throw UserError(message);
  std::string own = "rank " + std::to_string(launcher.rank) + ": " + message;
  if (RankZero state = endEarly(EarlyEnd::Failed); state != RankZero::Unknown)
    throw UserError(state == RankZero::Waits ? own : "");
  bool isAlone = launcher.localSize < 0 && !Siblings(launcher).exist();
  std::this_thread::sleep_for(std::chrono::seconds(1));
  bool isOwn = isAlone || (!launcher.rankVariable.empty() && Siblings(launcher).hasRankZero());
  throw UserError(isOwn ? own : "");
}

/// Traits that must be equal on all ranks; differences could cause a deadlock.
std::vector<Trait> traitsOf(const Manifest &manifest) {
  std::string grid;
  for (const Grid::Axis &axis : manifest.grid.axes())
    grid += axis.name + " " + std::to_string(axis.size) + ", ";
  grid += std::to_string(manifest.microBatches) + " micro-batches";
  std::string weights;
  for (const WeightFile &file : manifest.files)
    weights += (weights.empty() ? "" : " ") + (file.digest.empty() ? "unknown" : file.digest);
  return {{"build", manifest.compiler + ", interface " + std::to_string(TPC_ABI_VERSION)},
          {"grid", grid},
          {"schedule", manifest.schedule.empty() ? "none" : manifest.schedule},
          {"weight digest", weights.empty() ? "none" : weights},
          {"program", manifest.name + " " + manifest.digest}};
}

/// Joins the launcher's world, if there is a launcher. Compares programs, and the world's size with
/// the grid's.
std::shared_ptr<Session> join(const Launcher &launcher, const Manifest &manifest,
                              const Options &options) {
  if (!launcher.present()) {
    checkThreads(manifest, options);
    return nullptr;
  }
  int ranks = manifest.grid.numRanks();
  auto sizeError = [&](int size) {
    return "the program was compiled for " + std::to_string(ranks) +
           (ranks == 1 ? " rank" : " ranks") + ", but " + std::to_string(size) + " were started" +
           // Batch systems and containers leave the variables of a launcher with one process.
           (size == 1 && !launcher.variable.empty() ? " (by the variable " + launcher.variable + ")"
                                                    : "") +
           "; run\n  " + Launcher::command(launcher.kind, ranks) + " " + options.program +
           " …\nor, all ranks in one process, without a launcher:\n  " + "TPC_TRANSPORT=threads " +
           options.program + " …";
  };
  // With another number of ranks, all would wait for nonexistent ones. This rank first tries to
  // join, so that rank 0, if it has yet another number, receives the error.
  constexpr double secondsToDeliver = 2;
  bool isOther = launcher.problem.empty() && launcher.size > 0 && launcher.size != ranks;
  bool delivers = isOther && launcher.rank > 0 && launcher.kind != Launcher::Kind::Mpi;
  if (isOther && !delivers)
    refuseOnce(launcher, sizeError(launcher.size));
  std::string error;
  std::shared_ptr<Session> session =
      joinLauncher(launcher, error, delivers ? secondsToDeliver : options.timeout);
  if (!session && delivers)
    refuseOnce(launcher, sizeError(launcher.size));
  if (!session && launcher.kind == Launcher::Kind::Mpi)
    refuseOnce(launcher, error);
  if (!session) {
    // A launcher ends all processes as soon as one has ended; rank 0 may still be about to report
    // the error.
    if (error.empty())
      std::this_thread::sleep_for(std::chrono::milliseconds(700));
    throw UserError(error);
  }
  session->doing = "while programs are compared";
  // Compared first, because later steps communicate and require equal programs.
  std::optional<std::string> difference = compareRanks(session.get(), traitsOf(manifest));
  agreeOn(session.get(), [&] {
    if (difference)
      throw UserError(*difference);
    if (session->size() != ranks)
      throw UserError(sizeError(session->size()));
  });
  return session;
}

/// Checks that outputs are writable before any other work. In a batch, checks one output per
/// folder.
void checkWritable(const std::vector<Request> &requests, bool makesFolders) {
  std::set<std::filesystem::path> folders;
  for (const Request &request : requests)
    for (const auto &[name, path] : request.outputs)
      if (std::error_code none; !makesFolders || std::filesystem::is_directory(path, none) ||
                                folders.insert(std::filesystem::path(path).parent_path()).second)
        OutputFile::check(path, makesFolders);
}

void makeParent(const std::string &path) {
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  std::error_code error;
  if (!parent.empty())
    std::filesystem::create_directories(parent, error);
  if (error)
    throw UserError("cannot make directory '" + parent.string() + "': " + error.message());
}

void deliver(const Manifest &manifest, const Request &request, const std::vector<Tensor> &outputs,
             bool makeFolders) {
  for (size_t i = 0; i < outputs.size(); ++i) {
    auto file = request.outputs.find(manifest.outputs[i].name);
    if (file != request.outputs.end()) {
      if (makeFolders)
        makeParent(file->second);
      writeNpy(file->second, outputs[i]);
    } else if (request.outputs.empty()) {
      std::printf("%s\n", summaryOf(manifest.outputs[i].name, outputs[i]).c_str());
    }
    if (std::string warning = warningOf(manifest.outputs[i].name, outputs[i]); !warning.empty())
      std::fprintf(stderr, "warning: %s\n", warning.c_str());
  }
}

void runRequests(Execution &execution, const Manifest &manifest, const Options &options) {
  std::vector<Request> requests;
  agreeOn(execution.session(), [&] { requests = requestsOf(options, manifest); });
  for (const Request &request : requests) {
    if (execution.session())
      execution.session()->doing = "while inputs are read or outputs written";
    Inputs inputs;
    agreeOn(execution.session(),
            [&] { inputs = readInputs(manifest, request.inputs, options.shape); });
    // If the files differ on some host, collectives would not match.
    compareDigests(execution.session(), inputs.digest(),
                   "read other inputs than rank 0: the same files must be on all hosts");
    if (execution.isRankZero())
      for (const std::string &text : inputs.notes)
        note(text);
    std::vector<Tensor> &outputs = execution.step(inputs);
    agreeOn(execution.session(), [&] {
      if (execution.isRankZero())
        deliver(manifest, request, outputs, options.isBatch);
    });
    if (options.verbose && execution.isRankZero())
      std::fprintf(stderr, "done%s%s\n", request.name.empty() ? "" : ": ",
                   tpc::printable(request.name).c_str());
  }
}

/// Returns the memory plan of the ranks. It is printed before weights are loaded.
std::string planText(const tpc_program &program, const Manifest &manifest, const Task &task) {
  return "Memory for " + task.limitsText() + "\n" +
         memoryPlan(program, manifest, task.largestSteps());
}

void runTask(Execution &execution, Task &task) {
  compareDigests(execution.session(), task.digest(),
                 "has other prompts or flags than rank 0: start all processes with the same flags, "
                 "and with the same files on all hosts");
  if (execution.session())
    execution.session()->doing = "between steps";
  task.run(execution);
}

void run(const tpc_program &program, const Manifest &manifest, const Options &options,
         const Launcher &launcher) {
  std::shared_ptr<Session> session = join(launcher, manifest, options);
  auto compare = [&](const std::vector<Trait> &traits) {
    std::optional<std::string> difference = compareRanks(session.get(), traits);
    agreeOn(session.get(), [&] {
      if (difference)
        throw UserError(*difference);
    });
  };
  compare(traitsOfTask(options));
  if (session)
    session->doing = "while inputs are checked";
  // Errors in inputs are reported before weights are loaded, which may take long.
  std::vector<Inputs> steps;
  std::unique_ptr<Task> task;
  bool writes = !session || session->rank() == 0;
  size_t requests = 1;
  agreeOn(session.get(), [&] {
    if (options.mode == Options::Mode::Run && manifest.generation) {
      task = makeGeneration(manifest, options);
      steps = task->largestSteps();
      if (writes && !options.generation.logits.empty())
        OutputFile::check(options.generation.logits, /*makesFolders=*/false);
      return;
    }
    if (options.mode == Options::Mode::Run && manifest.training) {
      task = makeTraining(manifest, options);
      steps = task->largestSteps();
      return;
    }
    if (options.mode == Options::Mode::Bench) {
      steps.push_back(benchInputs(manifest, options));
      return;
    }
    std::vector<Request> all = requestsOf(options, manifest);
    requests = all.size();
    if (writes)
      checkWritable(all, options.isBatch);
    steps.push_back(readInputs(manifest, all.at(0).inputs, options.shape));
  });
  if (!task)
    compare(traitsOfInputs(manifest, steps.at(0), requests));
  selectDevice(program, session.get(), launcher, manifest, options);
  chooseProducts(session.get(), options);
  if (task) // the largest step may depend on the device
    steps = task->largestSteps();
  std::string found = checkMemory(program, manifest, steps, session.get());
  if (!found.empty() && (!session || session->rank() == 0))
    note(found);
  if (task && !program.gpu_code)
    agreeOn(session.get(), [&] {
      // The rank numbers of this host are known only if all ranks are on this host.
      bool areAllHere = !session || session->ranksOnHost() == manifest.grid.numRanks();
      int first = areAllHere ? 0 : session->rank();
      checkHostMemory(program, manifest, steps, first,
                      areAllHere ? manifest.grid.numRanks() : first + 1, task->limitsText());
    });
  steps.clear();
  if (options.verbose && task && (!session || session->rank() == 0))
    std::fputs(planText(program, manifest, *task).c_str(), stderr);
  std::unique_ptr<DeviceKind> profiled; // outlives the world
  if (options.profile || !options.trace.empty()) {
    profiled = profiledDevices(deviceKind());
    selectDevices(*profiled);
  }
  Execution execution(program, manifest, options, std::move(session));
  if (options.verbose && execution.isRankZero())
    std::fprintf(
        stderr,
        "%d ranks (%s), %d threads each, %s kernels, products by %s, communication by %s; rank "
        "0 loaded %lld bytes of weights in %.2f s\n",
        manifest.grid.numRanks(), execution.transportName(), execution.threadsPerRank(),
        deviceKind().kernels(), deviceKind().products().c_str(),
        deviceKind().communication().c_str(),
        static_cast<long long>(weightBytesOf(manifest, 0).total()), execution.loadSeconds());
  if (options.mode == Options::Mode::Bench)
    bench(execution, manifest, options);
  else if (task)
    runTask(execution, *task);
  else
    runRequests(execution, manifest, options);
}

/// Rejects misspelled values of environment variables, which would be ignored silently.
void checkEnvironment() {
  const char *transport = std::getenv("TPC_TRANSPORT");
  if (transport && *transport && std::strcmp(transport, "threads") != 0 &&
      std::strcmp(transport, "mpi") != 0 && std::strcmp(transport, "tcp") != 0)
    throw UserError(std::string("TPC_TRANSPORT=") + transport +
                    ": expected 'threads', 'mpi' or 'tcp'; without it, the launcher decides");
  if (std::string problem = deviceKind().environmentProblem(); !problem.empty())
    throw UserError(problem);
}

/// Opens closed standard descriptors. The next opened file, such as a weight file, would otherwise
/// get such a number, and messages would overwrite it. Writes to closed standard output still fail.
void occupyStandardDescriptors() {
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO})
    if (fcntl(fd, F_GETFD) < 0)
      (void)!open("/dev/null", fd == STDERR_FILENO ? O_WRONLY : O_RDONLY);
}

void runProgram(const tpc_program &program, int argc, char **argv) {
  Manifest manifest = readManifest(program);
  Launcher launcher = detectLauncher();
  listenEarly(launcher);
  Options options;
  try {
    checkEnvironment();
    options = parseCommandLine(argc, argv, manifest);
    options.timeout =
        options.timeoutGiven.value_or(program.gpu_code ? Options::gpuTimeout : Options::cpuTimeout);
  } catch (const UserError &error) {
    refuseOnce(launcher, error.what());
  }
  if (options.mode == Options::Mode::Help || options.mode == Options::Mode::Describe) {
    std::string text = options.mode == Options::Mode::Help ? helpText(manifest, options.program)
                       : options.json                      ? describeJson(manifest) + "\n"
                                                           : describe(manifest);
    bool isPlanned = options.mode == Options::Mode::Describe && !options.json &&
                     manifest.generation &&
                     (options.generation.maxSequence || manifest.generation->maxSequence);
    if (isPlanned && program.gpu_code)
      text += "Memory for " + makeGeneration(manifest, options)->limitsText() +
              ": a run with --verbose prints it before loading; the memory of a step and of the "
              "GPU's libraries is known only on a machine with the GPU\n";
    else if (isPlanned)
      text += planText(program, manifest, *makeGeneration(manifest, options));
    if (launcher.rank <= 0)
      std::fputs(tpc::printable(text, /*lines=*/true).c_str(), stdout);
  } else if (options.mode == Options::Mode::DescribeDevice) {
    std::string problem, text = describeDevices(program, problem);
    if (launcher.rank <= 0)
      std::fputs(tpc::printable(text, /*lines=*/true).c_str(), stdout);
    if (!problem.empty())
      refuseOnce(launcher, "this program cannot run here: " + problem);
  } else {
    run(program, manifest, options, launcher);
  }
  // If the output exceeds the buffer, a write may have failed before this flush.
  if (std::fflush(stdout) != 0 || std::ferror(stdout))
    throw UserError("cannot write to standard output");
}

} // namespace

extern "C" int tpc_main(const tpc_program *program, int argc, char **argv) {
  // A write beyond the file size limit then fails with an error, which is reported after cleanup.
  std::signal(SIGXFSZ, SIG_IGN);
  occupyStandardDescriptors();
  std::set_terminate(endTerminated);
  EarlyEnd why = EarlyEnd::Failed;
  try {
    runProgram(*program, argc, argv);
    why = EarlyEnd::Absent;
  } catch (const std::bad_alloc &error) {
    printError(textOf(error));
  } catch (const std::exception &error) {
    printError(error.what());
  }
  std::fflush(stdout);
  endEarly(why);
  return why == EarlyEnd::Failed;
}
