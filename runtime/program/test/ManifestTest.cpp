//===- ManifestTest.cpp - Damaged manifests, and shards of weights --------===//

#include "program/Manifest.h"
#include "program/Error.h"
#include "program/View.h"
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

using namespace tpc::rt;
using nlohmann::json;

namespace {

json good() {
  return json::parse(R"({"format": 1, "name": "m",
    "grid": {"sizes": {"tp": 3, "dp": 2, "pp": 2}, "order": ["tp", "dp", "pp"]},
    "groups": [["tp"], ["tp", "pp"]], "symbols": ["batch"],
    "inputs": [{"name": "x", "dtype": "i64", "shape": ["batch", 4], "range": [0, 5]}],
    "outputs": [{"name": "y", "dtype": "f32", "shape": ["2*batch"]}],
    "files": [{"path": "w", "bytes": 1000}],
    "parameters": [{"name": "p", "stage": 1, "dtype": "f32", "file": 0, "offset": 8, "bytes": 480, "view_offset": 0,
                    "dims": [[{"size": 4, "stride": 30}], [{"size": 10, "stride": 3, "axes": ["tp"]}, {"size": 3, "stride": 1}]],
                    "source_shape": [4, 30], "use": "matmul_rhs", "init": "normal"}]})");
}

/// Fields of matrices of experts [4, 10, 3], of which the second dimension is split over tp.
json expertMatrices() {
  return json::parse(R"({"dims": [[{"size": 4, "stride": 30}],
      [{"size": 10, "stride": 3, "axes": ["tp"]}], [{"size": 3, "stride": 1}]],
      "source_shape": [4, 10, 3], "use": "experts"})");
}

std::string refusal(const json &value) {
  try {
    parseManifest(value.dump().c_str());
  } catch (const UserError &error) {
    return error.what();
  }
  return "no error";
}

TEST(Manifest, Reads) {
  Manifest manifest = parseManifest(good().dump().c_str());
  EXPECT_EQ(manifest.grid.numRanks(), 12);
  EXPECT_EQ(manifest.numStages(), 2);
  EXPECT_EQ(manifest.stageOf(5), 0);
  EXPECT_EQ(manifest.stageOf(6), 1);
  EXPECT_EQ(manifest.groups, (std::vector<uint32_t>{1, 5}));
  EXPECT_EQ(manifest.inputs[0].shape, (std::vector<std::string>{"batch", "4"}));
}

