//===- Comm.cpp - Rendezvous and waits of ranks ---------------------------===//

#include "Comm.h"
#include "Cuda/Process.h"

#include <cstdlib>
#include <cstring>
#include <thread>
#include <unistd.h>

namespace sim::nccl {

std::shared_ptr<Rank> rankOfThread() {
  thread_local auto rank = std::make_shared<Rank>();
  return rank;
}

void pauseBriefly() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

void Comm::publishWait(const std::string &what) {
  std::lock_guard lock(owner->mutex);
  for (Comm *other : owner->comms) {
    if (other == this)
      continue;
    Slot &slot = other->own();
    ++slot.waits;
    size_t length = what.copy(slot.where, sizeof(slot.where) - 1);
    slot.where[length] = 0;
    ++slot.waits;
  }
}

bool Comm::isGone(int which) {
  Slot &other = slot(which);
  return other.joined && sim::isGone(other.process);
}

Status Comm::error() {
  // The loss of a peer is always detected over a network, but not always between devices of one
  // host.
  if (!asyncError && driver().seed() % 3 == 0)
    for (int i = 0; i < ranks; ++i)
      if (isGone(i))
        return RemoteError;
  return asyncError;
}

std::string Comm::whereIs(int which) {
  Slot &other = slot(which);
  if (isGone(which))
    return ", whose process has ended";
  uint64_t before = other.waits;
  std::string where(other.where, strnlen(other.where, sizeof(other.where)));
  if (before % 2 || other.waits != before || where.empty())
    return "";
  return ", which is in " + where;
}

Status Comm::barrier(const std::string &what) {
  uint64_t number = ++arrivals;
  own().arrived = number;
  return waitFor(what, [&] {
    for (int i = 0; i < ranks; ++i)
      if (slot(i).arrived < number)
        return false;
    return true;
  });
}

CommRef join(const UniqueId &id, int ranks, int rank, const Config *config, Status &status,
             std::string &why) {
  auto comm = std::make_shared<Comm>();
  status = InvalidArgument;
  if (ranks < 1 || ranks > maxRanks || rank < 0 || rank >= ranks) {
    why = "rank " + std::to_string(rank) + " of " + std::to_string(ranks);
    return nullptr;
  }
  if (config && (config->magic != configMagic || config->size > sizeof(Config))) {
    why = "the configuration was not initialized";
    return nullptr;
  }
  comm->device = driver().currentDevice();
  if (comm->device < 0) {
    status = UnhandledCudaError;
    why = "no context is current";
    return nullptr;
  }
  status = SystemError;
  if (!comm->shared.open(id, ranks, why))
    return nullptr;
  comm->rank = rank;
  comm->ranks = ranks;
  char digits[20];
  std::snprintf(digits, sizeof(digits), "%04x", unsigned(comm->shared.header().magic & 0xffff));
  comm->name = std::string("communicator ") +
               (config && config->commName ? config->commName : digits) + " of " +
               std::to_string(ranks);
  Slot &own = comm->own();
  uint32_t none = 0;
  if (!own.joined.compare_exchange_strong(none, 1)) {
    status = InvalidUsage;
    why = "two ranks " + std::to_string(rank) + " of " + comm->name;
    return nullptr;
  }
  const char *host = std::getenv("NCCL_HOSTID");
  own.process = getpid();
  own.ranks = ranks;
  own.device = comm->device;
  own.host = host ? std::hash<std::string>()(host) : 0;
  own.joined = 2;
  comm->owner = rankOfThread();
  std::lock_guard lock(comm->owner->mutex);
  comm->owner->comms.insert(comm.get());
  status = Success;
  return comm;
}

Status complete(Comm &comm) {
  if (Status status = comm.waitFor("ncclCommInitRank of " + comm.name, [&] {
        for (int i = 0; i < comm.ranks; ++i)
          if (comm.slot(i).joined != 2)
            return false;
        return true;
      }))
    return status;
  comm.shared.settle();
  Slot &own = comm.own();
  for (int i = 0; i < comm.ranks; ++i) {
    Slot &other = comm.slot(i);
    if (other.ranks != comm.ranks) {
      driver().finding("misuse: ncclCommInitRank: " + std::to_string(comm.ranks) +
                       " ranks, and on rank " + std::to_string(i) + " " +
                       std::to_string(other.ranks));
      return InvalidArgument;
    }
    if (i != comm.rank && other.device == own.device && other.host == own.host) {
      driver().finding("misuse: ncclCommInitRank: ranks " + std::to_string(comm.rank) + " and " +
                       std::to_string(i) + " of " + comm.name + " have the same device");
      return InvalidUsage;
    }
  }
  return Success;
}

} // namespace sim::nccl
