//===- WatchdogTest.cpp - Tests of error reports about lost ranks ---------===//

#include "core/Watchdog.h"
#include "core/Heartbeat.h"
#include <csignal>
#include <cstdlib>
#include <functional>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tpc::rt;

namespace {

/// Runs rank 2 of a world whose rank 0 ends. The watchdog must then end this process. Rank 1 is
/// `process`.
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

/// Sends one heartbeat of a rank that waits for the others at the end of a run.
void sendLeft(int socket) {
  Heartbeat heartbeat;
  heartbeat.left = heartbeat.waits = true;
  MessageSocket(dup(socket)).send(MessageSocket::MessageType::Heartbeat, heartbeat.encode());
}

/// This process is rank 0, and waits for rank 1, a child process that runs `fn` with its socket.
[[noreturn]] void awaitRank1(const std::function<void(int)> &fn,
                             const std::function<void(pid_t)> &then = {}) {
  int sockets[2];
  if (socketpair(AF_UNIX, SOCK_STREAM, 0, sockets))
    std::abort();
  pid_t child = fork();
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    close(sockets[0]);
    fn(sockets[1]);
    for (;;)
      pause();
  }
  close(sockets[1]);
  std::vector<Watchdog::Member> members(2);
  members[0] = {nullptr, getpid(), 7, ""};
  members[1] = {std::make_unique<MessageSocket>(sockets[0]), child, 7, ""};
  Watchdog watch(0, std::move(members), 60);
  watch.waitsFor({1});
  if (then)
    then(child);
  sleep(30);
  std::exit(3);
}

} // namespace

TEST(WatchDeathTest, ASilentRankDoesNotReport) {
  // Rank 1 is silent, like a killed process that is still releasing its memory.
  pid_t silent = fork();
  if (silent == 0) {
    pause();
    _exit(0);
  }
  EXPECT_EXIT(loseRank0(silent), testing::ExitedWithCode(1),
              "^error: rank 0 has ended without an error message: it was killed or has crashed");
  kill(silent, SIGKILL);
  waitpid(silent, nullptr, 0);
}

TEST(WatchDeathTest, AStoppedRankHasNotEnded) {
  // Its last heartbeat reports the end of a run, but the rank may have continued after that.
  EXPECT_EXIT(awaitRank1([](int socket) {
                sendLeft(socket);
                std::raise(SIGSTOP);
              }),
              testing::ExitedWithCode(1), "^error: rank 1 is frozen: its process was stopped, 2 s");
}

TEST(WatchDeathTest, ARankAtTheEndOfTheRunHasEnded) {
  EXPECT_EXIT(awaitRank1([](int socket) {
                for (;; usleep(100000))
                  sendLeft(socket);
              }),
              testing::ExitedWithCode(1), "^error: rank 0: waits for rank 1, which has ended\n$");
}

TEST(WatchDeathTest, AStoppedRankThatAnotherOneKillsIsFrozen) {
  EXPECT_EXIT(awaitRank1(
                  [](int socket) {
                    sendLeft(socket);
                    std::raise(SIGSTOP);
                  },
                  [](pid_t child) {
                    waitid(P_PID, static_cast<id_t>(child), nullptr, WSTOPPED | WNOWAIT);
                    usleep(800000); // several heartbeats
                    kill(child, SIGKILL);
                  }),
              testing::ExitedWithCode(1), "^error: rank 1 is frozen: its process was stopped");
}
