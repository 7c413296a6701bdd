//===- ProcessTest.cpp - how programs end, as threads and under mpirun ----===//

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

namespace {

struct Ending {
  int status; ///< of the command; 128 + n after a signal
  std::string out, err;

  /// The lines of stderr that are the program's own.
  std::string errors() const {
    std::istringstream lines(err);
    std::string line, errors;
    while (std::getline(lines, line))
      if (line.starts_with("error: "))
        errors += line.substr(7) + "\n";
    return errors;
  }
};

/// A folder that goes away with the program.
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
#ifdef TPC_MPIEXEC
Ending mpi(int ranks, const std::string &what, const std::string &environment = folder) {
  return runCommand("env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " + environment +
                    TPC_MPIEXEC " --oversubscribe --bind-to none -n " + std::to_string(ranks) +
                    " " + scenario + " " + what);
}
#endif

#define EXPECT_FAILS(ending, message)                                                              \
  do {                                                                                             \
    Ending e = (ending);                                                                           \
    EXPECT_EQ(e.status, 1) << e.err;                                                               \
    EXPECT_EQ(e.errors(), message "\n") << e.err;                                                  \
    EXPECT_EQ(e.out, "");                                                                          \
  } while (false)

/// Processes that said their numbers are gone, also one that was stopped.
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
      // One that nobody has waited for yet has ended.
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
#if __has_feature(address_sanitizer)
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

TEST(Threads, AnErrorIsSaidOnce) {
  EXPECT_FAILS(threads("fail 1"), "rank 1: out of luck");
  EXPECT_FAILS(threads("throw 0"), "rank 0: cannot read the file");
  EXPECT_FAILS(threads("argument 0"), "rank 0: send over 'tp': unknown element type 99");
  EXPECT_FAILS(threads("leave 1"), "rank 0: waits in a collective for rank 1, which has ended");
}

TEST(Threads, OutputsThatDoNotFit) {
  if (!addressesAreLimited)
    GTEST_SKIP() << "sanitizers: they reserve terabytes, addresses have no limit";
  EXPECT_FAILS(threads("gather 1"), "rank 0: out of memory while outputs were gathered");
}

TEST(Threads, AnErrorThatCannotUnwindEndsTheProcess) {
  EXPECT_FAILS(threads("no-unwind 1"), "rank 1: out of luck");
}

TEST(Threads, WhoComesTooLateEndsTheRun) {
  Ending e = threads("busy 1 1");
  EXPECT_EQ(e.status, 1) << e.err;
  EXPECT_EQ(e.errors(),
            "rank 0: has waited for 1 s (--timeout=1): rank 0 (tp 0) in all_reduce over "
            "'tp' for rank 1 (tp 1); rank 1 (tp 1) waits for nobody\n");
  // Who comes in time does not.
  EXPECT_EQ(threads("slow 1 60").out, "threads: 2 ranks, 64\n");
}

TEST(Threads, NeedNoLibrary) {
  Ending e = runCommand("env TPC_RUNTIME_DIR=/nonexistent " + scenario + " end");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "threads: 2 ranks, 64\n");
}

#ifdef TPC_MPIEXEC

TEST(Mpi, EndWell) {
  Ending e = mpi(3, "end");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "mpi: 3 ranks, 729\n");
  EXPECT_EQ(e.errors(), "");
}

TEST(Mpi, AnErrorIsSaidOnce) {
  EXPECT_FAILS(mpi(2, "fail 1"), "rank 1: out of luck");
  EXPECT_FAILS(mpi(4, "throw 0"), "rank 0: cannot read the file");
  EXPECT_FAILS(mpi(2, "no-unwind 1"), "rank 1: out of luck");
}

TEST(Mpi, ALevelWithoutThreadsIsRefused) {
  Ending e = mpi(2, "end", folder + "SCENARIO_THREAD_LEVEL=0 ");
  EXPECT_NE(e.status, 0);
  EXPECT_NE(
      e.err.find("MPI was initialized with MPI_THREAD_SINGLE, while a rank has several threads; "
                 "build libtpc_mpi.so with an MPI that supports MPI_THREAD_FUNNELED"),
      std::string::npos)
      << e.err;
  EXPECT_EQ(e.out, "");
}

TEST(Mpi, OutputsThatDoNotFit) {
  if (!addressesAreLimited)
    GTEST_SKIP() << "sanitizers: they reserve terabytes, addresses have no limit";
  EXPECT_FAILS(mpi(3, "gather 2"), "rank 0: out of memory while outputs were gathered");
}

