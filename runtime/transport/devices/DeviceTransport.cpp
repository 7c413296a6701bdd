//===- DeviceTransport.cpp - Transport over a device's collective backend -===//

#include "transport/devices/DeviceTransport.h"
#include "core/Context.h"
#include "core/DType.h"
#include "core/Step.h"
#include "core/Timeout.h"
#include "transport/devices/CommPlan.h"
#include <algorithm>
#include <chrono>
#include <exception>
#include <set>
#include <thread>

namespace tpc::rt {

DeviceTransport::DeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                                 std::unique_ptr<CollectiveBackend> backend)
    : world(ctx.world), rank(ctx.rank), host(std::move(host)), backend(std::move(backend)),
      label(this->backend->name()) {
  for (int axis = 0; axis < ctx.grid.numAxes(); ++axis)
    if (ctx.grid.axes()[axis].size > 1)
      splitAxes |= uint32_t(1) << axis;
}

static std::string describeConnecting(const tpc_context &ctx, uint32_t mask) {
  return "cannot connect devices over '" + ctx.grid.label(mask) + "': ";
}

// Waits, so that the watchdog can report the end of another process as the cause.
void DeviceTransport::failAfterGrace(tpc_context &ctx, const std::string &message) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::duration<double>(graceForOthers);
  while (Clock::now() < end && !world.failed())
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (world.failed())
    throw RankStopped();
  fail(ctx, message);
}

void DeviceTransport::connect(tpc_context &ctx) {
  if (!connected.empty())
    return;
  std::set<uint32_t> masks;
  if (const std::vector<uint32_t> *expected = world.groupsExpected())
    for (uint32_t mask : *expected)
      masks.insert(maskOf(mask));
  else
    for (uint32_t mask = 1; mask <= splitAxes; ++mask)
      masks.insert(maskOf(mask));
  masks.erase(0);
  for (uint32_t mask : masks) {
    const Group &group = ctx.group(mask);
    OperationScope doing(ctx.activity, "connecting devices", mask);
    try {
      CollectiveBackend::Id id{};
      if (group.index == 0)
        id = backend->makeId();
      host->broadcast(ctx, group, id.data(), static_cast<int64_t>(id.size()), 0);
      Communicator communicator{backend->connect(id, group.size(), group.index), 0, {}, {}};
      std::lock_guard<std::mutex> lock(mutex);
      connected.emplace(mask, communicator);
    } catch (const RankStopped &) {
      throw;
    } catch (const ConnectionLost &error) {
      failAfterGrace(ctx, describeConnecting(ctx, mask) + error.what());
    } catch (const std::exception &error) {
      if (world.failed())
        throw RankStopped();
      fail(ctx, describeConnecting(ctx, mask) + error.what());
    }
    for (const CommPlan &plan : planWarmUp(group))
      carryOut(ctx, group, "first use", plan, nullptr, nullptr);
  }
}

void DeviceTransport::disconnect(tpc_context &ctx) {
  ctx.steps->forget();
  if (!connected.empty() && !world.failed())
    backend->close();
}

DeviceTransport::Communicator &DeviceTransport::communicatorOf(tpc_context &ctx, uint32_t mask) {
  auto found = connected.find(mask);
  if (found == connected.end())
    fail(ctx, "internal error: the program's groups do not include '" + ctx.grid.label(mask) + "'");
  return found->second;
}

std::string DeviceTransport::describe(const Operation &operation) const {
  std::string text = std::string(operation.what) + " " + std::to_string(operation.number);
  if (operation.node)
    text += " of '" + std::string(operation.node) + "'";
  return text + " over '" + world.grid().label(operation.axes) + "'";
}

void DeviceTransport::note(Operation operation, uint64_t &count) {
  operation.number = ++count;
  std::lock_guard<std::mutex> lock(mutex);
  operations.push_back(operation);
  if (operations.size() > 256)
    for (uint64_t done = backend->progress().done; forgotten < done && !operations.empty();
         ++forgotten)
      operations.pop_front();
}

void DeviceTransport::enqueue(tpc_context &ctx, uint64_t &count, Operation operation,
                              const std::function<void()> &enqueue) {
  if (world.failed())
    throw RankStopped();
  note(operation, count);
  operation.number = count;
  if (ctx.hostWork)
    ctx.hostWork->push_back([this, operation, &count] { note(operation, count); });
  try {
    enqueue();
  } catch (const ConnectionLost &error) {
    failAfterGrace(ctx, describe(operation) + " failed: " + error.what());
  } catch (const std::exception &error) {
    if (world.failed())
      throw RankStopped();
    fail(ctx, describe(operation) + " failed: " + error.what());
  }
}

