//===- ProcessTest.cpp - Exit status and errors of runs with threads and processes ===//

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Ending {
  int status; ///< exit status of the command; 128 + n after signal n
  std::string out, err;

  /// Returns the error lines that the program itself wrote.
  std::string errors() const {
    std::istringstream lines(err);
    std::string line, errors;
    while (std::getline(lines, line))
      if (line.starts_with("error: "))
        errors += line.substr(7) + "\n";
    return errors;
  }
};

/// A folder that is removed at exit.
const std::string &temporaryFolder() {
  static const struct Folder {
    Folder() { EXPECT_TRUE(mkdtemp(path.data())) << path; }
    ~Folder() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
    std::string path = testing::TempDir() + "tpc-process-XXXXXX";
  } folder;
  return folder.path;
}

std::string readFile(const std::string &path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

Ending runCommand(const std::string &command) {
  std::string base = temporaryFolder() + "/run";
  int status =
      std::system(("timeout -k 5 60 " + command + " >" + base + ".out 2>" + base + ".err").c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status), readFile(base + ".out"),
          readFile(base + ".err")};
}

const std::string scenario = TPC_SCENARIO;
const std::string folder = "TPC_RUNTIME_DIR=" TPC_RUNTIME_FOLDER " ";

Ending threads(const std::string &what) { return runCommand("env " + scenario + " " + what); }
Ending mpi(int ranks, const std::string &what, const std::string &environment = folder) {
  return runCommand("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " + environment +
                    TPC_MPIEXEC " --oversubscribe --bind-to none -n " + std::to_string(ranks) +
                    " " + scenario + " " + what);
}
/// `style`: a style of launch.py.
Ending tcp(int ranks, const std::string &what, const std::string &style = "torch",
           const std::string &environment = "") {
  return runCommand("env " + environment + TPC_LAUNCH " --as " + style + " -n " +
                    std::to_string(ranks) + " " + scenario + " " + what);
}

#define EXPECT_FAILS(ending, message)                                                              \
  do {                                                                                             \
    Ending e = (ending);                                                                           \
    EXPECT_EQ(e.status, 1) << e.err;                                                               \
    EXPECT_EQ(e.errors(), message "\n") << e.err;                                                  \
    EXPECT_EQ(e.out, "");                                                                          \
  } while (false)

/// Checks that all processes that printed their ids have ended, including stopped ones.
[[maybe_unused]] void expectGone(const Ending &ending, int ranks) {
  std::istringstream lines(ending.err);
  std::string line;
  int found = 0;
  while (std::getline(lines, line)) {
    if (!line.starts_with("pid "))
      continue;
    ++found;
    pid_t pid = std::stoi(line.substr(4));
    auto isThere = [&] {
      // A zombie has ended.
      std::string stat = readFile("/proc/" + std::to_string(pid) + "/stat");
      return !stat.empty() && stat.substr(stat.rfind(')')).substr(0, 3) != ") Z";
    };
    for (int i = 0; i < 300 && isThere(); ++i)
      usleep(100000);
    EXPECT_FALSE(isThere()) << "process " << pid << " is left behind";
    kill(pid, SIGKILL);
  }
  EXPECT_EQ(found, ranks) << ending.err;
}

constexpr bool addressesAreLimited =
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
    false; // the sanitizer reserves terabytes
#else
    true;
#endif
#else
    true;
#endif

} // namespace

TEST(Threads, EndWell) {
  Ending e = threads("end");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "threads: 2 ranks, 64\n");
  EXPECT_EQ(e.err, "");
}

TEST(Threads, AnErrorIsReportedOnce) {
  EXPECT_FAILS(threads("fail 1"), "rank 1: out of luck");
  EXPECT_FAILS(threads("throw 0"), "rank 0: cannot read the file");
  EXPECT_FAILS(threads("argument 0"), "rank 0: send over 'tp': unknown element type 99");
  EXPECT_FAILS(threads("leave 1"), "rank 0: waits in a collective for rank 1, which has ended");
  EXPECT_FAILS(threads("flight-fail 1"), "rank 1: out of luck");
}

