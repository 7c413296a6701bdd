//===- TpccOptionsTest.cpp - tpcc command line ----------------------------===//

#include "TpccOptions.h"

#include <gtest/gtest.h>

using namespace tpc;

static bool parse(TpccOptions &options, std::vector<std::string> words) {
  words.insert(words.begin(), "tpcc");
  std::vector<char *> argv;
  for (std::string &word : words)
    argv.push_back(word.data());
  return options.parse(static_cast<int>(argv.size()), argv.data());
}

static TpccOptions parsed(std::vector<std::string> words) {
  TpccOptions options;
  EXPECT_TRUE(parse(options, std::move(words)));
  return options;
}

static std::string errorOf(std::vector<std::string> words) {
  TpccOptions options;
  // tpcc's parser writes to llvm::errs, which is unbuffered.
  testing::internal::CaptureStderr();
  EXPECT_FALSE(parse(options, std::move(words)));
  return testing::internal::GetCapturedStderr();
}

TEST(TpccOptions, Defaults) {
  TpccOptions options = parsed({"model.onnx"});
  EXPECT_EQ(options.input, "model.onnx");
  EXPECT_EQ(options.output, "");
  EXPECT_EQ(options.emit, Emit::Exe);
  EXPECT_FALSE(options.emitGiven);
  EXPECT_EQ(options.march, "native");
  EXPECT_EQ(options.optLevel, 3u);
  EXPECT_EQ(options.megatronShard, "tp1");
  EXPECT_FALSE(options.shardGiven);
  EXPECT_FALSE(options.needsProgram());
  EXPECT_FALSE(options.noVerify || options.json || options.timing || options.digestWeights);
}

TEST(TpccOptions, Levels) {
  std::pair<const char *, Emit> levels[] = {
      {"import", Emit::Import}, {"model", Emit::Model},   {"sharded", Emit::Sharded},
      {"spmd", Emit::Spmd},     {"staged", Emit::Staged}, {"kernels", Emit::Kernels},
      {"llvm", Emit::Llvm},     {"obj", Emit::Obj},       {"exe", Emit::Exe}};
  for (auto [name, level] : levels) {
    TpccOptions options = parsed({"m", std::string("--emit=") + name});
    EXPECT_EQ(options.emit, level) << name;
    EXPECT_TRUE(options.emitGiven && !options.onnx && options.needsProgram());
    EXPECT_EQ(emitName(level), name);
  }
  // This level writes the model file, with the decisions up to the staged program.
  TpccOptions onnx = parsed({"m", "--emit=onnx-sharded"});
  EXPECT_TRUE(onnx.onnx);
  EXPECT_EQ(onnx.emit, Emit::Staged);
}

TEST(TpccOptions, Values) {
  TpccOptions options =
      parsed({"m.onnx", "-o", "out", "--name=n", "--march=x86-64-v3", "-O1", "--weights=w",
              "--digest-weights", "--megatron-shard=tp2,pp2", "--links=l", "--annotations=a",
              "--device-configuration=d", "--reference=r", "--certificate=c", "--report=p",
              "--shape=batch=2", "--explain", "--json", "--timing"});
  EXPECT_EQ(options.output, "out");
  EXPECT_EQ(options.name, "n");
  EXPECT_EQ(options.march, "x86-64-v3");
  EXPECT_EQ(options.optLevel, 1u);
  EXPECT_EQ(options.weights, "w");
  EXPECT_TRUE(options.digestWeights);
  EXPECT_EQ(options.megatronShard, "tp2,pp2");
  EXPECT_TRUE(options.shardGiven);
  EXPECT_EQ(options.links, "l");
  EXPECT_EQ(options.annotations, "a");
  EXPECT_EQ(options.deviceConfiguration, "d");
  EXPECT_EQ(options.reference, "r");
  EXPECT_EQ(options.certificate, "c");
  EXPECT_EQ(options.report, "p");
  EXPECT_EQ(options.shape, "batch=2");
  EXPECT_TRUE(options.explain && options.json && options.timing);
}

TEST(TpccOptions, DoNotAffectTheNextParse) {
  EXPECT_EQ(parsed({"m", "--report=r", "-O0"}).optLevel, 0u);
  TpccOptions next = parsed({"m"});
  EXPECT_EQ(next.report, "");
  EXPECT_EQ(next.optLevel, 3u);
}

TEST(TpccOptions, Groups) {
  TpccOptions options = parsed({"--print-groups=tp,dp,tp-dp", "--print-groups=pp"});
  EXPECT_EQ(options.printGroups, (std::vector<std::string>{"tp", "dp", "tp-dp", "pp"}));
  EXPECT_FALSE(options.needsProgram());
  EXPECT_TRUE(parsed({"m", "--print-groups=tp", "-o", "x"}).needsProgram());
}

TEST(TpccOptions, RejectsRepeatedOrEmptyFlags) {
  for (const char *flag : {"name", "march", "weights", "links", "annotations",
                           "device-configuration", "reference", "certificate", "report", "shape"}) {
    std::string option = std::string("--") + flag;
    EXPECT_EQ(errorOf({"m", option + "=a", option + "=b"}),
              "tpcc: error: " + option + " is given twice\n");
    EXPECT_NE(
        errorOf({"m", option + "="}).find("tpcc: error: " + option + " is empty: it needs a "),
        std::string::npos);
  }
  EXPECT_EQ(errorOf({"m", "-o", "a", "-o", "b"}), "tpcc: error: -o is given twice\n");
  // An empty grid is one rank.
  EXPECT_TRUE(parsed({"m", "--megatron-shard="}).shardGiven);
  EXPECT_NE(errorOf({"m", "--emit="}), "");
}

TEST(TpccOptions, RejectsInvalidValues) {
  EXPECT_NE(errorOf({"m", "--emit=spm"}).find("did you mean 'spmd'? Expected one of import, model"),
            std::string::npos);
  EXPECT_NE(errorOf({"m", "--emit=\x1b[2J"}).find("there is no level '"), std::string::npos);
  EXPECT_EQ(errorOf({"m", "--emit=\x1b[2J"}).find('\x1b'), std::string::npos);
  EXPECT_EQ(errorOf({"m", "-O4"}), "tpcc: error: -O4: there are levels 0 to 3\n");
  EXPECT_NE(errorOf({"m", "--reprot=x"}).find("--report=x"), std::string::npos);
  EXPECT_NE(errorOf({"m", "n"}).find("Too many positional arguments"), std::string::npos);
}
