//===- LaunchMonitor.cpp - Monitor of the launcher and of sibling ranks ---===//

#include "core/LaunchMonitor.h"
#include "core/Diagnostic.h"
#include "core/MessageClaim.h"
#include "core/Termination.h"
#include "core/Timeout.h"
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <poll.h>
#include <set>
#include <sstream>
#include <string_view>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

namespace tpc::rt {

namespace {

constexpr double period = 0.5; ///< seconds between checks
/// The first checks are more frequent, to observe ranks that end early. So are checks while a
/// sibling is stopped or gone.
constexpr double firstPeriod = 0.1, firstSeconds = 2;
/// Seconds between SIGTERM and the end of the process.
constexpr double graceForTermination = 0.5;
/// mpirun sends SIGTERM to all ranks one second after it has noticed the end of one.
constexpr double graceForMpirun = 1.5;
/// Maximum seconds for which a started rank may be absent.
constexpr double graceForMissing = 1;
/// Maximum seconds for which rank 0 informs ranks that connect late.
constexpr double graceForInformed = 5;
/// A host may have many ranks; each process watches at most this many others.
constexpr size_t maxWatched = 16;

constexpr const char *endedText = " has ended before all ranks were connected: it was killed, has "
                                  "crashed, or has printed an error";
/// For a rank that another process has found stopped and has killed.
constexpr const char *stoppedText =
    " is frozen: its process was stopped (before all ranks were connected)";

std::atomic<bool> ends{false}, hasFailed{false}, informs{false};
std::atomic<LaunchMonitor *> current{nullptr};

std::string folderOf(int64_t process) { return "/proc/" + std::to_string(process); }

/// Environment of a process at its start; empty if it cannot be read.
class Variables {
public:
  explicit Variables(int64_t process) {
    std::ifstream file(folderOf(process) + "/environ", std::ios::binary);
    std::ostringstream bytes;
    bytes << file.rdbuf();
    text = bytes.str();
  }
  bool areKnown() const { return !text.empty(); }
  /// Null: not set.
  const char *get(std::string_view name) const {
    for (size_t at = 0; at < text.size(); at = text.find('\0', at) + 1) {
      if (!text.compare(at, name.size(), name) && text[at + name.size()] == '=')
        return text.c_str() + at + name.size() + 1;
      if (text.find('\0', at) == std::string::npos)
        break;
    }
    return nullptr;
  }

private:
  std::string text;
};

std::vector<int64_t> childrenOf(int64_t process) {
  std::vector<int64_t> children;
  std::error_code error;
  std::filesystem::directory_iterator tasks(folderOf(process) + "/task", error), end;
  for (; !error && tasks != end; tasks.increment(error)) {
    std::ifstream file(tasks->path() / "children");
    for (int64_t child; file >> child;)
      children.push_back(child);
  }
  return children;
}

/// Process that started this one as a rank. Skips intermediate scripts, whose environment also has
/// the rank. None if ranks should outlive the launcher.
PeerProcess launcherOf(const Launcher &launcher) {
  if (!launcher.present() || (launcher.kind == Launcher::Kind::Torch && launcher.run.empty()))
    return {};
  int64_t process = getppid();
  while (process > 1 && Variables(process).get(launcher.variable))
    process = PeerState(process).parent;
  return process > 0 ? PeerProcess(process, true) : PeerProcess();
}

/// Whether two processes run the same executable.
bool isSameFile(int64_t a, int64_t b) {
  struct stat one{}, other{};
  return stat((folderOf(a) + "/exe").c_str(), &one) == 0 &&
         stat((folderOf(b) + "/exe").c_str(), &other) == 0 && one.st_dev == other.st_dev &&
         one.st_ino == other.st_ino;
}

} // namespace

int Siblings::rankOf(int64_t process) const {
  if (!isSameFile(process, getpid()))
    return -1;
  Variables variables(process);
  for (const char *name : Launcher::runVariables) {
    const char *here = std::getenv(name), *there = variables.get(name);
    if (!here != !there || (here && std::strcmp(here, there) != 0))
      return -1;
  }
  const char *rank = variables.get(launcher.rankVariable);
  return rank ? std::atoi(rank) : -1;
}

Siblings::Siblings(const Launcher &launcher) : launcher(launcher), parent(launcherOf(launcher)) {
  if (!parent.number())
    parent = PeerProcess(getppid(), true);
}

int Siblings::startedAs(int64_t process) const {
  auto old = starts.find(process);
  if (old != starts.end() && !old->second.process.hasEnded())
    return old->second.rank;
  const Variables variables(process);
  const char *text = variables.get(launcher.rankVariable);
  PeerProcess peer(process, true);
  int rank = text && *text ? std::atoi(text) : -1;
  if (rank < 0 || peer.hasEnded())
    return -1;
  starts.insert_or_assign(process, Known{rank, peer});
  return rank;
}

void Siblings::add(int64_t child, int depth, std::multimap<int, PeerProcess> &found) {
  if (child == getpid())
    return;
  auto old = known.find(child);
  Known item = old != known.end() ? old->second : Known{rankOf(child), PeerProcess(child, true)};
  // Before exec, a child still has the launcher's executable.
  if (item.rank < 0) {
    for (int64_t below : depth > 0 ? childrenOf(child) : std::vector<int64_t>())
      add(below, depth - 1, found);
    return;
  }
  if (item.process.hasEnded())
    return;
  found.emplace(item.rank, item.process);
  seen.emplace(child, item);
}

std::multimap<int, PeerProcess> Siblings::find() {
  constexpr int deepest = 3; // nesting depth of scripts
  std::multimap<int, PeerProcess> found;
  ranks = {launcher.rank};
  quiet = false;
  if (launcher.rankVariable.empty())
    return found;
  seen.clear();
  quiet = parent.state() == PeerProcess::State::Asleep;
  for (int64_t child : childrenOf(parent.number())) {
    int rank = startedAs(child);
    if (rank >= 0) {
      ranks.insert(rank);
      add(child, deepest, found);
    } else if (isSameFile(child, parent.number())) {
      quiet = false; // a child before its exec
    }
  }
  known = std::move(seen);
  return found;
}

bool Siblings::hasRankZero() const {
  std::vector<int64_t> children = childrenOf(parent.number());
  return std::any_of(children.begin(), children.end(),
                     [&](int64_t child) { return child != getpid() && startedAs(child) == 0; });
}

bool Siblings::exist() const {
  std::vector<int64_t> children = childrenOf(parent.number());
  return !launcher.rankVariable.empty() &&
         std::any_of(children.begin(), children.end(), [&](int64_t child) {
           int rank = startedAs(child);
           return rank >= 0 && rank != launcher.rank;
         });
}

LaunchMonitor::LaunchMonitor(const Launcher &launcher, double timeout)
    : launcher(launcher), timeout(timeout), process(launcherOf(launcher)), siblings(launcher),
      wakeUp(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
  Termination::expect();
  current.store(this);
  thread = std::thread(&LaunchMonitor::run, this);
}

LaunchMonitor::~LaunchMonitor() {
  current.store(nullptr);
  over.store(true);
  eventfd_write(wakeUp, 1);
  thread.join();
  close(wakeUp);
  if (phase.load() == Phase::Start)
    Termination::forget();
}

void LaunchMonitor::enter(Phase next) {
  // From now on the watchdog of all ranks handles SIGTERM.
  if (phase.exchange(next) == Phase::Start)
    Termination::forget();
}

bool LaunchMonitor::endsProcess() { return ends.load(); }

void LaunchMonitor::noteThatRanksHaveMet() {
  if (LaunchMonitor *watch = current.load())
    watch->enter(Phase::Run);
}

bool LaunchMonitor::claimReport(int rank) {
  LaunchMonitor *watch = current.load();
  return !watch || claimMessage(watch->launcher.key(), "rank " + std::to_string(rank));
}

void LaunchMonitor::noteFailure() { hasFailed.store(true); }
bool LaunchMonitor::hasReported() { return hasFailed.load(); }
void LaunchMonitor::delaysEnd(bool is) { informs.store(is); }

void LaunchMonitor::run() {
  using Clock = std::chrono::steady_clock;
  auto last = Clock::now();
  for (double waited = 0, sinceFull = period; !over.load();) {
    Phase now = phase.load();
    if (now == Phase::Start && Termination::isRequested())
      endTerminated();
    auto time = Clock::now();
    // After this process was stopped, the first check accounts for one period.
    double passed = std::min(std::chrono::duration<double>(time - last).count(), period);
    last = time;
    waited += passed;
    sinceFull += passed;
    if (process.hasEnded())
      end("launcher", "the launcher (process " + std::to_string(process.number()) +
                          ") has ended, and with it end the ranks that it started");
    bool isFull = sinceFull >= period;
    if (isFull)
      sinceFull = 0;
    if (now != Phase::Run && timeout > 0)
      judgeSiblings(passed, isFull, now);
    bool isFirst = now != Phase::Run && (waited < firstSeconds || isSuspicious);
    pollfd polled[] = {{wakeUp, POLLIN, 0}, {Termination::event(), POLLIN, 0}};
    poll(polled, now == Phase::Start ? 2 : 1,
         static_cast<int>(1e3 * (isFirst ? firstPeriod : period)));
  }
}

void LaunchMonitor::endTerminated() {
  ends.store(true);
  bool isNamed = hasFailed.load();
  for (double waited = 0; waited < graceForTermination; waited += firstPeriod) {
    std::multimap<int, PeerProcess> found = siblings.find();
    // The launcher's signal ends the others; so the rank that ended first is at fault.
    auto first = fates.end();
    for (auto fate = fates.begin(); fate != fates.end(); ++fate)
      if (!found.contains(fate->first) &&
          (first == fates.end() || fate->second.gone > first->second.gone))
        first = fate;
    if (!isNamed && first != fates.end()) {
      isNamed = true;
      std::string name = "rank " + std::to_string(first->first);
      report(name, name + (first->second.wasStopped ? stoppedText : endedText));
      noteFailure();
    }
    poll(nullptr, 0, static_cast<int>(1e3 * firstPeriod));
  }
  if (!isNamed && claimMessage(launcher.key(), "termination"))
    printDiagnostic("note", "rank " + std::to_string(launcher.rank) +
                                " received SIGTERM before all ranks were connected");
  std::signal(SIGTERM, SIG_DFL);
  kill(getpid(), SIGTERM);
  _exit(128 + SIGTERM);
}

void LaunchMonitor::judgeSiblings(double passed, bool isFull, Phase now) {
  std::multimap<int, PeerProcess> found = siblings.find();
  // Checks ranks after this one first, then wraps around.
  std::set<int> ranks;
  for (auto &[rank, fate] : fates)
    ranks.insert(rank);
  auto next = found.upper_bound(launcher.rank);
  for (size_t i = 0; i < found.size() && ranks.size() < maxWatched; ++i, ++next) {
    if (next == found.end())
      next = found.begin();
    ranks.insert(next->first);
  }
  isSuspicious = false;
  for (int rank : ranks) {
    auto [first, last] = found.equal_range(rank);
    Fate &fate = fates[rank];
    auto all = [first = first, last = last](bool (PeerProcess::*is)() const) {
      return first != last &&
             std::all_of(first, last, [is](const auto &item) { return (item.second.*is)(); });
    };
    fate.isStopped = all(&PeerProcess::isStoppedBySignal) ||
                     ((isFull || fate.isStopped) && all(&PeerProcess::isStopped));
    isSuspicious |= fate.isStopped || first == last;
    if (first != last)
      fate.wasStopped = fate.isStopped;
    fate.gone = first == last ? fate.gone + passed : 0;
    fate.stopped = fate.isStopped ? fate.stopped + passed : 0;
    std::string name = "rank " + std::to_string(rank);
    if (fate.stopped >= Silence::ofStopped) {
      bool byFreezer = first->second.state() == PeerProcess::State::Frozen;
      char text[16];
      std::snprintf(text, sizeof(text), "%.0f s", fate.stopped);
      end(name,
          name + " is frozen: its " +
              (byFreezer ? "control group was frozen, " : "process was stopped, ") + text +
              " ago " +
              (now == Phase::Start ? "(before all ranks were connected)"
                                   : "(at the end of the run)"),
          /*isFrozen=*/true);
    }
    // Another process has found this rank stopped, has killed it, and reports that.
    if (now == Phase::Start && fate.wasStopped && fate.gone >= firstPeriod)
      end(name, name + stoppedText, /*isFrozen=*/true);
  }
  // Other ranks may have ended because this one did.
  auto first = std::max_element(fates.begin(), fates.end(), [](const auto &a, const auto &b) {
    return a.second.gone < b.second.gone;
  });
  if (now == Phase::Start && first != fates.end() && first->second.gone >= graceForOthers) {
    std::string name = "rank " + std::to_string(first->first);
    end(name, name + endedText);
  }
  if (now == Phase::Start)
    judgeMissing(passed);
}

void LaunchMonitor::judgeMissing(double passed) {
  int expected = launcher.localSize, numStarted = static_cast<int>(siblings.started().size());
  if (!process.number() || expected < 0 || numStarted >= expected) {
    missing = 0;
    return;
  }
  if (siblings.isQuiet())
    missing += passed;
  if (missing < graceForMissing)
    return;
  std::vector<int> absent;
  for (int rank = 0; expected == launcher.size && rank < expected; ++rank)
    if (!siblings.started().contains(rank))
      absent.push_back(rank);
  // With several hosts, the rank numbers of this host are unknown.
  std::string subject = std::to_string(expected - numStarted) + " of the " +
                        std::to_string(expected) + " ranks of this host";
  bool isOne = expected - numStarted == 1;
  if (!absent.empty()) {
    subject = isOne ? "rank " : "ranks ";
    for (size_t i = 0; i < absent.size(); ++i)
      subject += (i ? ", " : "") + std::to_string(absent[i]);
  }
  end(subject,
      subject + (isOne ? " has" : " have") +
          " ended before all ranks were connected, without taking part: all processes must run "
          "this program, and none with --help or --describe");
}

void LaunchMonitor::report(const std::string &subject, const std::string &message) const {
  if (claimMessage(launcher.key(), subject))
    printDiagnostic("error", message);
}

void LaunchMonitor::awaitTermination(double seconds) {
  for (Timeout grace(seconds); !grace.isOver() && !Termination::isRequested();) {
    pollfd polled{Termination::event(), POLLIN, 0};
    poll(&polled, 1, static_cast<int>(1e3 * firstPeriod));
  }
}

void LaunchMonitor::end(const std::string &subject, const std::string &message, bool isFrozen) {
  noteFailure();
  ends.store(true);
  bool reports = claimMessage(launcher.key(), subject);
  // Before the message, whose output may block.
  for (auto &[rank, sibling] : siblings.find())
    if (sibling.isStopped())
      sibling.kill();
  if (reports)
    printDiagnostic("error", message);
  // All processes of this host detect the same error, each at its next check. Under mpirun, they
  // also stay until mpirun has processed the end of the frozen rank. Otherwise mpirun may hang: the
  // server of PMIx 4.2 frees a fence of MPI_Init twice if it loses a rank that the fence waits for
  // and another rank at the same time.
  if (isFrozen && launcher.kind == Launcher::Kind::Mpi)
    awaitTermination(graceForMpirun);
  else
    poll(nullptr, 0, static_cast<int>(1.2e3 * period));
  // The claim ends with this process. Until then, no other process reports the same error.
  for (double waited = 0; reports && isFrozen && waited < graceForTermination + firstPeriod;
       waited += firstPeriod) {
    std::multimap<int, PeerProcess> found = siblings.find();
    if (std::all_of(found.begin(), found.end(),
                    [](const auto &item) { return item.second.isStopped(); }))
      break;
    poll(nullptr, 0, static_cast<int>(1e3 * firstPeriod));
  }
  for (Timeout grace(graceForInformed); informs.load() && !grace.isOver();)
    poll(nullptr, 0, static_cast<int>(1e3 * firstPeriod));
  _exit(1);
}

} // namespace tpc::rt
