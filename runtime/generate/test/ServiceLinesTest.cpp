//===- ServiceLinesTest.cpp - Tests of valid and invalid client requests --===//

#include "generate/ServiceLines.h"
#include <cmath>
#include <gtest/gtest.h>

using namespace tpc::rt;

namespace {

TEST(ServiceLines, ParsesAllFields) {
  ClientLine line = parseClientLine(
      R"({"id":"a","ids":[12,7,99],"max_new_tokens":3,"temperature":0.8,"top_k":40,"top_p":0.95,)"
      R"("seed":1,"repetition_penalty":1.1,"stop_ids":[2]})",
      {});
  ASSERT_TRUE(line.request) << line.problem;
  EXPECT_EQ(line.request->id, "a");
  EXPECT_EQ(line.request->ids, (std::vector<int64_t>{12, 7, 99}));
  EXPECT_EQ(line.request->maxNewTokens, 3);
  EXPECT_EQ(line.request->sampling.temperature, 0.8f);
  EXPECT_EQ(line.request->sampling.topK, 40);
  EXPECT_EQ(line.request->sampling.topP, 0.95);
  EXPECT_EQ(line.request->sampling.seed, 1u);
  EXPECT_TRUE(line.hasSeed);
  EXPECT_EQ(line.request->sampling.repetitionPenalty, 1.1f);
  EXPECT_EQ(line.request->stopIds, (std::vector<int64_t>{2}));
}

TEST(ServiceLines, OmittedFieldsHaveDefaults) {
  GenerationRequest defaults;
  defaults.maxNewTokens = 9;
  defaults.stopIds = {4};
  defaults.sampling.seed = 8;
  ClientLine line = parseClientLine(R"({"id":"a","ids":[1]})", defaults);
  ASSERT_TRUE(line.request);
  EXPECT_EQ(line.request->maxNewTokens, 9);
  EXPECT_EQ(line.request->stopIds, (std::vector<int64_t>{4}));
  EXPECT_EQ(line.request->sampling.seed, 8u);
  EXPECT_FALSE(line.hasSeed);
  EXPECT_TRUE(line.request->sampling.isGreedy());
  EXPECT_EQ(parseClientLine(R"({"id":"a","ids":[1],"top_k":4})", {}).request->sampling.temperature,
            1);
  EXPECT_EQ(parseClientLine(R"({"id":"a","ids":[1],"top_k":4,"temperature":0})", {})
                .request->sampling.temperature,
            0);
}

TEST(ServiceLines, Cancels) {
  ClientLine line = parseClientLine(R"({"cancel":"a b"})", {});
  EXPECT_EQ(line.cancel, "a b");
  EXPECT_FALSE(line.request);
}

TEST(ServiceLines, ErrorsNameTheirCause) {
  for (auto [text, problem] :
       {std::pair{"hello", "not JSON"},
        {"{\"id\":\"a\",\"ids\":[1]", "not JSON"},
        {R"({"id":"a","ids":[1],"temperature":1e400})", "a number that is too large"},
        {R"({"id":"a","ids":[1],"seed":1,"seed":2})", "'seed' is given twice"},
        {"[1]", "not a JSON object"},
        {"7", "not a JSON object"},
        {R"({"ids":[1]})", "has no 'id'"},
        {R"({"id":"a"})", "has no 'ids'"},
        {R"({"id":7,"ids":[1]})", "'id': expected text"},
        {R"({"id":"","ids":[1]})", "'id': expected text"},
        {R"({"id":"a","ids":"1"})", "'ids': expected a list"},
        {R"({"id":"a","ids":[1.5]})", "'ids': expected an integer"},
        {R"({"id":"a","ids":[99999999999999999999]})", "'ids': expected an integer"},
        {R"({"id":"a","ids":[9223372036854775808]})", "'ids': expected an integer"},
        {R"({"id":"a","ids":[1],"max_new_tokens":0})", "'max_new_tokens': expected a positive"},
        {R"({"id":"a","ids":[1],"max_new_tokens":true})", "'max_new_tokens': expected an integer"},
        {R"({"id":"a","ids":[1],"temperature":1e39})", "temperature 1e+39: expected"},
        {R"({"id":"a","ids":[1],"temperature":1e308})", "temperature 1e+308: expected"},
        {R"({"id":"a","ids":[1],"repetition_penalty":1e39})", "repetition_penalty 1e+39: expected"},
        {R"({"id":"a","ids":[1],"temperature":"hot"})", "'temperature': expected a number"},
        {R"({"id":"a","ids":[1],"top_k":1.5})", "'top_k': expected an integer"},
        {R"({"id":"a","ids":[1],"seed":null})", "'seed': expected an integer"},
        {R"({"id":"a","ids":[1],"stop_ids":2})", "'stop_ids': expected a list"},
        {R"({"id":"a","ids":[1],"max_tokens":3})", "no field 'max_tokens'; a request has id, ids"},
        {R"({"cancel":"a","id":"b"})", "'cancel' must be the only field"},
        {R"({"cancel":7})", "'cancel': expected text"}}) {
    ClientLine line = parseClientLine(text, {});
    EXPECT_FALSE(line.request || line.cancel) << text;
    EXPECT_NE(line.problem.find(problem), std::string::npos) << text << ": " << line.problem;
  }
}

TEST(ServiceLines, ErrorsHaveTheRequestIdIfKnown) {
  EXPECT_EQ(parseClientLine(R"({"id":"a","ids":7})", {}).id, "a");
  EXPECT_EQ(parseClientLine(R"({"ids":7,"more":1,"id":"b"})", {}).id, "b");
  EXPECT_EQ(parseClientLine(R"({"id":3,"ids":[7]})", {}).id, std::nullopt);
  EXPECT_EQ(parseClientLine("nothing", {}).id, std::nullopt);
}

TEST(ServiceLines, LongNamesAreTruncated) {
  std::string name(100000, 'x');
  ClientLine line = parseClientLine(R"({"id":"a","ids":[7],")" + name + R"(":1})", {});
  EXPECT_EQ(line.id, "a");
  EXPECT_NE(line.problem.find("there is no field 'xxx"), std::string::npos);
  EXPECT_LT(line.problem.size(), 400u);
}

TEST(ServiceLines, SeedsHave64Bits) {
  for (auto [text, seed] : {std::pair{"18446744073709551615", UINT64_MAX},
                            {"9223372036854775808", uint64_t(1) << 63},
                            {"-1", UINT64_MAX}}) {
    ClientLine line =
        parseClientLine(R"({"id":"a","ids":[7],"seed":)" + std::string(text) + "}", {});
    ASSERT_TRUE(line.request) << line.problem;
    EXPECT_EQ(line.request->sampling.seed, seed);
  }
  for (const char *text : {"18446744073709551616", "-9223372036854775809", "1.5"})
    EXPECT_FALSE(
        parseClientLine(R"({"id":"a","ids":[7],"seed":)" + std::string(text) + "}", {}).request);
}

TEST(ServiceLines, RequestsAreChecked) {
  Generation generation;
  generation.vocabulary = 100;
  generation.lastToken = 109;
  GenerationRequest good;
  good.ids = {0, 109};
  EXPECT_EQ(problemOf(good, generation, 2), "");
  auto problem = [&](auto change, int64_t capacity = 8) {
    GenerationRequest request = good;
    change(request);
    return problemOf(request, generation, capacity);
  };
  auto expect = [](const std::string &text, const char *part) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
  };
  expect(problem([](auto &r) { r.ids = {}; }), "the prompt is empty");
  expect(problem([](auto &r) { r.ids = {1, 110}; }),
         "token 110 at 1 of the prompt: valid are 0 to 109");
  expect(problem([](auto &r) { r.ids = {-1}; }), "token -1 at 0");
  expect(problem([](auto &) {}, 1), "the prompt has 2 tokens; the maximum is 1 (--max-sequence)");
  expect(problem([](auto &r) { r.stopIds = {100}; }), "stop id 100: valid are 0 to 99");
  expect(problem([](auto &r) { r.sampling.temperature = -1; }), "temperature -1");
  expect(problem([](auto &r) { r.sampling.temperature = NAN; }), "temperature");
  expect(problem([](auto &r) { r.sampling.topK = -1; }), "top_k -1");
  expect(problem([](auto &r) { r.sampling.topP = 0; }), "top_p 0");
  expect(problem([](auto &r) { r.sampling.topP = 1.01; }), "top_p 1.01");
  expect(problem([](auto &r) { r.sampling.repetitionPenalty = 0; }), "repetition_penalty 0");
  expect(problem([](auto &r) { r.sampling.repetitionPenalty = INFINITY; }), "repetition_penalty");
}

