//===- NcclBackend.cpp - NCCL collective backend --------------------------===//

#include "cuda/library/NcclBackend.h"
#include "cuda/library/CopyRows.h"
#include <cstring>
#include <stdexcept>
#include <utility>

namespace tpc::rt::cuda {
namespace {

/// Maximum number of operations marked at a time; later ones are not marked.
constexpr size_t maxMarks = 256;

int typeOf(tpc_dtype dtype) {
  switch (dtype) {
  case TPC_F32:
    return nccl::float32;
  case TPC_F64:
    return nccl::float64;
  case TPC_F16:
    return nccl::float16;
  case TPC_BF16:
    return nccl::bfloat16;
  case TPC_I32:
    return nccl::int32;
  case TPC_I64:
    return nccl::int64;
  case TPC_U8:
    return nccl::uint8;
  default:
    throw std::runtime_error("internal error: a reduction of a type without arithmetic");
  }
}

int operationOf(tpc_reduction reduction) {
  switch (reduction) {
  case TPC_SUM:
    return nccl::sum;
  case TPC_MAX:
    return nccl::max;
  case TPC_MIN:
    return nccl::min;
  }
  throw std::runtime_error("internal error: an unknown reduction");
}

} // namespace

void NcclBackend::Bytes::copy(const CommCopy &copy) const {
  copyRows(driver, stream,
           {pointerTo(at(copy.to)), pointerTo(at(copy.from)), copy.toStride, copy.fromStride,
            copy.width, copy.rows},
           "to copy communicated data");
}

void NcclBackend::Bytes::fill(const CommFill &fill) const {
  driver.check(driver.cuMemsetD8Async(at(fill.at), 0, static_cast<size_t>(fill.bytes), stream),
               "to pad communicated data");
}

NcclBackend::NcclBackend(Queue &queue, const nccl::Library &library, NcclMemory &memory,
                         Transfers &transfers, const StepNumbers &numbers)
    : queue(queue), driver(queue.driver), library(library), context(queue.context),
      stream(queue.stream), memory(memory), transfers(transfers), numbers(numbers) {}

NcclBackend::~NcclBackend() = default;

void NcclBackend::check(nccl::Status status, nccl::Comm comm) const {
  if (status == nccl::success)
    return;
  // A CUDA error reported by NCCL has an earlier cause; the driver's message is more precise.
  size_t ignored = 0;
  if (status == nccl::unhandledCudaError)
    driver.check(driver.cuMemGetInfo_v2(&ignored, &ignored), "while it worked");
  std::string text = library.describe() + ": " + library.describe(status, comm);
  if (status == nccl::systemError || status == nccl::remoteError)
    throw ConnectionLost(text);
  throw std::runtime_error(text);
}

CollectiveBackend::Id NcclBackend::makeId() {
  queue.enter();
  nccl::UniqueId made;
  check(library.GetUniqueId(&made), nullptr);
  Id id;
  static_assert(sizeof(id) == sizeof(made));
  std::memcpy(id.data(), &made, sizeof(made));
  return id;
}

int NcclBackend::connect(const Id &id, int members, int index) {
  queue.enter();
  nccl::UniqueId made;
  std::memcpy(&made, id.data(), sizeof(made));
  constexpr int none = nccl::undefined;
  // Newer libraries accept an older struct, by its size and version.
  nccl::Config config{sizeof(nccl::Config),
                      nccl::configMagic,
                      22809,
                      none,
                      none,
                      none,
                      none,
                      nullptr,
                      none,
                      none,
                      nullptr,
                      none,
                      none,
                      none,
                      none,
                      none,
                      none};
  config.blocking = 1;
  nccl::Comm comm = nullptr;
  {
    InFlightOperations::Wait wait;
    check(library.CommInitRankConfig(&comm, members, made, index, &config), nullptr);
  }
  std::lock_guard<std::mutex> lock(mutex);
  connections.push_back({comm, index});
  if (aborted) {
    library.CommAbort(comm);
    throw std::runtime_error("the communicators were aborted");
  }
  memory.add(comm);
  return static_cast<int>(connections.size()) - 1;
}

void NcclBackend::close() {
  queue.enter();
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (std::exchange(aborted, true))
      return;
  }
  queue.synchronize();
  transfers.synchronize();
  memory.deregister();
  InFlightOperations::Wait wait;
  for (Connection &connection : connections)
    check(library.CommDestroy(connection.comm), nullptr);
  std::lock_guard<std::mutex> lock(mutex);
  destroyEvents();
}

