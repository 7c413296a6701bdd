//===- TcpSession.cpp - Session of processes over TCP ---------------------===//

#include "core/Cores.h"
#include "core/Diagnostic.h"
#include "transport/messages/ProcessSession.h"
#include "transport/sockets/Rendezvous.h"
#include "transport/tcp/SharedRings.h"
#include "transport/tcp/TcpMessenger.h"
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <poll.h>
#include <sys/resource.h>
#include <utility>

namespace tpc::rt {

namespace {

/// Seconds for which a process that ends early informs the others: rank 0 after an error or without
/// one, and other ranks.
constexpr double secondsOfFailed = 3, secondsOfAbsent = 2, secondsToDeliver = 2;
constexpr double secondsToResolve = 1;

/// Raises the limit of open files to two sockets per peer (rank 0 has as many), and some more.
void allowSockets(int size) {
  rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) == 0 &&
      limit.rlim_cur < static_cast<rlim_t>(size) * 2 + 256) {
    limit.rlim_cur = std::min(limit.rlim_max, static_cast<rlim_t>(size) * 2 + 256);
    setrlimit(RLIMIT_NOFILE, &limit);
  }
}

/// Whether rank 0's address is the same on all hosts: a numeric address, or "localhost". A host
/// name may resolve differently on its own host.
bool isExact(const Launcher &launcher, const Address &address) {
  std::string number = address.text();
  number = number.substr(0, number.rfind(':'));
  return launcher.address == "localhost" || launcher.address == number ||
         "[" + launcher.address + "]" == number;
}

/// Listens on rank 0's address if that is the same on all hosts, otherwise on all interfaces.
Socket tryListen(const Launcher &launcher, Address &address, std::string &error) {
  if (!isExact(launcher, address))
    address = anyAddress(launcher.port);
  errno = 0;
  Socket listener = listenOn(address, std::max(launcher.size, 64), error);
  if (!listener && errno == EADDRNOTAVAIL) {
    address = anyAddress(launcher.port);
    listener = listenOn(address, std::max(launcher.size, 64), error);
  }
  return listener;
}

/// Listens as rank 0. The error names another rank 0 of the run, if one exists.
Socket listenAsFirst(const Launcher &launcher, const Role &role, const ProcessInfo &self,
                     const Address &found, std::string &error) {
  Address address = found;
  Socket listener = tryListen(launcher, address, error);
  if (listener)
    return listener;
  bool isInUse = errno == EADDRINUSE;
  std::string other = isInUse ? findOtherRankZero(role, self, found) : "";
  error = "rank 0 cannot listen on " + address.text() + ": " + (other.empty() ? error : other) +
          (!other.empty() ? "; each process of a run must have a different RANK, and each run "
                            "a different TPC_PORT"
           : isInUse      ? "; TPC_PORT chooses another port, on all ranks"
                          : "");
  return listener;
}

/// State of core/EarlyEnd.h.
struct Early {
  Launcher launcher;
  Socket listener;    ///< on rank 0
  bool isOver = true; ///< the process joins, or has informed the others
};

Early &early() {
  static Early state;
  return state;
}

} // namespace

void listenEarly(const Launcher &launcher) {
  bool isTcp = launcher.kind == Launcher::Kind::Torch || launcher.kind == Launcher::Kind::Slurm;
  if (!isTcp || !launcher.problem.empty() || launcher.size <= 1)
    return;
  early().launcher = launcher;
  early().isOver = false;
  if (launcher.rank != 0)
    return;
  allowSockets(launcher.size);
  Timeout deadline(secondsToResolve);
  std::string ignored; // joinTcp tries again, and reports errors
  std::vector<Address> found = resolve(launcher.address, launcher.port, deadline, ignored);
  if (!found.empty())
    early().listener = tryListen(launcher, found[0], ignored);
}

