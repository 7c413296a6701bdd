//===- Harness.cpp - Runner of the test program ---------------------------===//

#include "Harness.h"
#include "conformance/LimitTime.h"
#include "core/Half.h"
#include "program/File.h"
#include "program/Npy.h"
#include "tpc/digest.h"
#include <cmath>
#include <csignal>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <sstream>
#include <sys/wait.h>
#include <unistd.h>

namespace tpc::rt {
namespace {

std::string readText(const std::string &path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

} // namespace

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "tpc-test-XXXXXX").string();
  path = mkdtemp(name.data());
}
TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path, ignored);
}
std::vector<std::string> TemporaryDirectory::entries() const {
  std::vector<std::string> names;
  for (const auto &entry : std::filesystem::recursive_directory_iterator(path))
    names.push_back(std::filesystem::relative(entry.path(), path).string());
  std::sort(names.begin(), names.end());
  return names;
}

void writeText(const std::string &path, const std::string &text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
}

Outcome runCommand(const std::vector<std::string> &command,
                   const std::map<std::string, std::string> &environment,
                   const std::string &scratch) {
  std::string out = scratch + ".out", err = scratch + ".err";
  pid_t child = fork();
  if (child == 0) {
    for (const auto &[name, value] : environment)
      setenv(name.c_str(), value.c_str(), 1);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 1);
    dup2(open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600), 2);
    std::vector<char *> arguments;
    for (const std::string &argument : command)
      arguments.push_back(const_cast<char *>(argument.c_str()));
    arguments.push_back(nullptr);
    limitTime();
    execvp(arguments[0], arguments.data());
    _exit(127);
  }
  Outcome outcome;
  int status = 0;
  waitpid(child, &status, 0);
  outcome.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  outcome.out = readText(out);
  outcome.err = readText(err);
  std::filesystem::remove(out);
  std::filesystem::remove(err);
  return outcome;
}

void expectError(const Outcome &outcome, const std::vector<std::string> &parts) {
  EXPECT_GE(outcome.status, 1);
  EXPECT_LE(outcome.status, 125) << "killed by a signal";
  for (const std::string &part : parts)
    EXPECT_NE(outcome.err.find(part), std::string::npos) << "no \"" << part << "\" in\n"
                                                         << outcome.err;
  size_t first = outcome.err.find("error: ");
  EXPECT_NE(first, std::string::npos) << outcome.err;
  EXPECT_EQ(outcome.err.find("error: ", first + 1), std::string::npos) << "more than one message\n"
                                                                       << outcome.err;
}

ProgramTest::ProgramTest() : weights(directory / "tiny.weights") {
  uint32_t seed = 3;
  auto draw = [&](size_t count) {
    std::vector<float> values(count);
    for (float &value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(seed >> 16) / 65536 - 0.5f;
    }
    return values;
  };
  table = draw(66), w1 = draw(60), b1 = draw(10), w2 = draw(60), b2 = draw(6), w3 = draw(42),
  b3 = draw(10);
  std::string bytes;
  auto append = [&](const auto &value) {
    bytes.append(reinterpret_cast<const char *>(&value), sizeof value);
  };
  for (const auto *values : {&table, &w1, &b1, &w2, &b2})
    for (float value : *values)
      append(value);
  for (float &value : w3) { // multiples of 1/64, exact in f16
    value = std::round(value * 64) / 64;
    for (uint32_t half = 0; half < 65536; ++half)
      if (halfToFloat(static_cast<uint16_t>(half)) == value && half != 0x8000) {
        append(static_cast<uint16_t>(half));
        break;
      }
  }
  bytes.resize(896);
  for (float value : b3)
    append(static_cast<double>(value));
  writeText(weights, bytes);
  digest =
      sampleDigest(bytes.size(),
                   {{0, 264}, {264, 240}, {504, 40}, {544, 240}, {784, 24}, {808, 84}, {896, 80}},
                   [&](void *to, uint64_t count, uint64_t offset) {
                     std::memcpy(to, bytes.data() + offset, count);
                     return true;
                   })
          .value();
}

