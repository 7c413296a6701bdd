//===- ApiComm.cpp - Communicators and their memory -----------------------===//

#include "Api.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <map>
#include <thread>

namespace sim::nccl {

namespace {
struct Alive {
  std::mutex mutex;
  std::map<Comm *, CommRef> comms;
};
Alive &alive() {
  static auto *all = new Alive;
  return *all;
}
[[noreturn]] void hang() {
  while (true)
    std::this_thread::sleep_for(std::chrono::hours(1));
}
std::string &lastError() {
  thread_local std::string text;
  return text;
}
} // namespace

Status misuse(const char *call, Status status, const std::string &what) {
  lastError() = std::string(call) + ": " + what;
  driver().finding("misuse: " + lastError());
  return status;
}

CommRef find(Comm *handle) {
  std::lock_guard lock(alive().mutex);
  auto found = alive().comms.find(handle);
  return found == alive().comms.end() ? nullptr : found->second;
}

Comm *add(const CommRef &comm) {
  std::lock_guard lock(alive().mutex);
  alive().comms[comm.get()] = comm;
  return comm.get();
}

void remove(Comm &comm) {
  {
    std::lock_guard lock(comm.owner->mutex);
    comm.owner->comms.erase(&comm);
  }
  std::lock_guard lock(alive().mutex);
  alive().comms.erase(&comm);
}

ThreadGroup &threadGroup() {
  thread_local ThreadGroup group;
  return group;
}

Status ncclGetVersion(int *version) {
  if (!version)
    return InvalidArgument;
  *version = 22809;
  return Success;
}

Status ncclGetUniqueId(UniqueId *id) {
  if (!id)
    return InvalidArgument;
  return Shared::create(*id) ? Success : SystemError;
}

const char *ncclGetErrorString(Status status) {
  switch (status) {
  case Success:
    return "no error";
  case UnhandledCudaError:
    return "unhandled cuda error (run with NCCL_DEBUG=INFO for details)";
  case SystemError:
    return "unhandled system error (run with NCCL_DEBUG=INFO for details)";
  case InternalError:
    return "internal error - please report this issue to the NCCL developers";
  case InvalidArgument:
    return "invalid argument (run with NCCL_DEBUG=WARN for details)";
  case InvalidUsage:
    return "invalid usage (run with NCCL_DEBUG=WARN for details)";
  case RemoteError:
    return "remote process exited or there was a network error";
  case InProgress:
    return "NCCL operation in progress";
  }
  return "unknown result code";
}

const char *ncclGetLastError(Comm *) { return lastError().c_str(); }

Status ncclCommInitRankConfig(Comm **result, int ranks, UniqueId id, int rank, Config *config) {
  const char *name = "ncclCommInitRank";
  if (!result)
    return InvalidArgument;
  *result = nullptr;
  if (driver().injected("connect", ++rankOfThread()->joins, driver().currentDevice()))
    hang();
  if (config && config->blocking == 0) {
    driver().finding("not simulated: communicators that do not block");
    return InvalidUsage;
  }
  Status status = Success;
  std::string why;
  CommRef comm = join(id, ranks, rank, config, status, why);
  if (!comm)
    return misuse(name, status, why);
  driver().trace(std::string(name) + " " + comm->name);
  driver().trace("ncclCommInitRankConfig = 0");
  *result = add(comm);
  ThreadGroup &group = threadGroup();
  if (group.depth) {
    group.joining.push_back(comm);
    return Success;
  }
  status = complete(*comm);
  if (status)
    remove(*comm);
  return status;
}

Status ncclCommInitRank(Comm **comm, int ranks, UniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, ranks, id, rank, nullptr);
}

