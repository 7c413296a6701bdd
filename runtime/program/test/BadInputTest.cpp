//===- BadInputTest.cpp - Input errors of executables, run as processes ---===//

#include "Harness.h"
#include "program/CommandLine.h"
#include "program/Error.h"
#include "program/Npy.h"
#include <cmath>
#include <unistd.h>

using namespace tpc::rt;

namespace {

using BadInputTest = ProgramTest;

TEST_F(BadInputTest, BadBatches) {
  std::string in = directory / "in", out = directory / "out", a = directory / "in/a.npy";
  std::filesystem::create_directory(in);
  expectError(run({}, {"--batch-of", in, "-o", out}),
              {"directory '" + in + "' has no .npy files and no folders"});
  std::filesystem::create_directory(directory / "in/b");
  expectError(run({}, {"--batch-of", in, "-o", out}),
              {"folder '" + in + "/b' has no NAME.npy of any input"});
  std::filesystem::remove(directory / "in/b");
  Tensor ids = makeTensor<int64_t>(TPC_I64, {1, 1}, {3});
  writeNpy(a, ids);
  writeNpy(directory / "in/b.npy", ids);
  expectError(run({}, {"--batch-of", in, "-i", "mask=" + a, "-o", out}),
              {"--input cannot be combined with a batch: put all inputs of a step in a folder"});
  expectError(run({}, {"--batch-of", in, a, "-o", out}),
              {"two inputs are named 'a': their outputs would overwrite each other"});
  expectError(run({}, {"--batch-of", in, "-o", a + "/out"}),
              {"cannot make directory '" + a + "/out': Not a directory"});
  // One of the files is a link to the other.
  std::filesystem::create_directory(out);
  writeText(out + "/a.npy", "");
  std::filesystem::create_symlink("a.npy", out + "/b.npy");
  expectError(run({}, {"--batch-of", in, "-o", out}),
              {"--output: two outputs are written to '" + out + "/b.npy'"});
  EXPECT_EQ(std::filesystem::file_size(out + "/a.npy"), 0u);
}

TEST_F(BadInputTest, UnreadableDirectory) {
  std::string in = directory / "in";
  std::filesystem::create_directory(in);
  std::filesystem::permissions(directory.path, std::filesystem::perms(0755));
  std::filesystem::permissions(in, std::filesystem::perms::none);
  Options options;
  options.isBatch = true;
  options.positional = {in};
  options.outputAnywhere = "out";
  // The superuser can read all files.
  bool super = geteuid() == 0;
  ASSERT_TRUE(!super || seteuid(65534) == 0);
  std::string message = "no error";
  try {
    requestsOf(options, Manifest());
  } catch (const UserError &error) {
    message = error.what();
  }
  ASSERT_TRUE(!super || seteuid(0) == 0);
  EXPECT_EQ(message, "cannot read directory '" + in + "': Permission denied");
  std::filesystem::permissions(in, std::filesystem::perms::owner_all);
}

TEST_F(BadInputTest, BadInputGivesOneMessage) {
  std::string ids = directory / "ids.npy", out = directory / "out.npy";
  auto with = [&](const Tensor &tensor, const World &world = {2, 1, 2}) {
    writeNpy(ids, tensor);
    return run(world, {"--input", "ids=" + ids, "--output", out});
  };
  expectError(with(makeTensor<int64_t>(TPC_I64, {2, 3}, {1, 2, 3, 4, 11, 6})),
              {"'ids' has 11 at [1, 1]", "-11 to 10", "'table'"});
  expectError(with(makeTensor<int64_t>(TPC_I64, {1, 1}, {-12})), {"'ids' has -12 at [0, 0]"});
  expectError(with(makeTensor<float>(TPC_F32, {1, 1}, {1})), {"'ids' is i64, but", "is f32"});
  expectError(with(makeTensor<int64_t>(TPC_I64, {2}, {1, 2})), {"[batch, sequence]", "is [2]"});
  expectError(with(makeTensor<int64_t>(TPC_I64, {1, 9}, std::vector<int64_t>(9))),
              {"'sequence' is 9", "at most 8", "8 positions"});
  expectError(run({}, {"-o", out}), {"missing input 'ids'"});
  expectError(run({}, {"-i", "idz=" + ids}), {"no input 'idz'", "'ids', 'mask', 'positions'"});
  expectError(run({}, {"-i", "ids=" + (directory / "absent.npy")}), {"absent.npy", "No such file"});
  writeNpy(ids, makeTensor<int64_t>(TPC_I64, {1, 2}, {1, 2}));
  writeNpy(directory / "mask.npy", makeTensor<int64_t>(TPC_I64, {1, 3}, {1, 1, 1}));
  expectError(run({}, {"-i", "ids=" + ids, "-i", "mask=" + (directory / "mask.npy")}),
              {"'sequence' is 2 according to input 'ids', but 3 here"});
  writeText(ids, "no numpy file at all");
  expectError(run({}, {ids}), {"ids.npy' is not a valid .npy file"});
  patch = R"([{"op": "replace", "path": "/inputs/0/dtype", "value": "i32"}])";
  expectError(with(makeTensor<int64_t>(TPC_I64, {1, 2}, {1, int64_t(1) << 32}), {}),
              {"input 'ids' is i32, but 4294967296 in '" + ids + "' (i64) does not fit"});
  patch = R"([{"op": "replace", "path": "/inputs/1/shape/1", "value": "sequence + 2"}])";
  writeNpy(ids, makeTensor<int64_t>(TPC_I64, {1, 2}, {1, 2}));
  expectError(run({}, {"-i", "ids=" + ids, "-i", "mask=" + (directory / "mask.npy")}),
              {"input 'mask' has shape [batch, sequence + 2], here [1, 4], but '" +
               (directory / "mask.npy") + "' is [1, 3]"});
  for (const std::string &entry : directory.entries())
    EXPECT_EQ(entry.find("out"), std::string::npos) << entry << " was left behind";
}

/// A program with labels has a loss, which NaN in any input would make NaN.
TEST_F(BadInputTest, LabelsAndNumbersOfALoss) {
  std::string ids = directory / "ids.npy", mask = directory / "mask.npy";
  patch = R"([{"op": "add", "path": "/inputs/0/ignored", "value": -100},
              {"op": "replace", "path": "/inputs/1/dtype", "value": "f32"},
              {"op": "add", "path": "/inputs/2/range", "value": [5, 5]}])";
  auto with = [&](const std::vector<int64_t> &labels, const std::vector<float> &numbers) {
    writeNpy(ids, makeTensor<int64_t>(TPC_I64, {1, 2}, labels));
    writeNpy(mask, makeTensor<float>(TPC_F32, {1, 2}, numbers));
    return run({}, {"-i", "ids=" + ids, "-i", "mask=" + mask});
  };
  expectError(with({-100, 10}, {0, -INFINITY}), {"input 'positions' has 0 at [0, 0]"});
  expectError(with({-100, 11}, {0, 1}), {"input 'ids' has 11 at [0, 1]; valid are -11 to 10, the "
                                         "rows of 'table', and -100, which is ignored"});
  expectError(with({-100, -100}, {0, 1}),
              {"input 'ids': all 2 labels are ignored, so the batch has no loss"});
  expectError(with({1, 2}, {0, NAN}), {"input 'mask' has NaN at [0, 1]; the loss would be NaN"});
}