void NcclBackend::abort() {
  std::vector<Connection> made;
  {
    std::lock_guard<std::mutex> lock(mutex);
    if (std::exchange(aborted, true) || connections.empty())
      return;
    made = connections;
  }
  // An abort may wait for a hung GPU, so it must not hold the mutex: progress() must not block.
  driver.cuCtxSetCurrent(context);
  memory.dropRegistrations();
  for (Connection &connection : made)
    library.CommAbort(connection.comm);
  std::lock_guard<std::mutex> lock(mutex);
  destroyEvents();
}

void NcclBackend::destroyEvents() {
  completeAll();
  for (Event event : events)
    driver.cuEventDestroy_v2(event);
  events.clear();
}

void NcclBackend::completeAll() {
  for (Marks &mark : marks)
    for (Event event : {mark.reached, mark.done})
      events.push_back(event);
  marks.clear();
  replayed = 0;
  seen.done = seen.reached = called;
}

//===----------------------------------------------------------------------===//
// Recorded steps
//===----------------------------------------------------------------------===//

void NcclBackend::beginRecording() {
  recorded = 0;
  isRecording = true;
}

uint64_t NcclBackend::endRecording() {
  isRecording = false;
  return recorded;
}

void NcclBackend::replay(uint64_t operations) {
  std::lock_guard<std::mutex> lock(mutex);
  completeAll();
  called += operations;
  replayed = operations;
  if (numbers.reached)
    __atomic_store_n(numbers.reached, 0, __ATOMIC_RELEASE);
}

void NcclBackend::writeProgress(uint32_t number, Stream in) {
  if (number < numbers.count)
    driver.check(driver.cuMemcpyDtoHAsync_v2(numbers.reached,
                                             numbers.numbers + number * sizeof(uint32_t),
                                             sizeof(uint32_t), in),
                 "to report its progress");
  if (in == stream)
    InFlightOperations::addProgress(number);
}

//===----------------------------------------------------------------------===//
// Operations
//===----------------------------------------------------------------------===//

nccl::Comm NcclBackend::use(int communicator) {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted)
    throw std::runtime_error("the communicators were aborted");
  return communicator == none ? nullptr : connections[static_cast<size_t>(communicator)].comm;
}

bool NcclBackend::beginOperation(Marks &mark, Stream in) {
  std::lock_guard<std::mutex> lock(mutex);
  if (isRecording) {
    mark.recorded = ++recorded;
    writeProgress(2 * mark.recorded - 1, in);
    return true;
  }
  if (replayed) // belongs to a step that has ended
    completeAll();
  mark.operation = ++called;
  if (aborted || marks.size() >= maxMarks)
    return false;
  while (events.size() < 2) {
    Event event = nullptr;
    driver.check(driver.cuEventCreate(&event, noTiming), "to create an event");
    events.push_back(event);
  }
  mark.reached = events[events.size() - 2];
  mark.done = events.back();
  driver.check(driver.cuEventRecord(mark.reached, in), "to record an event");
  events.resize(events.size() - 2);
  marks.push_back(mark);
  return true;
}

void NcclBackend::endOperation(const Marks &mark, Stream in) {
  std::lock_guard<std::mutex> lock(mutex);
  if (mark.recorded)
    return writeProgress(2 * mark.recorded, in);
  if (aborted)
    return;
  driver.check(driver.cuEventRecord(mark.done, in), "to record an event");
  for (Marks &own : marks)
    if (own.operation == mark.operation)
      own.isCalled = true;
}

void NcclBackend::call(nccl::Comm comm, const CommCall &call, const Bytes &bytes) const {
  const Stream in = bytes.stream; // messages or compute
  auto count = static_cast<size_t>(call.count);
  const void *from = pointerTo(bytes.at(call.from));
  void *to = pointerTo(bytes.at(call.to));
  int type = typeOf(call.dtype);
  switch (call.kind) {
  case CommCall::AllReduce:
    return check(library.AllReduce(from, to, count, type, operationOf(call.reduction), comm, in),
                 comm);
  case CommCall::AllGather:
    return check(library.AllGather(from, to, count, type, comm, in), comm);
  case CommCall::ReduceScatter:
    return check(
        library.ReduceScatter(from, to, count, type, operationOf(call.reduction), comm, in), comm);
  case CommCall::Broadcast:
    return check(library.Broadcast(from, to, count, type, call.peer, comm, in), comm);
  case CommCall::Send:
    return check(library.Send(from, count, type, call.peer, comm, in), comm);
  case CommCall::Receive:
    return check(library.Recv(to, count, type, call.peer, comm, in), comm);
  }
}

