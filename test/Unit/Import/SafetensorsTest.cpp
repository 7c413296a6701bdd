//===- SafetensorsTest.cpp - Damaged headers of safetensors files ---------===//

#include "Safetensors.h"
#include "../TestFiles.h"
#include "Json.h"

#include "gtest/gtest.h"

#include <random>

using namespace tpc::test;
using namespace mlir::tpc::frontend;

static std::string makeFile(const std::string &header, size_t data) {
  std::string bytes;
  for (int i = 0; i < 8; ++i)
    bytes += char(header.size() >> (8 * i));
  return bytes + header + std::string(data, 'd');
}

TEST(Safetensors, Tensors) {
  Folder folder;
  std::string header = R"({"b":{"dtype":"BF16","shape":[2,3],"data_offsets":[8,20]},)"
                       R"("a":{"dtype":"F32","shape":[],"data_offsets":[4,8]},)"
                       R"("e":{"dtype":"I64","shape":[0,7],"data_offsets":[8,8]}})";
  Checkpoint tensors;
  llvm::Error e = readSafetensors(folder.write("m", makeFile(header, 20)), tensors);
  ASSERT_FALSE(bool(e)) << llvm::toString(std::move(e));
  ASSERT_EQ(tensors.size(), 3u);
  EXPECT_EQ(tensors["b"].offset, 8 + header.size() + 8);
  EXPECT_EQ(tensors["b"].bytes, 12u);
  EXPECT_EQ(tensors["b"].dtype, "BF16");
  EXPECT_EQ(tensors["a"].offset, 8 + header.size() + 4);
  EXPECT_EQ(tensors["e"].bytes, 0u);
}

/// Each damaged file is read, with all tensors inside of it, or it is an error.
TEST(Safetensors, DamagedFiles) {
  Folder folder;
  std::string header = R"({"__metadata__":{"format":"pt"},)"
                       R"("w\u00e9.1":{"dtype":"F16","shape":[4,8],"data_offsets":[0,64]},)"
                       R"("b":{"dtype":"F32","shape":[8],"data_offsets":[64,96]}})";
  std::string original = makeFile(header, 96);
  static const char *tokens[] = {
      "-1", "18446744073709551616", "1e9", "[", "{", "\"F64\"", "\\u", "]]", "\"b\":", "null"};
  const char *given = getenv("TPC_FUZZ");
  std::mt19937 random(1);
  int count = given ? atoi(given) : 1000, read = 0;
  for (int i = 0; i < count; ++i) {
    std::string bytes = original;
    for (unsigned n = 1 + random() % 3; n && !bytes.empty(); --n) {
      size_t range = random() % 4 ? 8 + header.size() : bytes.size();
      size_t at = random() % std::min(range, bytes.size());
      switch (random() % 4) {
      case 0:
        bytes[at] = char(random());
        break;
      case 1:
        bytes[at] ^= char(1 << random() % 8);
        break;
      case 2: {
        std::string token = tokens[random() % std::size(tokens)];
        bytes.replace(at, token.size(), token);
        break;
      }
      case 3:
        if (random() % 4 == 0)
          bytes.resize(std::max<size_t>(1, at));
        else
          bytes.erase(at, 1);
        break;
      }
    }
    Checkpoint tensors;
    if (llvm::Error e = readSafetensors(folder.write("m", bytes), tensors)) {
      EXPECT_FALSE(llvm::toString(std::move(e)).empty());
      continue;
    }
    ++read;
    for (const auto &[name, tensor] : tensors)
      EXPECT_LE(tensor.offset + tensor.bytes, bytes.size());
  }
  EXPECT_GT(read, 0);
  EXPECT_LT(read, count);
}

TEST(Json, Values) {
  llvm::Expected<Json> value =
      parseJson(R"( {"a\n\u20ac\ud83d\ude00" : [1, -2.5e3, true, null, "x"]} )");
  ASSERT_TRUE(bool(value)) << llvm::toString(value.takeError());
  ASSERT_EQ(value->names.size(), 1u);
  EXPECT_EQ(value->names[0], "a\n\xe2\x82\xac\xf0\x9f\x98\x80");
  const Json &list = value->items[0];
  ASSERT_EQ(list.items.size(), 5u);
  EXPECT_EQ(list.items[0].asSize(), 1);
  EXPECT_EQ(list.items[1].asSize(), std::nullopt);
  EXPECT_EQ(list.items[2].kind, Json::Boolean);
  EXPECT_EQ(list.items[3].kind, Json::Null);
  EXPECT_EQ(value->find("b"), nullptr);
  for (const char *bad : {"", "{", "[1,]", "{\"a\":1,}", "{a:1}", "\"\\x\"", "\"\\ud800\"",
                          "\"\\udc00\"", "nul", "1 2", "01x", "\"", "{\"a\":1,\"a\":2}"}) {
    llvm::Expected<Json> parsed = parseJson(bad);
    EXPECT_FALSE(bool(parsed)) << bad;
    llvm::consumeError(parsed.takeError());
  }
}
