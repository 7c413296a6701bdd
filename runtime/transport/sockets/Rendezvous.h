//===- Rendezvous.h - Start-up connection of all processes ----------------===//
//
// Rank 0 listens. The other ranks connect to its address and send a greeting. When all have
// connected, rank 0 sends the table of all ranks. Each rank keeps its connection to rank 0 for
// heartbeats (core/Watchdog.h). Transports that send data over sockets also connect all pairs
// (`connectAll`).
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H
#define TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H

#include "core/EarlyEnd.h"
#include "core/Watchdog.h"
#include "transport/sockets/PeerConnection.h"
#include "transport/sockets/RendezvousServer.h"
#include <functional>
#include <memory>
#include <vector>

namespace tpc::rt {

/// Rank and run of this process.
struct Role {
  int rank, size;
  std::string run;           ///< id of the run
  std::string key;           ///< Launcher::key
  bool judgesSilence = true; ///< false: a frozen rank is no error
};

struct ConnectedRanks {
  /// On rank 0: one for each rank; on others: one for rank 0.
  std::vector<PeerConnection> connections;
  std::vector<ProcessInfo> processes;
  Nonce nonce{};
  /// Set on rank 0 after the start has failed; rejects late ranks.
  std::unique_ptr<RendezvousServer> server;
  std::string reason; ///< reason that late ranks receive; empty: the error's text
  int ended = -1;     ///< rank that ended before it connected, and needs no reply

  /// Moves the sockets into the returned members.
  std::vector<Watchdog::Member> members();
  /// Number of ranks on the host of `rank`, and number of cores that they may use together.
  int ranksOnHost(int rank) const;
  int coresOnHost(int rank) const;
};

/// Waits for all other ranks; called by rank 0. `where`: listening address, for the message about a
/// missing rank. `error` is empty if the error has been printed.
bool acceptRanks(const Role &role, const ProcessInfo &self, Socket listener,
                 const std::string &where, Timeout &deadline, ConnectedRanks &connectedRanks,
                 std::string &error);

/// Connects to rank 0; called by the other ranks. `find`: returns the addresses of rank 0; called
/// again until rank 0 responds. `error` is empty if the error has been printed, or rank 0 prints
/// it.
bool joinRendezvous(const Role &role, const ProcessInfo &self, const std::string &where,
                    const std::function<std::vector<Address>(std::string &)> &find,
                    Timeout &deadline, ConnectedRanks &connectedRanks, std::string &error);

/// Returns "another process (1234) is rank 0 there already", or an empty string if no rank 0 that
/// waits for others listens at `address`.
std::string findOtherRankZero(const Role &role, const ProcessInfo &self, const Address &address);

/// Informs ranks that connect late of an error, for some seconds or until all are informed. Called
/// after acceptRanks has failed and the error has been printed.
void refuseLate(const Role &role, ConnectedRanks &connectedRanks, const std::string &error);

/// Rejects all other ranks, for `seconds` or until all are informed. Called by a rank 0 that ends
/// before acceptRanks.
void refuseAll(const Role &role, Socket listener, EarlyEnd why, double seconds);

/// Informs the rank 0 at one of `addresses` that this rank ends. Returns the state of rank 0. The
/// connection stays open until this process has ended, so that rank 0 ends after it.
RankZero announceEnd(const Role &role, const std::vector<Address> &addresses, EarlyEnd why,
                     Timeout &deadline);

/// Makes a listener and its addresses: on TPC_INTERFACE if set; otherwise on all interfaces, or
/// only on this host.
Socket listenForOthers(bool onlyHere, ProcessInfo &self, std::string &error);

/// Connects all pairs of ranks. `sockets`: by rank.
bool connectAll(const Role &role, const ConnectedRanks &connectedRanks, Socket listener,
                Timeout &deadline, std::vector<Socket> &sockets, std::string &error);

/// Seconds that ranks wait for each other at start-up, given a timeout that may be 0 (never).
double startTimeout(double timeout);

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_SOCKETS_RENDEZVOUS_H
