//===- SumBinsTest.cpp - Runtime kernel that sums score weights by bin ----===//
//
// Compares the kernel's sums in the interpreter with the host's (generate/Score.h), bit by bit.
//
//===----------------------------------------------------------------------===//

#include "cuda/library/SamplingKernels.h"
#include "generate/Score.h"

#include "Ptx/Ptx.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

using namespace tpc::rt;

namespace {

ptx::Module parse(const std::string &text) {
  std::string error;
  auto parsed = ptx::parse(text, error);
  EXPECT_TRUE(parsed) << error;
  return parsed.value_or(ptx::Module());
}

/// Returns the sums per bin of scores below the largest.
std::vector<int64_t> sumsOf(const std::vector<float> &scores, float largest) {
  std::vector<int64_t> sums(2 * numTopPBins);
  for (float score : scores) {
    double distance = below(score, largest);
    auto bin = size_t(binOf(distance));
    ++sums[bin];
    sums[numTopPBins + bin] += bin < numTopPBins - 1 ? weightBelow(distance) : 0;
  }
  return sums;
}

/// Returns the same sums, computed by the kernel, or nothing if the checkers have a finding.
std::vector<int64_t> runSums(const std::vector<float> &scores, float largest, uint64_t seed,
                             const ptx::Module &module) {
  ptx::Memory memory(seed);
  uint64_t from = memory.allocate(scores.size() * 4, "scores");
  EXPECT_TRUE(memory.copyIn(from, scores.data(), scores.size() * 4));
  memory.setReadOnly(from);
  std::vector<int64_t> sums(2 * numTopPBins);
  uint64_t at = memory.allocate(sums.size() * 8, "sums");
  std::vector<ptx::Argument> arguments;
  cuda::SumBinsLaunch(reinterpret_cast<const float *>(from), std::ssize(scores), largest, at)
      .forEachParameter([&](auto value) { arguments.push_back(ptx::Argument::of(value)); });
  ptx::Result result =
      ptx::launch(module, cuda::sumBinsName, arguments, memory,
                  {.grid = {1}, .block = {cuda::SumBinsLaunch::threads}, .seed = seed});
  if (!result.clean() || !memory.copyOut(sums.data(), at, sums.size() * 8))
    return {};
  return sums;
}

/// Returns lists of scores, each with the maximum over all ranks' shards.
std::vector<std::pair<std::vector<float>, float>> partsOfScores() {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  std::vector<std::pair<std::vector<float>, float>> all;
  std::mt19937_64 random(3);
  for (size_t count : {1, 2, 511, 512, 513, 3000})
    for (float spread : {0.01f, 1.0f, 9.0f, 300.0f}) {
      std::normal_distribution<float> normal(-2, spread);
      std::vector<float> scores(count);
      for (float &score : scores)
        score = random() % 13 ? normal(random) : -infinity;
      float largest = *std::max_element(scores.begin(), scores.end());
      all.emplace_back(scores, largest);
      // Another rank has the maximum.
      all.emplace_back(scores, std::max(largest, -3.0f) + 0.7f);
    }
  all.push_back({{1, infinity, -infinity, infinity}, infinity});
  all.push_back({{-infinity, -infinity}, -infinity});
  return all;
}

TEST(SumBins, MatchesTheHost) {
  ptx::Module module = parse(cuda::samplingKernels());
  uint64_t seed = 0;
  for (const auto &[scores, largest] : partsOfScores())
    EXPECT_EQ(runSums(scores, largest, ++seed, module), sumsOf(scores, largest))
        << scores.size() << " scores, seed " << seed;
}

/// The checks must find each fault.
TEST(SumBins, FaultsAreFound) {
  const std::string text = cuda::samplingKernels();
  const std::pair<std::string, std::string> faults[] = {
      {"st.shared.u32 [%r], 0;", ""},
      {"st.shared.u64 [%r], 0;\n  bar.sync 0;", "st.shared.u64 [%r], 0;"},
      {"setp.eq.f32 %p1, %score, %largest", "setp.gt.f32 %p1, %score, %largest"},
      {"min.f64 %d, %d", "max.f64 %d, %d"},
      {"cvt.rzi.u32.f64 %bin", "cvt.rni.u32.f64 %bin"},
      {"red.shared.add.u32 [%r], 1", "red.shared.max.u32 [%r], 1"},
      {"setp.eq.u32 %p1, %bin, 511", "setp.eq.u32 %p1, %bin, 512"},
      {"neg.f64 %distance, %distance", "abs.f64 %distance, %distance"},
      {"sub.rn.f64 %rest, %rest, %d", "add.rn.f64 %rest, %rest, %d"},
      {"add.u64 %x, %x, 1023", "add.u64 %x, %x, 1022"},
      {"cvt.rzi.s64.f64 %x", "cvt.rni.s64.f64 %x"},
      {"red.shared.add.u64 [%r], %x", "st.shared.u64 [%r], %x"},
      {"add.u32 %i, %i, 512", "add.u32 %i, %i, 1024"},
      {"ADDED:\n  bar.sync 0;", "ADDED:"},
      {"[%at+4096]", "[%at+4088]"},
  };
  for (const auto &[was, is] : faults) {
    std::string wrong = text;
    size_t at = wrong.find(was, wrong.find(cuda::sumBinsName));
    ASSERT_NE(at, std::string::npos) << was;
    wrong.replace(at, was.size(), is);
    ptx::Module module = parse(wrong);
    auto all = partsOfScores();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(),
                            [&](const auto &one) {
                              return runSums(one.first, one.second, 1, module) !=
                                     sumsOf(one.first, one.second);
                            }))
        << was << " => " << is;
  }
}

} // namespace
