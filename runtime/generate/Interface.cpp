//===- Interface.cpp - C interface for generation by a host process -------===//
//
// Implements tpc/session.h. The model's thread generates tokens into a queue that the caller reads.
//
//===----------------------------------------------------------------------===//

#include "generate/Generator.h"
#include "program/Library.h"
#include <algorithm>
#include <condition_variable>
#include <deque>
#include <limits>
#include <mutex>
#include <unistd.h>

using namespace tpc::rt;

struct tpc_generation final : GenerationClient {
  ClientInput pollInput(bool wait) override {
    std::lock_guard<std::mutex> lock(mutex);
    ClientInput result;
    result.isLast = wait; // all requests are done
    if (isUnwanted && !isCancelled)
      for (uint64_t request = 0; request < numRequests; ++request)
        result.cancelled.push_back(request);
    isCancelled = isUnwanted;
    return result;
  }
  void onToken(uint64_t request, int64_t token, int64_t index) override {
    add({{TPC_EVENT_TOKEN, static_cast<int32_t>(request), index, token}, ""});
  }
  void onFinish(uint64_t request, Finish why, const std::string &message) override {
    int32_t kind = why == Finish::Stop        ? TPC_EVENT_STOP
                   : why == Finish::Length    ? TPC_EVENT_LENGTH
                   : why == Finish::Cancelled ? TPC_EVENT_CANCELLED
                                              : TPC_EVENT_FAILED;
    add({{kind, static_cast<int32_t>(request), 0, 0}, message});
  }

  struct QueuedEvent {
    tpc_event event;
    std::string message;
  };
  void add(QueuedEvent queued) {
    {
      std::lock_guard<std::mutex> lock(mutex);
      queue.push_back(std::move(queued));
    }
    changed.notify_one();
  }
  /// Marks the end of the queue.
  void end() {
    {
      std::lock_guard<std::mutex> lock(mutex);
      hasEnded = true;
    }
    changed.notify_all();
  }
  /// Waits for the next event; nullopt at the end.
  std::optional<QueuedEvent> next() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return !queue.empty() || hasEnded; });
    if (queue.empty())
      return std::nullopt;
    QueuedEvent queued = std::move(queue.front());
    queue.pop_front();
    return queued;
  }

  const pid_t process = getpid();
  uint64_t numRequests = 0;
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<QueuedEvent> queue;
  bool hasEnded = false, isUnwanted = false, isCancelled = false;
  std::future<void> done;
};

namespace {

GenerationRequest requestOf(const tpc_request &given, int32_t index) {
  GenerationRequest request;
  auto list = [](const int64_t *ids, int64_t count, const char *what) {
    if (count < 0 || (count > 0 && !ids))
      throw UserError(std::string(what) + " are missing");
    return std::vector<int64_t>(ids, ids + count);
  };
  request.ids = list(given.ids, given.count, "ids of a prompt");
  request.stopIds = list(given.stop_ids, given.num_stop_ids, "stop ids");
  request.maxNewTokens = given.max_new_tokens;
  request.sampling.temperature = narrowSetting("temperature", given.temperature);
  request.sampling.topK = given.top_k;
  request.sampling.topP = given.top_p;
  request.sampling.repetitionPenalty =
      narrowSetting("repetition_penalty", given.repetition_penalty);
  request.sampling.seed = given.seed;
  request.stream = static_cast<uint64_t>(index);
  return request;
}

/// Reports invalid requests before anything runs.
void check(const Manifest &manifest, const GenerationLimits &limits,
           const std::vector<GenerationRequest> &requests) {
  checkGeneration(manifest, limits);
  for (size_t i = 0; i < requests.size(); ++i)
    if (std::string problem =
            problemOf(requests[i], *manifest.generation, limits.capacity, limits.source);
        !problem.empty())
      throw UserError((requests.size() > 1 ? "prompt " + std::to_string(i) + ": " : "") + problem);
}

/// Computes slots and capacity: from the model's flags, else the maximum of these requests and all
/// earlier ones, so that memory is rarely reallocated. Throws UserError if a request is invalid; a
/// rejected call changes nothing.
GenerationLimits limitsOf(Model &model, const Manifest &manifest,
                          const std::vector<GenerationRequest> &requests, int64_t together) {
  constexpr int64_t step = 64, maximum = std::numeric_limits<int64_t>::max();
  const GenerationOptions &flags = model.flags().generation;
  int64_t needed = 1;
  for (const GenerationRequest &request : requests) {
    int64_t length = lengthOf(request);
    needed = std::max(needed, length > maximum - step ? length : (length + step) / step * step);
  }
  Model::GenerationCapacity &current = model.generationCapacity();
  std::lock_guard<std::mutex> lock(current.mutex);
  int64_t slots = std::max({current.slots, together, int64_t(1)});
  int64_t capacity = std::max(current.capacity, needed);
  GenerationLimits limits;
  limits.slots = flags.maxBatch.value_or(slots);
  limits.capacity = capacityOf(manifest, flags.maxSequence, capacity);
  limits.chunk = std::min(flags.prefillChunk.value_or(limits.chunk), limits.capacity);
  check(manifest, limits, requests);
  current.slots = slots;
  current.capacity = capacity;
  return limits;
}

/// Runs on the model's thread before anything is allocated. Throws UserError if memory does not
/// suffice; later calls then reserve less.
void checkCapacity(Model &model, const Manifest &manifest, const GenerationLimits &limits) {
  Model::GenerationCapacity &current = model.generationCapacity();
  std::lock_guard<std::mutex> lock(current.mutex);
  if (limits.slots <= current.checkedSlots && limits.capacity <= current.checkedCapacity)
    return;
  try {
    model.checkMemory(largestSteps(manifest, limits, limits.capacity), limitsText(limits));
  } catch (const UserError &) {
    current.slots = current.capacity = 0;
    throw;
  }
  current.checkedSlots = limits.slots;
  current.checkedCapacity = limits.capacity;
}

/// Stores the logits of one request.
struct LogitsClient final : GenerationClient {
  explicit LogitsClient(std::vector<std::vector<float>> &rows) : rows(rows) {}
  void onToken(uint64_t, int64_t, int64_t) override {}
  void onFinish(uint64_t, Finish, const std::string &) override {}
  void onLogits(std::vector<float> row) override { rows.push_back(std::move(row)); }
  std::vector<std::vector<float>> &rows;
};

std::vector<GenerationRequest> rowsOf(const Tensor &ids, const std::string &name) {
  if ((ids.dtype != TPC_I64 && ids.dtype != TPC_I32) || ids.shape.size() != 2)
    throw UserError("input '" + name +
                    "' takes rows of ids, i64[batch, sequence]; the given array is " +
                    dtypeName(ids.dtype) + shapeText(ids.shape));
  std::vector<GenerationRequest> rows(static_cast<size_t>(ids.shape[0]));
  for (size_t row = 0; row < rows.size(); ++row)
    for (int64_t i = 0, first = static_cast<int64_t>(row) * ids.shape[1]; i < ids.shape[1]; ++i)
      rows[row].ids.push_back(ids.dtype == TPC_I64 ? ids.as<int64_t>()[first + i]
                                                   : ids.as<int32_t>()[first + i]);
  for (GenerationRequest &row : rows)
    row.maxNewTokens = 1;
  return rows;
}

} // namespace

