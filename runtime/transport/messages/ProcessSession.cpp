//===- ProcessSession.cpp - Session of processes over a Messenger ---------===//

#include "transport/messages/ProcessSession.h"
#include "core/Diagnostic.h"
#include "tpc/fnv1a.h"
#include "transport/messages/MessageTransport.h"
#include <exception>

namespace tpc::rt {

ProcessSession::ProcessSession(std::unique_ptr<Messenger> messenger, const RankInfo &info,
                               std::unique_ptr<Watchdog> watch)
    : messenger(std::move(messenger)), info(info), watch(std::move(watch)) {
  this->watch->follow(doing);
}

ProcessSession::~ProcessSession() {
  watch.reset();
  // MPI_Finalize is collective, and no other timeout covers it.
  if (launch)
    launch->enter(LaunchMonitor::Phase::End);
  messenger.reset();
}

std::unique_ptr<Transport> ProcessSession::makeTransport(World &world) {
  return std::make_unique<MessageTransport>(*messenger, *watch, world);
}

Session::Agreement ProcessSession::agree(bool hasError) {
  std::vector<uint64_t> all = allOf(hasError);
  Agreement agreement;
  for (int peer = 0; peer < info.size && !agreement.failed; ++peer)
    if (all[peer]) {
      agreement.failed = true;
      agreement.isReporter = peer == info.rank;
    }
  return agreement;
}

int ProcessSession::firstDifference(std::string_view text) {
  std::vector<uint64_t> all = allOf(fnv1a(text));
  for (int peer = 1; peer < info.size; ++peer)
    if (all[peer] != all[0])
      return peer;
  return -1;
}

void ProcessSession::leave(tpc_context &) {
  watch->setLeft(true);
  allOf(0);
  watch->setLeft(false);
}

std::vector<uint64_t> ProcessSession::allOf(uint64_t mine) {
  std::vector<uint64_t> all(info.size, mine);
  std::vector<Message> sends, receives;
  for (int peer = 0; peer < info.size; ++peer)
    if (peer != info.rank) {
      sends.push_back({&mine, sizeof(mine), peer, MessageTransport::sessionTag});
      receives.push_back({&all[peer], sizeof(mine), peer, MessageTransport::sessionTag});
    }
  exchange(sends, receives);
  return all;
}

std::vector<std::string> ProcessSession::textsOfAll(std::string_view text) {
  std::string mine(text);
  std::vector<std::string> all;
  for (uint64_t size : allOf(mine.size()))
    all.emplace_back(static_cast<size_t>(size), ' ');
  all[info.rank] = mine;
  std::vector<Message> sends, receives;
  auto add = [](std::vector<Message> &list, std::string &data, int peer) {
    if (!data.empty())
      list.push_back(
          {data.data(), static_cast<int64_t>(data.size()), peer, MessageTransport::sessionTag});
  };
  for (int peer = 0; peer < info.size; ++peer)
    if (peer != info.rank) {
      add(sends, mine, peer);
      add(receives, all[peer], peer);
    }
  exchange(sends, receives);
  return all;
}

void ProcessSession::exchange(std::span<const Message> sends, std::span<const Message> receives) {
  try {
    deliver(*messenger, *watch, /*spin=*/false, sends, receives);
  } catch (const std::exception &error) {
    printDiagnostic("error", "rank " + std::to_string(info.rank) + ": " + error.what());
    watch->failWorld();
    messenger->abort();
  }
}

} // namespace tpc::rt