Status ncclCommSplit(Comm *handle, int color, int key, Comm **result, Config *config) {
  const char *name = "ncclCommSplit";
  CommRef comm = find(handle);
  if (!comm || !result)
    return misuse(name, InvalidArgument, "no communicator");
  if (color < 0 && color != noColor)
    return misuse(name, InvalidArgument, "a negative color");
  if (threadGroup().depth) {
    driver().finding("not simulated: ncclCommSplit in a group");
    return InvalidUsage;
  }
  *result = nullptr;
  Slot &own = comm->own();
  own.color = color;
  own.key = key;
  if (Status status = comm->barrier("ncclCommSplit"))
    return status;
  std::vector<int> members;
  for (int i = 0; i < comm->ranks; ++i)
    if (color != noColor && comm->slot(i).color == color)
      members.push_back(i);
  std::sort(members.begin(), members.end(), [&](int a, int b) {
    return std::pair(comm->slot(a).key, a) < std::pair(comm->slot(b).key, b);
  });
  if (!members.empty() && members[0] == comm->rank && !Shared::create(own.id))
    return SystemError;
  if (Status status = comm->barrier("ncclCommSplit"))
    return status;
  Status status = Success;
  if (!members.empty()) {
    UniqueId id = comm->slot(members[0]).id;
    auto rank = std::find(members.begin(), members.end(), comm->rank) - members.begin();
    status = ncclCommInitRankConfig(result, int(members.size()), id, int(rank), config);
  }
  // From here on the slots may be overwritten.
  Status after = comm->barrier("ncclCommSplit");
  return status ? status : after;
}

static bool drop(Comm &comm, const void *only);

Status ncclCommFinalize(Comm *handle) {
  CommRef comm = find(handle);
  if (!comm)
    return misuse("ncclCommFinalize", InvalidArgument, "no communicator");
  if (comm->finalized)
    return misuse("ncclCommFinalize", InvalidArgument, comm->name + " is finalized already");
  comm->finalized = true;
  StreamInfo info;
  return comm->waitFor("ncclCommFinalize: operations in streams, or in graphs", [&] {
    return !comm->outstanding || driver().describe(nullptr, info) != SUCCESS;
  });
}

Status ncclCommDestroy(Comm *handle) {
  CommRef comm = find(handle);
  if (!comm)
    return misuse("ncclCommDestroy", InvalidArgument, "no communicator");
  Status status = comm->finalized ? Success : ncclCommFinalize(handle);
  if (drop(*comm, nullptr))
    misuse("ncclCommDestroy", InvalidUsage, comm->name + " still has registered memory");
  for (Window *window : comm->windows)
    delete window;
  comm->windows.clear();
  remove(*comm);
  driver().trace("ncclCommDestroy = " + std::to_string(int(status)));
  return status;
}

Status ncclCommAbort(Comm *handle) {
  CommRef comm = find(handle);
  if (!comm)
    return misuse("ncclCommAbort", InvalidArgument, "no communicator");
  driver().trace("ncclCommAbort " + comm->name);
  if (driver().injected("abort", ++comm->owner->aborts, comm->device))
    hang();
  // Operations that wait in streams then end without effect.
  comm->aborted = true;
  drop(*comm, nullptr);
  remove(*comm);
  return Success;
}

Status ncclCommGetAsyncError(Comm *handle, Status *result) {
  CommRef comm = find(handle);
  if (!comm || !result)
    return misuse("ncclCommGetAsyncError", InvalidArgument, "no communicator");
  *result = comm->error();
  return Success;
}

Status ncclCommCount(Comm *handle, int *count) {
  CommRef comm = find(handle);
  if (!comm || !count)
    return misuse("ncclCommCount", InvalidArgument, "no communicator");
  *count = comm->ranks;
  return Success;
}

Status ncclCommCuDevice(Comm *handle, int *device) {
  CommRef comm = find(handle);
  if (!comm || !device)
    return misuse("ncclCommCuDevice", InvalidArgument, "no communicator");
  *device = comm->device;
  return Success;
}

Status ncclCommUserRank(Comm *handle, int *rank) {
  CommRef comm = find(handle);
  if (!comm || !rank)
    return misuse("ncclCommUserRank", InvalidArgument, "no communicator");
  *rank = comm->rank;
  return Success;
}

