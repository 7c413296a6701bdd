//===- ServiceTest.cpp - Tests of the generation service in a process -----===//

#include "ToyTest.h"
#include "generate/ServiceLines.h"
#include <atomic>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

using namespace tpc::rt;
using namespace tpc::rt::toy;

namespace {

using nlohmann::json;
using Ids = std::vector<int64_t>;
using Way = Ranks::Way;

std::vector<std::string> serve(const std::string &more = "--max-batch=4") {
  return {"--serve-stdin", "--max-sequence=40", "--prefill-chunk=4", more};
}

std::string lineOf(const GenerationRequest &request) {
  json line = {{"id", request.id},
               {"ids", request.ids},
               {"max_new_tokens", request.maxNewTokens},
               {"temperature", request.sampling.temperature},
               {"top_k", request.sampling.topK},
               {"top_p", request.sampling.topP},
               {"seed", request.sampling.seed},
               {"repetition_penalty", request.sampling.repetitionPenalty},
               {"stop_ids", request.stopIds}};
  return line.dump() + "\n";
}

GenerationRequest requestOf(const std::string &id, Ids ids, int64_t tokens = 5,
                            SamplingSettings sampling = {}) {
  GenerationRequest request;
  request.id = id;
  request.ids = std::move(ids);
  request.maxNewTokens = tokens;
  request.sampling = sampling;
  return request;
}

/// Tokens of a request, and its finish reason.
struct RequestOutput {
  Ids tokens;
  std::string finish, message;
};

std::map<std::string, RequestOutput> parse(const std::string &out,
                                           std::vector<std::string> *others = nullptr) {
  std::map<std::string, RequestOutput> outputs;
  std::istringstream lines(out);
  for (std::string text; std::getline(lines, text);) {
    json line = json::parse(text);
    if (line["id"].is_null()) {
      EXPECT_EQ(line["finish"], "error");
      if (others)
        others->push_back(line["message"]);
      continue;
    }
    RequestOutput &output = outputs[line["id"].get<std::string>()];
    EXPECT_EQ(output.finish, "") << "a line after the end: " << text;
    if (line.contains("finish")) {
      output.finish = line["finish"];
      output.message = line.value("message", "");
    } else {
      EXPECT_EQ(line["index"], output.tokens.size());
      output.tokens.push_back(line["token"]);
    }
  }
  return outputs;
}

std::vector<GenerationRequest> manyRequests() {
  std::vector<GenerationRequest> requests;
  for (int i = 0; i < 12; ++i) {
    Ids ids;
    for (int j = 0; j <= i * 5 % 13; ++j)
      ids.push_back((i * 37 + j * 11) % 60);
    SamplingSettings sampling = {i % 2 ? 1.0f : 1.25f, i % 3 ? 0.75f : 0.0f, i % 4 ? 0 : 9,
                                 i % 5 ? 1 : 0.875, static_cast<uint64_t>(i)};
    requests.push_back(requestOf("r" + std::to_string(i), ids, 1 + i * 3 % 14, sampling));
    requests.back().stopIds = {20, 21, 22};
  }
  return requests;
}

TEST(Service, RequestsAreIndependent) {
  std::vector<GenerationRequest> requests = manyRequests();
  std::string input;
  for (const GenerationRequest &request : requests)
    input += lineOf(request);
  for (const Ranks &grid : {Ranks{1, 1, 1, 1}, Ranks{2, 1, 1, 1}, Ranks{1, 1, 2, 1},
                            Ranks{2, 2, 2, 2}, Ranks{1, 1, 3, 1}, Ranks{2, 1, 2, 1, Way::Tcp},
                            Ranks{2, 1, 1, 1, Way::Mpi}, Ranks{1, 1, 3, 1, Way::Mpi}}) {
    for (const char *slots : {"--max-batch=1", "--max-batch=5"}) {
      if (grid.way == Way::Mpi && std::string(TPC_MPIEXEC).empty())
        continue;
      Outcome outcome = runToy(grid, serve(slots), input);
      EXPECT_EQ(outcome.status, 0) << grid.text() << outcome.err;
      auto outputs = parse(outcome.out);
      for (const GenerationRequest &request : requests) {
        Ids expected = expectedTokens(request, 40);
        EXPECT_EQ(outputs[request.id].tokens, expected) << grid.text() << " " << request.id;
        bool stopped = expected.back() >= 20 && expected.back() <= 22;
        EXPECT_EQ(outputs[request.id].finish, stopped ? "stop" : "length");
      }
    }
  }
}

TEST(Service, TokensAreStreamed) {
  for (const Ranks &grid : {Ranks{1, 1, 1, 1}, Ranks{2, 1, 2, 1}, Ranks{1, 1, 2, 1, Way::Tcp}}) {
    Process process(grid, serve());
    for (const char *id : {"a", "b"}) { // the service is idle between the two
      GenerationRequest request = requestOf(id, {1, 2, 3}, 3);
      process.write(lineOf(request));
      Ids expected = expectedTokens(request, 40);
      for (int64_t i = 0; i < 3; ++i)
        EXPECT_EQ(process.readLine() + "\n", tokenLine(id, expected[static_cast<size_t>(i)], i));
      EXPECT_EQ(process.readLine(), "{\"id\":\"" + std::string(id) + "\",\"finish\":\"length\"}");
    }
    Outcome outcome = process.wait();
    EXPECT_EQ(outcome.status, 0) << outcome.err;
    EXPECT_EQ(outcome.out, "");
    EXPECT_EQ(outcome.err, "");
  }
}

TEST(Service, RequestsAreCancelled) {
  Process process({2, 1, 1, 1}, {"--serve-stdin", "--max-sequence=100000"});
  GenerationRequest endless = requestOf("a", {1, 2, 3}, 90000), waits = requestOf("b", {4}, 3);
  process.write(lineOf(endless) + lineOf(waits));
  for (int i = 0; i < 3; ++i)
    process.readLine();
  process.write(R"({"cancel":"b"})"
                "\n");
  std::string line;
  while ((line = process.readLine()).find("\"b\"") == std::string::npos && !line.empty())
    ;
  EXPECT_EQ(line, R"({"id":"b","finish":"cancelled"})");
  process.write(R"({"cancel":"a"})"
                "\n");
  while ((line = process.readLine()).find("finish") == std::string::npos && !line.empty())
    ;
  EXPECT_EQ(line, R"({"id":"a","finish":"cancelled"})");
  // Another request reuses the slot, without state of the previous one.
  GenerationRequest next = requestOf("c", {4, 5}, 2);
  process.write(lineOf(next));
  process.closeInput();
  Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(parse(outcome.out)["c"].tokens, expectedTokens(next, 100000));
}

/// Requests arrive faster than they are answered: reading pauses at the queue limit, and no request
/// is lost.
TEST(Service, ReadingPausesAtTheQueueLimit) {
  Process process({1, 1, 1, 1}, {"--serve-stdin", "--max-sequence=20000", "--max-batch=1"});
  process.write(lineOf(requestOf("first", {1}, 12000)));
  constexpr int count = 45; // two megabytes each; reading pauses above 64 MiB
  const std::string rest = lineOf(requestOf("", {2, 3}, 1)).substr(1);
  const std::string spaces(size_t(2) << 20, ' ');
  std::atomic<int> written = 0;
  std::thread writer([&] {
    for (; written < count; ++written) {
      std::string line = rest;
      line.replace(line.find(R"("id":"")"), 7, R"("id":")" + std::to_string(written) + '"');
      process.write("{" + spaces + line);
    }
    process.closeInput();
  });
  int ended = 0, early = 0;
  for (std::string line; !(line = process.readLine()).empty();) {
    bool isEnd = line.find("finish") != std::string::npos;
    if (isEnd && ended++ == 0)
      early = written;
  }
  writer.join();
  EXPECT_LT(early, 40);
  EXPECT_EQ(ended, count + 1);
  EXPECT_EQ(process.wait().status, 0);
}

TEST(Service, InvalidRequestsDoNotAffectOthers) {
  std::string input = "this is no JSON\n"
                      R"({"id":"a","ids":[1,2],"max_new_tokens":4})"
                      "\n"
                      R"({"id":"b","ids":[]})"
                      "\n"
                      R"({"id":"c","ids":[1,101]})"
                      "\n"
                      R"({"id":"d","ids":[1],"max_tokens":3})"
                      "\n"
                      R"({"id":"e","ids":[1],"temperature":-1})"
                      "\n"
                      R"({"id":"f","ids":["x"]})"
                      "\n"
                      R"({"ids":[1]})"
                      "\n"
                      R"({"id":"a","ids":[1]})"
                      "\n"
                      R"({"cancel":"z"})"
                      "\n"
                      R"({"id":"g","ids":[1,66],"max_new_tokens":4})"
                      "\n"
                      R"({"id":"h","ids":[)" +
                      joined(Ids(41, 1), ",") +
                      "]}\n"
                      R"({"id":"i","ids":[7],"max_new_tokens":2})"; // no newline
  Outcome outcome = runToy({2, 1, 1, 1}, serve("--max-batch=1"), input);
  EXPECT_EQ(outcome.status, 0) << outcome.err;
  EXPECT_EQ(outcome.err, "");
  std::vector<std::string> others;
  auto outputs = parse(outcome.out, &others);
  EXPECT_EQ(outputs["a"].tokens, expectedTokens(requestOf("a", {1, 2}, 4), 40));
  EXPECT_EQ(outputs["a"].finish, "length");
  for (auto [id, message] : {std::pair{"b", "the prompt is empty"},
                             {"c", "token 101 at 1 of the prompt: valid are 0 to 100"},
                             {"d", "there is no field 'max_tokens'"},
                             {"e", "temperature -1"},
                             {"f", "'ids': expected an integer"},
                             {"g", "NaN after 2 tokens"},
                             {"h", "the prompt has 41 tokens; the maximum is 40"}}) {
    EXPECT_EQ(outputs[id].finish, "error") << id;
    EXPECT_TRUE(outputs[id].tokens.empty());
    EXPECT_NE(outputs[id].message.find(message), std::string::npos) << outputs[id].message;
  }
  EXPECT_EQ(outputs["i"].tokens, expectedTokens(requestOf("i", {7}, 2), 40));
  ASSERT_EQ(others.size(), 4u);
  EXPECT_NE(others[0].find("not JSON"), std::string::npos);
  EXPECT_NE(others[1].find("has no 'id'"), std::string::npos);
  EXPECT_NE(others[2].find("a request 'a' is already running or waiting"), std::string::npos);
  EXPECT_NE(others[3].find("no request 'z'"), std::string::npos);
}

TEST(Service, AClosedOutputIsAnError) {
  for (const Ranks &grid : {Ranks{2, 1, 1, 1}, Ranks{1, 1, 2, 1, Way::Tcp}}) {
    Process process(grid, {"--serve-stdin", "--max-sequence=100000"});
    process.write(lineOf(requestOf("a", {1}, 90000)));
    EXPECT_NE(process.readLine(), "");
    process.closeOutput();
    Outcome outcome = process.wait();
    EXPECT_EQ(outcome.status, 1);
    EXPECT_NE(outcome.err.find("the client is gone"), std::string::npos) << outcome.err;
  }
  // The service detects a closed output even while it has no output to write.
  Process process({2, 1, 1, 1}, serve());
  process.write(lineOf(requestOf("a", {1}, 1)));
  process.readLine();
  process.readLine();
  process.closeOutput();
  usleep(100000);
  Outcome outcome = process.wait();
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.err.find("the client is gone"), std::string::npos) << outcome.err;
}

