//===- MainTest.cpp - The main function of executables, run as a process --===//

#include "Harness.h"
#include "program/File.h"
#include "program/Npy.h"
#include <nlohmann/json.hpp>

using namespace tpc::rt;

namespace {

using MainTest = ProgramTest;
using nlohmann::json;

TEST_F(MainTest, ThreadsComputeTheSame) {
  for (auto [tp, dp, pp, mb] : {std::array<int, 4>{1, 1, 1, 1},
                                {2, 1, 1, 1},
                                {3, 1, 1, 1},
                                {1, 2, 1, 1},
                                {1, 1, 2, 1},
                                {2, 1, 2, 4},
                                {8, 2, 2, 2},
                                {11, 1, 1, 1}})
    for (auto [batch, sequence] : {std::array<int64_t, 2>{1, 1}, {3, 5}, {4, 8}})
      runAndCompare({tp, dp, pp, mb}, batch, sequence);
}

TEST_F(MainTest, EmptyInputsGiveEmptyOutputs) {
  runAndCompare({1, 1, 1, 1}, 0, 5);
  runAndCompare({2, 2, 2, 1}, 0, 5);
  runAndCompare({2, 1, 2, 1}, 2, 0);
}

TEST_F(MainTest, ProcessesComputeTheSame) {
  ASSERT_NE(std::string(TPC_MPIEXEC), "") << "MPI was not found when the build was configured";
  for (auto [tp, dp, pp, mb] : {std::array<int, 4>{1, 1, 1, 1}, {2, 1, 2, 2}, {2, 2, 1, 1}})
    runAndCompare({tp, dp, pp, mb, true}, 3, 5);
  runAndCompare({2, 1, 2, 1, true}, 0, 5);
}

TEST_F(MainTest, InputsMayBeGivenWithoutAName) {
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 2}, {3, 4}));
  Outcome outcome = run({}, {directory / "ids.npy", "--output=" + (directory / "out.npy")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readNpy(directory / "out.npy").shape, (Shape{1, 2, 7}));
  EXPECT_EQ(outcome.out, "");
  outcome = run({}, {directory / "ids.npy"});
  EXPECT_EQ(outcome.out.substr(0, 26), "logits  f32[1, 2, 7]  min ");
}

