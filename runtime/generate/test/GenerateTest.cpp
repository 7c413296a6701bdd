//===- GenerateTest.cpp - Prompts of the command line, in processes -------===//

#include "ToyTest.h"
#include "program/Npy.h"
#include <cstring>
#include <fstream>

using namespace tpc::rt;
using namespace tpc::rt::toy;

namespace {

using Ids = std::vector<int64_t>;
using Way = Ranks::Way;

const std::vector<Ranks> grids = {{1, 1, 1, 1}, {2, 1, 1, 1}, {7, 1, 1, 1}, {1, 1, 2, 1},
                                  {1, 1, 4, 1}, {1, 2, 1, 1}, {2, 1, 2, 2}, {2, 2, 2, 3},
                                  {1, 1, 1, 3}, {1, 3, 1, 2}, {3, 1, 3, 1}};

std::vector<std::string> argumentsOf(const std::vector<GenerationRequest> &requests) {
  std::vector<std::string> arguments;
  for (const GenerationRequest &request : requests)
    arguments.insert(arguments.end(), {"--prompt-ids", joined(request.ids, ",")});
  const GenerationRequest &first = requests[0];
  const SamplingSettings &sampling = first.sampling;
  arguments.push_back("--max-new-tokens=" + std::to_string(first.maxNewTokens));
  arguments.push_back("--temperature=" + std::to_string(sampling.temperature));
  arguments.push_back("--top-k=" + std::to_string(sampling.topK));
  arguments.push_back("--top-p=" + std::to_string(sampling.topP));
  arguments.push_back("--seed=" + std::to_string(sampling.seed));
  arguments.push_back("--repetition-penalty=" + std::to_string(sampling.repetitionPenalty));
  if (!first.stopIds.empty())
    arguments.push_back("--stop-ids=" + joined(first.stopIds, ","));
  return arguments;
}

std::vector<GenerationRequest> requestsOf(const std::vector<Ids> &prompts,
                                          const SamplingSettings &sampling, int64_t tokens) {
  std::vector<GenerationRequest> requests;
  for (const Ids &ids : prompts) {
    requests.emplace_back();
    requests.back().ids = ids;
    requests.back().maxNewTokens = tokens;
    requests.back().sampling = sampling;
    requests.back().stopIds = {50, 51};
    requests.back().stream = requests.size() - 1;
  }
  return requests;
}

std::string expectedLines(const std::vector<GenerationRequest> &requests,
                          int64_t capacity = 1 << 20) {
  std::string text;
  for (const GenerationRequest &request : requests)
    text += joined(expectedTokens(request, capacity), " ") + "\n";
  return text;
}

const std::vector<Ids> prompts = {
    {12, 7, 99, 3, 3}, {1}, {5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}, {100, 0}};

TEST(Generate, AllGridsPrintTheSame) {
  for (const SamplingSettings &sampling :
       {SamplingSettings{}, {1, 1, 0, 1, 3}, {1.3f, 0.75f, 20, 0.875, 4}, {1, 2, 0, 0.9375, 5}}) {
    auto requests = requestsOf(prompts, sampling, 12);
    std::string expected = expectedLines(requests);
    for (const Ranks &grid : grids)
      for (const char *chunk : {"--prefill-chunk=3", "--prefill-chunk=100"}) {
        auto arguments = argumentsOf(requests);
        arguments.push_back(chunk);
        Outcome outcome = runToy(grid, arguments);
        EXPECT_EQ(outcome.status, 0) << grid.text();
        EXPECT_EQ(outcome.out, expected) << grid.text() << " " << chunk << "\n" << outcome.err;
        EXPECT_EQ(outcome.err, "") << grid.text();
      }
  }
}

TEST(Generate, ProcessesPrintTheSame) {
  auto requests = requestsOf(prompts, {1.2f, 0.75f, 0, 0.9375, 3}, 9);
  std::string expected = expectedLines(requests);
  for (Way way : {Way::Mpi, Way::Tcp}) {
    if (way == Way::Mpi && std::string(TPC_MPIEXEC).empty())
      continue;
    for (const Ranks &grid : {Ranks{2, 1, 1, 1, way}, Ranks{2, 1, 2, 1, way},
                              Ranks{1, 2, 1, 2, way}, Ranks{1, 1, 3, 1, way}}) {
      Outcome outcome = runToy(grid, argumentsOf(requests));
      EXPECT_EQ(outcome.status, 0) << grid.text() << outcome.err;
      EXPECT_EQ(outcome.out, expected) << grid.text() << outcome.err;
    }
  }
}

/// Messages of several groups exceed every buffer, so a send blocks until it is received.
TEST(Generate, StagesDoNotDeadlock) {
  std::vector<Ids> longOnes;
  for (int64_t i = 0; i < 5; ++i)
    longOnes.push_back(Ids(static_cast<size_t>(300 + 40 * i), i));
  auto requests = requestsOf(longOnes, {1, 1, 0, 1, 3}, 6);
  std::string expected = expectedLines(requests);
  for (Way way : {Way::Threads, Way::Tcp, Way::Mpi})
    for (int pp : {2, 3}) {
      if (way == Way::Mpi && std::string(TPC_MPIEXEC).empty())
        continue;
      Ranks grid{1, 1, pp, 1, way};
      grid.wide = 1500; // 3 MB for 256 tokens
      auto arguments = argumentsOf(requests);
      arguments.push_back("--prefill-chunk=256");
      Outcome outcome = runToy(grid, arguments);
      EXPECT_EQ(outcome.status, 0) << grid.text() << outcome.err;
      EXPECT_EQ(outcome.out, expected) << grid.text();
    }
}

TEST(Generate, PromptsComeFromFiles) {
  std::string folder = (std::filesystem::temp_directory_path() / "tpc-prompts-XXXXXX").string();
  folder = mkdtemp(folder.data());
  auto requests = requestsOf({{1, 2, 3}, {4, 5, 6}}, {}, 4);
  std::string expected = expectedLines(requests);
  std::ofstream(folder + "/two.json") << "[[1, 2, 3], [4, 5, 6]]";
  std::ofstream(folder + "/one.json") << "[1,2,3]";
  std::ofstream(folder + "/bad.json") << "[1, \"2\"]";
  Tensor tensor;
  tensor.dtype = TPC_I32;
  tensor.shape = {2, 3};
  tensor.data = Buffer(24);
  for (int32_t i = 0; i < 6; ++i)
    tensor.as<int32_t>()[i] = i + 1;
  writeNpy(folder + "/two.npy", tensor);
  std::vector<std::string> rest = {"--max-new-tokens=4", "--stop-ids=50,51"};
  auto run = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), rest.begin(), rest.end());
    return runToy({}, arguments);
  };
  EXPECT_EQ(run({"--prompt-ids", folder + "/two.json"}).out, expected);
  EXPECT_EQ(run({"--prompt-ids", folder + "/two.npy"}).out, expected);
  EXPECT_EQ(run({"--prompt-ids=" + folder + "/one.json", "--prompt-ids=4,5,6"}).out, expected);
  expectError(run({"--prompt-ids", folder + "/bad.json"}),
              {"bad.json", "expected ids, found \"2\""});
  expectError(run({"--prompt-ids", folder + "/none.json"}), {"none.json"});
  expectError(run({"--prompt-ids", "1,,2"}), {"--prompt-ids 1,,2: expected ids, such as 12,7,99"});
  std::filesystem::remove_all(folder);
}

