//===- RendezvousReply.h - Greetings of ranks, and rank 0's replies -------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSREPLY_H
#define TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSREPLY_H

#include "transport/sockets/Rendezvous.h"

namespace tpc::rt {

/// Returns "rank 1", or "ranks 1, 2" with at most 16 numbers.
std::string listOf(const std::vector<int> &ranks);
/// Returns the whole timeout, such as "300 s".
std::string secondsOf(const Timeout &deadline);

/// Flags with which a process runs no program, for messages.
inline constexpr const char *flagsOfAbsent = "--help, --describe or --describe-device";

Greeting makeGreeting(const Role &role, Greeting::Kind kind, const ProcessInfo &self,
                      const Nonce &nonce);
/// `why`: reason of a rejection, or empty.
GreetingReply replyOf(const ProcessInfo &self, const std::string &why);

/// Sends a greeting to the listener at `address`. Returns false, with the reason, if no rank 0
/// replies there. A rejection counts as a reply.
bool ask(const Address &address, const Greeting &greeting, Timeout &deadline, Socket &socket,
         GreetingReply &reply, std::string &reason);

/// Replies to ranks of the run, for `seconds` or until all are informed.
void informRanks(const Role &role, RendezvousServer &server, std::vector<bool> informed,
                 const GreetingReply &reply, double seconds);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUSREPLY_H
