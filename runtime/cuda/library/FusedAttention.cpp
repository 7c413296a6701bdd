//===- FusedAttention.cpp - Attention by cuDNN ----------------------------===//

#include "cuda/library/FusedAttention.h"
#include "cuda/library/Notes.h"
#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <limits>

namespace tpc::rt::cuda {
namespace {

/// Minimum number of queries of calls without caches. Generated kernels, which need no plan,
/// compute calls with fewer.
constexpr int64_t minQueries = 64;
/// The plan of a shape with caches is built in the third step in which the shape occurs.
constexpr int64_t stepOfPlan = 3;
/// Maximum number of shapes with caches whose steps are counted.
constexpr size_t maxCountedShapes = 4096;
/// Maximum number of planned shapes; generated kernels compute the others.
constexpr size_t maxPlans = 64;
/// Bytes of a vector load in the library's kernels.
constexpr uintptr_t alignment = 16;

/// Whether cuDNN may compute the call, by conditions that are known only at run time.
bool isSupported(const tpc_attention_args &a) {
  bool isAligned = true;
  for (const void *pointer : {static_cast<const void *>(a.q), static_cast<const void *>(a.k),
                              static_cast<const void *>(a.v), static_cast<const void *>(a.out),
                              static_cast<const void *>(a.bias)})
    isAligned &= reinterpret_cast<uintptr_t>(pointer) % alignment == 0;
  for (int64_t stride : {a.q_row_stride, a.k_row_stride, a.v_row_stride, a.out_row_stride,
                         a.lengths ? a.k_batch_stride : 0, a.lengths ? a.k_head_stride : 0,
                         a.lengths ? a.v_batch_stride : 0, a.lengths ? a.v_head_stride : 0})
    isAligned &= stride * 2 % static_cast<int64_t>(alignment) == 0;
  // With a negative offset the first rows have no visible key.
  bool seesKeys = a.seq_k > 0 && (!a.causal || a.causal_offset >= 0);
  return isAligned && seesKeys && (a.lengths || a.seq_q >= minQueries) &&
         a.causal_offset <= INT32_MAX;
}

void noteOnce(const std::string &what) {
  static std::atomic<bool> isReported{false};
  if (!isReported.exchange(true))
    addNote(what + ": generated kernels compute attention");
}

} // namespace

static constexpr int64_t never = std::numeric_limits<int64_t>::max();

/// Returns the minimum number of queries of calls with caches. A plan costs up to 0.8 s and serves
/// one number of keys, so it is the user's choice: TPC_CUDNN_QUERIES.
static int64_t readMinQueries() {
  const char *text = std::getenv("TPC_CUDNN_QUERIES");
  if (!text || !*text)
    return never;
  char *end = nullptr;
  int64_t value = std::strtoll(text, &end, 10);
  if (*end || value < 0)
    throw std::runtime_error("TPC_CUDNN_QUERIES=" + std::string(text) +
                             ": must be a number of queries, or 0 for never");
  return value ? value : never;
}

FusedAttention::FusedAttention(const Driver &driver, Stream stream, bool usesCaches)
    : driver(driver), stream(stream), minCachedQueries(usesCaches ? readMinQueries() : never) {}

FusedAttention::~FusedAttention() {
  plans.clear();
  if (handle)
    library->Destroy(handle);
}

bool FusedAttention::start() {
  if (isStarted)
    return handle;
  isStarted = true;
  std::string problem;
  library = dnn::Library::load(problem);
  if (!library)
    return false; // cuDNN is optional
  try {
    library->check(library->Create(&handle), "to start");
    library->check(library->SetStream(handle, stream), "to start");
  } catch (const std::exception &error) {
    noteOnce(library->describe() + " cannot be used (" + error.what() + ")");
    if (handle)
      library->Destroy(handle);
    handle = nullptr;
  }
  return handle;
}

FusedAttention::Entry FusedAttention::make(const dnn::AttentionShape &shape) {
  Entry entry;
  try {
    entry.plan = std::make_unique<dnn::AttentionPlan>(*library, handle, shape);
    if (int64_t bytes = entry.plan->workspaceBytes(); bytes > 0)
      entry.workspace = std::make_unique<Block>(driver, bytes);
  } catch (const std::exception &error) {
    noteOnce(library->describe() + " rejects attention of " + std::to_string(shape.queries) +
             " queries and " + std::to_string(shape.keys) + " keys (" + error.what() + ")");
    entry.plan.reset();
  }
  return entry;
}

bool FusedAttention::takesCaches(const tpc_attention_args &args, const int64_t *lengths,
                                 bool isRecorded, int64_t &past) {
  std::string problem;
  if (!lengths || args.seq_q < minCachedQueries || args.batch < 1 || args.pages ||
      !dnn::Library::load(problem))
    return false;
  past = lengths[0];
  bool isEqual =
      std::all_of(lengths, lengths + args.batch, [&](int64_t length) { return length == past; });
  if (!isEqual || past < 0 || past + args.seq_q + args.causal_offset > args.seq_k)
    return false;
  // An earlier step of this size, with other lengths, permitted the recording.
  if (isRecorded)
    return false;
  stepOfLengths = step;
  if (occurrences.size() >= maxCountedShapes)
    occurrences.clear();
  Occurrences &counted = occurrences[dnn::AttentionShape::of(args, past)];
  counted.steps += counted.lastStep != step;
  counted.lastStep = step;
  return counted.steps >= stepOfPlan;
}

bool FusedAttention::compute(const tpc_attention_args &args, const int64_t *lengths,
                             bool isRecorded) {
  // The memory of a plan is known only after it is built on a GPU. A dry run counts the memory of
  // generated kernels instead.
  if (!isSupported(args) || !driver.isReal)
    return false;
  int64_t past = 0;
  if (args.lengths && !takesCaches(args, lengths, isRecorded, past))
    return false;
  dnn::AttentionShape shape = dnn::AttentionShape::of(args, past);
  auto found = plans.find(shape);
  if (found == plans.end()) {
    // Nothing may be loaded or allocated while a step is recorded.
    if (isRecorded || plans.size() >= maxPlans || !start())
      return false;
    found = plans.emplace(shape, make(shape)).first;
  }
  Entry &entry = found->second;
  if (!entry.plan)
    return false;
  try {
    entry.plan->run(handle, args,
                    reinterpret_cast<void *>(entry.workspace ? entry.workspace->address : 0));
  } catch (const std::exception &error) {
    // A failure while a step is recorded invalidates the graph.
    if (isRecorded)
      throw;
    noteOnce(library->describe() + " failed to run attention (" + error.what() + ")");
    entry.plan.reset();
    return false;
  }
  return true;
}

} // namespace tpc::rt::cuda