void NcclBackend::carryOut(nccl::Comm comm, const std::vector<CommCall> &calls,
                           const Bytes &bytes) {
  Stream in = bytes.stream;
  transfers.beginOperation(in);
  Marks mark{};
  bool marked = beginOperation(mark, in);
  if (!calls.empty()) {
    call(comm, calls, bytes);
    InFlightOperations::add(driver, in, "communication over NCCL");
  }
  if (marked)
    endOperation(mark, in);
  transfers.endOperation(in);
}

void NcclBackend::call(nccl::Comm comm, const std::vector<CommCall> &calls, const Bytes &bytes) {
  InFlightOperations::Wait wait; // NCCL connects in this call
  if (calls.size() == 1)
    return call(comm, calls[0], bytes);
  check(library.GroupStart(), comm);
  std::exception_ptr problem;
  for (const CommCall &one : calls)
    try {
      call(comm, one, bytes);
    } catch (const std::exception &) {
      problem = std::current_exception();
      break;
    }
  nccl::Status ended = library.GroupEnd(); // even after an error
  if (problem)
    std::rethrow_exception(problem);
  check(ended, comm);
}

void NcclBackend::carryOut(int communicator, const CommPlan &plan, const void *in, void *out,
                           void *stage) {
  queue.enter();
  nccl::Comm comm = use(communicator);
  if (plan.isMessage) {
    const CommCall &one = plan.calls[0];
    if (one.kind == CommCall::Send) {
      Address slot =
          transfers.beginSend(addressOf(in) + static_cast<Address>(one.from.offset), one.count);
      carryOut(comm,
               {{CommCall::Send, {CommMemory::In, 0}, {}, one.count, one.dtype, {}, one.peer}},
               {driver, transfers.stream, {slot, 0, 0}});
      return transfers.endSend();
    }
    if (one.kind == CommCall::Receive) {
      Address slot = transfers.beginReceive(one.count);
      carryOut(comm,
               {{CommCall::Receive, {}, {CommMemory::Out, 0}, one.count, one.dtype, {}, one.peer}},
               {driver, transfers.stream, {0, slot, 0}});
      return transfers.endReceive(addressOf(out) + static_cast<Address>(one.to.offset), one.count);
    }
  }
  Bytes bytes{driver, stream, {addressOf(in), addressOf(out), addressOf(stage)}};
  for (const CommFill &fill : plan.fills)
    bytes.fill(fill);
  for (const CommCopy &copy : plan.before)
    bytes.copy(copy);
  carryOut(comm, plan.calls, bytes);
  for (const CommCopy &copy : plan.after)
    bytes.copy(copy);
}

int32_t NcclBackend::start(int communicator, const CommPlan &plan, const void *in, void *out) {
  queue.enter();
  nccl::Comm comm = use(communicator);
  int32_t token = transfers.beginAsync();
  carryOut(comm, plan.calls, {driver, transfers.stream, {addressOf(in), addressOf(out), 0}});
  transfers.endAsync(token);
  return token;
}

CollectiveBackend::Progress NcclBackend::progress() {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted || connections.empty())
    return seen;
  driver.cuCtxSetCurrent(context);
  if (replayed) {
    uint64_t before = called - replayed,
             number = __atomic_load_n(numbers.reached, __ATOMIC_ACQUIRE);
    seen = {before + (number + 1) / 2, before + number / 2};
    return seen;
  }
  // The rank's thread reports results other than "not ready".
  auto isComplete = [&](Event event) { return driver.cuEventQuery(event) == success; };
  while (!marks.empty() && marks.front().isCalled && isComplete(marks.front().done)) {
    seen.done = seen.reached = marks.front().operation;
    for (Event event : {marks.front().reached, marks.front().done})
      events.push_back(event);
    marks.pop_front();
  }
  if (!marks.empty() && isComplete(marks.front().reached)) {
    // Unmarked operations before this one are complete.
    seen.done = marks.front().operation - 1;
    seen.reached = marks.front().operation;
  }
  return seen;
}

std::string NcclBackend::problem(int communicator) {
  std::lock_guard<std::mutex> lock(mutex);
  if (aborted)
    return "";
  nccl::Comm comm = connections[static_cast<size_t>(communicator)].comm;
  driver.cuCtxSetCurrent(context);
  nccl::Status status = nccl::success;
  if (nccl::Status query = library.CommGetAsyncError(comm, &status); query != nccl::success)
    status = query;
  return status == nccl::success || status == nccl::inProgress ? ""
                                                               : library.describe(status, comm);
}

} // namespace tpc::rt::cuda