TEST(Threads, OutputsThatDoNotFit) {
  if (!addressesAreLimited)
    GTEST_SKIP() << "sanitizers: they reserve terabytes, addresses have no limit";
  EXPECT_FAILS(threads("gather 1"), "rank 0: out of memory while outputs were gathered");
}

TEST(Threads, AnErrorThatCannotUnwindEndsTheProcess) {
  EXPECT_FAILS(threads("no-unwind 1"), "rank 1: out of luck");
}

TEST(Threads, TimeoutRequiresThatNoRankComputes) {
  EXPECT_EQ(threads("slow 1 1").out, "threads: 2 ranks, 64\n");
  Ending e = threads("deadlock 0 1");
  EXPECT_EQ(e.status, 1) << e.err;
  const std::string waits[] = {"rank 0 (tp 0) in receive over 'tp' for rank 1 (tp 1)",
                               "rank 1 (tp 1) in receive over 'tp' for rank 0 (tp 0)"};
  int first = e.errors().starts_with("rank 1");
  EXPECT_EQ(e.errors(), "rank " + std::to_string(first) + ": has waited for 1 s (--timeout=1): " +
                            waits[first] + "; " + waits[1 - first] + "\n");
}

TEST(Threads, NeedNoLibrary) {
  Ending e = runCommand("env TPC_RUNTIME_DIR=/nonexistent " + scenario + " end");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "threads: 2 ranks, 64\n");
}

/// Tests that hold for all launchers of processes.
class Processes : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (isMpi() && !*TPC_MPIEXEC)
      GTEST_SKIP() << "mpirun: it is not installed";
  }
  bool isMpi() const { return !std::strcmp(GetParam(), "mpi"); }
  Ending run(int ranks, const std::string &what) const {
    return isMpi() ? mpi(ranks, what) : tcp(ranks, what, "torch");
  }
  /// mpirun also detects a dead rank and ends the others, sometimes before any has printed an
  /// error.
  Ending runUntilErrorIsPrinted(int ranks, const std::string &what) const {
    Ending e = run(ranks, what);
    for (int attempt = 0; isMpi() && e.errors().empty() && attempt < 5; ++attempt) {
      EXPECT_NE(e.status, 0);
      e = run(ranks, what);
    }
    return e;
  }
};

INSTANTIATE_TEST_SUITE_P(Over, Processes, testing::Values("mpi", "tcp"),
                         [](const auto &info) { return std::string(info.param); });

TEST_P(Processes, EndWell) {
  Ending e = run(3, "end");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, std::string(GetParam()) + ": 3 ranks, 729\n");
  EXPECT_EQ(e.errors(), "");
}

TEST_P(Processes, AnErrorIsReportedOnce) {
  EXPECT_FAILS(run(2, "fail 1"), "rank 1: out of luck");
  EXPECT_FAILS(run(4, "throw 0"), "rank 0: cannot read the file");
  EXPECT_FAILS(run(2, "no-unwind 1"), "rank 1: out of luck");
}

TEST_P(Processes, OutputsThatDoNotFit) {
  if (!addressesAreLimited)
    GTEST_SKIP() << "sanitizers: they reserve terabytes, addresses have no limit";
  EXPECT_FAILS(run(3, "gather 2"), "rank 0: out of memory while outputs were gathered");
}

TEST_P(Processes, AnEarlyEndDoesNotBlockOthers) {
  EXPECT_FAILS(run(2, "leave 1"), "rank 0: waits for rank 1, which has ended");
  for (const char *what : {"exit 1", "kill 2", "kill 0"}) {
    Ending e = runUntilErrorIsPrinted(3, what);
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.status, 124); // 124: killed by timeout
    EXPECT_NE(e.errors().find(std::string("rank ") + what[5] + " (tp " + what[5] +
                              ") has ended without an error message: it was killed or has crashed"),
              std::string::npos)
        << e.err;
    if (*what == 'k')
      expectGone(e, 3);
  }
}