TEST_F(MainTest, OptionalInputsAreUsedWhenGiven) {
  std::vector<int64_t> mask = {1, 0, 2, 1};
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {2, 2}, {3, 4, 5, 6}));
  writeNpy(directory / "mask.npy", makeTensor(TPC_I64, {2, 2}, mask));
  Outcome outcome = run({2, 1, 1}, {"-i", "mask=" + (directory / "mask.npy"), "-i",
                                    "ids=" + (directory / "ids.npy"), "-o", directory / "out.npy"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  std::vector<float> wanted = expected({3, 4, 5, 6}, 2, mask);
  Tensor logits = readNpy(directory / "out.npy");
  for (size_t i = 0; i < wanted.size(); ++i)
    EXPECT_NEAR(logits.as<float>()[i], wanted[i], 1e-5);
}

TEST_F(MainTest, IdsOf32BitsAreConverted) {
  writeNpy(directory / "ids.npy", makeTensor<int32_t>(TPC_I32, {1, 2}, {3, -4}));
  Outcome outcome = run({}, {directory / "ids.npy", "-o", directory / "out.npy"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_NE(outcome.err.find("note: input 'ids'"), std::string::npos) << outcome.err;
  EXPECT_NEAR(readNpy(directory / "out.npy").as<float>()[13], expected({3, -4}, 2)[13], 1e-5);
}

TEST_F(MainTest, Batches) {
  std::filesystem::create_directory(directory / "in");
  std::filesystem::create_directory(directory / "in/pair");
  writeNpy(directory / "in/a.npy", makeTensor<int64_t>(TPC_I64, {1, 2}, {3, 4}));
  writeNpy(directory / "in/b.npy", makeTensor<int64_t>(TPC_I64, {2, 3}, {1, 2, 3, 4, 5, 6}));
  writeNpy(directory / "in/pair/ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {3}));
  writeNpy(directory / "in/pair/mask.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {0}));
  Outcome outcome = run({2, 1, 2}, {"--batch-of", directory / "in", "--output", directory / "out"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readNpy(directory / "out/a.npy").shape, (Shape{1, 2, 7}));
  EXPECT_NEAR(readNpy(directory / "out/b.npy").as<float>()[41], expected({1, 2, 3, 4, 5, 6}, 3)[41],
              1e-5);
  EXPECT_NEAR(readNpy(directory / "out/pair.npy").as<float>()[1], expected({3}, 1, {0})[1], 1e-5);
  outcome = run({}, {directory / "in/a.npy", directory / "in/b.npy", "--output",
                     "logits=" + (directory / "more")});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(readNpy(directory / "more/b.npy").shape, (Shape{2, 3, 7}));
  expectError(run({}, {directory / "in/a.npy", directory / "in/b.npy"}),
              {"a batch needs --output DIRECTORY"});
}

TEST_F(MainTest, Describe) {
  Outcome outcome = run({2, 2, 2, 4}, {"--describe", "--json"});
  ASSERT_EQ(outcome.status, 0) << outcome.err;
  json d = json::parse(outcome.out);
  EXPECT_EQ(d["world_size"], 8);
  EXPECT_EQ(d["groups"]["tp"], json::parse("[[0,1],[2,3],[4,5],[6,7]]"));
  EXPECT_EQ(d["groups"]["dp"], json::parse("[[0,2],[1,3],[4,6],[5,7]]"));
  EXPECT_EQ(d["groups"]["pp"], json::parse("[[0,4],[1,5],[2,6],[3,7]]"));
  EXPECT_EQ(d["inputs"][0],
            json::parse(R"({"name": "ids", "dtype": "i64", "shape": ["batch", "sequence"],
                                            "optional": false, "range": [-11, 10]})"));
  EXPECT_EQ(d["inputs"][1]["optional"], true);
  EXPECT_EQ(d["outputs"][0]["shape"], json::parse(R"(["batch", "sequence", 7])"));
  EXPECT_EQ(d["grid"]["micro_batches"], 4);
  // Stage 0: table and b2 whole, half of w1, b1 and w2. Stage 1: 4 or 3 of the 7 columns of w3 and
  // b3.
  EXPECT_EQ(d["ranks"][0]["weight_bytes"], 4 * (66 + 6 + 30 + 5 + 30));
  EXPECT_EQ(d["ranks"][0]["replicated_bytes"], 4 * (66 + 6));
  EXPECT_EQ(d["ranks"][4]["weight_bytes"], 2 * 6 * 4 + 4 * 4);
  EXPECT_EQ(d["ranks"][5]["weight_bytes"], 2 * 6 * 3 + 4 * 3);
  EXPECT_EQ(d["ranks"][5]["coordinates"],
            json::parse(R"({"tp": 1, "cp": 0, "ep": 0, "dp": 0, "pp": 1})"));
  EXPECT_GE(d["ranks"][5]["packing_bytes"], 0);
  EXPECT_EQ(d["parameters"][5]["bytes"], json::parse("[0, 0, 0, 0, 48, 36, 48, 36]"));
  outcome = run({2, 1, 1}, {"--describe"});
  EXPECT_NE(outcome.out.find("tp: [0 1]"), std::string::npos) << outcome.out;
}

TEST_F(MainTest, BenchCountsWhatOneStepCommunicates) {
  for (bool mpi : {false, true}) {
    if (mpi && std::string(TPC_MPIEXEC).empty())
      continue;
    Outcome outcome = run({2, 1, 2, 2, mpi}, {"--bench", "--shape", "batch=3,sequence=4",
                                              "--repeat", "3", "--warmup=1"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    json d = json::parse(outcome.out);
    EXPECT_EQ(d["iterations"], 3);
    EXPECT_EQ(d["tokens"], 12);
    EXPECT_GT(d["seconds"], 0);
    EXPECT_EQ(d["ranks"], 4);
    EXPECT_EQ(d["transport"], mpi ? "mpi" : "threads");
    EXPECT_EQ(d["collectives"], json::parse(R"([
      {"stage": 0, "axis": "tp", "kind": "all_reduce", "count": 2, "bytes": 288},
      {"stage": 0, "axis": "pp", "kind": "send", "count": 2, "bytes": 288},
      {"stage": 1, "axis": "output", "kind": "gather", "count": 1, "bytes": 336}])"));
  }
}

TEST_F(MainTest, RandomWeightsAreTheSameForEverySplit) {
  std::filesystem::remove(weights);
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 3}, {3, 4, -1}));
  std::vector<float> first;
  for (World world : {World{1, 1, 1}, World{2, 1, 2}, World{5, 1, 1}}) {
    Outcome outcome =
        run(world, {directory / "ids.npy", "--weights=random:7", "-o", directory / "out.npy"});
    ASSERT_EQ(outcome.status, 0) << outcome.err;
    Tensor logits = readNpy(directory / "out.npy");
    std::vector<float> values(logits.as<float>(), logits.as<float>() + logits.count());
    if (first.empty())
      first = values;
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_NEAR(values[i], first[i], 1e-5);
  }
  run({}, {directory / "ids.npy", "--weights=random:8", "-o", directory / "out.npy"});
  EXPECT_GT(std::abs(readNpy(directory / "out.npy").as<float>()[0] - first[0]), 1e-3);
  expectError(run({}, {directory / "ids.npy", "--weights=random:x"}),
              {"the seed must be an integer"});
}

TEST_F(MainTest, WeightsAreFoundAndChecked) {
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {3}));
  std::filesystem::create_directory(directory / "moved");
  std::filesystem::rename(weights, directory / "moved/tiny.weights");
  expectError(run({2, 1, 1}, {directory / "ids.npy"}),
              {"no readable weight file", weights, "'table'", "--weights="});
  EXPECT_EQ(run({2, 1, 1}, {directory / "ids.npy", "--weights=" + (directory / "moved")}).status,
            0);
  EXPECT_EQ(
      run({2, 1, 1}, {directory / "ids.npy", "--weights", directory / "moved/tiny.weights"}).status,
      0);
  // In the given folder, at the path that the weight file has below the model's folder.
  std::string below = directory / "far/" + directory.path.filename().string();
  std::filesystem::create_directories(below);
  std::filesystem::copy_file(directory / "moved/tiny.weights", below + "/tiny.weights");
  EXPECT_EQ(run({2, 1, 1}, {directory / "ids.npy", "--weights=" + (directory / "far")}).status, 0);

  File file(directory / "moved/tiny.weights");
  std::string bytes(file.size(), 0);
  ASSERT_TRUE(file.readAt(bytes.data(), bytes.size(), 0));
  writeText(weights, bytes.substr(0, 800));
  expectError(run({2, 1, 1}, {directory / "ids.npy"}),
              {"too short", "'b2' ends at byte 808", "has 800"});
  writeText(weights, bytes + "more");
  expectError(run({}, {directory / "ids.npy"}), {"980 bytes instead of 976"});
  bytes[264] ^= 1;
  writeText(weights, bytes);
  expectError(run({}, {directory / "ids.npy"}),
              {"not the one that the program was compiled with", "samples"});
}

TEST_F(MainTest, OutputsThatCannotBeWritten) {
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {5}));
  expectError(run({2, 1, 1}, {directory / "ids.npy", "-o", directory / "no/such/folder.npy"}),
              {"cannot write", "No such file"});
  expectError(run({}, {directory / "ids.npy", "-o", directory / "."}), {"is a directory"});
  EXPECT_EQ(run({}, {directory / "ids.npy", "-o", "/dev/null"}).status, 0);
  expectError(run({}, {directory / "ids.npy", "-o", "/dev/full"}),
              {"cannot write '/dev/full': No space left on device"});
  for (std::string what : {directory / "ids.npy", std::string("--describe"), std::string("--help")})
    expectError(runCommand({"sh", "-c", "exec \"$@\" >/dev/full", "sh", TPC_TEST_PROGRAM, what},
                           environmentOf({}), directory / "command"),
                {"cannot write to standard output"});
}

/// A link to an output, like /dev/stdout.
TEST_F(MainTest, ALinkToTheOutputStaysALink) {
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {5}));
  std::filesystem::create_directory(directory / "far");
  writeText(directory / "far/old.npy", "old");
  std::filesystem::create_symlink("far/old.npy", directory / "link");
  EXPECT_EQ(run({}, {directory / "ids.npy", "-o", directory / "link"}).status, 0);
  EXPECT_TRUE(std::filesystem::is_symlink(directory / "link"));
  EXPECT_EQ(readNpy(directory / "far/old.npy").shape, (Shape{1, 1, 7}));
}

TEST_F(MainTest, OutputsDoNotOverwriteInputs) {
  std::filesystem::create_directory(directory / "in");
  Tensor ids = makeTensor<int64_t>(TPC_I64, {1, 1}, {5});
  writeNpy(directory / "in/ids.npy", ids);
  std::filesystem::create_hard_link(directory / "in/ids.npy", directory / "other.npy");
  expectError(run({}, {directory / "in/ids.npy", "-o", directory / "other.npy"}),
              {"output 'logits' would overwrite input 'ids'", "other.npy"});
  expectError(run({}, {"--batch-of", directory / "in", "-o", directory / "in"}),
              {"would overwrite input 'ids'"});
  EXPECT_EQ(readNpy(directory / "in/ids.npy").shape, (Shape{1, 1}));
  expectError(run({}, {directory / "in/ids.npy", "-o", weights}),
              {"would overwrite a weight file"});
  expectError(run({}, {directory / "in/ids.npy", "-o", TPC_TEST_PROGRAM}),
              {"would overwrite the program itself"});
}

} // namespace
