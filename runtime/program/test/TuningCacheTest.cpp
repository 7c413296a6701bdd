//===- TuningCacheTest.cpp - Persistent cache of tuning results -----------===//

#include "program/TuningCache.h"
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <optional>
#include <set>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

using namespace tpc::rt;
namespace fs = std::filesystem;

namespace {

struct TuningCacheTest : testing::Test {
  TuningCacheTest() { fs::remove_all(folder); }
  ~TuningCacheTest() override { fs::remove_all(folder); }
  std::string text() const {
    std::ostringstream all;
    all << std::ifstream(file).rdbuf();
    return all.str();
  }
  void write(const std::string &text) const { std::ofstream(file) << text; }

  const std::string folder = testing::TempDir() + "tunings-" + std::to_string(getpid()),
                    file = folder + "/measured";
};

/// Returns the result, or "none".
std::string resultOf(TuningCache &cache, const std::string &tuningKey) {
  const std::string *found = cache.find(tuningKey);
  return found ? *found : "none";
}

} // namespace

TEST_F(TuningCacheTest, KeepsTheLastResult) {
  TuningCache first(folder);
  EXPECT_EQ(resultOf(first, "a"), "none");
  first.add({{"a", "1"}, {"b", "2"}});
  EXPECT_EQ(resultOf(first, "a"), "1");
  TuningCache second(folder);
  second.add({{"a", "3"}, {"c", ""}});
  TuningCache third(folder);
  EXPECT_EQ(resultOf(third, "a"), "3");
  EXPECT_EQ(resultOf(third, "b"), "2");
  EXPECT_EQ(resultOf(third, "c"), "");
  EXPECT_EQ(third.takeNote(), "");
  // Results that another process adds during a run are visible to the next run.
  EXPECT_EQ(resultOf(first, "c"), "none");
  // Without a folder, no result is stored.
  TuningCache none("");
  none.add({{"a", "1"}});
  EXPECT_EQ(none.takeNote(), "");
}

// Damaged files are treated as empty, and are reported once.
TEST_F(TuningCacheTest, IgnoresDamagedFiles) {
  TuningCache(folder).add({{"a", "1"}, {"b", "2"}});
  const std::string right = text();
  for (size_t at = 0; at < right.size(); ++at)
    for (bool isCut : {false, true}) {
      std::string wrong = isCut ? right.substr(0, at) : right;
      if (!isCut)
        wrong[at] = static_cast<char>(wrong[at] ^ 1);
      write(wrong);
      TuningCache cache(folder);
      EXPECT_EQ(resultOf(cache, "a"), "none") << wrong;
      std::string note = cache.takeNote();
      EXPECT_NE(note.find("it is ignored"), std::string::npos) << note;
      EXPECT_EQ(cache.takeNote(), "");
    }
  // The next results replace the damaged file completely.
  TuningCache cache(folder);
  cache.add({{"c", "3"}});
  TuningCache again(folder);
  EXPECT_EQ(resultOf(again, "a"), "none");
  EXPECT_EQ(resultOf(again, "c"), "3");
}

TEST_F(TuningCacheTest, DropsTheOldest) {
  std::vector<std::pair<std::string, std::string>> many;
  for (size_t i = 0; i < TuningCache::maxEntries; ++i)
    many.emplace_back(std::to_string(i), "x");
  TuningCache(folder).add(many);
  TuningCache(folder).add({{"new", "y"}, {"5", "z"}});
  TuningCache cache(folder);
  EXPECT_EQ(resultOf(cache, "new"), "y");
  EXPECT_EQ(resultOf(cache, "5"), "z");
  EXPECT_LE(fs::file_size(file), 16 * TuningCache::maxEntries);
  size_t left = 0;
  for (const auto &[tuningKey, tuning] : many)
    left += cache.find(tuningKey) != nullptr;
  EXPECT_EQ(left, TuningCache::maxEntries - 1);
}

// Concurrent writers lose no results, and concurrent readers see a complete file.
TEST_F(TuningCacheTest, IsWrittenByManyAtOnce) {
  constexpr int writers = 4, each = 10;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    children.push_back(fork());
    if (children.back())
      continue;
    bool isRight = true;
    for (int i = 0; i < each; ++i) {
      TuningCache cache(folder);
      cache.find("anything");
      cache.add({{std::to_string(writer) + " " + std::to_string(i), "x"}});
      isRight &= cache.takeNote().empty();
    }
    _exit(isRight ? 0 : 1);
  }
  for (pid_t child : children) {
    int status = 0;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  TuningCache cache(folder);
  for (int writer = 0; writer < writers; ++writer)
    for (int i = 0; i < each; ++i)
      EXPECT_TRUE(cache.find(std::to_string(writer) + " " + std::to_string(i)));
  // No other file remains.
  std::set<std::string> files;
  for (const auto &entry : fs::directory_iterator(folder))
    files.insert(entry.path().filename());
  EXPECT_EQ(files, (std::set<std::string>{"measured", "measured.lock"}));
}

TEST_F(TuningCacheTest, TheEnvironmentSelectsTheFolder) {
  std::vector<std::pair<const char *, std::optional<std::string>>> before;
  for (const char *name : {"TPC_CACHE", "XDG_CACHE_HOME", "HOME"}) {
    const char *value = std::getenv(name);
    before.emplace_back(name, value ? std::optional<std::string>(value) : std::nullopt);
  }
  auto folderWith = [](const char *own, const char *caches, const char *home) {
    for (auto [name, value] :
         {std::pair("TPC_CACHE", own), {"XDG_CACHE_HOME", caches}, {"HOME", home}})
      value ? setenv(name, value, 1) : unsetenv(name);
    return TuningCache::folderOfUser();
  };
  EXPECT_EQ(folderWith("/own", "/caches", "/home/me"), "/own");
  EXPECT_EQ(folderWith("", "/caches", "/home/me"), "");
  EXPECT_EQ(folderWith(nullptr, "/caches", "/home/me"), "/caches/tpc");
  EXPECT_EQ(folderWith(nullptr, "not/absolute", "/home/me"), "/home/me/.cache/tpc");
  EXPECT_EQ(folderWith(nullptr, nullptr, "/home/me"), "/home/me/.cache/tpc");
  EXPECT_EQ(folderWith(nullptr, nullptr, nullptr), "");
  for (const auto &[name, value] : before)
    value ? setenv(name, value->c_str(), 1) : unsetenv(name);
}