TEST_P(Processes, AFrozenRankEndsTheRun) {
  for (const char *what : {"stop 1", "stop 0", "flight-stop 1"}) {
    std::string victim(what + std::strlen(what) - 1);
    Ending e = run(3, std::string(what) + " 60");
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.errors().find("rank " + victim + " (tp " + victim +
                              ") is frozen: its process was stopped"),
              std::string::npos)
        << e.err;
    EXPECT_NE(e.err.find(std::string(" in all_reduce over 'tp' for rank ") + victim),
              std::string::npos)
        << e.err;
    expectGone(e, 3);
  }
}

TEST_P(Processes, ARemainingRankReportsTheError) {
  for (const char *what : {"kill-first 2 60", "stop-first 2 60", "kill-first 3 60"}) {
    Ending e = runUntilErrorIsPrinted(4, what);
    EXPECT_NE(e.status, 0);
    // The scheduler determines which of them ends first, possibly long before the others.
    const std::string errors = e.errors();
    int named = -1;
    ASSERT_EQ(std::sscanf(errors.c_str(), "rank %d (tp ", &named), 1) << what << "\n" << e.err;
    EXPECT_TRUE(named >= 0 && named < what[11] - '0') << what << "\n" << e.err;
    const std::string number = std::to_string(named);
    EXPECT_TRUE(errors.starts_with(
        "rank " + number + " (tp " + number +
        (*what == 'k' ? ") has ended without an error message" : ") is frozen: its process")))
        << what << "\n"
        << e.err;
    EXPECT_EQ(errors.find('\n') + 1, errors.size()) << what << "\n" << e.err;
    expectGone(e, 4);
  }
}

TEST_P(Processes, FrozenProcessesAreEnded) {
  // The launcher does not end any process. (mpirun does.)
  for (const char *what : {"stop-last 2 60", "stop-first 2 60"}) {
    Ending e = isMpi() ? mpi(4, what) : tcp(4, what, "plain");
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.status, 124); // 124: killed by timeout
    EXPECT_NE(e.errors().find(" is frozen: its process was stopped"), std::string::npos) << e.err;
    expectGone(e, 4);
  }
}

TEST_P(Processes, ARankFrozenAtStartOrEndEndsTheRun) {
  struct {
    const char *what, *message;
  } cases[] = {{"stop-init 0 60", "rank 0 is frozen: its process was stopped"},
               {"stop-init 1 60", "rank 1 is frozen: its process was stopped"},
               {"stop-start 0 4", "rank 0 is frozen: its process was stopped"},
               {"stop-end 0 4", "rank 0 (tp 0) is frozen: its process was stopped"}};
  for (auto [what, message] : cases) {
    Ending e = run(2, what);
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.errors().find(message), std::string::npos) << what << "\n" << e.err;
    expectGone(e, 2);
  }
}

TEST_P(Processes, TimeoutRequiresThatNoRankComputes) {
  EXPECT_EQ(run(2, "slow 1 4").out, std::string(GetParam()) + ": 2 ranks, 64\n");
  Ending e = run(3, "deadlock 1 4");
  EXPECT_NE(e.status, 0);
  EXPECT_EQ(e.errors(), "rank 0: has waited for 4 s (--timeout=4): rank 0 (tp 0) in receive over "
                        "'tp' for rank 1 (tp 1)\n");
  EXPECT_NE(e.err.find("note: waits: rank 1 (tp 1) in receive over 'tp' for rank 2 (tp 2)\n"),
            std::string::npos)
      << e.err;
}

TEST_P(Processes, RanksMayEndAfterDelivering) {
  Ending e = run(3, "late 2");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, std::string(GetParam()) + ": 3 ranks, 729\n");
}

