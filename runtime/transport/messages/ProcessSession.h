//===- ProcessSession.h - Session of processes over a Messenger -----------===//

#ifndef TPC_RT_TRANSPORT_MESSAGES_PROCESSSESSION_H
#define TPC_RT_TRANSPORT_MESSAGES_PROCESSSESSION_H

#include "core/World.h"
#include "transport/messages/Messenger.h"

namespace tpc::rt {

/// Session of every transport that has a Messenger.
class ProcessSession final : public Session {
public:
  /// This rank, the number of ranks, and the ranks and usable cores of this host.
  struct RankInfo {
    int rank = 0, size = 1, onHost = 1, coresOnHost = 1;
  };

  ProcessSession(std::unique_ptr<Messenger> messenger, const RankInfo &info,
                 std::unique_ptr<Watchdog> watch);
  ~ProcessSession() override;

  int rank() const override { return info.rank; }
  int size() const override { return info.size; }
  int ranksOnHost() const override { return info.onHost; }
  int coresOnHost() const override { return info.coresOnHost; }
  const char *transportName() const override { return messenger->name(); }
  std::unique_ptr<Transport> makeTransport(World &world) override;
  Agreement agree(bool hasError) override;
  int firstDifference(std::string_view text) override;
  std::vector<std::string> textsOfAll(std::string_view text) override;
  void leave(tpc_context &ctx) override;
  void observe(World *world) override { watch->observe(world); }

private:
  /// Gathers one number from every rank.
  std::vector<uint64_t> allOf(uint64_t mine);
  void exchange(std::span<const Message> sends, std::span<const Message> receives);

  std::unique_ptr<Messenger> messenger; ///< destroyed after the watchdog
  RankInfo info;
  std::unique_ptr<Watchdog> watch;
};

} // namespace tpc::rt

#endif // TPC_RT_TRANSPORT_MESSAGES_PROCESSSESSION_H
