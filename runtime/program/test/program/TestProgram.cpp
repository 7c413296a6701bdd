//===- TestProgram.cpp - Handwritten program for tests --------------------===//
//
// Contains the code that the compiler would emit for a small network, to test the main function of
// executables separately. Environment variables set the grid (TEST_TP, TEST_DP, TEST_PP, TEST_MB)
// and the weight file (TEST_WEIGHTS, TEST_DIGEST). TEST_PATCH, a JSON Patch, changes the manifest;
// the code stays the same.
//
//   h = table[ids] * mask[..., None] + positions[..., None]     table [11, 6]
//   h = h + gelu_tanh(h W1 + b1) W2 + b2                        W1 [6, 10]
//                                                               W2 a transposed view of [6, 10]
//   logits = h W3 + b3                                          W3 [6, 7]
//
// If pp = 2, the first stage ends before the logits.
//
// W1 and W3 are split by columns over tp, W2 by rows. The batch is split over dp, then into
// micro-batches.
//
//===----------------------------------------------------------------------===//

#include "core/Grid.h"
#include "tpc/runtime.h"
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

using tpc::rt::Part;
using tpc::rt::partOf;

namespace {

int64_t numberFrom(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? std::atoll(text) : 1;
}
std::string textFrom(const char *variable) {
  const char *text = std::getenv(variable);
  return text ? text : "";
}

const int64_t tp = numberFrom("TEST_TP"), dp = numberFrom("TEST_DP"), pp = numberFrom("TEST_PP"),
              mb = numberFrom("TEST_MB");
constexpr int64_t vocabulary = 11, hidden = 6, inner = 10, classes = 7;
enum Parameters { Table, W1, B1, W2, B2, W3, B3 };

/// The ABI's env: symbols batch and sequence, then tp, cp, ep, dp, pp.
struct Env {
  int64_t batch, sequence, tp, cp, ep, dp, pp;
};

/// Tokens [first, first + count) of the whole batch.
struct Tokens {
  int64_t firstRow, rows, sequence;
  int64_t count() const { return rows * sequence; }
  int64_t first() const { return firstRow * sequence; }
};

void block(tpc_context *ctx, const Env &env, const Tokens &tokens, float *h) {
  auto *ids = static_cast<const int64_t *>(tpc_input(ctx, 0));
  auto *mask = static_cast<const int64_t *>(tpc_input(ctx, 1));
  auto *positions = static_cast<const int64_t *>(tpc_input(ctx, 2));
  auto *table = static_cast<const float *>(tpc_parameter(ctx, Table));
  int64_t n = tokens.count();
  for (int64_t t = 0; t < n; ++t) {
    int64_t from = tokens.first() + t, id = ids[from] < 0 ? ids[from] + vocabulary : ids[from];
    for (int64_t j = 0; j < hidden; ++j)
      h[t * hidden + j] = table[id * hidden + j] * static_cast<float>(mask[from]) +
                          static_cast<float>(positions[from]);
  }
  Part part = partOf(inner, tp, env.tp);
  auto *u = static_cast<float *>(tpc_frame_push(ctx, n * part.size * 4));
  auto *sum = static_cast<float *>(tpc_frame_push(ctx, n * hidden * 4));
  tpc_product up = {part.size,
                    part.size,
                    static_cast<const float *>(tpc_parameter(ctx, B1)),
                    nullptr,
                    u,
                    W1,
                    TPC_EPILOGUE_GELU_TANH,
                    TPC_F32,
                    TPC_F32};
  tpc_products(ctx, h, n, hidden, &up, 1);
  tpc_product down = {hidden,  hidden, nullptr, nullptr, sum, W2, TPC_EPILOGUE_NONE,
                      TPC_F32, TPC_F32};
  tpc_products(ctx, u, n, part.size, &down, 1);
  tpc_all_reduce(ctx, 1, TPC_F32, TPC_SUM, sum, sum, n * hidden);
  auto *bias = static_cast<const float *>(tpc_parameter(ctx, B2));
  for (int64_t i = 0; i < n * hidden; ++i)
    h[i] += sum[i] + bias[i % hidden];
  tpc_frame_pop(ctx, u);
}

void head(tpc_context *ctx, const Env &env, const Tokens &tokens, const float *h) {
  Part part = partOf(classes, tp, env.tp);
  auto *logits = static_cast<float *>(tpc_frame_push(ctx, tokens.count() * part.size * 4));
  tpc_product product = {
      part.size,         part.size, static_cast<const float *>(tpc_parameter(ctx, B3)),
      nullptr,           logits,    W3,
      TPC_EPILOGUE_NONE, TPC_F32,   TPC_F32};
  tpc_products(ctx, h, tokens.count(), hidden, &product, 1);
  int64_t global[] = {env.batch, env.sequence, classes};
  int64_t offset[] = {tokens.firstRow, 0, part.offset},
          size[] = {tokens.rows, env.sequence, part.size};
  tpc_output(ctx, 0, logits, 3, global, offset, size);
  tpc_frame_pop(ctx, logits);
}

void stage(tpc_context *ctx, const int64_t *values) {
  Env env;
  std::memcpy(&env, values, sizeof env);
  Part replica = partOf(env.batch, dp, env.dp);
  for (int64_t i = 0; i < mb; ++i) {
    Part micro = partOf(replica.size, mb, i);
    if (micro.size == 0)
      break;
    Tokens tokens{replica.offset + micro.offset, micro.size, env.sequence};
    auto *h = static_cast<float *>(tpc_frame_push(ctx, tokens.count() * hidden * 4));
    if (env.pp == 0)
      block(ctx, env, tokens, h);
    if (pp == 2 && env.pp == 0)
      tpc_send(ctx, 4, TPC_F32, h, tokens.count() * hidden, 1);
    if (pp == 2 && env.pp == 1)
      tpc_recv(ctx, 4, TPC_F32, h, tokens.count() * hidden, 0);
    if (env.pp == pp - 1)
      head(ctx, env, tokens, h);
    tpc_frame_pop(ctx, h);
  }
}

std::string manifest() {
  auto number = [](int64_t n) { return std::to_string(n); };
  // The weights are in a folder next to the model.
  std::filesystem::path folder = std::filesystem::path(textFrom("TEST_WEIGHTS")).parent_path();
  std::string source = (folder.parent_path() / "tiny.onnx").string();
  std::string last = number(pp - 1),
              text =
                  R"({"format": 1, "name": "tiny", "compiler": "by hand", "source": ")" + source +
                  R"(",
    "grid": {"sizes": {"tp": )" +
                  number(tp) + R"(, "cp": 1, "ep": 1, "dp": )" + number(dp) + R"(, "pp": )" +
                  number(pp) + R"(}, "order": ["tp", "cp", "ep", "dp", "pp"], "micro_batches": )" +
                  number(mb) + R"(},
    "symbols": ["batch", "sequence"],
    "inputs": [{"name": "ids", "dtype": "i64", "shape": ["batch", "sequence"], "range": [-11, 10], "range_of": "table"},
               {"name": "mask", "dtype": "i64", "shape": ["batch", "sequence"], "default": "ones"},
               {"name": "positions", "dtype": "i64", "shape": ["batch", "sequence"], "default": "positions"}],
    "outputs": [{"name": "logits", "dtype": "f32", "shape": ["batch", "sequence", "7"]}],
    "constraints": [{"expr": "sequence", "min": 0, "max": 8, "why": "there are 8 positions"}],
    "files": [{"path": ")" +
                  textFrom("TEST_WEIGHTS") + R"(", "bytes": 976, "digest": ")" +
                  textFrom("TEST_DIGEST") + R"("}],
    "parameters": [
      {"name": "table", "stage": 0, "dtype": "f32", "file": 0, "offset": 0, "bytes": 264, "source_shape": [11, 6],
       "dims": [[{"size": 11, "stride": 6}], [{"size": 6, "stride": 1}]], "use": "dense", "init": "normal"},
      {"name": "w1", "stage": 0, "dtype": "f32", "file": 0, "offset": 264, "bytes": 240, "source_shape": [6, 10],
       "dims": [[{"size": 6, "stride": 10}], [{"size": 10, "stride": 1, "axes": ["tp"]}]], "use": "matmul_rhs", "init": "normal"},
      {"name": "b1", "stage": 0, "dtype": "f32", "file": 0, "offset": 504, "bytes": 40, "source_shape": [10],
       "dims": [[{"size": 10, "stride": 1, "axes": ["tp"]}]], "use": "dense", "init": "zeros"},
      {"name": "w2", "stage": 0, "dtype": "f32", "file": 0, "offset": 544, "bytes": 240, "source_shape": [6, 10],
       "dims": [[{"size": 10, "stride": 1, "axes": ["tp"]}], [{"size": 6, "stride": 10}]], "use": "matmul_rhs", "init": "normal"},
      {"name": "b2", "stage": 0, "dtype": "f32", "file": 0, "offset": 784, "bytes": 24, "source_shape": [6],
       "dims": [[{"size": 6, "stride": 1}]], "use": "dense", "init": "ones"},
      {"name": "w3", "stage": )" +
                  last +
                  R"(, "dtype": "f32", "source_dtype": "f16", "file": 0, "offset": 808, "bytes": 84,
       "source_shape": [6, 7], "dims": [[{"size": 6, "stride": 7}], [{"size": 7, "stride": 1, "axes": ["tp"]}]],
       "use": "matmul_rhs", "init": "normal"},
      {"name": "b3", "stage": )" +
                  last +
                  R"(, "dtype": "f32", "source_dtype": "f64", "file": 0, "offset": 896, "bytes": 80,
       "view_offset": 2, "source_shape": [10], "dims": [[{"size": 7, "stride": 1, "axes": ["tp"]}]], "use": "dense",
       "init": "zeros"}],
    "schedule": "by hand"})";
  using nlohmann::json;
  std::string patch = textFrom("TEST_PATCH");
  return patch.empty() ? text : json::parse(text).patch(json::parse(patch)).dump();
}

} // namespace

int main(int argc, char **argv) {
  std::string text = manifest();
  std::vector<tpc_stage_fn> stages(pp, stage);
  tpc_program program = {};
  program.abi_version = TPC_ABI_VERSION;
  program.num_stages = static_cast<int32_t>(pp);
  program.manifest = text.c_str();
  program.stages = stages.data();
  return tpc_main(&program, argc, argv);
}