void DeviceTransport::carryOut(tpc_context &ctx, const Communicator &communicator, uint64_t &count,
                               Operation operation, const CommPlan &plan, const void *in,
                               void *out) {
  // Work runs in order, so a later use of the same staging memory follows this one.
  void *stage = plan.stageBytes ? tpc_frame_push(&ctx, plan.stageBytes) : nullptr;
  enqueue(ctx, count, operation,
          [&] { backend->carryOut(communicator.number, plan, in, out, stage); });
  if (stage)
    tpc_frame_pop(&ctx, stage);
}

DeviceTransport::Communicator &DeviceTransport::communicatorOf(tpc_context &ctx,
                                                               const Group &group) {
  uint32_t mask = maskOf(group.axes);
  return mask ? communicatorOf(ctx, mask) : alone;
}

void DeviceTransport::carryOut(tpc_context &ctx, const Group &group, const char *what,
                               const CommPlan &plan, const void *in, void *out) {
  Communicator &communicator = communicatorOf(ctx, group);
  carryOut(ctx, communicator, communicator.collectives,
           {what, ctx.activity.read().node, maskOf(group.axes), 0, -1}, plan, in, out);
}

Transport &DeviceTransport::forReduction(tpc_dtype dtype, tpc_reduction reduction) {
  bool isOnDevice = reduction == TPC_SUM || backend->comparesLikeReduce() || !isFloat(dtype);
  return isOnDevice ? static_cast<Transport &>(*this) : *host;
}

void DeviceTransport::allReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                tpc_reduction reduction, const void *in, void *out, int64_t count) {
  carryOut(ctx, group, spell(CollectiveKind::AllReduce), planAllReduce(dtype, reduction, count), in,
           out);
}

int32_t DeviceTransport::startAllReduce(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                        tpc_reduction reduction, const void *in, void *out,
                                        int64_t count) {
  Communicator &communicator = communicatorOf(ctx, group);
  int32_t token = 0;
  enqueue(ctx, communicator.collectives,
          {spell(CollectiveKind::AllReduce), ctx.activity.read().node, maskOf(group.axes), 0, -1},
          [&] {
            token = -backend->start(communicator.number, planAllReduce(dtype, reduction, count), in,
                                    out);
          });
  return token;
}

void DeviceTransport::finish(tpc_context &ctx, int32_t token) {
  if (token > 0)
    return host->finish(ctx, token);
  if (world.failed())
    throw RankStopped();
  backend->wait(-token);
}

void DeviceTransport::allGather(tpc_context &ctx, const Group &group, const void *in, void *out,
                                int64_t outer, int64_t n, int64_t inner) {
  carryOut(ctx, group, spell(CollectiveKind::AllGather), planAllGather(group, outer, n, inner), in,
           out);
}

void DeviceTransport::reduceScatter(tpc_context &ctx, const Group &group, tpc_dtype dtype,
                                    tpc_reduction reduction, const void *in, void *out,
                                    int64_t outer, int64_t n, int64_t inner) {
  carryOut(ctx, group, spell(CollectiveKind::ReduceScatter),
           planReduceScatter(group, dtype, reduction, outer, n, inner * sizeOf(dtype)), in, out);
}

void DeviceTransport::allToAll(tpc_context &ctx, const Group &group, const void *in, void *out,
                               const AllToAllShape &shape) {
  carryOut(ctx, group, spell(CollectiveKind::AllToAll), planAllToAll(group, shape), in, out);
}

void DeviceTransport::collectivePermute(tpc_context &ctx, const Group &group, const void *in,
                                        void *out, const PermuteShape &shape) {
  carryOut(ctx, group, spell(CollectiveKind::CollectivePermute),
           planPermute(ctx.grid, group, shape), in, out);
}

void DeviceTransport::exchange(tpc_context &ctx, const Group &group, const void *in, void *out,
                               const ExchangeShape &shape) {
  carryOut(ctx, group, spell(CollectiveKind::Exchange), planExchange(ctx.grid, group, shape), in,
           out);
}