std::vector<Tensor> tpc::rt::runPrompts(Model &model, const Manifest &manifest,
                                        const std::vector<std::string> &names,
                                        const std::function<Given(const Port &)> &take) {
  const Generation &generation = *manifest.generation;
  const Port &port = manifest.inputs[static_cast<size_t>(generation.tokens)];
  for (const std::string &name : names)
    if (name != port.name)
      throw UserError("there is no input '" + name + "'; a program that generates takes '" +
                      port.name + "'");
  if (names.empty())
    throw UserError("missing input '" + port.name + "'");
  std::vector<GenerationRequest> requests = rowsOf(take(port).tensor, port.name);
  GenerationLimits limits = limitsOf(model, manifest, requests, 1);
  std::vector<std::vector<float>> rows;
  model
      .post([&](Execution &ranks) {
        checkCapacity(model, manifest, limits);
        LogitsClient client(rows);
        GenerationMode mode;
        mode.givesLogits = true;
        for (const GenerationRequest &request : requests)
          TokenGenerator(ranks, manifest, limits).generate({request}, client, mode);
      })
      .get();
  Tensor logits;
  logits.dtype = TPC_F32;
  auto batch = std::ssize(requests);
  logits.shape = {batch, generation.vocabulary};
  if (!generation.lastOnly)
    logits.shape.insert(logits.shape.begin() + 1, batch ? std::ssize(rows) / batch : 0);
  logits.data = Buffer(*byteCount(logits.shape, TPC_F32));
  float *to = logits.as<float>();
  for (const std::vector<float> &row : rows)
    to = std::copy(row.begin(), row.end(), to);
  std::vector<Tensor> outputs;
  outputs.push_back(std::move(logits));
  return outputs;
}

extern "C" {

int tpc_model_generate(tpc_model *model, const tpc_request *requests, int32_t count,
                       tpc_generation **generation) {
  return guarded([&] {
    require(generation, "the pointer for the generation");
    *generation = nullptr;
    Model &opened = usable(model);
    const Manifest &manifest = manifestOfProgram();
    if (!manifest.generation)
      throw UserError("this program computes single steps; compile the model with tpcc --generate");
    std::vector<GenerationRequest> asked;
    for (int32_t i = 0; i < count; ++i) {
      require(requests, "the list of requests");
      asked.push_back(requestOf(requests[i], i));
    }
    // Reports invalid requests here, not with the first token.
    GenerationLimits limits = limitsOf(opened, manifest, asked, std::ssize(asked));
    auto made = std::make_unique<tpc_generation>();
    tpc_generation *client = made.get();
    client->numRequests = asked.size();
    client->done =
        opened.post([&opened, client, limits, asked = std::move(asked)](Execution &ranks) {
          struct End {
            tpc_generation *client;
            ~End() { client->end(); }
          } end{client};
          checkCapacity(opened, manifestOfProgram(), limits);
          GenerationMode mode;
          mode.pollsClient = true;
          TokenGenerator(ranks, manifestOfProgram(), limits).generate(asked, *client, mode);
        });
    *generation = made.release();
  });
}

int tpc_generation_next(tpc_generation *generation, tpc_event *event) {
  return guarded([&] {
    require(generation, "the generation");
    require(event, "the pointer for the event");
    if (generation->process != getpid())
      throw UserError("the generation belongs to the parent process of a fork");
    std::optional<tpc_generation::QueuedEvent> queued = generation->next();
    if (!queued && generation->done.valid())
      generation->done.get(); // throws the error that ended the generation
    *event = queued ? queued->event : tpc_event{TPC_EVENT_END, -1, 0, 0};
    if (queued && event->kind == TPC_EVENT_FAILED)
      keepError(TPC_OK, queued->message.c_str());
  });
}

void tpc_generation_free(tpc_generation *generation) {
  if (!generation || generation->process != getpid())
    return;
  {
    std::lock_guard<std::mutex> lock(generation->mutex);
    generation->isUnwanted = true;
  }
  if (generation->done.valid())
    generation->done.wait();
  delete generation;
}

} // extern "C"