TEST(Manifest, RejectsDamage) {
  auto expect = [](const char *pointer, const json &value, const std::string &part) {
    json changed = good();
    changed[json::json_pointer(pointer)] = value;
    EXPECT_NE(refusal(changed).find(part), std::string::npos)
        << pointer << ": " << refusal(changed);
  };
  expect("/format", 2, "the format is 2, but this runtime reads 1");
  expect("/grid/sizes/tp", 0, "0 is not in 1…");
  expect("/grid/sizes/tp", 1000000, "the grid is too large");
  expect("/grid/sizes/ep", 2, "'ep' is not in the order");
  expect("/grid/order", json::array({"tp", "tp"}), "'tp' is repeated");
  expect("/grid/order/0", 1, "manifest.grid.order[0]: not text");
  expect("/grid/sequence_parallel", 1, "manifest.grid.sequence_parallel: neither true nor false");
  expect("/groups/1/0", "ep", "manifest.groups[1][0]: 'ep' is not in the order");
  expect("/inputs/0", 5, "manifest.inputs[0]: not an object");
  expect("/inputs/0/shape/1", 4.5, "manifest.inputs[0].shape[1]: not an integer");
  expect("/inputs/0/shape/1", "4 +", "manifest.inputs[0].shape[1]: size expression '4 +': it ends");
  expect("/inputs/0/dtype", "f8", "unknown dtype 'f8'");
  expect("/inputs/0/range", json::array({1}), "manifest.inputs[0]: a range must have two ends");
  expect("/inputs/0/shape/0", "heads", "'heads' is not one of the symbols");
  expect("/inputs/0/default", "twos", "unknown default 'twos'");
  expect("/inputs/0/mask", "x",
         "manifest.inputs[0]: only an input with default positions can have a mask");
  json masked = {{"name", "p"}, {"dtype", "i64"}, {"shape", {4}}, {"default", "positions"}};
  for (const char *mask : {"z", "p"}) { // another input, or the input itself
    masked["mask"] = mask;
    expect("/inputs/1", masked, "manifest.inputs[1]: '" + std::string(mask) + "' is not a mask");
  }
  masked["mask"] = "x";
  masked["shape"] = json::array();
  expect("/inputs/1", masked, "manifest.inputs[1]: positions must have a dimension");
  masked.erase("mask");
  masked["past"] = "heads";
  expect("/inputs/1", masked, "'heads' is not one of the symbols");
  expect("/inputs/0/range_after", json::array({"i7"}), "unknown dtype 'i7'");
  expect("/outputs", 3, "not a list");
  expect("/files/0/bytes", UINT64_MAX, "manifest.files[0].bytes: not an integer");
  expect("/parameters/0/stage", 2, "2 is not in 0…1");
  expect("/parameters/0/file", 1, "is not in -1…0");
  expect("/parameters/0/view_offset", 1, "exceeds its 120 elements");
  expect("/parameters/0/dims/0/0/stride", -30, "exceeds its 120 elements");
  expect("/parameters/0/dims/0/0/size", int64_t(1) << 59, "exceeds its 120 elements");
  expect("/parameters/0/dims/1/0/axes/0", "cp", "'cp' is not an axis, or is repeated");
  expect("/parameters/0/dims/1/0/axes/1", "tp", "'tp' is not an axis, or is repeated");
  expect("/parameters/0/use", "sparse", "unknown use 'sparse'");
  expect("/parameters/0/init", "uniform", "unknown init 'uniform'");
  expect("/parameters/0/dims/2", json::array(), "a matmul_rhs must have two dimensions");
  json experts = good();
  experts["parameters"][0].update({{"use", "experts"}});
  EXPECT_NE(refusal(experts).find("matrices of experts must have three dimensions"),
            std::string::npos)
      << refusal(experts);
  experts["parameters"][0].update(expertMatrices());
  EXPECT_EQ(refusal(experts), "no error");
  experts["parameters"][0]["updated"] = true;
  EXPECT_NE(refusal(experts).find("matrices of experts must have a file, and not be updated"),
            std::string::npos)
      << refusal(experts);
  json integers = good();
  integers["parameters"][0].update({{"dtype", "i32"}, {"source_dtype", "f32"}, {"use", "dense"}});
  EXPECT_NE(refusal(integers).find("manifest.parameters[0]: weights can be converted only to f32"),
            std::string::npos)
      << refusal(integers);
  json noOrder = good();
  noOrder["grid"].erase("order");
  EXPECT_EQ(
      refusal(noOrder),
      "the program's manifest is damaged: manifest.grid: no 'order'; compile the program again");
  EXPECT_EQ(
      refusal(json::array()),
      "the program's manifest is damaged: manifest: not an object; compile the program again");
  try {
    parseManifest("{");
    ADD_FAILURE() << "no error";
  } catch (const UserError &error) {
    EXPECT_STREQ(error.what(),
                 "the program's manifest is damaged: it is not JSON; compile the program again");
  }
}

TEST(Manifest, LocalParts) {
  Manifest manifest = parseManifest(good().dump().c_str());
  const Parameter &parameter = manifest.parameters[0];
  // Ten heads over three ranks: 4, 3, 3.
  EXPECT_EQ(localView(parameter, manifest.grid, {0, 0, 1}).shape(), (Shape{4, 12}));
  LocalView last = localView(parameter, manifest.grid, {2, 0, 1});
  EXPECT_EQ(last.shape(), (Shape{4, 9}));
  EXPECT_EQ(last.offset, 7 * 3);
  EXPECT_EQ(weightBytesOf(manifest, 0).total(), 0) << "stage 0 has no parameter";
  EXPECT_EQ(weightBytesOf(manifest, 8).sharded, 4 * 9 * 4);
}