/// The program casts ids of other types.
TEST_F(BadInputTest, IdsOfAnyType) {
  std::string path = directory / "mask.npy";
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 2}, {1, 2}));
  auto with = [&](const Tensor &mask) {
    // If the mask is valid, the range check of 'positions' fails instead.
    patch = R"([{"op": "replace", "path": "/inputs/1", "value": {"name": "mask", "dtype": ")" +
            std::string(dtypeName(mask.dtype)) +
            R"(", "shape": [1, 2], "range": [-2, 1], "range_of": "table"}},
               {"op": "add", "path": "/inputs/2/range", "value": [5, 5]}])";
    writeNpy(path, mask);
    return run({}, {"-i", "ids=" + (directory / "ids.npy"), "-i", "mask=" + path});
  };
  std::vector<std::string> valid = {"input 'positions' has 0 at [0, 0]; valid are 5 to 5"};
  auto invalid = [](const std::string &value) {
    return std::vector<std::string>{"input 'mask' has " + value +
                                    " at [0, 1]; valid are -2 to 1, the rows of 'table'"};
  };
  expectError(with(makeTensor<uint8_t>(TPC_BOOL, {1, 2}, {0, 1})), valid);
  expectError(with(makeTensor<uint8_t>(TPC_U8, {1, 2}, {1, 255})), invalid("255"));
  expectError(with(makeTensor<int8_t>(TPC_I8, {1, 2}, {-2, 1})), valid);
  expectError(with(makeTensor<int8_t>(TPC_I8, {1, 2}, {-2, -3})), invalid("-3"));
  expectError(with(makeTensor<int16_t>(TPC_I16, {1, 2}, {0, 300})), invalid("300"));
  expectError(with(makeTensor<float>(TPC_F32, {1, 2}, {-2.5, 1.75})), valid);
  for (float value : {2.0f, -3.0f, NAN, INFINITY, 1e30f})
    expectError(with(makeTensor<float>(TPC_F32, {1, 2}, {0, value})),
                invalid(value == 1e30f      ? "1.00000002e+30"
                        : std::isnan(value) ? "nan"
                        : std::isinf(value) ? "inf"
                                            : std::to_string(static_cast<int>(value))));
  expectError(with(makeTensor<double>(TPC_F64, {1, 2}, {1.999, 2.5})), invalid("2.5"));
  expectError(with(makeTensor<uint16_t>(TPC_F16, {1, 2}, {0x3c00, 0x4000})), invalid("2"));
  expectError(with(makeTensor<uint16_t>(TPC_BF16, {1, 2}, {0x3f80, 0x4000})), invalid("2"));
  // Inputs that --bench generates are within the range.
  expectError(run({}, {"--bench", "--shape", "batch=1,sequence=2"}), valid);
}

