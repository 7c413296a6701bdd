//===- Harness.h - runs the test program and looks at what it does --------===//

#ifndef TPC_RT_PROGRAM_TEST_HARNESS_H
#define TPC_RT_PROGRAM_TEST_HARNESS_H

#include "program/Tensor.h"
#include <filesystem>
#include <gtest/gtest.h>
#include <map>
#include <string>
#include <vector>

namespace tpc::rt {

/// A directory of the test's own, removed at its end.
class TemporaryDirectory {
public:
  TemporaryDirectory();
  ~TemporaryDirectory();
  std::string operator/(const std::string &name) const { return (path / name).string(); }
  /// Everything in it, sorted.
  std::vector<std::string> entries() const;
  std::filesystem::path path;
};

struct Outcome {
  int status = -1; ///< of exit; 128 + the signal for one that was killed
  std::string out, err;
};

/// Runs a command with more variables in the environment. Ends it after a minute.
Outcome runCommand(const std::vector<std::string> &command,
                   const std::map<std::string, std::string> &environment,
                   const std::string &scratch);

/// That a run ended with one message which has all of `parts`.
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

/// The test program with its weight file and an input, in a directory of its own.
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
  /// Of the network for these inputs, in double.
  std::vector<float> expected(const std::vector<int64_t> &ids, int64_t sequence,
                              const std::vector<int64_t> &mask = {}) const;
  /// Runs, saves logits, and compares.
  void runAndCompare(const World &world, int64_t batch, int64_t sequence);

  TemporaryDirectory directory;
  std::string weights, digest;
  std::string patch; ///< of the manifest, see TestProgram.cpp
  std::vector<float> table, w1, b1, w2, b2, w3, b3;
};

} // namespace tpc::rt

#endif // TPC_RT_PROGRAM_TEST_HARNESS_H