// ---- memory ----

Status ncclMemAlloc(void **memory, size_t bytes) {
  if (!memory || !bytes)
    return InvalidArgument;
  DevicePointer address = 0;
  if (driver().allocate(&address, bytes, windowAlignment, "ncclMemAlloc"))
    return UnhandledCudaError;
  *memory = reinterpret_cast<void *>(address);
  return Success;
}

Status ncclMemFree(void *memory) {
  return memory && driver().release(reinterpret_cast<uintptr_t>(memory), "ncclMemFree")
             ? UnhandledCudaError
             : Success;
}

std::shared_ptr<Registration> Comm::registrationOf(uint64_t address, uint64_t bytes) {
  std::lock_guard lock(registrationMutex);
  for (const auto &one : registrations)
    if (address >= one->address && address + bytes <= one->address + one->bytes)
      return one;
  return nullptr;
}

Status ncclCommRegister(Comm *handle, void *memory, size_t bytes, void **result) {
  const char *name = "ncclCommRegister";
  CommRef comm = find(handle);
  if (!comm || !result)
    return misuse(name, InvalidArgument, "the communicator or the handle is null");
  auto address = uint64_t(reinterpret_cast<uintptr_t>(memory));
  if (!bytes || !driver().allocated(address, bytes))
    return misuse(name, InvalidArgument, "the memory is not in one allocation of the device");
  if (driver().currentDevice() != comm->device)
    return misuse(name, InvalidUsage, "the memory is of another device than " + comm->name);
  if (driver().injected("register", ++comm->owner->enrolled, comm->device))
    return SystemError;
  auto made = std::make_shared<Registration>(address, bytes);
  driver().setInUse(address, true);
  *result = made.get();
  std::lock_guard lock(comm->registrationMutex);
  comm->registrations.push_back(std::move(made));
  driver().trace(std::string(name) + " = 0");
  return Success;
}

/// Removes one registration of the communicator, or all.
static bool drop(Comm &comm, const void *only) {
  std::vector<std::shared_ptr<Registration>> kept, dropped;
  {
    std::lock_guard lock(comm.registrationMutex);
    for (auto &one : comm.registrations)
      (only && one.get() != only ? kept : dropped).push_back(std::move(one));
    comm.registrations = std::move(kept);
  }
  for (const auto &one : dropped) {
    one->gone = true;
    driver().setInUse(one->address, false);
  }
  return !dropped.empty();
}

Status ncclCommDeregister(Comm *handle, void *registration) {
  const char *name = "ncclCommDeregister";
  CommRef comm = find(handle);
  if (!comm || !registration)
    return misuse(name, InvalidArgument, "no communicator, or no handle");
  if (!drop(*comm, registration))
    return misuse(name, InvalidArgument, "the handle is no registration of " + comm->name);
  driver().trace(std::string(name) + " = 0");
  return Success;
}

Status ncclCommWindowRegister(Comm *handle, void *memory, size_t bytes, Window **result, int) {
  const char *name = "ncclCommWindowRegister";
  CommRef comm = find(handle);
  if (!comm || !result)
    return misuse(name, InvalidArgument, "no communicator");
  auto address = uint64_t(reinterpret_cast<uintptr_t>(memory));
  *result = nullptr;
  if (address % windowAlignment || !driver().allocated(address, bytes))
    return misuse(name, InvalidArgument,
                  "the memory must be in one allocation and begin at a multiple of 4096");
  // Registration is collective.
  if (Status status = comm->barrier(name))
    return status;
  *result = new Window{address, bytes};
  comm->windows.insert(*result);
  return Success;
}

Status ncclCommWindowDeregister(Comm *handle, Window *window) {
  CommRef comm = find(handle);
  if (!comm || !comm->windows.erase(window))
    return misuse("ncclCommWindowDeregister", InvalidArgument,
                  "the handle is no window of this communicator");
  delete window;
  return Success;
}

} // namespace sim::nccl