TEST_F(BadInputTest, FilesWithoutANameMustBeUnambiguous) {
  std::string ids = directory / "ids.npy", out = directory / "out.npy";
  writeNpy(ids, makeTensor<int64_t>(TPC_I64, {1, 1}, {3}));
  expectError(run({}, {ids, "-i", "ids=" + ids}), {"'" + ids + "': that input is given twice"});
  patch = R"([{"op": "remove", "path": "/inputs/1/default"}])";
  expectError(run({}, {ids}), {"'" + ids +
                               "': input name missing: give --input NAME=FILE.npy (inputs: ids, "
                               "mask, positions)"});
  patch = R"([{"op": "replace", "path": "/inputs", "value": []}])";
  expectError(run({}, {ids}), {"'" + ids + "': the program takes no inputs"});
  expectError(run({}, {"-i", "ids=" + ids}),
              {"there is no input 'ids'; the program has no inputs"});
  patch = R"([{"op": "add", "path": "/outputs/-", "value":
               {"name": "more", "dtype": "f32", "shape": ["batch"]}}])";
  expectError(run({}, {ids, "-o", out}),
              {"--output " + out + ": output name missing: give --output NAME=FILE.npy"});
  for (std::string other : {out, directory / "./out.npy", directory / "no/../out.npy"})
    expectError(run({}, {ids, "-o", "logits=" + out, "-o", "more=" + other}),
                {"--output: two outputs are written to '" + other + "'"});
  // A relative path compared with an absolute one.
  expectError(
      runCommand({"sh", "-c",
                  "cd \"$1\" && exec \"$0\" ids.npy -o logits=\"$1/out.npy\" -o more=out.npy",
                  TPC_TEST_PROGRAM, directory.path.string()},
                 environmentOf({}), directory / "command"),
      {"--output: two outputs are written to 'out.npy'"});
}

