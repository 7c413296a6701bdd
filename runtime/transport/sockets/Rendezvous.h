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
#include "transport/sockets/Reception.h"
#include <functional>

namespace tpc::rt {

/// Which of the ranks of which run.
struct Role {
  int rank, size;
  std::string run;
};

struct Meeting {
  std::vector<Socket> lines; ///< of rank 0: to each rank; of the others: to rank 0
  std::vector<Attendee> attendees;
  Nonce nonce{};

  /// Gives the lines away.
  std::vector<Watch::Member> members();
  /// Ranks of the host of `rank`, and the cores that they may use together.
  int ranksOnHost(int rank) const;
  int coresOnHost(int rank) const;
};

/// Rank 0 waits for the others. `where`: what it listens on, for the message when somebody does not
/// come.
bool receiveAll(const Role &role, const Attendee &self, Socket listener, const std::string &where,
                Patience &patience, Meeting &meeting, std::string &error);

/// The others come. `find`: the addresses of rank 0; asked again until it is there. The error is
/// empty where rank 0 says what is wrong.
bool attend(const Role &role, const Attendee &self, const std::string &where,
            const std::function<std::vector<Address>(std::string &)> &find, Patience &patience,
            Meeting &meeting, std::string &error);

/// A listener for the others, and where they find it: on TPC_INTERFACE, if that is set; else
/// everywhere, or only on this host.
Socket listenForOthers(bool onlyHere, Attendee &self, std::string &error);

/// Connects each with each. `sockets` by rank.
bool connectAll(const Role &role, const Meeting &meeting, Socket listener, Patience &patience,
                std::vector<Socket> &sockets, std::string &error);

/// How long ranks wait for each other at the start, of a timeout that may be 0: never.
double startTimeout(double timeout);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H