void DeviceTransport::broadcast(tpc_context &ctx, const Group &group, void *data, int64_t bytes,
                                int root) {
  carryOut(ctx, group, spell(CollectiveKind::Broadcast), planBroadcast(bytes, root), data, data);
}

const Group &DeviceTransport::groupTo(tpc_context &ctx, int peer) const {
  std::vector<int64_t> theirs = ctx.grid.coordinatesOf(peer);
  uint32_t mask = 0;
  for (int axis = 0; axis < ctx.grid.numAxes(); ++axis)
    if (theirs[axis] != ctx.coordinates[axis])
      mask |= uint32_t(1) << axis;
  return ctx.group(mask);
}

static int indexIn(const Group &group, int peer) {
  auto at = std::lower_bound(group.ranks.begin(), group.ranks.end(), peer);
  return static_cast<int>(at - group.ranks.begin());
}

void DeviceTransport::send(tpc_context &ctx, int peer, const void *data, int64_t bytes) {
  const Group &group = groupTo(ctx, peer);
  Communicator &communicator = communicatorOf(ctx, group.axes);
  carryOut(ctx, communicator, communicator.sent[peer],
           {"send", ctx.activity.read().node, group.axes, 0, peer},
           planSend(bytes, indexIn(group, peer)), data, nullptr);
}

void DeviceTransport::recv(tpc_context &ctx, int peer, void *data, int64_t bytes) {
  const Group &group = groupTo(ctx, peer);
  Communicator &communicator = communicatorOf(ctx, group.axes);
  carryOut(ctx, communicator, communicator.received[peer],
           {"receive", ctx.activity.read().node, group.axes, 0, peer},
           planReceive(bytes, indexIn(group, peer)), nullptr, data);
}

void DeviceTransport::exchangeMessages(tpc_context &ctx, const Group &group, const char *what,
                                       void *memory, std::span<const GroupMessage> sent,
                                       std::span<const GroupMessage> received) {
  carryOut(ctx, group, what, planMessages(sent, received), memory, memory);
}

void DeviceTransport::barrier(tpc_context &ctx) { host->barrier(ctx); }

void DeviceTransport::largest(tpc_context &ctx, std::span<int32_t> values) {
  host->largest(ctx, values);
}

void DeviceTransport::gatherBytes(tpc_context &ctx, const void *data, int64_t bytes,
                                  std::vector<std::vector<std::byte>> &gathered) {
  host->gatherBytes(ctx, data, bytes, gathered);
}

void DeviceTransport::abortWorld(int failed, const std::string &message) {
  // Aborts devices first: with processes, the host's call does not return, and no thread may keep
  // waiting for a device.
  world.abortDevices();
  host->abortWorld(failed, message);
}

std::optional<Transport::DeviceWait> DeviceTransport::deviceWait() {
  std::lock_guard<std::mutex> lock(mutex);
  CollectiveBackend::Progress progress = backend->progress();
  if (progress.reached <= progress.done || progress.done < forgotten ||
      progress.done - forgotten >= operations.size())
    return std::nullopt;
  const Operation &operation = operations[progress.done - forgotten];
  DeviceWait wait{.at = "in " + describe(operation), .awaited = {}};
  if (operation.peer >= 0) {
    wait.awaited = {operation.peer};
    return wait;
  }
  wait.axes = operation.axes;
  wait.number = operation.number;
  for (int member : world.grid().groupOf(rank, operation.axes).ranks)
    if (member != rank)
      wait.awaited.push_back(member);
  return wait;
}

std::string DeviceTransport::deviceProblem() {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto &[mask, communicator] : connected)
    if (std::string text = backend->problem(communicator.number); !text.empty()) {
      std::string members;
      for (int member : world.grid().groupOf(rank, mask).ranks)
        members += (members.empty() ? "" : ", ") + std::to_string(member);
      CollectiveBackend::Progress progress = backend->progress();
      uint64_t next = progress.done - forgotten;
      std::string where = progress.done >= forgotten && next < operations.size()
                              ? ", at or after " + describe(operations[next])
                              : std::string();
      return label + " over '" + world.grid().label(mask) + "' (ranks " + members + "): " + text +
             where;
    }
  return "";
}

std::unique_ptr<Transport> makeDeviceTransport(tpc_context &ctx, std::unique_ptr<Transport> host,
                                               std::unique_ptr<CollectiveBackend> backend) {
  return std::make_unique<DeviceTransport>(ctx, std::move(host), std::move(backend));
}

} // namespace tpc::rt
