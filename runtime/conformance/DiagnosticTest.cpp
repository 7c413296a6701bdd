//===- DiagnosticTest.cpp - Tests of diagnostics, claims and timeouts -----===//

#include "core/Diagnostic.h"
#include "core/MessageClaim.h"
#include "core/Timeout.h"
#include <cstdio>
#include <cstdlib>
#include <fcntl.h>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace tpc::rt;

namespace {

/// Returns the output of a process whose standard streams go to one file, or to two.
std::string printed(bool inOneFile, void (*print)()) {
  std::string out = testing::TempDir() + "tpc-out-XXXXXX",
              err = testing::TempDir() + "tpc-err-XXXXXX";
  int outFile = mkstemp(out.data()), errFile = mkstemp(err.data());
  pid_t child = fork();
  if (child == 0) {
    dup2(outFile, STDOUT_FILENO);
    dup2(inOneFile ? outFile : errFile, STDERR_FILENO);
    print();
    std::fflush(stdout);
    _exit(0);
  }
  waitpid(child, nullptr, 0);
  close(outFile);
  close(errFile);
  std::ifstream file(inOneFile ? out : err);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  unlink(out.c_str());
  unlink(err.c_str());
  return text;
}

void printTokensAndAnError() {
  std::fputs("12 7 99", stdout);
  std::fflush(stdout);
  setMidLine(true);
  printDiagnostic("error", "first");
  printDiagnostic("error", "second");
}

} // namespace

TEST(Diagnostic, BeginsOnALineOfItsOwn) {
  EXPECT_EQ(printed(true, printTokensAndAnError), "12 7 99\nerror: first\nerror: second\n");
  EXPECT_EQ(printed(false, printTokensAndAnError), "error: first\nerror: second\n");
  // The tokens are written by another process.
  EXPECT_EQ(printed(false,
                    [] {
                      setMidLineOfOther(true);
                      printDiagnostic("note", "other");
                    }),
            "\nnote: other\n");
}

TEST(Diagnostic, NotifiesOfTheMiddleOfALine) {
  int event = eventfd(0, EFD_NONBLOCK);
  auto isNotified = [&] {
    eventfd_t count = 0;
    return eventfd_read(event, &count) == 0;
  };
  notifyMidLine(event);
  setMidLine(true);
  EXPECT_TRUE(isNotified());
  setMidLine(true); // no change
  EXPECT_FALSE(isNotified());
  setMidLine(false);
  EXPECT_TRUE(isNotified());
  notifyMidLine(-1);
  setMidLine(true);
  setMidLine(false);
  EXPECT_FALSE(isNotified());
  close(event);
}

TEST(MessageClaim, IsExclusiveUntilItEnds) {
  std::string name = "tpc-test-" + std::to_string(getpid());
  {
    MessageClaim first, second;
    EXPECT_TRUE(first.claim(name));
    EXPECT_TRUE(first.claim(name));
    EXPECT_FALSE(second.claim(name));
    EXPECT_TRUE(second.claim(name + "-other"));
  }
  MessageClaim third;
  EXPECT_TRUE(third.claim(name));
  EXPECT_TRUE(claimMessage(name, "rank 1"));
  EXPECT_FALSE(claimMessage(name, "rank 1"));
  EXPECT_TRUE(claimMessage(name, "rank 2"));
}

TEST(Timeout, AnInnerTimeoutEndsWithTheOuter) {
  Timeout whole(0.05), part(1000, &whole), endless(0, &whole);
  int looks = 0;
  for (; !part.isOver() && looks < 100000; ++looks)
    usleep(1000);
  EXPECT_LT(looks, 100000);
  EXPECT_TRUE(whole.isOver());
  EXPECT_TRUE(endless.isOver());
  Timeout second(1000, &whole);
  EXPECT_TRUE(second.isOver());
}
