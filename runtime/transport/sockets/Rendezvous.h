//===- Rendezvous.h - how processes find each other -----------------------===//
//
// Rank 0 listens, the others know where and greet it. When all have come, rank 0 tells all who
// there is. Each keeps its connection to rank 0, over which they watch each other (core/Watch.h);
// those that want to send each other data connect as well (`connectAll`).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H
#define TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H

#include "core/Watch.h"
#include "transport/sockets/Attendance.h"
#include "transport/sockets/Reception.h"
#include <functional>
#include <memory>
#include <vector>

namespace tpc::rt {

/// Which of the ranks of which run.
struct Role {
  int rank, size;
  std::string run;
  std::string key;           ///< of the launcher: Launcher::key
  bool judgesSilence = true; ///< false: frozen ranks are waited for
};

struct Meeting {
  /// Of rank 0: of each rank; of the others: of rank 0.
  std::vector<Arrival> arrivals;
  std::vector<Attendee> attendees;
  Nonce nonce{};
  /// Of rank 0, after a rank was refused that belongs to the run: for those that come later.
  std::unique_ptr<Reception> reception;

  /// Gives the lines away.
  std::vector<Watch::Member> members();
  /// Ranks of the host of `rank`, and the cores that they may use together.
  int ranksOnHost(int rank) const;
  int coresOnHost(int rank) const;
};

/// Rank 0 waits for the others. `where`: what it listens on, for the message when somebody does not
/// come. The error is empty where it has been printed.
bool receiveAll(const Role &role, const Attendee &self, Socket listener, const std::string &where,
                Timeout &patience, Meeting &meeting, std::string &error);

/// The others come. `find`: the addresses of rank 0; asked again until it is there. The error is
/// empty where it has been printed, or rank 0 prints it.
bool attend(const Role &role, const Attendee &self, const std::string &where,
            const std::function<std::vector<Address>(std::string &)> &find, Timeout &patience,
            Meeting &meeting, std::string &error);

/// "another process (1234) is rank 0 there already", or nothing if no rank 0 that still waits for
/// others listens at `address`.
std::string findOtherRankZero(const Role &role, const Attendee &self, const Address &address);

/// After receiveAll has failed and the error has been printed: tells ranks that come too late, for
/// some seconds, or until all have been told.
void refuseLate(const Role &role, Meeting &meeting, const std::string &error);

/// A listener for the others, and where they find it: on TPC_INTERFACE, if that is set; else
/// everywhere, or only on this host.
Socket listenForOthers(bool onlyHere, Attendee &self, std::string &error);

/// Connects each with each. `sockets` by rank.
bool connectAll(const Role &role, const Meeting &meeting, Socket listener, Timeout &patience,
                std::vector<Socket> &sockets, std::string &error);

/// How long ranks wait for each other at the start, of a timeout that may be 0: never.
double startTimeout(double timeout);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H
