//===- ApiCalls.cpp - Collectives, sends and receives, groups -------------===//

#include "Api.h"

#include <algorithm>
#include <cstdio>

namespace sim::nccl {

namespace {

uint64_t addressOf(const void *pointer) { return uint64_t(reinterpret_cast<uintptr_t>(pointer)); }

std::string peerOf(const Call &call) {
  if (call.descriptor.kind < Kind::Send)
    return "";
  return (call.descriptor.kind == Kind::Send ? " to " : " from ") + std::to_string(call.peer);
}

/// The first call of a kind connects ranks. So all participating ranks must make it, and it is
/// illegal during a capture.
Status connect(const std::vector<Pending> &calls) {
  std::vector<const Pending *> cold;
  for (const Pending &one : calls) {
    Kind kind = one.call.descriptor.kind;
    Comm &comm = *one.comm;
    if (comm.warm.contains({kind, one.call.peer}))
      continue;
    StreamInfo info;
    if (driver().describe(one.stream, info))
      return UnhandledCudaError;
    if (info.capturing) {
      driver().invalidate(one.stream);
      return misuse(nameOf(kind), InvalidUsage,
                    "the first of " + comm.name + peerOf(one.call) +
                        ", which connects, while a stream captures");
    }
    comm.warm.insert({kind, one.call.peer});
    cold.push_back(&one);
    Header &header = comm.shared.header();
    if (kind == Kind::Send)
      ++header.channels[comm.rank][one.call.peer].sends;
    else if (kind == Kind::Recv)
      ++header.channels[one.call.peer][comm.rank].receives;
    else
      ++comm.own().connected[size_t(kind)];
  }
  for (const Pending *one : cold) {
    Kind kind = one->call.descriptor.kind;
    Comm &comm = *one->comm;
    Header &header = comm.shared.header();
    int peer = one->call.peer;
    Status status = comm.waitFor(
        "the first " + one->call.descriptor.str() + peerOf(one->call) + ", which connects", [&] {
          if (kind == Kind::Send)
            return header.channels[comm.rank][peer].receives > 0;
          if (kind == Kind::Recv)
            return header.channels[peer][comm.rank].sends > 0;
          for (int i = 0; i < comm.ranks; ++i)
            if (!comm.slot(i).connected[size_t(kind)])
              return false;
          return true;
        });
    if (status)
      return status;
  }
  return Success;
}

Status submit(const std::vector<Pending> &calls) {
  if (Status status = connect(calls))
    return status;
  uint64_t group = newGroup();
  std::vector<bool> taken(calls.size());
  for (size_t i = 0; i < calls.size(); ++i) {
    if (taken[i])
      continue;
    std::vector<Call> together;
    for (size_t j = i; j < calls.size(); ++j)
      if (!taken[j] && calls[j].comm == calls[i].comm) {
        if (calls[j].stream != calls[i].stream)
          return misuse("ncclGroupEnd", InvalidUsage,
                        "two streams are used for " + calls[i].comm->name + " in one group");
        taken[j] = true;
        together.push_back(calls[j].call);
      }
    if (driver().enqueue(calls[i].stream, makeWork(calls[i].comm, std::move(together), group)))
      return UnhandledCudaError;
  }
  return Success;
}

/// Numbers of bytes that a rank reads and writes.
struct Extent {
  uint64_t read = 0, written = 0; // bytes
};

Extent extentOf(const Call &call, const Comm &comm) {
  uint64_t unit = call.descriptor.count * bytesOf(call.descriptor.type);
  uint64_t all = unit * uint64_t(comm.ranks);
  bool root = call.descriptor.root == comm.rank;
  switch (call.descriptor.kind) {
  case Kind::AllReduce:
    return {unit, unit};
  case Kind::ReduceScatter:
    return {all, unit};
  case Kind::AllGather:
    return {unit, all};
  case Kind::Broadcast:
    return {root ? unit : 0, unit};
  case Kind::Reduce:
    return {unit, root ? unit : 0};
  case Kind::Send:
    return {unit, 0};
  case Kind::Recv:
    return {0, unit};
  case Kind::NumKinds:
    break;
  }
  return {};
}

Status check(const char *name, const Call &call, const Comm &comm, Stream *stream) {
  const Descriptor &descriptor = call.descriptor;
  if (comm.finalized)
    return misuse(name, InvalidUsage, comm.name + " is finalized");
  if (descriptor.type < Int8 || descriptor.type > Bfloat16 || descriptor.op < Sum ||
      descriptor.op > Avg)
    return misuse(name, InvalidArgument, "the type or the operation is invalid");
  bool hasRoot = descriptor.kind == Kind::Broadcast || descriptor.kind == Kind::Reduce;
  int other = hasRoot ? descriptor.root : call.peer;
  if (other < 0 || other >= comm.ranks)
    return misuse(name, InvalidArgument, "no rank " + std::to_string(other) + " in " + comm.name);
  StreamInfo info;
  if (driver().describe(stream, info))
    return misuse(name, UnhandledCudaError, "no stream of the current context, or it has failed");
  if (info.device != comm.device)
    return misuse(name, InvalidUsage,
                  "the stream is of device " + std::to_string(info.device) + "; " + comm.name +
                      " has device " + std::to_string(comm.device));
  Extent extent = extentOf(call, comm);
  if ((extent.read && !driver().allocated(call.send, extent.read)) ||
      (extent.written && !driver().allocated(call.receive, extent.written)))
    return misuse(name, InvalidArgument,
                  descriptor.str() + ": buffers are not device memory of that size");
  for (uint64_t address : {extent.read ? call.send : 0, extent.written ? call.receive : 0})
    if (address % bytesOf(descriptor.type))
      return misuse(name, InvalidArgument, "a buffer is not aligned to its elements");
  // Buffers must be equal, for a call in place, or disjoint.
  uint64_t unit = descriptor.count * bytesOf(descriptor.type), mine = unit * uint64_t(comm.rank);
  bool inPlace = descriptor.kind == Kind::AllGather       ? call.send == call.receive + mine
                 : descriptor.kind == Kind::ReduceScatter ? call.receive == call.send + mine
                                                          : call.send == call.receive;
  if (extent.read && extent.written && !inPlace && call.send < call.receive + extent.written &&
      call.receive < call.send + extent.read)
    return misuse(name, InvalidArgument, "buffers overlap, but the call is not in place");
  return Success;
}

Status enqueue(const char *name, Comm *handle, Stream *stream, const Call &call) {
  ThreadGroup &group = threadGroup();
  auto fail = [&](Status status) {
    if (group.depth && !group.status)
      group.status = status;
    return status;
  };
  CommRef comm = find(handle);
  if (!comm)
    return fail(misuse(name, InvalidArgument, "no communicator"));
  char onStream[32];
  std::snprintf(onStream, sizeof onStream, " on stream %p", static_cast<void *>(stream));
  driver().trace(std::string(name) + " " + call.descriptor.str() + peerOf(call) + " in " +
                 comm->name + onStream);
  if (Status status = check(name, call, *comm, stream))
    return fail(status);
  if (Status status = comm->error())
    return fail(status);
  if (driver().injected("nccl", ++comm->owner->calls, comm->device))
    return fail(SystemError);
  // An empty collective does not wait for other ranks.
  if (!call.descriptor.count && call.descriptor.kind < Kind::Send)
    return Success;
  Pending pending{comm, stream, call};
  Extent extent = extentOf(call, *comm);
  for (auto [address, bytes] : {std::pair(call.send, extent.read), {call.receive, extent.written}})
    if (std::shared_ptr<Registration> one = bytes ? comm->registrationOf(address, bytes) : nullptr)
      pending.call.registrations.push_back(std::move(one));
  if (group.depth) {
    group.calls.push_back(std::move(pending));
    return Success;
  }
  return submit({pending});
}

Call callOf(Kind kind, const void *send, void *receive, size_t count, DataType type, RedOp op = Sum,
            int root = 0, int peer = 0) {
  return {{kind, type, op, root, count}, addressOf(send), addressOf(receive), peer, {}};
}

} // namespace

Status ncclAllReduce(const void *send, void *receive, size_t count, DataType type, RedOp op,
                     Comm *comm, Stream *stream) {
  return enqueue("ncclAllReduce", comm, stream,
                 callOf(Kind::AllReduce, send, receive, count, type, op));
}

Status ncclReduceScatter(const void *send, void *receive, size_t count, DataType type, RedOp op,
                         Comm *comm, Stream *stream) {
  return enqueue("ncclReduceScatter", comm, stream,
                 callOf(Kind::ReduceScatter, send, receive, count, type, op));
}

Status ncclAllGather(const void *send, void *receive, size_t count, DataType type, Comm *comm,
                     Stream *stream) {
  return enqueue("ncclAllGather", comm, stream,
                 callOf(Kind::AllGather, send, receive, count, type));
}

Status ncclBroadcast(const void *send, void *receive, size_t count, DataType type, int root,
                     Comm *comm, Stream *stream) {
  return enqueue("ncclBroadcast", comm, stream,
                 callOf(Kind::Broadcast, send, receive, count, type, Sum, root));
}

Status ncclReduce(const void *send, void *receive, size_t count, DataType type, RedOp op, int root,
                  Comm *comm, Stream *stream) {
  return enqueue("ncclReduce", comm, stream,
                 callOf(Kind::Reduce, send, receive, count, type, op, root));
}

Status ncclSend(const void *send, size_t count, DataType type, int peer, Comm *comm,
                Stream *stream) {
  return enqueue("ncclSend", comm, stream,
                 callOf(Kind::Send, send, nullptr, count, type, Sum, 0, peer));
}

Status ncclRecv(void *receive, size_t count, DataType type, int peer, Comm *comm, Stream *stream) {
  return enqueue("ncclRecv", comm, stream,
                 callOf(Kind::Recv, nullptr, receive, count, type, Sum, 0, peer));
}

Status ncclGroupStart() {
  ++threadGroup().depth;
  return Success;
}

Status ncclGroupEnd() {
  ThreadGroup &group = threadGroup();
  if (!group.depth)
    return misuse("ncclGroupEnd", InvalidUsage, "without ncclGroupStart");
  if (--group.depth)
    return Success;
  auto calls = std::move(group.calls);
  auto joining = std::move(group.joining);
  Status status = group.status;
  group.calls.clear();
  group.joining.clear();
  group.status = Success;
  for (const CommRef &comm : joining)
    if (Status failed = complete(*comm)) {
      remove(*comm);
      status = status ? status : failed;
    }
  return status || calls.empty() ? status : submit(calls);
}

} // namespace sim::nccl
