//===- ToyTest.h - Process harness of the toy program ---------------------===//

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
  int64_t maxSequence = 0; ///< the model's maximum sequence length; 0: none
  int64_t wide = 1;        ///< numbers that stages send per token
  int64_t diesAt = 0;      ///< step in which the last rank is killed
  int ranks() const { return tp * dp * pp; }
  std::string text() const;
};

struct Outcome {
  int status = -1; ///< exit status, or 128 + the signal
  std::string out, err;
};

/// A running program with pipes to its standard streams.
class Process {
public:
  Process(const Ranks &run, const std::vector<std::string> &arguments);
  ~Process();
  void write(const std::string &text);
  void closeInput();
  void closeOutput();
  /// Returns a line of standard output without its newline; empty at the end. Fails after half a
  /// minute.
  std::string readLine();
  /// Waits for the end; returns all unread output.
  Outcome wait();
  pid_t id() const { return child; }

private:
  pid_t child = -1;
  int in = -1, out = -1;
  std::string errorFile, rest;
};

/// Runs the program with `input` on standard input.
Outcome runToy(const Ranks &run, const std::vector<std::string> &arguments,
               const std::string &input = "");

void expectError(const Outcome &outcome, const std::vector<std::string> &parts);

/// Expected tokens of a request that runs alone on one rank.
std::vector<int64_t> expectedTokens(const GenerationRequest &request, int64_t capacity);
std::string joined(const std::vector<int64_t> &tokens, const char *between);

} // namespace tpc::rt::toy

#endif // TPC_RT_GENERATE_TEST_TOYTEST_H
