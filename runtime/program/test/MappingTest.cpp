//===- MappingTest.cpp - Files truncated while they are read --------------===//

#include "program/Mapping.h"
#include "program/Error.h"
#include "gtest/gtest.h"
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace tpc::rt;

namespace {

const int64_t page = sysconf(_SC_PAGESIZE);

/// A file of ones.
class MappingTest : public testing::Test {
protected:
  void SetUp() override {
    int fd = mkstemp(path);
    ASSERT_GE(fd, 0);
    std::vector<char> ones(static_cast<size_t>(4 * page), 1);
    ASSERT_EQ(write(fd, ones.data(), ones.size()), std::ssize(ones));
    close(fd);
  }
  void TearDown() override { unlink(path); }

  static int64_t sumOf(const Mapping &mapping, int64_t bytes) {
    int64_t sum = 0;
    for (int64_t i = 0; i < bytes; ++i)
      sum += static_cast<const volatile char *>(static_cast<const void *>(mapping.data()))[i];
    return sum;
  }
  static std::string problemOf(const Mapping &mapping) {
    try {
      mapping.check();
      return "";
    } catch (const UserError &error) {
      return error.what();
    }
  }

  char path[32] = "/tmp/tpc-mapping-XXXXXX";
};

TEST_F(MappingTest, HasTheBytesOfTheFile) {
  File file(path);
  Mapping nothing(file, 100, 0), odd(file, 3, page + 10);
  EXPECT_EQ(sumOf(odd, page + 10), page + 10);
  EXPECT_EQ(problemOf(odd), "");
  EXPECT_EQ(problemOf(nothing), "");
}

TEST_F(MappingTest, AFileThatBecomesShorterIsAnError) {
  // At the end of a page, and within a page, whose rest is zeros without a signal.
  for (int64_t size : {2 * page, 2 * page - 1, 4 * page - 1, int64_t(0)}) {
    ASSERT_EQ(truncate(path, 4 * page), 0);
    File file(path);
    Mapping mapping(file, 0, 4 * page);
    ASSERT_EQ(truncate(path, size), 0);
    sumOf(mapping, 4 * page);
    EXPECT_NE(problemOf(mapping).find("became shorter while it was loaded: it has " +
                                      std::to_string(size) + " bytes instead of"),
              std::string::npos)
        << problemOf(mapping);
  }
}

TEST_F(MappingTest, UnreadableBytesAreAnErrorEvenIfTheyReturn) {
  File file(path);
  Mapping mapping(file, 0, 4 * page);
  ASSERT_EQ(truncate(path, page), 0);
  EXPECT_EQ(sumOf(mapping, 4 * page), page);
  ASSERT_EQ(truncate(path, 4 * page), 0);
  EXPECT_NE(problemOf(mapping).find("could not be read while it was loaded"), std::string::npos);
}

TEST_F(MappingTest, FaultsConcernOnlyMappingsOfTheThread) {
  File file(path);
  Mapping whole(file, 0, page);
  std::thread([&] {
    Mapping mapping(file, page, 3 * page);
    ASSERT_EQ(truncate(path, page), 0);
    sumOf(mapping, 3 * page);
    EXPECT_NE(problemOf(mapping), "");
  }).join();
  EXPECT_EQ(sumOf(whole, page), page);
  EXPECT_EQ(problemOf(whole), "");
}

/// A fault outside all mappings.
void touchNothing() {
  File file("/proc/self/exe");
  int fd = memfd_create("empty", 0);
  auto *at = static_cast<volatile char *>(mmap(nullptr, 1, PROT_READ, MAP_SHARED, fd, 0));
  Mapping mapping(file, 0, 100);
  char read = *at;
  std::_Exit(read);
}

TEST_F(MappingTest, PassesOtherFaultsToThePreviousHandler) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, SIG_DFL);
        touchNothing();
      },
      testing::KilledBySignal(SIGBUS), "");
  EXPECT_EXIT(
      {
        std::signal(SIGBUS, [](int) { std::_Exit(17); });
        touchNothing();
      },
      testing::ExitedWithCode(17), "");
}

TEST_F(MappingTest, RemovesItsHandler) {
  struct sigaction before = {}, meanwhile = {}, after = {};
  sigaction(SIGBUS, nullptr, &before);
  File file(path);
  {
    Mapping first(file, 0, page), second(file, page, page);
    sigaction(SIGBUS, nullptr, &meanwhile);
  }
  sigaction(SIGBUS, nullptr, &after);
  EXPECT_NE(meanwhile.sa_sigaction, before.sa_sigaction);
  EXPECT_EQ(after.sa_sigaction, before.sa_sigaction);
  EXPECT_EQ(after.sa_flags, before.sa_flags);
}

} // namespace
