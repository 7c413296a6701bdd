//===- Harness.h - Runner of the test program -----------------------------===//

#ifndef TPC_RT_PROGRAM_TEST_HARNESS_H
#define TPC_RT_PROGRAM_TEST_HARNESS_H

#include "program/Tensor.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace tpc::rt {

/// Temporary directory of a test, removed at its end.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  /// All entries, sorted.
  std::vector<std::string> entries() const;
  std::filesystem::path path;
};

struct Outcome {
  int status = -1; ///< exit status; 128 + the signal for a killed process
  std::string out, err;
};

/// Runs a command with additional environment variables. Kills it after a minute.
Outcome runCommand(const std::vector<std::string> &command,
                   const std::map<std::string, std::string> &environment,
                   const std::string &scratch);

/// Expects that a run ended with one message that contains all of `parts`.
void expectError(const Outcome &outcome, const std::vector<std::string> &parts);

template <class T>
Tensor makeTensor(tpc_dtype dtype, const Shape &shape, const std::vector<T> &values) {
  Tensor tensor;
  tensor.dtype = dtype;
  tensor.shape = shape;
  tensor.data = Buffer(static_cast<int64_t>(values.size() * sizeof(T)));
  std::copy(values.begin(), values.end(), tensor.as<T>());
  return tensor;
}

void writeText(const std::string &path, const std::string &text);

/// The test program with its weight file and an input, in its own directory.
class ProgramTest : public ::testing::Test {
protected:
  ProgramTest();

  struct World {
    int tp = 1, dp = 1, pp = 1, mb = 1;
    bool mpi = false;
    int ranks() const { return tp * dp * pp; }
  };
  std::map<std::string, std::string> environmentOf(const World &world) const;
  Outcome run(const World &world, const std::vector<std::string> &arguments, int mpiRanks = 0);
  /// Output of the network for these inputs, in double.
  std::vector<float> expected(const std::vector<int64_t> &ids, int64_t sequence,
                              const std::vector<int64_t> &mask = {}) const;
  /// Runs, saves logits, and compares.
  void runAndCompare(const World &world, int64_t batch, int64_t sequence);

  TemporaryDirectory directory;
  std::string weights, digest;
  std::string patch; ///< JSON Patch of the manifest, see TestProgram.cpp
  std::vector<float> table, w1, b1, w2, b2, w3, b3;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TEST_HARNESS_H