TEST_F(BadInputTest, OutOfMemory) {
  // More than the address space.
  std::map<std::string, std::string> environment = environmentOf({});
  environment["ASAN_OPTIONS"] = "allocator_may_return_null=1:detect_leaks=0";
  environment["TSAN_OPTIONS"] = "allocator_may_return_null=1";
  expectError(
      runCommand({TPC_TEST_PROGRAM, "--bench", "--shape", "batch=100000000000000,sequence=8"},
                 environment, directory / "command"),
      {"out of memory: cannot allocate 6400000000000000 bytes"});
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers: they need more addresses than the limit";
#endif
#endif
  std::filesystem::resize_file(weights, int64_t(4) << 30); // sparse
  patch =
      R"([{"op": "remove", "path": "/files/0/digest"}, {"op": "remove", "path": "/files/0/bytes"},
              {"op": "replace", "path": "/parameters/0/bytes", "value": 4000000000}])";
  expectError(runCommand({"sh", "-c", "ulimit -v 2000000; exec \"$@\"", "sh", TPC_TEST_PROGRAM,
                          "--bench", "--shape", "batch=1,sequence=1"},
                         environmentOf({}), directory / "command"),
              {"cannot map weight file '" + weights + "': Cannot allocate memory"});
}

TEST_F(BadInputTest, ThreadsThatCannotBeStarted) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers: they need more addresses than the limit";
#endif
#endif
  // The stack of a thread exceeds the process's memory limit.
  auto bench = [&](const World &world) {
    return runCommand({"sh", "-c", "ulimit -s 4000000 && ulimit -v 3000000 && exec \"$@\"", "sh",
                       TPC_TEST_PROGRAM, "--bench", "--shape", "batch=1000,sequence=8",
                       "--threads-per-rank", "3", "--repeat=1"},
                      environmentOf(world), directory / "command");
  };
  expectError(bench({2, 1, 1}), {"rank 0: cannot start a thread for each of 2 ranks: Resource "
                                 "temporarily unavailable"});
  // Helper threads are not needed.
  Outcome alone = bench({});
  EXPECT_EQ(alone.status, 0) << alone.err;
}

TEST_F(BadInputTest, ManifestOfAnotherProgram) {
  patch = R"([{"op": "replace", "path": "/grid/sizes/pp", "value": 2}])";
  expectError(run({}, {"--describe"}), {"the program's manifest is damaged: it has 2 stages, the "
                                        "program 1; compile the program again"});
}

TEST_F(BadInputTest, BadInputUnderMpiGivesOneMessage) {
  ASSERT_NE(std::string(TPC_MPIEXEC), "") << "MPI was not found when the build was configured";
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {50}));
  expectError(run({2, 1, 2, 1, true}, {directory / "ids.npy"}), {"'ids' has 50"});
  expectError(run({2, 1, 1, 1, true}, {"--nonsense"}), {"unknown flag '--nonsense'"});
  writeNpy(directory / "ids.npy", makeTensor<int64_t>(TPC_I64, {1, 1}, {5}));
  expectError(
      run({2, 1, 2, 1, true}, {directory / "ids.npy"}, 3),
      {"compiled for 4 ranks", "3 were started", "mpirun --oversubscribe --bind-to none -n 4"});
}

TEST_F(BadInputTest, ReportsProcessesWithOtherInputs) {
  ASSERT_NE(std::string(TPC_MPIEXEC), "") << "MPI was not found when the build was configured";
  // The same path is a different file for each process, as on different hosts.
  writeNpy(directory / "ids0.npy", makeTensor<int64_t>(TPC_I64, {1, 2}, {5, 6}));
  writeNpy(directory / "ids1.npy", makeTensor<int64_t>(TPC_I64, {1, 2}, {5, 7}));
  writeText(directory / "each",
            "#!/bin/sh\nexec " TPC_TEST_PROGRAM " \"$1/ids$OMPI_COMM_WORLD_RANK.npy\"\n");
  std::filesystem::permissions(directory / "each", std::filesystem::perms::owner_all);
  Outcome outcome = runCommand({TPC_MPIEXEC, "--oversubscribe", "--bind-to", "none", "-n", "2",
                                directory / "each", directory.path.string()},
                               environmentOf({2, 1, 1, 1, true}), directory / "command");
  expectError(outcome, {"rank 1 read other inputs than rank 0"});
}

