//===- NpyTest.cpp - Valid and invalid .npy files -------------------------===//

#include "program/Npy.h"
#include "Harness.h"
#include "program/Error.h"
#include <cstring>
#include <fstream>
#include <sys/stat.h>

using namespace tpc::rt;

namespace {

struct NpyTest : ::testing::Test {
  TemporaryDirectory directory;
  std::string path = directory / "x.npy";

  /// A file of format `version` with this header and data.
  void write(const std::string &header, const std::string &data, int version = 1) {
    std::string text = std::string("\x93NUMPY") + static_cast<char>(version) + '\0';
    for (int i = 0; i < (version == 1 ? 2 : 4); ++i)
      text += static_cast<char>(header.size() >> (8 * i));
    writeText(path, text + header + data);
  }
  std::string refusal() {
    try {
      readNpy(path);
    } catch (const UserError &error) {
      return error.what();
    }
    return "no error";
  }
  void expectRefusal(const std::string &part) {
    std::string message = refusal();
    EXPECT_NE(message.find(part), std::string::npos) << message;
    EXPECT_NE(message.find("x.npy"), std::string::npos) << message;
  }
};

TEST_F(NpyTest, RoundTrips) {
  for (Shape shape : {Shape{}, Shape{3}, Shape{0}, Shape{2, 0, 3}, Shape{2, 3, 4}})
    for (int dtype = TPC_F32; dtype <= TPC_U8; ++dtype) {
      Tensor tensor;
      tensor.dtype = static_cast<tpc_dtype>(dtype);
      tensor.shape = shape;
      tensor.data = Buffer(*byteCount(shape, tensor.dtype));
      for (int64_t i = 0; i < tensor.data.size(); ++i)
        tensor.data.data()[i] = static_cast<std::byte>(dtype == TPC_BOOL ? i % 2 : i * 31 + 1);
      writeNpy(path, tensor);
      Tensor back = readNpy(path);
      EXPECT_EQ(back.dtype, tensor.dtype);
      EXPECT_EQ(back.shape, shape);
      EXPECT_EQ(std::memcmp(back.data.data(), tensor.data.data(), tensor.data.size()), 0);
      EXPECT_EQ(std::filesystem::file_size(path) % 64,
                static_cast<size_t>(tensor.data.size()) % 64);
    }
}

TEST_F(NpyTest, ReadsAllVersionsAndLooseHeaders) {
  for (int version : {1, 2, 3}) {
    write("{'descr': '|u1', 'fortran_order': False, 'shape': (3,), }   \n", "abc", version);
    EXPECT_EQ(readNpy(path).shape, Shape{3});
  }
  write(R"({"shape":(1,3),"descr":"|u1","fortran_order":False})", "abc");
  EXPECT_EQ(readNpy(path).shape, (Shape{1, 3}));
  write("{'descr': '<i1', 'fortran_order': False, 'shape': ()}", "a");
  EXPECT_EQ(readNpy(path).shape, Shape{});
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (0L, 5L), }", "");
  EXPECT_EQ(readNpy(path).shape, (Shape{0, 5}));
  write("{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}", "ab");
  EXPECT_EQ(readNpy(path).dtype, TPC_BF16);
}

TEST_F(NpyTest, ConvertsFortranOrder) {
  write("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3, 2)}", "abcdefghijkl");
  Tensor tensor = readNpy(path);
  // Element (i, j, k) was at i + 2 j + 6 k.
  EXPECT_EQ(std::string(tensor.as<char>(), 12), "agciekbhdjfl");
}

TEST_F(NpyTest, BooleansAreZeroOrOne) {
  write("{'descr': '|b1', 'fortran_order': False, 'shape': (4,)}", std::string("\0\1\2\xff", 4));
  EXPECT_EQ(std::string(readNpy(path).as<char>(), 4), std::string("\0\1\1\1", 4));
}

