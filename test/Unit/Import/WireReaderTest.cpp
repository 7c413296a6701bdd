//===- WireReaderTest.cpp - ONNX files read without their weights ---------===//

#include "tpc/Import/ONNX/WireReader.h"
#include "../TestFiles.h"

#include "gtest/gtest.h"

#include <chrono>
#include <fcntl.h>
#include <thread>
#include <unistd.h>

using namespace tpc::test;
using mlir::tpc::frontend::ByteRange;
using mlir::tpc::frontend::readStrippedModel;

static std::string errorOf(const Folder &folder, const std::string &content) {
  auto model = readStrippedModel(folder.write("m.onnx", content));
  return model ? "" : llvm::toString(model.takeError());
}

TEST(WireReader, RecordsRangesAndDropsDocumentation) {
  Folder folder;
  std::string raw = "0123456789abcdef", packed(8, 'f');
  std::string content = number(1, 8) + bytes(6, "documentation") +
                        bytes(7, bytes(5, tensor("a", 4, raw)) +
                                     bytes(5, number(1, 2) + number(2, 1) + bytes(4, packed)) +
                                     bytes(13, "value_info"));
  auto model = readStrippedModel(folder.write("m.onnx", content));
  ASSERT_TRUE(!!model) << llvm::toString(model.takeError());
  ASSERT_EQ(model->ranges.size(), 2u);
  EXPECT_EQ(model->ranges[0].field, ByteRange::Raw);
  EXPECT_EQ(content.substr(model->ranges[0].offset, model->ranges[0].size), raw);
  EXPECT_EQ(model->ranges[1].field, ByteRange::Float);
  EXPECT_EQ(content.substr(model->ranges[1].offset, model->ranges[1].size), packed);
  EXPECT_EQ(model->message.find("documentation"), std::string::npos);
  EXPECT_EQ(model->message.find("value_info"), std::string::npos);
  EXPECT_EQ(model->message.find(raw), std::string::npos);
}

TEST(WireReader, ReadsFilesBeyondProtobufsLimit) {
  Folder folder;
  std::string path = folder.file("large.onnx");
  // The file is sparse: the weight's bytes are a hole.
  uint64_t size = 5ull << 30;
  std::string head =
      number(1, size / 4) + number(2, 1) + bytes(8, "w") + varint(9 << 3 | 2) + varint(size);
  std::string graph = varint(5 << 3 | 2) + varint(head.size() + size) + head;
  std::string start = number(1, 8) + varint(7 << 3 | 2) + varint(graph.size() + size) + graph;
  folder.write("large.onnx", start);
  if (truncate(path.c_str(), start.size() + size))
    GTEST_SKIP() << "large files: the file system does not support a file of 5 GiB";
  auto model = readStrippedModel(path);
  ASSERT_TRUE(!!model) << llvm::toString(model.takeError());
  ASSERT_EQ(model->ranges.size(), 1u);
  EXPECT_EQ(model->ranges[0].offset, start.size());
  EXPECT_EQ(model->ranges[0].size, size);
  EXPECT_LT(model->message.size(), 200u);
}

TEST(WireReader, RejectsInvalidFiles) {
  Folder folder;
  EXPECT_NE(errorOf(folder, "").find("empty"), std::string::npos);
  EXPECT_NE(errorOf(folder, "garbage, not a protobuf message").find("not a valid ONNX file"),
            std::string::npos);
  // A field that ends after the file, a varint that does not end, an invalid wire type.
  EXPECT_NE(errorOf(folder, bytes(7, "abc").substr(0, 4)).find("truncated"), std::string::npos);
  EXPECT_NE(errorOf(folder, std::string(11, '\xff')).find("64 bits"), std::string::npos);
  EXPECT_NE(errorOf(folder, "\x0b").find("wire type"), std::string::npos);
  EXPECT_NE(errorOf(folder, varint(0)).find("number 0"), std::string::npos);
  auto missing = readStrippedModel(folder.file("missing.onnx"));
  ASSERT_FALSE(!!missing);
  EXPECT_NE(llvm::toString(missing.takeError()).find("cannot open"), std::string::npos);
  auto directory = readStrippedModel(folder.path);
  ASSERT_FALSE(!!directory);
  EXPECT_NE(llvm::toString(directory.takeError()).find("not a regular file"), std::string::npos);
}

TEST(WireReader, RejectsAFileThatBecomesShorter) {
  Folder folder;
  // A name of 64 MiB makes reading slow. A thread shortens the file, after a delay that grows until
  // the change comes after opening and before the end of reading.
  constexpr uint64_t size = 64 << 20;
  std::string start = varint(2 << 3 | 2) + varint(size), error;
  for (int delay = 0; delay < 100 && error.find("became shorter") == std::string::npos; ++delay) {
    std::string path = folder.write("m.onnx", start);
    ASSERT_EQ(truncate(path.c_str(), start.size() + size), 0);
    std::thread other([&] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay * 200));
      EXPECT_EQ(truncate(path.c_str(), start.size()), 0);
    });
    auto model = readStrippedModel(path);
    other.join();
    error = model ? "" : llvm::toString(model.takeError());
  }
  EXPECT_EQ(error.rfind("cannot read byte ", 0), 0u) << error;
  EXPECT_NE(error.find(": the file became shorter"), std::string::npos) << error;
}

TEST(WireReader, RejectsDuplicateData) {
  Folder folder;
  std::string twice = tensor("a", 1, "0123") + bytes(9, "4567");
  std::string error = errorOf(folder, bytes(7, bytes(5, twice)));
  EXPECT_NE(error.find("several fields"), std::string::npos) << error;
  EXPECT_EQ(error.find("not a valid"), std::string::npos) << error;
}

/// Returns a model with `levels` nested If nodes: if1 (outermost), if2, ….
static std::string nest(int levels) {
  std::string graph;
  for (int i = levels; i > 0; --i)
    graph =
        bytes(1, bytes(3, "if" + std::to_string(i)) + bytes(4, "If") + bytes(5, bytes(6, graph)));
  return bytes(7, graph);
}

TEST(WireReader, BoundsNesting) {
  Folder folder;
  EXPECT_EQ(errorOf(folder, nest(28)), "");
  for (int levels : {29, 1000}) {
    std::string error = errorOf(folder, nest(levels));
    EXPECT_EQ(error.rfind(
                  "node 'if29' (If) is in 28 nested branches, the outermost of node 'if1' (If)", 0),
              0u)
        << error;
  }
  // The error does not name a node whose name comes after its attributes.
  std::string graph;
  for (int i = 0; i < 30; ++i)
    graph = bytes(1, bytes(5, bytes(6, graph)) + bytes(3, "late"));
  EXPECT_EQ(errorOf(folder, bytes(7, graph)).rfind("a node is in 28 nested branches", 0), 0u);
}
