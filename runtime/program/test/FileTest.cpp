//===- FileTest.cpp - Files that change while they are open ---------------===//

#include "program/File.h"
#include "Harness.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace tpc::rt;

namespace {

class FileTest : public testing::Test {
protected:
  FileTest() { writeText(path, "some bytes"); }

  /// Result of `change` after `action`.
  template <class Action> std::string changeAfter(Action action) {
    File file(path);
    file.watch();
    EXPECT_EQ(file.change(), "");
    action();
    return file.change();
  }
  /// Writes without a new inode.
  void rewrite(const std::string &text) {
    std::FILE *file = std::fopen(path.c_str(), "r+");
    std::fputs(text.c_str(), file);
    std::fclose(file);
  }

  TemporaryDirectory directory;
  std::string path = directory / "file", other = directory / "other";
};

TEST_F(FileTest, DetectsWritesAtOnce) {
  // Detects changes even if the file was written just before, although time stamps have a
  // resolution of some milliseconds.
  for (int turn = 0; turn < 20; ++turn) {
    rewrite("SOME");
    ASSERT_EQ(changeAfter([&] { rewrite("more"); }), "it was written to") << turn;
  }
}

TEST_F(FileTest, DetectsOtherSizes) {
  EXPECT_EQ(changeAfter([&] { truncate(path.c_str(), 4); }), "it has 4 bytes instead of 10");
  EXPECT_EQ(changeAfter([&] { truncate(path.c_str(), 5); }), "it has 5 bytes instead of 4");
}

TEST_F(FileTest, DetectsTimesThatAreSetBack) {
  EXPECT_EQ(changeAfter([&] {
              auto time = std::filesystem::last_write_time(path);
              rewrite("more");
              std::filesystem::last_write_time(path, time);
            }),
            "its change time is different");
}

TEST_F(FileTest, IgnoresNames) {
  EXPECT_EQ(changeAfter([&] { std::filesystem::create_hard_link(path, other); }), "");
  EXPECT_EQ(changeAfter([&] { std::filesystem::remove(other); }), "");
  EXPECT_EQ(changeAfter([&] {
              writeText(other, "other bytes");
              std::filesystem::rename(other, path);
            }),
            "");
  EXPECT_EQ(changeAfter([&] { std::filesystem::remove(path); }), "");
}

TEST_F(FileTest, DoesNotWaitForTimesInTheFuture) {
  auto later = std::filesystem::file_time_type::clock::now() + std::chrono::hours(24);
  std::filesystem::last_write_time(path, later);
  EXPECT_EQ(changeAfter([] {}), "");
  EXPECT_EQ(changeAfter([&] { rewrite("more"); }), "it was written to");
}

} // namespace
