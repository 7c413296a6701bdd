//===- MessageClaim.h - Deduplication of an error message on one host -----===//
//
// Several processes of a host may detect the same error at once. The one that binds an abstract
// socket with an agreed name prints it. The system frees the name as soon as that process ends.
//
//===----------------------------------------------------------------------===//

#ifndef TPC_RT_CORE_MESSAGECLAIM_H
#define TPC_RT_CORE_MESSAGECLAIM_H

#include <string>

namespace tpc::rt {

class MessageClaim {
public:
  MessageClaim() = default;
  ~MessageClaim();
  MessageClaim(const MessageClaim &) = delete;
  MessageClaim &operator=(const MessageClaim &) = delete;

  /// Whether this process owns the name, now or from an earlier call. True if the system has no
  /// abstract sockets.
  bool claim(const std::string &name);

private:
  int descriptor = -1;
};

/// Whether this process should report a start-up error about `subject`: no other process of the run
/// on this host has claimed it. `run`: a string that is equal in all processes of the run.
bool claimMessage(const std::string &run, const std::string &subject);

} // namespace tpc::rt

#endif // TPC_RT_CORE_MESSAGECLAIM_H