std::map<std::string, std::string> ProgramTest::environmentOf(const World &world) const {
  return {{"TEST_TP", std::to_string(world.tp)},
          {"TEST_DP", std::to_string(world.dp)},
          {"TEST_PP", std::to_string(world.pp)},
          {"TEST_MB", std::to_string(world.mb)},
          {"TEST_WEIGHTS", weights},
          {"TEST_DIGEST", digest},
          {"TEST_PATCH", patch},
          {"TPC_RUNTIME_DIR", TPC_TEST_RUNTIME_DIR},
          {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
          {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"}};
}

Outcome ProgramTest::run(const World &world, const std::vector<std::string> &arguments,
                         int mpiRanks) {
  std::vector<std::string> command;
  if (world.mpi)
    command = {TPC_MPIEXEC, "--oversubscribe",
               "--bind-to", "none",
               "-n",        std::to_string(mpiRanks ? mpiRanks : world.ranks())};
  command.push_back(TPC_TEST_PROGRAM);
  command.insert(command.end(), arguments.begin(), arguments.end());
  return runCommand(command, environmentOf(world), directory / "command");
}

std::vector<float> ProgramTest::expected(const std::vector<int64_t> &ids, int64_t sequence,
                                         const std::vector<int64_t> &mask) const {
  std::vector<float> logits;
  for (size_t t = 0; t < ids.size(); ++t) {
    double h[6], inner[10];
    int64_t id = ids[t] < 0 ? ids[t] + 11 : ids[t];
    for (int j = 0; j < 6; ++j)
      h[j] = table[id * 6 + j] * static_cast<double>(mask.empty() ? 1 : mask[t]) +
             static_cast<double>(t % sequence);
    for (int i = 0; i < 10; ++i) {
      double x = b1[i];
      for (int j = 0; j < 6; ++j)
        x += h[j] * w1[j * 10 + i];
      inner[i] = 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    }
    double next[6];
    for (int j = 0; j < 6; ++j) {
      next[j] = h[j] + b2[j];
      for (int i = 0; i < 10; ++i)
        next[j] += inner[i] * w2[j * 10 + i];
    }
    for (int c = 0; c < 7; ++c) {
      double x = b3[c + 2];
      for (int j = 0; j < 6; ++j)
        x += next[j] * w3[j * 7 + c];
      logits.push_back(static_cast<float>(x));
    }
  }
  return logits;
}

void ProgramTest::runAndCompare(const World &world, int64_t batch, int64_t sequence) {
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < batch * sequence; ++i)
    ids.push_back(i * 7 % 22 - 11);
  writeNpy(directory / "ids.npy", makeTensor(TPC_I64, {batch, sequence}, ids));
  Outcome outcome = run(world, {"--input", "ids=" + (directory / "ids.npy"), "--output",
                                "logits=" + (directory / "logits.npy")});
  std::string what = "tp " + std::to_string(world.tp) + " dp " + std::to_string(world.dp) + " pp " +
                     std::to_string(world.pp) + " mb " + std::to_string(world.mb) +
                     (world.mpi ? " mpi" : " threads") + " " + shapeText({batch, sequence});
  ASSERT_EQ(outcome.status, 0) << what << "\n" << outcome.err;
  EXPECT_EQ(outcome.err, "") << what;
  Tensor logits = readNpy(directory / "logits.npy");
  ASSERT_EQ(logits.shape, (Shape{batch, sequence, 7})) << what;
  std::vector<float> wanted = expected(ids, sequence);
  for (size_t i = 0; i < wanted.size(); ++i)
    ASSERT_NEAR(logits.as<float>()[i], wanted[i], 1e-5) << what << " at " << i;
}

} // namespace tpc::rt
