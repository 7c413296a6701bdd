//===- ReadFileTest.cpp - Text files up to a size limit -------------------===//

#include "tpc/Support/ReadFile.h"
#include "gtest/gtest.h"

#include <chrono>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <sys/stat.h>
#include <thread>
#include <unistd.h>

using namespace tpc;

namespace {

class ReadFile : public testing::Test {
protected:
  ReadFile() {
    std::string name = testing::TempDir() + "tpc-read-XXXXXX";
    folder = mkdtemp(name.data());
  }
  ~ReadFile() override { std::filesystem::remove_all(folder); }
  std::string path(const char *name) const { return folder + "/" + name; }
  /// Returns the bytes that were read or, in brackets, the error.
  static std::string read(const std::string &path, uint64_t maxBytes = 100) {
    std::string bytes, problem = readFile(path, maxBytes, bytes);
    return problem.empty() ? bytes : "[" + problem + "]";
  }

  std::string folder;
};

TEST_F(ReadFile, HasALimit) {
  std::ofstream(path("text")) << std::string(100, 'x');
  EXPECT_EQ(read(path("text")), std::string(100, 'x'));
  EXPECT_EQ(read(path("text"), 99), "[it has more than 99 bytes]");
  std::ofstream(path("large")).close();
  std::filesystem::resize_file(path("large"), uint64_t(1) << 40);
  EXPECT_EQ(read(path("large")), "[it has more than 100 bytes]");
  // A file that reports no size, and is longer than one buffer.
  EXPECT_EQ(read("/proc/self/maps", 10), "[it has more than 10 bytes]");
}

TEST_F(ReadFile, PipesHaveTheSameLimit) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  for (size_t count : {3, 1000}) {
    std::thread writer([&] { std::ofstream(path("pipe")) << std::string(count, 'x'); });
    EXPECT_EQ(read(path("pipe")), count == 3 ? "xxx" : "[it has more than 100 bytes]");
    writer.join();
  }
}

TEST_F(ReadFile, PipesHaveATimeout) {
  ASSERT_EQ(mkfifo(path("pipe").c_str(), 0600), 0);
  std::string bytes;
  EXPECT_EQ(readFile(path("pipe"), 100, bytes, /*maxSeconds=*/0),
            "nothing was written to it for 0 s");
  // A writer that opens the pipe late, and one that only opens and closes it.
  for (const char *text : {"text", ""}) {
    std::thread writer([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      std::ofstream(path("pipe")) << text;
    });
    EXPECT_EQ(read(path("pipe")), text);
    writer.join();
  }
  // A writer that stops writing.
  int idleWriter = open(path("pipe").c_str(), O_RDWR);
  ASSERT_EQ(write(idleWriter, "text", 4), 4);
  EXPECT_EQ(readFile(path("pipe"), 100, bytes, 0), "nothing was written to it for 0 s");
  close(idleWriter);
}

TEST_F(ReadFile, RejectsFoldersAndDevices) {
  std::filesystem::create_symlink("nowhere", path("link"));
  std::filesystem::create_symlink("loop", path("loop"));
  EXPECT_EQ(read(folder), "[it is a folder]");
  EXPECT_EQ(read("/dev/zero"), "[it is a device]");
  EXPECT_EQ(read("/dev/full"), "[it is a device]");
  EXPECT_EQ(read("/dev/null"), "");
  EXPECT_EQ(read(path("absent")), "[No such file or directory]");
  EXPECT_EQ(read(path("link")), "[No such file or directory]");
  EXPECT_EQ(read(path("loop")), "[Too many levels of symbolic links]");
}

} // namespace
