//===- WatchdogTest.cpp - tests of error reports after rank 0 is lost -----===//

#include "core/Watchdog.h"
#include <csignal>
#include <cstdlib>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tpc::rt;

namespace {

/// Rank 0 ends, then this process, which is rank 2. Rank 1 is `process`.
[[noreturn]] void loseRank0(int64_t process) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
    std::abort();
  std::vector<Watchdog::Member> members(3);
  members[0] = {std::make_unique<MessageSocket>(sockets[0]), getpid() + 100000, 7, ""};
  members[1] = {nullptr, process, 7, ""};
  members[2] = {nullptr, getpid(), 7, ""};
  Watchdog watch(2, std::move(members), 60);
  close(sockets[1]);
  sleep(30);
  std::exit(3);
}

} // namespace

TEST(WatchDeathTest, ASilentRankDoesNotReport) {
  // Like a killed process that is still releasing its memory.
  pid_t silent = fork();
  if (silent == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EXIT(loseRank0(silent), testing::ExitedWithCode(1),
              "^error: rank 0 has ended without a word: it was killed, or has crashed");
  kill(silent, SIGKILL);
  waitpid(silent, nullptr, 0);
}