TEST(Manifest, StoresATiedHeadOnce) {
  json text = good();
  json embedding = text["parameters"][0];
  embedding["use"] = "dense";
  embedding["dims"] = {embedding["dims"][1], embedding["dims"][0]};
  text["parameters"].push_back(embedding);
  text["parameters"].push_back(embedding);
  embedding["stage"] = 0;
  text["parameters"].push_back(embedding);
  Manifest manifest = parseManifest(text.dump().c_str());
  EXPECT_EQ(manifest.parameters[0].transposeOf, 1);
  EXPECT_EQ(manifest.parameters[1].sameAs, -1);
  EXPECT_EQ(manifest.parameters[2].sameAs, 1);
  EXPECT_FALSE(manifest.parameters[3].isShared()) << "on another stage";
  EXPECT_EQ(weightBytesOf(manifest, 6).total(), 4 * 12 * 4);
  EXPECT_EQ(weightBytesOf(manifest, 6).padding, 0);
  // Weights of 16 bits: the table, and a head that computes in f32.
  for (json &parameter : text["parameters"]) {
    parameter["source_dtype"] = "f16";
    parameter["bytes"] = parameter["bytes"].get<int64_t>() / 2;
    if (parameter["use"] == "dense")
      parameter["dtype"] = "f16";
  }
  Manifest halves = parseManifest(text.dump().c_str());
  EXPECT_EQ(halves.parameters[0].transposeOf, 1);
  EXPECT_EQ(halves.parameters[2].sameAs, 1);
  EXPECT_EQ(weightBytesOf(halves, 6).total(), 4 * 12 * 2);
  // With another partitioning they are different shards. A matmul stores 16 bits per element.
  text["parameters"][0]["dims"][1][0].erase("axes");
  halves = parseManifest(text.dump().c_str());
  EXPECT_EQ(storedType(halves.parameters[0]), TPC_F16);
  EXPECT_EQ(weightBytesOf(halves, 6).sharded, 4 * 12 * 2);
  EXPECT_EQ(weightBytesOf(halves, 6).replicated, 4 * 30 * 2);
  EXPECT_EQ(parseManifest(text.dump().c_str()).parameters[0].transposeOf, -1);
}

TEST(Manifest, ExpertsThatAnotherOpReadsAreDense) {
  json text = good();
  text["parameters"][0].update(expertMatrices());
  text["parameters"].push_back(text["parameters"][0]);
  Manifest manifest = parseManifest(text.dump().c_str());
  EXPECT_EQ(manifest.parameters[1].sameAs, 0);
  EXPECT_TRUE(manifest.parameters[0].isExperts);
  text["parameters"][1]["use"] = "dense";
  manifest = parseManifest(text.dump().c_str());
  EXPECT_EQ(manifest.parameters[1].sameAs, 0);
  EXPECT_FALSE(manifest.parameters[0].isExperts);
}

TEST(Manifest, BesideRefersToAnEarlierParameter) {
  json text = good();
  json other = text["parameters"][0];
  other["name"] = "other";
  other["beside"] = 0;
  text["parameters"].push_back(other);
  EXPECT_EQ(parseManifest(text.dump().c_str()).parameters[1].beside, 0);
  for (auto [key, value] :
       {std::pair<const char *, json>("beside", 1), {"stage", 0}, {"use", "dense"}}) {
    json wrong = text;
    wrong["parameters"][1][key] = value;
    EXPECT_NE(refusal(wrong).find("manifest.parameters[1]"), std::string::npos) << refusal(wrong);
  }
  // Biases of one matmul; no other dense parameters.
  json biases = text;
  for (json &one : biases["parameters"])
    one["use"] = "dense";
  EXPECT_NE(refusal(biases).find("both a bias"), std::string::npos) << refusal(biases);
  for (json &one : biases["parameters"])
    one["dims"] = json::array({one["dims"][1]});
  EXPECT_EQ(parseManifest(biases.dump().c_str()).parameters[1].beside, 0);
}

