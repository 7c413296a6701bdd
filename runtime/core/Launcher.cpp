//===- Launcher.cpp - Detection of the launcher and the rank --------------===//

#include "core/Launcher.h"
#include "core/LaunchMonitor.h"
#include "core/World.h"
#include "tpc/fnv1a.h"
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <unistd.h>

namespace tpc::rt {

namespace {

const char *get(const char *name) {
  const char *text = std::getenv(name);
  return text && *text ? text : nullptr;
}

/// Returns -1 if the text is not a nonnegative number.
long numberOf(const char *text) {
  char *end = nullptr;
  long value = text && *text >= '0' && *text <= '9' ? std::strtol(text, &end, 10) : -1;
  return end && *end == 0 ? value : -1;
}

void addProblem(Launcher &launcher, const std::string &what) {
  if (launcher.problem.empty())
    launcher.problem = what;
}

/// Returns the number in the first variable with a valid number, or -1. Reports earlier variables
/// with other values.
int numberIn(Launcher &launcher, std::initializer_list<const char *> names) {
  constexpr long largest = 1 << 24;
  for (const char *name : names) {
    const char *text = get(name);
    long value = numberOf(text);
    if (value >= 0 && value <= largest)
      return static_cast<int>(value);
    if (text)
      addProblem(launcher, std::string(name) + "=" + text + ": expected a number from 0 to " +
                               std::to_string(largest) + ", in decimal digits");
  }
  return -1;
}

/// Checks rank and size; -1: not given.
void checkRank(Launcher &launcher) {
  if (launcher.size == 0 || (launcher.size > 0 && launcher.rank >= launcher.size))
    addProblem(launcher, "there is no such rank: " + launcher.rankVariable + "=" +
                             std::to_string(launcher.rank) + " of " +
                             std::to_string(launcher.size));
}

/// Returns true if a PMIx server serves this process as one of several. A rank without an address
/// of a server is left over from another process, and MPI_Init would end this one. A step of one
/// task, such as an interactive shell under Slurm, runs all ranks as threads.
bool hasPmixServer() {
  bool found = false;
  for (char **variable = environ; variable && *variable; ++variable)
    found |= !std::strncmp(*variable, "PMIX_SERVER_URI", std::strlen("PMIX_SERVER_URI"));
  const char *tasks = get("SLURM_STEP_NUM_TASKS");
  if (!tasks && (get("SLURM_STEP_ID") || get("SLURM_STEPID")))
    tasks = get("SLURM_NTASKS");
  return found && numberOf(tasks) != 1;
}

bool detectMpi(Launcher &launcher) {
  // Slurm's own variables are also set in a batch script, without a launch; PMI's are not.
  for (const char *name : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK"})
    if (std::getenv(name)) {
      if (!std::strcmp(name, "PMIX_RANK") && !hasPmixServer())
        continue;
      launcher.kind = Launcher::Kind::Mpi;
      launcher.variable = name;
      for (const char *rank : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
        if (get(rank))
          launcher.rankVariable = rank;
      launcher.rank = numberIn(launcher, {"OMPI_COMM_WORLD_RANK", "PMIX_RANK", "PMI_RANK"});
      launcher.size =
          numberIn(launcher, {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"});
      checkRank(launcher);
      return true;
    }
  return false;
}

/// Finds this process's rank among the ranks of its host, and their number. Each launcher has its
/// own variables for these; LOCAL_RANK, if set, takes precedence.
void findLocalRanks(Launcher &launcher) {
  launcher.local = numberIn(launcher, {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                       "MPI_LOCALRANKID", "PMIX_LOCAL_RANK", "SLURM_LOCALID"});
  if (launcher.kind == Launcher::Kind::Mpi)
    launcher.localSize = numberIn(launcher, {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS"});
  if (launcher.kind == Launcher::Kind::Torch)
    launcher.localSize = numberIn(launcher, {"LOCAL_WORLD_SIZE"});
}

/// Sets the rendezvous parameters; rank and size are known.
void findRendezvous(Launcher &launcher, int defaultPort) {
  auto addProblem = [&](const std::string &what) { rt::addProblem(launcher, what); };
  if (launcher.rank < 0 || launcher.size < 1 || launcher.rank >= launcher.size)
    addProblem("there is no such rank: " + launcher.rankVariable + "=" +
               (get(launcher.rankVariable.c_str()) ? get(launcher.rankVariable.c_str()) : "") +
               " of " + std::to_string(launcher.size));
  if (launcher.size == 1)
    return;
  if (const char *address = get("MASTER_ADDR"))
    launcher.address = address;
  if (launcher.address.empty())
    addProblem("MASTER_ADDR, the host of rank 0, is not set");

  // torchrun's agent listens on MASTER_PORT itself.
  launcher.port = defaultPort;
  const char *variable = get("TPC_PORT") ? "TPC_PORT" : "MASTER_PORT";
  if (const char *text = get(variable)) {
    long port = numberOf(text);
    bool own = !std::strcmp(variable, "TPC_PORT");
    if (port < 1 || port > 65535 - !own)
      addProblem(std::string(variable) + "=" + text + ": expected a number from 1 to " +
                 (own ? "65535" : "65534: ranks use the next port"));
    launcher.port = static_cast<int>(port + !own);
  } else if (launcher.port == 0) {
    addProblem("neither MASTER_PORT nor TPC_PORT is set");
  }
}

bool detectTorch(Launcher &launcher) {
  if (!get("RANK") || !get("WORLD_SIZE"))
    return false;
  launcher.kind = Launcher::Kind::Torch;
  launcher.variable = launcher.rankVariable = "RANK";
  launcher.rank = numberIn(launcher, {"RANK"});
  launcher.size = numberIn(launcher, {"WORLD_SIZE"});
  if (const char *run = get("TORCHELASTIC_RUN_ID")) {
    launcher.run = run;
    // Ranks of the last attempt may still run.
    if (const char *restarts = get("TORCHELASTIC_RESTART_COUNT"))
      launcher.run += std::string(", attempt ") + restarts;
  }
  findRendezvous(launcher, 0);
  return true;
}

bool detectSlurm(Launcher &launcher) {
  // A batch script has SLURM_PROCID but is not a step. Steps that Slurm creates itself, such as the
  // shell of salloc, have numbers at the end of the 32-bit range.
  long step = numberOf(get("SLURM_STEP_ID") ? get("SLURM_STEP_ID") : get("SLURM_STEPID"));
  if (step < 0 || step >= 0xfffffff0L || !get("SLURM_PROCID"))
    return false;
  int size = numberIn(launcher, {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  // A single task runs all ranks as threads, as outside of Slurm.
  if (size <= 1)
    return false;
  launcher.kind = Launcher::Kind::Slurm;
  launcher.variable = launcher.rankVariable = "SLURM_PROCID";
  launcher.rank = numberIn(launcher, {"SLURM_PROCID"});
  launcher.size = size;
  const char *job = get("SLURM_JOB_ID") ? get("SLURM_JOB_ID") : "";
  launcher.run = std::string(job) + "." + std::to_string(step);
  for (const char *name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"})
    if (launcher.address.empty() && get(name))
      launcher.address = firstHost(get(name));
  // The default port is below the ephemeral port range, and depends on the step.
  findRendezvous(launcher, static_cast<int>(15000 + fnv1a(launcher.run) % 15000));
  return true;
}

/// Reports a variable of a pair if the other variable is not set and no launcher sets both.
void findIncompletePair(Launcher &launcher) {
  bool hasRank = get("RANK"), hasSize = get("WORLD_SIZE");
  // Without one of these, RANK or WORLD_SIZE alone belongs to another program.
  bool isMeant = get("MASTER_ADDR") || get("MASTER_PORT") || get("TPC_PORT");
  if (hasRank == hasSize || !isMeant)
    return;
  launcher.kind = Launcher::Kind::Torch;
  launcher.variable = hasRank ? "RANK" : "WORLD_SIZE";
  launcher.rank = numberIn(launcher, {"RANK"});
  addProblem(launcher, launcher.variable + " is set, and " + (hasRank ? "WORLD_SIZE" : "RANK") +
                           " is not: each rank needs both");
}

} // namespace

std::string firstHost(const std::string &list) {
  std::string host;
  for (size_t at = 0; at < list.size() && list[at] != ','; ++at) {
    if (list[at] != '[') {
      host += list[at];
      continue;
    }
    size_t close = list.find(']', at), end = list.find_first_of("-,]", at);
    if (close == std::string::npos)
      return "";
    host += list.substr(at + 1, end - at - 1);
    at = close;
  }
  return host;
}

std::string Launcher::key() const {
  std::string text;
  for (const char *name : runVariables)
    text += std::string(get(name) ? get(name) : "") + "\n";
  // Some versions of Open MPI have no run name in the environment.
  return kind == Kind::Mpi && !get("PMIX_NAMESPACE") ? text + std::to_string(getppid()) : text;
}

std::string Launcher::command(Kind kind, int ranks) {
  std::string number = std::to_string(ranks);
  switch (kind) {
  case Kind::Torch:
    return "torchrun --nproc-per-node " + number + " --no-python";
  case Kind::Slurm:
    return "srun -n " + number;
  case Kind::Mpi:
  case Kind::None:
    break;
  }
  return "mpirun --oversubscribe --bind-to none -n " + number;
}

Launcher detectLauncher() {
  Launcher launcher;
  std::string only = get("TPC_TRANSPORT") ? get("TPC_TRANSPORT") : "";
  if (only == "threads")
    return launcher;
  if (only == "tcp" || !detectMpi(launcher))
    if (only == "mpi" || (!detectTorch(launcher) && !detectSlurm(launcher))) {
      if (only != "mpi")
        findIncompletePair(launcher);
      return launcher;
    }
  findLocalRanks(launcher);
  return launcher;
}

std::shared_ptr<Session> joinLauncher(const Launcher &launcher, std::string &error,
                                      double timeout) {
  if (!launcher.problem.empty()) {
    error = launcher.problem + "; this process was started as one rank of several (" +
            launcher.variable + " is set); TPC_TRANSPORT=threads runs all ranks in it";
    return nullptr;
  }
  auto watch = std::make_unique<LaunchMonitor>(launcher, timeout);
  std::shared_ptr<Session> session = launcher.kind == Launcher::Kind::Mpi
                                         ? joinMpi(launcher, error, timeout)
                                         : joinTcp(launcher, error, timeout);
  if (session) {
    watch->enter(LaunchMonitor::Phase::Run); // also for a single rank
    session->launch = std::move(watch);
  }
  return session;
}

} // namespace tpc::rt