TEST_P(Processes, RanksAgreeOnTheReporter) {
  EXPECT_FAILS(run(3, "agree"), "bad input");
  EXPECT_FAILS(run(3, "agree-one 2"), "bad input");
  EXPECT_FAILS(
      run(3, "digest 2"),
      "rank 2 does not run the same as rank 0: another schedule (rank 0 has the same, rank "
      "2 has another); start the same executable with the same arguments and weights everywhere");
}

TEST(Tcp, AMessageWaitsInSharedMemory) {
  Ending e = tcp(2, "cross 0 20");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "tcp: 2 ranks, 64\n");
}

TEST(Mpi, AnMpiWithoutThreadsIsRejected) {
  if (!*TPC_MPIEXEC)
    GTEST_SKIP() << "mpirun: it is not installed";
  Ending e = mpi(2, "end", folder + "SCENARIO_THREAD_LEVEL=0 ");
  EXPECT_NE(e.status, 0);
  EXPECT_NE(
      e.err.find("MPI was initialized with MPI_THREAD_SINGLE, while a rank has several threads; "
                 "build libtpc_mpi.so with an MPI that supports MPI_THREAD_FUNNELED"),
      std::string::npos)
      << e.err;
  EXPECT_EQ(e.out, "");
}

TEST(Mpi, TheLibraryIsSearchedForInSeveralFolders) {
  if (!*TPC_MPIEXEC)
    GTEST_SKIP() << "mpirun: it is not installed";
  // No library.
  Ending e = mpi(1, "end", "TPC_RUNTIME_DIR=/nonexistent ");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find("OMPI_COMM_WORLD_SIZE is set"), std::string::npos) << e.err;
  EXPECT_NE(e.errors().find("libtpc_mpi.so was not found (looked in /nonexistent"),
            std::string::npos)
      << e.err;
  // An unrelated file of that name.
  std::string bad = temporaryFolder() + "/bad";
  runCommand("mkdir " + bad);
  std::ofstream(bad + "/libtpc_mpi.so") << "no library";
  e = mpi(1, "end", "TPC_RUNTIME_DIR=" + bad + " ");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find(bad + "/libtpc_mpi.so cannot be loaded"), std::string::npos) << e.err;
  // Next to the executable, and in ../lib.
  for (const char *place : {"bin", "lib"}) {
    std::string root = temporaryFolder() + "/in-" + place;
    runCommand("mkdir -p " + root + "/bin " + root + "/lib");
    ASSERT_EQ(runCommand("cp " + scenario + " " + root + "/bin/program").status, 0);
    ASSERT_EQ(runCommand("cp " TPC_RUNTIME_FOLDER "/libtpc_mpi.so " + root + "/" + place).status,
              0);
    e = runCommand("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " TPC_MPIEXEC
                   " --oversubscribe --bind-to none -n 2 " +
                   root + "/bin/program end");
    EXPECT_EQ(e.status, 0) << e.err;
    EXPECT_EQ(e.out, "mpi: 2 ranks, 64\n");
  }
}

TEST(Mpi, AnotherLauncherIsDetected) {
  if (!*TPC_MPIEXEC)
    GTEST_SKIP() << "mpirun: it is not installed";
  // The environment of one process of two under MPICH's launcher.
  Ending e = runCommand("env PMI_RANK=0 PMI_SIZE=2 OMPI_ALLOW_RUN_AS_ROOT=1 "
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                        folder + scenario + " end");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find("MPI sees 1 ranks where the launcher started 2"), std::string::npos)
      << e.err;
}

TEST(Mpi, ThreadsCanBeForced) {
  if (!*TPC_MPIEXEC)
    GTEST_SKIP() << "mpirun: it is not installed";
  Ending e = mpi(1, "end", "TPC_TRANSPORT=threads TPC_RUNTIME_DIR=/nonexistent ");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "threads: 2 ranks, 64\n");
}