TEST(ServiceLines, LinesFollowTheProtocol) {
  EXPECT_EQ(tokenLine("a", 5, 0), "{\"id\":\"a\",\"token\":5,\"index\":0}\n");
  EXPECT_EQ(finishLine("a", Finish::Stop, ""), "{\"id\":\"a\",\"finish\":\"stop\"}\n");
  EXPECT_EQ(finishLine(std::nullopt, Finish::Error, "a \"b\"\n"),
            "{\"id\":null,\"finish\":\"error\",\"message\":\"a \\\"b\\\"\\n\"}\n");
  EXPECT_EQ(finishLine("\xff", Finish::Length, ""),
            "{\"id\":\"\xef\xbf\xbd\",\"finish\":\"length\"}\n");
}

TEST(ServiceLines, LinesAreCut) {
  LineCutter cutter;
  cutter.add("one\ntw");
  EXPECT_EQ(cutter.take()->text, "one");
  EXPECT_FALSE(cutter.take());
  cutter.add("o\n\n  \r\nthree");
  EXPECT_EQ(cutter.take()->text, "two");
  EXPECT_FALSE(cutter.take());
  cutter.close();
  EXPECT_EQ(cutter.take()->text, "three");
  EXPECT_FALSE(cutter.take());
}

TEST(ServiceLines, TooLongLinesAreReturnedOnce) {
  LineCutter cutter;
  std::string piece(LineCutter::maxBytes / 2 + 1, 'x');
  int tooLong = 0;
  for (int i = 0; i < 5; ++i) {
    cutter.add(piece);
    if (auto line = cutter.take())
      tooLong += line->isTooLong;
  }
  EXPECT_EQ(tooLong, 1);
  cutter.add("x\nnext\n");
  EXPECT_EQ(cutter.take()->text, "next");
}

} // namespace