TEST(Generate, LogitsAreSaved) {
  std::string file = (std::filesystem::temp_directory_path() / "tpc-logits-XXXXXX").string();
  close(mkstemp(file.data()));
  Ids ids = {3, 1, 4, 1, 5, 9, 2, 6};
  auto requests = requestsOf({ids}, {}, 4);
  Ids made = expectedTokens(requests[0], 100), all = ids;
  all.insert(all.end(), made.begin(), made.end());
  for (bool allTokens : {false, true})
    for (const Ranks &grid :
         {Ranks{1, 1, 1, 1}, Ranks{3, 1, 2, 1}, Ranks{2, 2, 1, 1}, Ranks{2, 1, 2, 1, Way::Tcp}}) {
      Ranks run = grid;
      run.allTokens = allTokens;
      auto arguments = argumentsOf(requests);
      arguments.insert(arguments.end(), {"--logits", file, "--prefill-chunk=3"});
      Outcome outcome = runToy(run, arguments);
      ASSERT_EQ(outcome.status, 0) << outcome.err;
      EXPECT_EQ(outcome.out, joined(made, " ") + "\n");
      Tensor logits = readNpy(file);
      size_t first = allTokens ? 1 : ids.size();
      ASSERT_EQ(logits.shape, (Shape{std::ssize(all) - static_cast<int64_t>(first), vocabulary}));
      for (size_t count = first; count < all.size(); ++count) {
        auto wanted = logitsOf(Ids(all.begin(), all.begin() + static_cast<int64_t>(count)));
        EXPECT_EQ(std::memcmp(logits.as<float>() + (count - first) * vocabulary, wanted.data(),
                              wanted.size() * sizeof(float)),
                  0)
            << grid.text() << " after " << count << " tokens";
      }
    }
  std::filesystem::remove(file);
}

