//===- MemoryTest.cpp - Memory of a rank's shard of the weights -----------===//

#include "Harness.h"
#include "program/Execution.h"
#include "program/View.h"
#include <fstream>
#include <nlohmann/json.hpp>

using namespace tpc::rt;
using nlohmann::json;

namespace {

/// Bytes of memory private to this process.
int64_t privateBytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  int64_t sum = 0, number = 0;
  while (file >> word)
    if ((word == "Private_Clean:" || word == "Private_Dirty:") && file >> number)
      sum += number * 1024;
  return sum;
}

/// Layers of a transformer with all kinds of views; tests inspect rank 0 of `tp` ranks.
std::string manifestOf(const std::string &path, int tp, int64_t &fileBytes) {
  json parameters = json::array();
  int64_t offset = 0;
  auto add = [&](const std::string &name, Shape shape, int splitDim, const char *use,
                 bool transposed = false) {
    json dims = json::array();
    int64_t stride = *elementCount(shape), bytes = 4 * stride;
    for (size_t d = 0; d < shape.size(); ++d) {
      stride /= shape[d];
      json factor = {{"size", shape[d]}, {"stride", stride}};
      if (static_cast<int>(d) == splitDim)
        factor["axes"] = json::array({"tp"});
      dims.push_back(json::array({factor}));
    }
    if (transposed)
      std::swap(dims[0], dims[1]);
    parameters.push_back({{"name", name},
                          {"stage", 0},
                          {"dtype", "f32"},
                          {"file", 0},
                          {"offset", offset},
                          {"bytes", bytes},
                          {"source_shape", shape},
                          {"dims", dims},
                          {"use", use}});
    offset += bytes;
  };
  add("table", {9001, 384}, 0, "dense");
  parameters.push_back(parameters[0]);
  std::swap(parameters[1]["dims"][0], parameters[1]["dims"][1]);
  parameters[1]["use"] = "matmul_rhs"; // the tied head
  for (int layer = 0; layer < 12; ++layer) {
    std::string prefix = std::to_string(layer);
    add(prefix + ".up", {384, 1536}, 1, "matmul_rhs");
    add(prefix + ".up.bias", {1536}, 0, "dense");
    add(prefix + ".down", {1536, 384}, 0, "matmul_rhs");
    add(prefix + ".qkv", {384, 1152}, 1, "matmul_rhs");
    add(prefix + ".out", {384, 384}, 1, "matmul_rhs", true);
  }
  fileBytes = offset;
  return json{{"format", 1},
              {"grid", {{"sizes", {{"tp", tp}}}, {"order", json::array({"tp"})}}},
              {"inputs", json::array()},
              {"outputs", json::array()},
              {"files", json::array({{{"path", path}}})},
              {"parameters", parameters}}
      .dump();
}

TEST(Memory, EqualsTheWeights) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers: they keep freed memory";
#endif
#endif
  TemporaryDirectory directory;
  // All ranks are threads of this process: together they have one copy of the file.
  for (int tp : {1, 2}) {
    int64_t fileBytes = 0;
    std::string path = directory / "weights", text = manifestOf(path, tp, fileBytes);
    writeText(path, "");
    std::filesystem::resize_file(path, fileBytes);
    Manifest manifest = parseManifest(text.c_str());
    int64_t weights = 0;
    for (int rank = 0; rank < tp; ++rank)
      weights += weightBytesOf(manifest, rank).total();
    EXPECT_EQ(weights, fileBytes);
    tpc_stage_fn stage = [](tpc_context *, const int64_t *) {};
    tpc_program program{};
    program.abi_version = TPC_ABI_VERSION;
    program.num_stages = 1;
    program.manifest = text.c_str();
    program.stages = &stage;
    int64_t before = privateBytes();
    Execution execution(program, manifest, Options{}, nullptr);
    int64_t used = privateBytes() - before;
    EXPECT_GT(used, weights * 97 / 100) << tp;
    EXPECT_LT(used, weights * 103 / 100) << tp;
  }
}

} // namespace