TEST(Mpi, WhoEndsEarlyHoldsNobodyUp) {
  EXPECT_FAILS(mpi(2, "leave 1"), "rank 0: waits for rank 1, which has ended");
  Ending exits = mpi(3, "exit 1"), killed = mpi(3, "kill 2");
  // 124: it had to be stopped.
  EXPECT_NE(exits.status, 0);
  EXPECT_NE(exits.status, 124);
  EXPECT_NE(killed.status, 0);
  EXPECT_NE(killed.status, 124);
}

TEST(Mpi, WhoIsFrozenEndsTheRun) {
  for (int ranks : {2, 4}) {
    Ending e = mpi(ranks, "stop 1 4");
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.errors().find("has waited for 4 s (--timeout=4): rank "), std::string::npos)
        << e.err;
    // On a busy machine others may be late as well.
    size_t at = e.errors().find(" in all_reduce over 'tp' for ");
    EXPECT_NE(at, std::string::npos) << e.err;
    EXPECT_NE(e.errors().find("rank 1 (tp 1)", at), std::string::npos) << e.err;
    expectGone(e, ranks);
  }
}

TEST(Mpi, WhoIsFrozenAtTheStartOrTheEndEndsTheRun) {
  struct {
    const char *what, *said;
  } cases[] = {
      {"stop-init 0 4", "has waited for 4 s (--timeout=4) for all ranks to start"},
      {"stop-start 0 4", "(--timeout=4): rank 1 at the start, for rank 0"},
      {"stop-end 0 4", "(--timeout=4): rank 1 (tp 1) while weights are loaded, for rank 0"}};
  for (auto [what, said] : cases) {
    Ending e = mpi(2, what);
    EXPECT_NE(e.status, 0);
    EXPECT_NE(e.errors().find(said), std::string::npos) << what << "\n" << e.err;
    expectGone(e, 2);
  }
}

TEST(Mpi, WhoComesInTimeDoesNot) { EXPECT_EQ(mpi(2, "slow 1 60").out, "mpi: 2 ranks, 64\n"); }

TEST(Mpi, WhoHasDeliveredMayEndBeforeTheOthers) {
  Ending e = mpi(3, "late 2");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "mpi: 3 ranks, 729\n");
}

TEST(Mpi, AllRanksAgreeOnWhatIsSaid) {
  EXPECT_FAILS(mpi(3, "agree"), "bad input");
  EXPECT_FAILS(mpi(3, "agree-one 2"), "bad input");
  EXPECT_FAILS(mpi(3, "digest 2"),
               "rank 2 does not run the same as rank 0: another schedule (rank 0 has the same); "
               "start the same executable with the same arguments and weights everywhere");
}

TEST(Mpi, TheLibraryIsLookedForInManyPlaces) {
  // Nowhere.
  Ending e = mpi(1, "end", "TPC_RUNTIME_DIR=/nonexistent ");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find("OMPI_COMM_WORLD_SIZE is set"), std::string::npos) << e.err;
  EXPECT_NE(e.errors().find("libtpc_mpi.so was not found (looked in /nonexistent"),
            std::string::npos)
      << e.err;
  // Something else by that name.
  std::string bad = temporaryFolder() + "/bad";
  runCommand("mkdir " + bad);
  std::ofstream(bad + "/libtpc_mpi.so") << "no library";
  e = mpi(1, "end", "TPC_RUNTIME_DIR=" + bad + " ");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find(bad + "/libtpc_mpi.so cannot be loaded"), std::string::npos) << e.err;
  // Beside the executable, and in ../lib.
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

TEST(Mpi, AnotherLauncherIsNoticed) {
  // As MPICH's launcher would start one of two processes.
  Ending e = runCommand("env PMI_RANK=0 PMI_SIZE=2 OMPI_ALLOW_RUN_AS_ROOT=1 "
                        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                        folder + scenario + " end");
  EXPECT_EQ(e.status, 1);
  EXPECT_NE(e.errors().find("MPI sees 1 ranks where the launcher started 2"), std::string::npos)
      << e.err;
}

TEST(Mpi, ThreadsCanBeForced) {
  Ending e = mpi(1, "end", "TPC_TRANSPORT=threads TPC_RUNTIME_DIR=/nonexistent ");
  EXPECT_EQ(e.status, 0) << e.err;
  EXPECT_EQ(e.out, "threads: 2 ranks, 64\n");
}

#endif