TEST_F(BadInputTest, BadCommandLines) {
  expectError(run({}, {"--frobnicate"}), {"unknown flag '--frobnicate'", "--help"});
  expectError(run({}, {"--input"}), {"--input needs a value; see " TPC_TEST_PROGRAM " --help"});
  expectError(run({}, {"--input", "--output", "x.npy"}), {"--input needs a value"});
  expectError(run({}, {"--input", "=x.npy"}), {"--input =x.npy: expected NAME=FILE.npy"});
  expectError(run({}, {"--weights="}), {"--weights=: expected a file, a directory or random:SEED"});
  for (const char *flag : {"--weights", "--repeat", "--warmup", "--threads-per-rank", "--timeout"})
    expectError(run({}, {"--bench", flag, "1", flag, "2"}),
                {std::string(flag) + " is given twice"});
  expectError(run({}, {"-o", "x.npy", "-o", "y.npy"}),
              {"--output without a name is given twice; write --output NAME=FILE.npy"});
  for (const char *second : {"logits=y.npy", "y.npy"})
    expectError(run({}, {"x.npy", "-o", "logits=x.npy", "-o", second}),
                {"--output: 'logits' is given twice"});
  expectError(run({}, {"--verbose=2", "x.npy"}), {"--verbose takes no value"});
  expectError(run({}, {"--json", "x.npy"}), {"--json requires --describe"});
  expectError(run({}, {"--describe", "x.npy"}),
              {"--describe runs nothing; leave out --input and --output"});
  expectError(run({}, {"--describe", "--bench"}),
              {"--bench, --describe and --describe-device exclude each other: give one"});
  expectError(run({}, {"--bench", "-o", "x.npy"}),
              {"--bench saves no outputs; leave out --output"});
  expectError(run({}, {"--bench", "x.npy"}), {"cannot open 'x.npy'"});
  for (const char *shape : {"", "batch", "batch=1,", "=1", "batch=1,,sequence=2"})
    expectError(
        run({}, {"--bench", "--shape", shape}),
        {std::string("--shape ") + shape + ": expected NAME=SIZE,…, such as batch=1,sequence=128"});
  expectError(run({}, {"--bench", "--shape", "batch=1,batch=1"}),
              {"--shape: 'batch' is given twice"});
  expectError(run({}, {"--bench"}),
              {"no size is known for 'batch', 'sequence'", "--shape batch=N,sequence=N"});
  expectError(run({}, {"--bench", "--shape", "batch=1,sequence=x"}),
              {"--shape sequence x: expected an integer"});
  expectError(run({}, {"--bench", "--shape", "batch=1,sequence=2,heads=3"}),
              {"no size 'heads'", "'batch', 'sequence'"});
  expectError(run({}, {"--bench", "--shape", "batch=1,sequence=9"}), {"at most 8"});
  expectError(run({}, {"--bench", "--shape", "batch=9223372036854775807,sequence=8"}),
              {"too large"});
  expectError(run({}, {"--bench", "--threads-per-rank", "0"}), {"--threads-per-rank 0"});
  expectError(run({}, {"--bench", "--timeout", "-1"}),
              {"--timeout -1: expected an integer from 0"});
  expectError(run({}, {"-o", "x=y", "-i", "ids=a"}), {"no output 'x'", "'logits'"});
  for (const char *invalid : {"TPC_TRANSPORT", "TPC_CPU", "TPC_TIMEOUT"}) {
    std::map<std::string, std::string> environment = environmentOf({});
    environment[invalid] = "mpi8";
    expectError(runCommand({TPC_TEST_PROGRAM, "--describe"}, environment, directory / "command"),
                {std::string(invalid) + "=mpi8: "});
  }
  Outcome help = run({2, 1, 2}, {"--help"});
  EXPECT_EQ(help.status, 0);
  for (const char *part : {"--input ids=ids.npy", "mpirun --oversubscribe --bind-to none -n 4",
                           "--weights=random:SEED"})
    EXPECT_NE(help.out.find(part), std::string::npos) << part;
}

} // namespace
