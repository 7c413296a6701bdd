//===- ToyProgram.cpp - Hand-written generating program -------------------===//
//
// Equivalent to the compiler's output for the model in Toy.h. Each stage appends tokens to its own
// cache and passes them on. The last stage computes logits, split over the ranks of tp. The batch
// is split over dp, then into micro-batches. Environment variables set the grid (TEST_TP, TEST_DP,
// TEST_PP, TEST_MB), whether logits are of all tokens (TEST_ALL), and the maximum sequence length
// (TEST_MOST).
//
//===----------------------------------------------------------------------===//

#include "../Toy.h"
#include "core/Context.h"
#include "core/Grid.h"
#include "core/Transport.h"
#include "tpc/runtime.h"
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

using namespace tpc::rt;

namespace {

int64_t numberFrom(const char *variable, int64_t otherwise) {
  const char *text = std::getenv(variable);
  return text && *text ? std::atoll(text) : otherwise;
}

const int64_t tp = numberFrom("TEST_TP", 1), dp = numberFrom("TEST_DP", 1),
              pp = numberFrom("TEST_PP", 1), mb = numberFrom("TEST_MB", 1),
              allTokens = numberFrom("TEST_ALL", 0), maximum = numberFrom("TEST_MOST", 0),
              diesAt = numberFrom("TEST_DIES", 0), wide = numberFrom("TEST_WIDE", 1);
constexpr int32_t ppAxis = 4;

/// Symbols, followed by tp, cp, ep, dp, pp.
struct Env {
  int64_t batch, sequence, capacity, tp, cp, ep, dp, pp;
};

/// Returns the rank's cache for the rows of the step, like tpc_state.
int64_t *cacheOf(tpc_context *ctx, int64_t rows, int64_t capacity) {
  static std::mutex mutex;
  static std::map<tpc_context *, std::vector<int64_t>> caches;
  std::lock_guard<std::mutex> lock(mutex);
  std::vector<int64_t> &cache = caches[ctx];
  int64_t slots = ctx->stateRows == ctx->stepRows ? rows : ctx->stateRows;
  // Unwritten entries are invalid tokens.
  if (std::ssize(cache) < slots * capacity)
    cache.assign(static_cast<size_t>(slots * capacity), -77);
  return cache.data() + ctx->stateRow * capacity;
}

void stage(tpc_context *ctx, const int64_t *values) {
  Env env;
  std::memcpy(&env, values, sizeof env);
  bool isDryRun = std::string_view(ctx->transport->name()) == "none";
  static std::atomic<int64_t> steps{0};
  if (diesAt && !isDryRun && env.pp == pp - 1 && env.tp == tp - 1 && ++steps == diesAt)
    kill(getpid(), SIGKILL);
  auto *ids = static_cast<const int64_t *>(tpc_input(ctx, 0));
  auto *lengths = static_cast<const int64_t *>(tpc_input(ctx, 1));
  auto *counts = static_cast<const int64_t *>(tpc_input(ctx, 2));
  Part replica = partOf(env.batch, dp, env.dp), shard = partOf(toy::vocabulary, tp, env.tp);
  int64_t *caches = cacheOf(ctx, replica.size, env.capacity);
  for (int64_t i = 0; i < mb; ++i) {
    Part micro = partOf(replica.size, mb, i);
    if (micro.size == 0)
      break;
    int64_t tokens = micro.size * env.sequence, first = replica.offset + micro.offset;
    // Size of the messages between stages, which may exceed a token.
    auto *h = static_cast<int64_t *>(tpc_frame_push(ctx, tokens * wide * 8));
    if (isDryRun)
      ;
    else if (env.pp == 0)
      std::memcpy(h, ids + first * env.sequence, static_cast<size_t>(tokens) * 8);
    else
      tpc_recv(ctx, ppAxis, TPC_I64, h, tokens * wide, env.pp - 1);
    if (env.pp + 1 < pp)
      tpc_send(ctx, ppAxis, TPC_I64, h, tokens * wide, env.pp + 1);
    if (isDryRun) { // host functions of compiled programs do not access tensors
      tpc_frame_pop(ctx, h);
      continue;
    }
    int64_t width = allTokens ? env.sequence : 1;
    auto *logits = static_cast<float *>(tpc_frame_push(ctx, micro.size * width * shard.size * 4));
    for (int64_t row = 0; row < micro.size; ++row) {
      int64_t length = lengths[first + row], count = counts[first + row];
      int64_t *cache = caches + (micro.offset + row) * env.capacity;
      for (int64_t j = 0; j < count; ++j)
        cache[length + j] = h[row * env.sequence + j];
      uint64_t state = 1;
      for (int64_t j = 0; j < length + count; ++j) {
        state = toy::readToken(state, j, cache[j]);
        int64_t index = allTokens ? j - length : j - (length + count - 1);
        if (index >= 0)
          for (int64_t v = 0; v < shard.size; ++v)
            logits[(row * width + index) * shard.size + v] = toy::logit(state, shard.offset + v);
      }
    }
    if (env.pp == pp - 1) {
      int64_t global[] = {env.batch, width, toy::vocabulary}, offset[] = {first, 0, shard.offset},
              size[] = {micro.size, width, shard.size};
      tpc_output(ctx, 0, logits, 3, global, offset, size);
    }
    tpc_frame_pop(ctx, h);
  }
}

std::string manifest() {
  auto number = [](int64_t n) { return std::to_string(n); };
  return R"({"format": 1, "name": "toy", "compiler": "by hand",
    "grid": {"sizes": {"tp": )" +
         number(tp) + R"(, "cp": 1, "ep": 1, "dp": )" + number(dp) + R"(, "pp": )" + number(pp) +
         R"(}, "order": ["tp", "cp", "ep", "dp", "pp"], "micro_batches": )" + number(mb) + R"(},
    "symbols": ["batch", "sequence", "capacity"],
    "inputs": [{"name": "ids", "dtype": "i64", "shape": ["batch", "sequence"], "range": [-101, 100]},
               {"name": "lengths", "dtype": "i64", "shape": ["batch"]},
               {"name": "counts", "dtype": "i64", "shape": ["batch"]}],
    "outputs": [{"name": "logits", "dtype": "f32", "shape": ["batch", )" +
         (allTokens ? R"("sequence", )" : "") + R"("101"]}],
    "caches": [{"name": "k0", "stage": 0, "dtype": "i64", "shape": ["batch", 1, "capacity", 1],
                "axes": [["dp"], [], [], []]}],
    "generation": {"tokens": "ids", "batch": "batch", "sequence": "sequence", "lengths": "lengths",
                   "counts": "counts", "capacity": "capacity", "logits": "logits", "last_only": )" +
         (allTokens ? "false" : "true") + R"(, "vocabulary": 101, "in_flight": )" + number(pp) +
         (maximum ? ", \"max_sequence\": " + number(maximum + 5) : "") + R"(}, "constraints": [)" +
         (maximum ? R"({"expr": "capacity + 2", "max": )" + number(maximum + 2) + "}" : "") + R"(],
    "schedule": "by hand"})";
}

const std::string text = manifest();
const std::vector<tpc_stage_fn> stages(static_cast<size_t>(pp), stage);

tpc_program makeProgram() {
  tpc_program program = {};
  program.abi_version = TPC_ABI_VERSION;
  program.num_stages = static_cast<int32_t>(pp);
  program.manifest = text.c_str();
  program.stages = stages.data();
  return program;
}

} // namespace

/// Also exported for processes that load this file as a library.
extern "C" const tpc_program tpc_program_v7 = makeProgram();

int main(int argc, char **argv) { return tpc_main(&tpc_program_v7, argc, argv); }
