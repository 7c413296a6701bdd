//===- MessageClaim.h - one process of a host reports an error -----------------===//
//
// Several processes of a host may find the same error at once. The one that binds an abstract
// socket of an agreed name prints it. The name is free again as soon as that process has ended,
// however it did.
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

  /// Whether this process has the name, now or from an earlier call. True as well where the system
  /// has no such sockets.
  bool claim(const std::string &name);

private:
  int descriptor = -1;
};

/// Whether this process is the one to report an error about `subject` at a start: no other process
/// of the same run on this host has claimed it. `run`: a text that all processes of the run agree
/// on.
bool claimMessage(const std::string &run, const std::string &subject);

} // namespace tpc::rt

#endif // TPC_RT_CORE_MESSAGECLAIM_H