TEST(Generate, LogitsOverwriteNothingThatIsRead) {
  std::string file = (std::filesystem::temp_directory_path() / "tpc-ids-XXXXXX.json").string();
  close(mkstemps(file.data(), 5));
  std::ofstream(file) << "[1, 2]";
  expectError(runToy({2, 1, 1, 1}, {"--prompt-ids", file, "--logits", file}),
              {"output '--logits' would overwrite input '--prompt-ids'"});
  expectError(runToy({2, 1, 1, 1}, {"--prompt-ids=1", "--logits", TPC_TEST_PROGRAM}),
              {"would overwrite the program itself"});
  std::filesystem::remove(file);
}

TEST(Generate, StepsAreMeasured) {
  Outcome outcome =
      runToy({2, 1, 2, 1}, {"--bench", "--shape", "batch=2,sequence=1,capacity=50", "--repeat=2"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("\"tokens\": 2"), std::string::npos) << outcome.out;
}

TEST(Generate, SequencesEndWhereTheModelDoes) {
  auto requests = requestsOf({{1, 2, 3, 4, 5}}, {1, 1, 0, 1, 1}, 64);
  requests[0].stopIds = {};
  Ranks run{2, 1, 1, 1};
  run.maxSequence = 8;
  EXPECT_EQ(runToy(run, argumentsOf(requests)).out, expectedLines(requests, 8));
  auto arguments = argumentsOf(requests);
  arguments.push_back("--max-sequence=5");
  EXPECT_EQ(runToy(run, arguments).out, expectedLines(requests, 5));
  arguments.back() = "--max-sequence=4";
  expectError(runToy(run, arguments), {"the prompt has 5 tokens; the maximum is 4"});
  arguments.back() = "--max-sequence=9";
  expectError(runToy(run, arguments),
              {"--max-sequence 9: the model is made for sequences of 8 tokens at most"});
}

TEST(Generate, PromptsBeyondTheBatchWait) {
  std::vector<std::string> arguments = {"--prompt-ids", "1,2",   "--prompt-ids",      "7",
                                        "--prompt-ids", "3,4,5", "--max-new-tokens=3"};
  Ranks run = {2, 1, 1, 1};
  Outcome together = runToy(run, arguments);
  EXPECT_EQ(together.status, 0) << together.err;
  for (const char *slots : {"--max-batch=1", "--max-batch=2"}) {
    std::vector<std::string> more = arguments;
    more.push_back(slots);
    Outcome queued = runToy(run, more);
    EXPECT_EQ(queued.status, 0) << queued.err;
    EXPECT_EQ(queued.out, together.out) << slots;
  }
}

TEST(Generate, ErrorsNameTheirCause) {
  auto error = [](std::vector<std::string> arguments, const std::vector<std::string> &parts,
                  const Ranks &run = {2, 1, 1, 1}) { expectError(runToy(run, arguments), parts); };
  error({}, {"Give --prompt-ids 12,7,99 or --serve-stdin"});
  error({"--prompt-ids="}, {"the prompt is empty"});
  error({"--prompt-ids", "1,101"}, {"token 101 at 1 of the prompt: valid are 0 to 100"});
  error({"--prompt-ids", "1,-1"}, {"token -1 at 1"});
  error({"--prompt-ids", "1", "--prompt-ids", "101"}, {"prompt 1: token 101 at 0"});
  error({"--prompt-ids", "1", "--top-p", "1.5"},
        {"--top-p 1.5: expected a number above 0, at most 1"});
  error({"--prompt-ids", "1", "--temperature", "nan"}, {"--temperature nan: expected 0"});
  error({"--prompt-ids", "1", "--temperature=-1"}, {"--temperature -1"});
  for (const char *large : {"1e39", "1e308", "1e400"}) {
    error({"--prompt-ids", "1", "--temperature", large}, {std::string("--temperature ") + large});
    error({"--prompt-ids", "1", "--repetition-penalty", large},
          {std::string("--repetition-penalty ") + large});
  }
  error({"--prompt-ids", "1", "--top-k", "x"}, {"--top-k x"});
  error({"--prompt-ids", "1", "--seed", "1.5"}, {"--seed 1.5: expected an integer"});
  error({"--prompt-ids", "1", "--stop-ids", "a"}, {"--stop-ids a: expected ids"});
  error({"--prompt-ids", "1", "--stop-ids", "101"}, {"stop id 101: valid are 0 to 100"});
  error({"--prompt-ids", "1", "--repetition-penalty", "0"}, {"--repetition-penalty 0"});
  error({"--prompt-ids", "1", "--prefill-chunk", "0"},
        {"--prefill-chunk 0: expected a positive integer"});
  error({"--prompt-ids", "1", "--prompt-ids", "2", "--logits", "x.npy"},
        {"--logits needs exactly one prompt"});
  error({"--prompt-ids", "1", "--serve-stdin"}, {"leave out --prompt-ids"});
  error({"--serve-stdin=x"}, {"--serve-stdin takes no value"});
  error({"--prompt-ids", "1", "--input", "ids=x.npy"}, {"--input: this program generates"});
  error({"--prompt-ids", "1", "--output", "logits=x.npy"}, {"--output: this program generates"});
  error({"--serve-stdin"}, {"--max-sequence N is needed"});
  error({"--prompt-ids", "1,66,2", "--max-new-tokens", "3"},
        {"the model's logits are NaN after 3 tokens, first for token 7"}, {2, 1, 2, 1});
}

/// Each output line is complete or absent.
TEST(Generate, AKilledRankEndsAll) {
  Ranks run{1, 1, 2, 1, Way::Tcp};
  run.diesAt = 20;
  Outcome outcome = runToy(run, {"--prompt-ids=1,2", "--max-new-tokens=1000"});
  EXPECT_NE(outcome.status, 0);
  EXPECT_NE(outcome.err.find("rank 1"), std::string::npos) << outcome.err;
  GenerationRequest request;
  request.ids = {1, 2};
  request.maxNewTokens = 1000;
  std::string whole = joined(expectedTokens(request, 1100), " ");
  EXPECT_GT(outcome.out.size(), 10u);
  EXPECT_EQ(whole.substr(0, outcome.out.size()), outcome.out);
  EXPECT_EQ(whole[outcome.out.size()], ' ') << "a truncated token";
}

TEST(Generate, MemoryIsPlanned) {
  Outcome outcome = runToy({2, 1, 2, 1}, {"--describe", "--max-sequence=100", "--max-batch=3"});
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_NE(outcome.out.find("Memory for 3 sequences of at most 100 tokens, prompts by 100\n"
                             "ranks 0 1 2 3: weights 0.0 MiB, caches 0.0 MiB, a step 0."),
            std::string::npos)
      << outcome.out;
  EXPECT_EQ(runToy({}, {"--describe"}).out.find("Memory for"), std::string::npos);
  outcome = runToy({2, 1, 1, 1}, {"--prompt-ids=1,2", "--max-new-tokens=3", "--verbose"});
  EXPECT_EQ(
      outcome.err.find("Memory for 1 sequence of at most 5 tokens, prompts by 5\nranks 0 1: "), 0u)
      << outcome.err;
}

TEST(Generate, HelpListsFlags) {
  Outcome outcome = runToy({}, {"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const char *part :
       {"--prompt-ids 12,7,99 --max-new-tokens 64", "--serve-stdin", "--temperature X",
        "--top-k K, --top-p P", "--repetition-penalty X", "--seed N", "--stop-ids ID",
        "--max-sequence N", "--prefill-chunk N", "--max-batch N", "--logits FILE.npy",
        "\"finish\":\"stop|length|cancelled|error\""})
    EXPECT_NE(outcome.out.find(part), std::string::npos) << part;
  EXPECT_EQ(outcome.out.find("--batch-of"), std::string::npos);
}

} // namespace