RankZero endEarly(EarlyEnd why) {
  if (std::exchange(early().isOver, true))
    return RankZero::Unknown;
  const Launcher &launcher = early().launcher;
  Role role{launcher.rank, launcher.size, launcher.run, launcher.key()};
  double seconds = why == EarlyEnd::Failed ? secondsOfFailed : secondsOfAbsent;
  if (launcher.rank == 0) {
    if (early().listener)
      refuseAll(role, std::move(early().listener), why, seconds);
    return why == EarlyEnd::Failed ? RankZero::Failed : RankZero::Waits;
  }
  RankZero state = RankZero::Unknown;
  std::string ignored;
  for (Timeout deadline(secondsToDeliver); state == RankZero::Unknown && !deadline.isOver();) {
    state = announceEnd(role, resolve(launcher.address, launcher.port, deadline, ignored), why,
                        deadline);
    if (state == RankZero::Unknown)
      poll(nullptr, 0, 50);
  }
  return state;
}

std::shared_ptr<Session> joinTcp(const Launcher &launcher, std::string &error, double timeout) {
  auto fail = [&]() -> std::shared_ptr<Session> {
    if (!error.empty() && launcher.rank >= 0)
      error = "rank " + std::to_string(launcher.rank) + ": " + error;
    return nullptr;
  };
  early().isOver = true;
  Role role{launcher.rank, launcher.size, launcher.run, launcher.key(), timeout > 0};
  Timeout deadline(startTimeout(timeout));
  ProcessInfo self = ProcessInfo::self();
  ConnectedRanks connectedRanks;
  std::unique_ptr<Watchdog> watch;
  std::vector<Socket> sockets(1);
  std::vector<std::unique_ptr<Stream>> streams(role.size);
  if (role.size == 1) {
    connectedRanks.processes = {self};
    watch = std::make_unique<Watchdog>(0, connectedRanks.members(), timeout);
  } else {
    allowSockets(role.size);
    std::string where = launcher.address + ":" + std::to_string(launcher.port);
    auto find = [&](std::string &reason) {
      return resolve(launcher.address, launcher.port, deadline, reason);
    };
    std::vector<Address> found = find(error);
    if (found.empty())
      return fail();
    Socket first, listener;
    if (role.rank == 0 && !(first = std::move(early().listener)) &&
        !(first = listenAsFirst(launcher, role, self, found[0], error)))
      return fail();
    bool onlyHere = isExact(launcher, found[0]) && found[0].isLoopback();
    if (!(listener = listenForOthers(onlyHere, self, error)))
      return fail();
    bool met =
        role.rank == 0
            ? acceptRanks(role, self, std::move(first), where, deadline, connectedRanks, error)
            : joinRendezvous(role, self, where, find, deadline, connectedRanks, error);
    if (!met) {
      fail();
      if (!connectedRanks.server)
        return nullptr;
      if (!error.empty())
        printDiagnostic("error", error);
      refuseLate(role, connectedRanks, std::exchange(error, ""));
      return nullptr;
    }
    watch = std::make_unique<Watchdog>(role.rank, connectedRanks.members(), timeout);
    if (!connectAll(role, connectedRanks, std::move(listener), deadline, sockets, error) ||
        !shareRings(role, connectedRanks, deadline, sockets, streams, error)) {
      // The watchdog names an ended rank with more detail.
      for (Timeout grace(graceForOthers, &deadline); !grace.isOver();)
        poll(nullptr, 0, 50);
      fail();
      printDiagnostic("error", std::exchange(error, ""));
      watch->failWorld();
      return nullptr;
    }
  }
  const std::vector<ProcessInfo> &all = connectedRanks.processes;
  for (int peer = 0; peer < role.size; ++peer)
    if (peer != role.rank && !streams[peer])
      streams[peer] = std::make_unique<SocketStream>(std::move(sockets[peer]),
                                                     all[role.rank].hostName, all[peer].hostName,
                                                     /*mustFindCuts=*/timeout > 0);
  ProcessSession::RankInfo info{role.rank, role.size, connectedRanks.ranksOnHost(role.rank),
                                std::min(connectedRanks.coresOnHost(role.rank), quotaCores())};
  return std::make_shared<ProcessSession>(std::make_unique<TcpMessenger>(std::move(streams)), info,
                                          std::move(watch));
}

} // namespace tpc::rt
