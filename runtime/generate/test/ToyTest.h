//===- ToyTest.h - runs the program that generates ------------------------===//

#ifndef TPC_RT_GENERATE_TEST_TOYTEST_H
#define TPC_RT_GENERATE_TEST_TOYTEST_H

#include "Toy.h"
#include "generate/Request.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace tpc::rt::toy {

struct Ranks {
  int tp = 1, dp = 1, pp = 1, mb = 1;
  enum class Way { Threads, Mpi, Tcp } way = Way::Threads;
  bool allTokens = false;
  int64_t most = 0;   ///< that the model says of sequences; 0: nothing
  int64_t wide = 1;   ///< numbers that go from stage to stage for a token
  int64_t diesAt = 0; ///< step in which the last rank is killed
  int ranks() const { return tp * dp * pp; }
  std::string text() const;
};

struct Outcome {
  int status = -1; ///< of exit; 128 + the signal for one that was killed
  std::string out, err;
};

/// The program, running: one writes to it and reads from it.
class Process {
public:
  Process(const Ranks &run, const std::vector<std::string> &arguments);
  ~Process();
  void write(const std::string &text);
  void closeInput();
  void closeOutput();
  /// A line of standard output, without its end; empty at its end. Fails after half a minute.
  std::string readLine();
  /// Waits for its end, with all that was not read.
  Outcome wait();
  pid_t id() const { return child; }

private:
  pid_t child = -1;
  int in = -1, out = -1;
  std::string errorFile, rest;
};

/// With this on standard input.
Outcome runToy(const Ranks &run, const std::vector<std::string> &arguments,
               const std::string &input = "");

void expectError(const Outcome &outcome, const std::vector<std::string> &parts);

/// What the model says to a request that runs alone, in one place.
std::vector<int64_t> expectedTokens(const GenerationRequest &request, int64_t capacity);
std::string joined(const std::vector<int64_t> &tokens, const char *between);

} // namespace tpc::rt::toy

#endif // TPC_RT_GENERATE_TEST_TOYTEST_H
