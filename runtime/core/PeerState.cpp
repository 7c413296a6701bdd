//===- PeerState.cpp - Observable state of a process on this host ---------===//

#include "core/PeerState.h"
#include "core/ControlGroup.h"
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string_view>
#include <sys/types.h>

namespace tpc::rt {

namespace {

/// Fields of a file `stat` after the process name, which may contain any characters. The first is
/// field 3, the state.
std::istringstream fieldsOf(const std::string &path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  size_t at = line.rfind(')');
  return std::istringstream(at == std::string::npos ? "" : line.substr(at + 1));
}

/// A thread that runs, waits for a core, or waits for a disk cannot send heartbeats.
bool anyThreadRuns(int64_t process) {
  std::error_code error;
  std::filesystem::directory_iterator tasks("/proc/" + std::to_string(process) + "/task", error);
  for (; !error && tasks != std::filesystem::directory_iterator(); tasks.increment(error)) {
    char state = 0;
    fieldsOf(tasks->path().string() + "/stat") >> state;
    if (state != 'S' && state != 'I')
      return true;
  }
  return static_cast<bool>(error);
}

} // namespace

PeerState::PeerState(int64_t process) {
  std::istringstream fields = fieldsOf("/proc/" + std::to_string(process) + "/stat");
  std::string field;
  for (int number = 3; number <= 22 && fields >> field; ++number)
    if (number == 3)
      state = field[0];
    else if (number == 4)
      parent = std::strtoll(field.c_str(), nullptr, 10);
    else if (number == 9)
      exits = std::strtoull(field.c_str(), nullptr, 10) & 4; // PF_EXITING
    else if (number == 22)
      begin = std::strtoull(field.c_str(), nullptr, 10);
}

PeerProcess::PeerProcess(int64_t process, bool isNear)
    : process(process), begin(isNear ? PeerState(process).begin : 0) {}

PeerProcess::State PeerProcess::state() const {
  if (begin == 0)
    return State::Unseen;
  PeerState peer(process);
  if (peer.begin != begin || !peer.state)
    return State::Unseen;
  switch (peer.state) {
  case 'Z':
  case 'X':
  case 'x':
    return State::Ended;
  case 't':
    return State::Traced;
  case 'T':
    return State::Stopped;
  case 'S':
    if (anyThreadRuns(process))
      return State::Runs;
    [[fallthrough]];
  case 'D':
    if (ControlGroup("", process).isFrozen())
      return State::Frozen;
    return peer.state == 'S' ? State::Asleep : State::Runs;
  default:
    return State::Runs;
  }
}

bool PeerProcess::isStopped() const {
  State now = state();
  return now == State::Stopped || now == State::Frozen;
}

bool PeerProcess::isStoppedBySignal() const {
  if (begin == 0)
    return false;
  PeerState peer(process);
  return peer.begin == begin && peer.state == 'T';
}

bool PeerProcess::hasEnded() const {
  if (begin == 0)
    return false;
  PeerState peer(process);
  if (peer.state)
    return peer.begin != begin || std::string_view("ZXx").find(peer.state) != std::string::npos;
  return ::kill(static_cast<pid_t>(process), 0) != 0 && errno == ESRCH;
}

bool PeerProcess::isAlive() const {
  State now = state();
  return now != State::Unseen && now != State::Ended && !PeerState(process).exits;
}

uint64_t PeerProcess::countWaits() const {
  if (begin == 0)
    return 0;
  std::error_code error;
  std::filesystem::path tasks = "/proc/" + std::to_string(process) + "/task";
  std::filesystem::path thread = tasks / std::to_string(process);
  for (std::filesystem::directory_iterator task(tasks, error), end; !error && task != end;
       task.increment(error)) {
    std::string name;
    std::getline(std::ifstream(task->path() / "comm") >> std::ws, name);
    if (name == watchThreadName)
      thread = task->path();
  }
  std::ifstream status(thread / "status");
  for (std::string word; status >> word;)
    if (uint64_t count = 0; word == "voluntary_ctxt_switches:" && status >> count)
      return count;
  return 0;
}

void PeerProcess::kill() const {
  if (begin != 0 && process > 1 && PeerState(process).begin == begin)
    ::kill(static_cast<pid_t>(process), SIGKILL);
}

std::string Silence::judge(bool received, double passed, const PeerProcess &peer,
                           const std::string &address) {
  using State = PeerProcess::State;
  constexpr double longestPause = 0.2; // between two messages
  seconds = received ? 0 : seconds + passed;
  if (seconds < longestPause)
    stopped = false;
  else if (!peer.hasEnded())
    stopped = peer.isStoppedBySignal();
  if (seconds < ofStopped) {
    waits = 0;
    return "";
  }
  State state = peer.state();
  if (waits == 0)
    waits = peer.countWaits();
  if (state == State::Traced)
    seconds = 0;
  bool isStopped = state == State::Stopped || state == State::Frozen;
  // A thread that starts a new wait has sent the previous heartbeat.
  constexpr uint64_t heartbeats = 4;
  cutOff = !isStopped && seconds >= ofCutOff && peer.countWaits() >= waits + heartbeats;
  double limit = cutOff                 ? ofCutOff
                 : isStopped            ? ofStopped
                 : state == State::Runs ? ofStarved
                                        : ofUnseen;
  if (seconds < limit)
    return "";
  char text[16];
  std::snprintf(text, sizeof(text), "%.0f s", seconds);
  if (cutOff)
    return "is cut off: its process runs, but nothing was received from it for " +
           std::string(text) +
           "; something between the two processes, such as a proxy, does not forward it";
  if (state == State::Unseen && !address.empty())
    return "is frozen or cut off: nothing was received from " + address + " for " + text +
           "; its process is stopped, its host is down, or the network between them is cut";
  return std::string("is frozen: ") +
         (state == State::Stopped  ? "its process was stopped"
          : state == State::Frozen ? "its control group was frozen"
                                   : "its process sends no heartbeats") +
         ", " + text + " ago";
}

} // namespace tpc::rt