TEST_F(NpyTest, RefusesInvalidFiles) {
  writeText(path, "");
  expectRefusal("does not begin like an .npy file");
  writeText(path, "PK\x03\x04 a zip file");
  expectRefusal("does not begin like an .npy file");
  write("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "ab");
  expectRefusal("takes 3 bytes, but the file has 2");
  write("{'descr': '|u1', 'fortran_order': False, 'shape': (3,)}", "abcd");
  expectRefusal("takes 3 bytes, but the file has 4");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (4611686018427387904, 4)}", "");
  expectRefusal("too many bytes");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "");
  expectRefusal("does not fit in 64 bits");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "");
  expectRefusal("not a tuple of sizes");
  write("{'descr': '<f4', 'fortran_order': False}", "");
  expectRefusal("no 'descr', 'fortran_order' or 'shape'");
  write("{'descr': '<f4', 'descr': '<f4', 'fortran_order': False, 'shape': ()}", "");
  expectRefusal("unexpected key 'descr'");
  write("{'descr': '<f4', 'order': 'C', 'fortran_order': False, 'shape': ()}", "");
  expectRefusal("its header has an unexpected key 'order'");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': ()} 5", "");
  expectRefusal("its header has text after its end");
  write("{'descr' '<f4', 'fortran_order': False, 'shape': ()}", "");
  expectRefusal("its header has no ':' where one must be");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (2 3)}", "");
  expectRefusal("its header has no ')' where one must be");
  write("{descr: '<f4', 'fortran_order': False, 'shape': ()}", "");
  expectRefusal("its header has no quoted text where one must be");
  write("{'descr': '<f4', 'fortran_order': None, 'shape': ()}", "");
  expectRefusal("its header has a 'fortran_order' that is neither True nor False");
  std::string sizes;
  for (int d = 0; d < 33; ++d)
    sizes += "1, ";
  write("{'descr': '<f4', 'fortran_order': False, 'shape': (" + sizes + ")}", "abcd");
  expectRefusal("its header has more than 32 dimensions");
  write("{'descr': '<f4", "");
  expectRefusal("unfinished text");
  write("import os", "");
  expectRefusal("no '{'");
  write("{'descr': '<f4', 'fortran_order': False, 'shape': ()}", "abcd", 4);
  expectRefusal("format version 4.0 is unknown");
  std::string huge = std::string("\x93NUMPY\x02\0", 8) + "\xff\xff\xff\xff";
  writeText(path, huge);
  expectRefusal("its header claims 4294967295 bytes");
  writeText(path, std::string("\x93NUMPY\x01\0\x40\0", 10) + "{'descr'");
  expectRefusal("ends inside its header");
}

TEST_F(NpyTest, RefusesOtherTypes) {
  write("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "abcd");
  expectRefusal("is big endian ('>f4'): save it with array.astype(");
  write("{'descr': '<c8', 'fortran_order': False, 'shape': ()}", "abcdefgh");
  expectRefusal(
      "has dtype '<c8'; supported are bool, i8, i16, i32, i64, u8, f16, bf16, f32 and f64");
  write("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "abcd");
  expectRefusal("has dtype '|O'");
  write("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "abcd");
  expectRefusal("records");
}

TEST_F(NpyTest, RefusesPathsThatAreNotFiles) {
  path = directory / ".";
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos);
  path = directory / "absent.npy";
  EXPECT_EQ(refusal(), "cannot open '" + path + "': No such file or directory");
  path = directory / "fifo";
  ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
  EXPECT_NE(refusal().find("not a regular file"), std::string::npos)
      << "and did not wait for a writer";
}

TEST_F(NpyTest, RejectsEveryTruncation) {
  writeNpy(path, makeTensor<int64_t>(TPC_I64, {2, 2}, {1, 2, 3, 4}));
  std::string whole(std::filesystem::file_size(path), 0);
  ASSERT_TRUE(std::ifstream(path, std::ios::binary)
                  .read(whole.data(), static_cast<std::streamsize>(whole.size())));
  for (size_t length = 0; length < whole.size(); ++length) {
    writeText(path, whole.substr(0, length));
    EXPECT_NE(refusal(), "no error") << length;
  }
}

TEST_F(NpyTest, AFailedWriteLeavesNothing) {
  Tensor tensor = makeTensor<int64_t>(TPC_I64, {1}, {1});
  EXPECT_THROW(writeNpy(directory / "absent/x.npy", tensor), UserError);
  std::filesystem::create_directory(path);
  EXPECT_THROW(writeNpy(path, tensor), UserError);
  EXPECT_EQ(directory.entries(), std::vector<std::string>{"x.npy"});
}

} // namespace