int64_t residentKilobytes(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/status");
  std::string word;
  int64_t number = 0;
  while (file >> word)
    if (word == "VmRSS:" && file >> number)
      return number;
  return -1;
}

/// Runs ten thousand steps, in sequences that reuse the same slots.
TEST(Service, MemoryDoesNotGrow) {
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
  GTEST_SKIP() << "sanitizers: they keep freed memory";
#endif
#endif
  Process process({2, 1, 2, 1}, {"--serve-stdin", "--max-sequence=900", "--max-batch=2"});
  int64_t early = 0;
  for (int i = 0; i < 12; ++i) {
    std::string id = std::to_string(i);
    process.write(lineOf(requestOf(id, {i, 2}, 890, {1, 1, 0, 1, 5})));
    std::string line;
    while ((line = process.readLine()).find("finish") == std::string::npos && !line.empty())
      ;
    EXPECT_EQ(line, R"({"id":")" + id + R"(","finish":"length"})");
    if (i == 1)
      early = residentKilobytes(process.id());
  }
  int64_t late = residentKilobytes(process.id());
  EXPECT_GT(early, 0);
  EXPECT_LT(late - early, 1024) << early << " KiB, then " << late;
  EXPECT_EQ(process.wait().status, 0);
}

/// Requests with equal seeds draw the same; requests without a seed draw independently.
TEST(Service, SeedsDetermineDraws) {
  std::string input;
  for (const char *request :
       {R"({"id":"a","ids":[1,2],"max_new_tokens":9,"temperature":1,"seed":5})",
        R"({"id":"b","ids":[1,2],"max_new_tokens":9,"temperature":1,"seed":5})",
        R"({"id":"c","ids":[1,2],"max_new_tokens":9,"temperature":1})",
        R"({"id":"d","ids":[1,2],"max_new_tokens":9,"temperature":1})"})
    input += std::string(request) + "\n";
  auto outputs = parse(runToy({}, serve(), input).out);
  EXPECT_EQ(outputs["a"].tokens, outputs["b"].tokens);
  EXPECT_NE(outputs["c"].tokens, outputs["d"].tokens);
  EXPECT_EQ(
      joined(outputs["a"].tokens, " ") + "\n",
      runToy({}, {"--prompt-ids=1,2", "--max-new-tokens=9", "--temperature=1", "--seed=5"}).out);
  auto again = parse(runToy({2, 1, 2, 1}, serve("--max-batch=2"), input).out);
  for (const char *id : {"a", "b", "c", "d"})
    EXPECT_EQ(again[id].tokens, outputs[id].tokens);
}

} // namespace
