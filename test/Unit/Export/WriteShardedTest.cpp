//===- WriteShardedTest.cpp - Input file that changes while it is read ----===//
//
// The file is read twice: first its structure, then, when the additions are known, all of its
// bytes. In between, the writer queries the ranks' shards; the tests change the file then.
//
//===----------------------------------------------------------------------===//

#include "tpc/Export/ONNX/WriteSharded.h"
#include "../TestFiles.h"

#include "gtest/gtest.h"

using namespace tpc::test;

/// Returns a model of the weight w and `nodes` nodes that read it.
static std::string model(int nodes) {
  std::string graph;
  for (int i = 0; i < nodes; ++i)
    graph += bytes(1, bytes(1, "w") + bytes(2, "y" + std::to_string(i)) + bytes(4, "Relu"));
  graph += bytes(5, tensor("w", 4, "0123456789abcdef"));
  return number(1, 8) + bytes(7, graph);
}

/// Writes a model of two nodes with shards, while the file is replaced by `changed`. Returns the
/// output or the error.
static std::string write(const std::string &changed) {
  Folder folder;
  std::string path = folder.write("m.onnx", model(2));
  tpc::OnnxDevices devices;
  devices.name = "tpc";
  devices.ranks = 2;
  devices.stageOf = [](int64_t) { return 0; };
  tpc::OnnxSharding::Factor factor{"4", 2, [&](int64_t rank) {
                                     folder.write("m.onnx", changed);
                                     return rank;
                                   }};
  devices.tensors["w"].dims = {{factor}};
  std::string text;
  llvm::raw_string_ostream os(text);
  llvm::Error error = writeShardedOnnx(path, folder.file("out.onnx"), devices, os);
  return error ? llvm::toString(std::move(error)) : text;
}

TEST(WriteSharded, AnnotatesEachNodeThatReadsAShard) {
  std::string text = write(model(2));
  EXPECT_EQ(text.find("has changed"), std::string::npos) << text;
  size_t first = text.find("tpc");
  ASSERT_NE(first, std::string::npos);
  EXPECT_NE(text.find("tpc", first + 1), text.rfind("tpc")); // two nodes and the configuration
}

TEST(WriteSharded, RejectsAFileThatHasChanged) {
  std::string whole = model(2), changed = "the file has changed while it was compiled";
  EXPECT_EQ(write(model(3)), changed);                          // a node more
  EXPECT_EQ(write(model(1)), changed);                          // a node less
  EXPECT_EQ(write(whole.substr(0, whole.size() - 3)), changed); // a field that is cut off
  EXPECT_EQ(write(number(1, 8) + varint(7 << 3 | 2)),
            changed);                               // a field that ends before its length
  EXPECT_EQ(write(number(1, 8) + "\x3f"), changed); // an invalid wire type
  EXPECT_EQ(write(number(1, 8) + varint(9 << 3 | 1) + "abc"), changed); // half a fixed64
  EXPECT_EQ(write(number(1, 8) + std::string(11, '\xff')), changed);    // an endless varint
  EXPECT_EQ(write(number(1, 8) + varint(2 << 3) + "\xff"), changed);    // half a varint
}