TEST(Manifest, PartsOfSeveralAxesNest) {
  json text = good();
  text["parameters"][0]["dims"][1][0]["axes"] = {"dp", "tp"};
  Manifest manifest = parseManifest(text.dump().c_str());
  // dp 1 has heads 5 to 9, split over tp as 2, 2, 1.
  LocalView view = localView(manifest.parameters[0], manifest.grid, {1, 1, 1});
  EXPECT_EQ(view.offset, 7 * 3);
  EXPECT_EQ(view.shape(), (Shape{4, 6}));
  int64_t sum = 0;
  for (int rank = 6; rank < 12; ++rank)
    sum += localBytes(manifest.parameters[0], manifest, rank);
  EXPECT_EQ(sum, 480) << "every element is on one rank";
}

/// A source with two blocks of four KV heads; each head is replicated twice: 0 0 1 1 2 2 3 3 in
/// each block.
TEST(Manifest, CompoundFactors) {
  json text = good();
  json &factor = text["parameters"][0]["dims"][1][0];
  factor = {
      {"size", 8},
      {"of",
       {{{"size", 2}, {"stride", 15}}, {{"size", 2}, {"stride", 3}}, {{"size", 2}, {"stride", 0}}}},
      {"axes", {"tp"}}};
  Manifest manifest = parseManifest(text.dump().c_str());
  const Parameter &parameter = manifest.parameters[0];
  // Over three ranks: 0 0 1 | 1, then 0 0 of the second block | 1 1.
  LocalView first = localView(parameter, manifest.grid, {0, 0, 1});
  EXPECT_EQ(first.shape(), (Shape{4, 9}));
  EXPECT_EQ(first.dims[1][0].offsets, (std::vector<int64_t>{0, 0, 3}));
  LocalView second = localView(parameter, manifest.grid, {1, 0, 1});
  EXPECT_EQ(second.offset, 3);
  EXPECT_EQ(second.dims[1][0].offsets, (std::vector<int64_t>{0, 12, 12}));
  LocalView last = localView(parameter, manifest.grid, {2, 0, 1});
  EXPECT_EQ(last.offset, 18);
  EXPECT_TRUE(last.dims[1][0].offsets.empty()) << "the same element twice is evenly spaced";
  EXPECT_EQ(last.dims[1][0].stride, 0);

  factor["of"][0]["size"] = 3;
  EXPECT_NE(refusal(text).find("the parts have 12 elements, but the factor has 8"),
            std::string::npos)
      << refusal(text);
  factor["of"][0]["size"] = int64_t(1) << 30;
  EXPECT_NE(refusal(text).find("1073741824 is not in 1…1048576"), std::string::npos)
      << refusal(text);
  factor["of"][0]["size"] = int64_t(1) << 20;
  EXPECT_NE(refusal(text).find("of[1]: the factor has too many parts"), std::string::npos)
      << refusal(text);
  factor["of"][0] = {{"size", 3}, {"stride", INT64_MAX}};
  EXPECT_NE(refusal(text).find("of[0]: the factor has too many parts"), std::string::npos)
      << refusal(text);
  json once = factor["of"];
  factor["of"] = {{{"size", 2}, {"stride", INT64_MAX}}, {{"size", 2}, {"stride", 1}}};
  EXPECT_NE(refusal(text).find("of[1]: an offset of the factor does not fit in 64 bits"),
            std::string::npos)
      << refusal(text);
  factor["of"] = once;
  factor["of"][0] = {{"size", 2}, {"stride", 1000}};
  EXPECT_NE(refusal(text).find("exceeds its 120 elements"), std::string::npos) << refusal(text);
  factor["of"][0] = {{"size", 2}, {"stride", -15}};
  EXPECT_NE(refusal(text).find("exceeds its 120 elements"), std::string::npos) << refusal(text);
}

} // namespace
